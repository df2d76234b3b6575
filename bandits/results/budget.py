"""Flags of `privacy_budget`, and the privacy mechanism that they or the folder of a run describe."""

import dataclasses
import pathlib

from bandits.results import runs
from data import files
from data.errors import UsageError
from data.settings import Setting, declared, setting
from optimization import options
from optimization.privacy import mechanisms
from optimization.study import aggregation_flags, cli, run_folder

_USAGE = """
Computes the privacy loss (epsilon) of a training run, or the noise for a target epsilon.

  privacy_budget --population=342477 --clients_per_round=64 --total_rounds=1600 --noise_multiplier=0.7
  privacy_budget --population=342477 --clients_per_round=64 --total_rounds=1600 --target_epsilon=2
  privacy_budget --population=340000 --clients_per_round=64 --total_rounds=800 --target_delta=1e-6 \\
      --target_epsilon=4.14 --tolerated_noise=0.01
  privacy_budget --run=runs/digits_scratch_softmax --total_rounds=3000

Flags have the same meanings and defaults as in run_federated, except that --aggregator_type is dpsgd by default.
"""
_OF_THE_RUN = ("run", "total_rounds", "noise_multiplier", "target_epsilon", "accountant", "tolerated_noise", "plot")


@dataclasses.dataclass(frozen=True)
class _Training:
    """The training."""

    run: str = setting(None, "Folder of the run that defines the training, instead of the flags below", basic=True)
    population: int = setting(None, "Number of clients", low=1, basic=True)
    clients_per_round: int = setting(
        None, "Clients per round; the expected number with Poisson sampling", low=1, basic=True
    )
    total_rounds: int = setting(None, "Number of rounds", low=1, basic=True)
    dimension: int = setting(None, "Number of model parameters", low=1, only={"aggregator_type": ("ddp", "mf_dpftrl")})


@dataclasses.dataclass(frozen=True)
class _Output:
    """Output."""

    tolerated_noise: float = setting(
        None,
        "Noise multiplier at which training still works with this cohort. Computes the larger cohort that reaches the "
        "target if the noise multiplier grows with the cohort",
        above=True,
        only={"target_epsilon": True},
    )
    plot: pathlib.Path = setting(
        None,
        "Picture to write (.png, .svg or .pdf): the noise of each mechanism against epsilon, from a quarter of the "
        "target to four times the target",
        basic=True,
        only={"target_epsilon": True},
    )


def define() -> cli.FlagSet:
    """Returns the flags of `privacy_budget`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("The training", _Training)
    kind = {"default": "dpsgd"}
    flags.group("Aggregation and privacy", *declared(options.Aggregation, aggregator_type=kind), options.Cohorts)
    text = "Maximum epsilon, for which the smallest noise multiplier is computed"
    target = Setting("target_epsilon", float, text, above=True, basic=True)
    flags.group("Target, instead of --noise_multiplier", target)
    flags.group("Output", _Output)
    return flags


def build(settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    """Returns the mechanism that the flags describe, and its number of rounds.

    The noise multiplier is 0 if it must still be computed.

    Raises:
      UsageError: If flags are missing or contradict each other.
    """
    if settings.noise_multiplier is not None and settings.target_epsilon is not None:
        raise UsageError("Give either --noise_multiplier or --target_epsilon, not both.")
    settings = settings.checked()
    if settings.plot:
        files.check_output("plot", pathlib.Path(settings.plot), files.PICTURES)
    return _of_run(settings) if settings.run else _of_flags(settings)


def _of_flags(settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    for name in ("population", "clients_per_round", "total_rounds"):
        if settings[name] is None:
            raise UsageError(f"--{name} is missing: give --population, --clients_per_round and --total_rounds.")
    if settings.noise_multiplier is None and settings.target_epsilon is None:
        raise UsageError("Give either --noise_multiplier or --target_epsilon.")
    kind = settings.aggregator_type
    if kind == "ddp" and settings.dimension is None:
        raise UsageError("--dimension is missing: --aggregator_type=ddp depends on the number of parameters.")
    if kind != "ddp" and not settings.is_given("clip_norm") and not settings.adaptive_clipping:
        settings = settings.replace(clip_norm=1.0)  # The noise multiplier is in units of the clip norm.
    settings = settings.checked(aggregation_flags.check)
    cohort = options.Cohorts(settings.clients_per_round, settings.cohort_sampling)
    aggregation = aggregation_flags.options(settings)
    size, dimension = settings.population, settings.dimension or 1
    target = settings.target_epsilon if aggregation.kind == "mf_dpftrl" else None
    aggregation = dataclasses.replace(aggregation, population=None, target_epsilon=target)
    if plan := aggregation_flags.plan(aggregation, cohort, size, dimension, settings.total_rounds):
        aggregation, cohort = aggregation_flags.planned(aggregation, cohort, size, plan.mechanism)
    mechanism = aggregation_flags.mechanism(aggregation, cohort, size, dimension)
    return mechanism, settings.total_rounds


def _of_run(settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    for name in sorted(settings.set_by_user):
        if name not in _OF_THE_RUN:
            raise UsageError(
                f"--{name} describes a training run, but --run={settings.run} already does: leave one of them out."
            )
    path = pathlib.Path(cli.user_path(settings.run)) / run_folder.PRIVACY_FILE
    if not path.exists():
        raise UsageError(f"--run={settings.run}: there is no {path.name}, which a run writes when it ends or stops.")
    if "mechanism" not in runs.read_json(path):
        raise UsageError(f"--run={settings.run}: {path} names no mechanism, so it is not the file of a run.")
    mechanism, rounds = mechanisms.load(path)
    changes = {"accountant": settings.accountant} if "accountant" in settings.set_by_user else {}
    if settings.noise_multiplier is not None:
        changes["noise_multiplier"] = settings.noise_multiplier
    try:
        return dataclasses.replace(mechanism, **changes), settings.total_rounds or rounds
    except ValueError as error:
        raise UsageError(f"--run={settings.run}: {error}") from error
