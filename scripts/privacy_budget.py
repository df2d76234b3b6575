"""What privacy costs: `python -m scripts.privacy_budget`, with the flags of a run or its folder."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from data import files
from data.errors import UsageError
from optimization import options
from optimization.privacy import calibration, mechanisms, sensitivities
from optimization.study import aggregation_flags, cli, run_folder
from scripts import runs

_USAGE = """
Says what differential privacy a training gives its clients, or which noise gives a wanted one.

  privacy_budget --population=342477 --clients_per_round=64 --total_rounds=1600 --noise_multiplier=0.7
  privacy_budget --population=342477 --clients_per_round=64 --total_rounds=1600 --target_epsilon=2
  privacy_budget --population=340000 --clients_per_round=64 --total_rounds=800 --target_delta=1e-6 \\
      --target_epsilon=4.14 --tolerated_noise=0.01
  privacy_budget --run=runs/digits_scratch_softmax --total_rounds=3000

Flags mean what they mean to run_federated, with the same defaults, but for --aggregator_type, which is dpsgd.
"""
# Earlier names of flags, and what they are called in a run.
_ALIASES = {
    "cohort": "clients_per_round",
    "rounds": "total_rounds",
    "delta": "target_delta",
    "mechanism": "aggregator_type",
    "sampling": "cohort_sampling",
    "restart_frequency": "dpftrl_restart_rounds",
    "bands": "mf_bands",
}
_SINGLE_TREE = 2**40  # Rounds that no tree has.
_OF_THE_RUN = (
    "run",
    "total_rounds",
    "rounds",
    "noise_multiplier",
    "target_epsilon",
    "accountant",
    "tolerated_noise",
    "plot",
)
_TABLE_FACTORS = (0.25, 0.5, 1, 2, 4)
_GROWTH_FACTORS = (10, 100)


def define() -> cli.FlagSet:
    """Returns the flags of `privacy_budget`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("The training")
    flags.text("run", None, "folder of a run whose training it is, instead of the flags that describe one")
    flags.integer("population", None, "clients", low=1)
    flags.integer("clients_per_round", None, "clients of a round; the expected number under Poisson sampling", low=1)
    flags.integer("total_rounds", None, "rounds", low=1)
    flags.integer("dimension", None, "parameters of the model", low=1)
    flags.belong("dimension", aggregator_type=("ddp",))
    aggregation_flags.define(flags, "dpsgd")
    flags.group("What is given: this or --noise_multiplier")
    flags.number(
        "target_epsilon", None, "epsilon that may be spent; the smallest noise multiplier is looked for", above=True
    )
    flags.group("Output")
    flags.number(
        "tolerated_noise",
        None,
        "noise multiplier at which training still works with this cohort; looks for the larger "
        "cohort that reaches the target when its noise multiplier grows with it",
        above=True,
    )
    flags.belong("tolerated_noise", target_epsilon=True)
    flags.path("plot", None, "picture of epsilon against rounds to write: .png, .svg or .pdf")
    flags.group("Earlier names of flags")
    for name in ("cohort", "rounds", "bands"):
        flags.integer(name, None, f"the same as --{_ALIASES[name]}", low=1)
    flags.integer("restart_frequency", None, "the same as --dpftrl_restart_rounds; 0 for a single tree")
    flags.number("delta", None, "the same as --target_delta", high=1, above=True, below=True)
    for name, choices in (("mechanism", aggregation_flags.TYPES), ("sampling", mechanisms.SAMPLINGS)):
        flags.choice(name, None, list(choices), f"the same as --{_ALIASES[name]}")
    return flags


def build(settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    """Returns the mechanism that the flags describe, with noise multiplier 0 if that is looked for, and its rounds.

    Raises:
      UsageError: If the flags do not fit together.
    """
    settings = _with_aliases(settings)
    if settings.noise_multiplier is not None and settings.target_epsilon is not None:
        raise UsageError("Give one of --noise_multiplier and --target_epsilon, not both.")
    settings = settings.settled()
    if settings.plot:
        files.check_output("plot", pathlib.Path(settings.plot), files.PICTURES)
    return _of_run(settings) if settings.run else _of_flags(settings)


def _with_aliases(settings: cli.Settings) -> cli.Settings:
    """Returns the settings with the earlier names' values under the names of a run."""
    for old, name in _ALIASES.items():
        if old not in settings.given:
            continue
        if name in settings.given:
            raise UsageError(f"--{old} and --{name} are the same: give one.")
        is_single_tree = old == "restart_frequency" and not settings[old]
        settings = settings.give(**{name: _SINGLE_TREE if is_single_tree else settings[old]})
    return settings


def _of_flags(settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    for name in ("population", "clients_per_round", "total_rounds"):
        if settings[name] is None:
            raise UsageError(f"--{name} is missing: give --population, --clients_per_round and --total_rounds.")
    if settings.noise_multiplier is None and settings.target_epsilon is None:
        raise UsageError("Give one of --noise_multiplier and --target_epsilon, not neither.")
    settings = settings.replace(noise_multiplier=settings.noise_multiplier or 0.0)
    kind = settings.aggregator_type
    if kind == "ddp" and settings.dimension is None:
        raise UsageError("--dimension is missing: --aggregator_type=ddp depends on the number of parameters.")
    if kind != "ddp" and settings.clip_norm is None and not settings.adaptive_clipping:
        settings = settings.replace(clip_norm=1.0)  # The noise is in clip norms.
    settings = aggregation_flags.resolve(settings)
    cohort = options.Cohorts(settings.clients_per_round, settings.cohort_sampling)
    aggregation = aggregation_flags.options(settings)
    mechanism = aggregation_flags.mechanism(aggregation, cohort, settings.population, settings.dimension or 1)
    return mechanism, settings.total_rounds


def _of_run(settings: cli.Settings) -> tuple[mechanisms.Mechanism, int]:
    for name in sorted(settings.given):
        if name not in _OF_THE_RUN:
            raise UsageError(f"--{name} describes a training; --run={settings.run} has its own: leave one out.")
    path = pathlib.Path(cli.user_path(settings.run)) / run_folder.PRIVACY_FILE
    if not path.exists():
        raise UsageError(f"--run={settings.run}: there is no {path.name}, which a run writes when it ends or stops.")
    if "mechanism" not in runs.read_json(path):
        raise UsageError(f"--run={settings.run}: {path} names no mechanism: was another program here?")
    found, rounds = mechanisms.load(path)
    changes = {"accountant": settings.accountant} if "accountant" in settings.given else {}
    if settings.noise_multiplier is not None:
        changes["noise_multiplier"] = settings.noise_multiplier
    try:
        return dataclasses.replace(found, **changes), settings.total_rounds or rounds
    except ValueError as error:
        raise UsageError(f"--run={settings.run}: {error}") from error


def program(settings: cli.Settings) -> None:
    """Prints the budget."""
    mechanism, rounds = build(settings)
    if settings.target_epsilon is not None:
        mechanism = _calibrated(mechanism, rounds, settings)
    report = mechanism.report(rounds)
    print(report["summary"])
    if not report["guarantees"]:
        return
    print()
    _print_rows([("neighbours", "sampling", "RDP", "order", "PLD", ""), *map(_guarantee_row, report["guarantees"])])
    _print_tables(mechanism, rounds)
    if settings.plot:
        _draw(mechanism, rounds, settings.plot)
        print(f"\n{settings.plot}")


def _calibrated(mechanism: mechanisms.Mechanism, rounds: int, settings: cli.Settings) -> mechanisms.Mechanism:
    """Returns the mechanism with the smallest noise multiplier for `--target_epsilon`, and prints what it found."""
    target = settings.target_epsilon
    if mechanism.voided or mechanism.kind == "none":
        reason = mechanism.voided or "the training is one without noise"
        raise UsageError(f"--target_epsilon={target:g} is out of reach: no noise helps, because {reason}.")
    if mechanism.accountant == "pld":
        print("Looking for the noise, which takes some seconds by PLD.", file=sys.stderr)
    try:
        noise_multiplier = calibration.calibrate(mechanism, rounds, target)
        grown = None
        if settings.tolerated_noise is not None:
            tolerated = dataclasses.replace(mechanism, noise_multiplier=settings.tolerated_noise)
            grown = calibration.scale_cohort(tolerated, rounds, target)
    except ValueError as error:
        raise UsageError(f"--target_epsilon={target:g} {error}.".replace("..", ".")) from error
    if settings.adaptive_clipping and mechanism.kind == "dpsgd":
        try:
            sensitivities.split_noise(noise_multiplier, sensitivities.COUNT_NOISE_SHARE * mechanism.cohort)
        except ValueError as error:
            raise UsageError(f"--target_epsilon={target:g}: {error}") from error
    rounded = dataclasses.replace(mechanism, noise_multiplier=_round_up(noise_multiplier))
    assumed = ", if Poisson" if rounded.analyses[0].assumed else ""
    print(
        f"Smallest noise multiplier for epsilon {target:g}{assumed}, with a cohort of {mechanism.cohort:,}: "
        f"{rounded.noise_multiplier:g}"
    )
    if grown:
        print(
            f"With a cohort of {grown.cohort:,} and a noise multiplier of {grown.noise_multiplier:.4g}, epsilon is "
            f"{grown.epsilon(rounds):.4g} and the noise on the mean update is that of "
            f"{settings.tolerated_noise:g} with {mechanism.cohort:,}."
        )
    print()
    return rounded


def _round_up(value: float) -> float:
    """Returns a number of five digits that is not smaller."""
    step = 10.0 ** (math.floor(math.log10(value)) - 4)
    return float(f"{math.ceil(value / step) * step:.5g}")


def _guarantee_row(guarantee: Mapping[str, Any]) -> Sequence[str]:
    loss = guarantee["epsilon_pld"]
    return (
        guarantee["neighbours"],
        _sampling(guarantee["sampling"], guarantee["sampling_assumed"]),
        f"{guarantee['epsilon_rdp']:.3g}",
        f"{guarantee['rdp_order']:g}",
        "-" if loss is None else f"{loss:.3g}",
        guarantee["note"],
    )


def _sampling(sampling: str, assumed: bool) -> str:
    return f"{sampling} (assumed)" if assumed else sampling


def _print_tables(mechanism: mechanisms.Mechanism, rounds: int) -> None:
    """Prints the headline's epsilon against rounds and cohort, and for cohorts whose noise multiplier grows too."""
    cohorts = sorted({min(max(1, round(mechanism.cohort * factor)), mechanism.population) for factor in _TABLE_FACTORS})
    columns = [dataclasses.replace(mechanism, cohort=cohort) for cohort in cohorts]
    print("\nEpsilon by RDP, for other rounds and cohorts:")
    table = [("rounds", *(f"cohort {cohort:,}" for cohort in cohorts))]
    for count in sorted({max(1, round(rounds * factor)) for factor in _TABLE_FACTORS}):
        table.append((f"{count:,}", *(_by_rdp(column, count) for column in columns)))
    _print_rows(table)
    grown = [
        dataclasses.replace(
            mechanism, cohort=mechanism.cohort * factor, noise_multiplier=mechanism.noise_multiplier * factor
        )
        for factor in _GROWTH_FACTORS
        if mechanism.cohort * factor <= mechanism.population
    ]
    if grown:
        print(f"\nCohort and noise grown together (same noise on the mean update), {rounds:,} rounds:")
        table = [
            (f"{one.cohort:,}", f"{one.noise_multiplier:.4g}", _by_rdp(one, rounds)) for one in (mechanism, *grown)
        ]
        _print_rows([("cohort", "noise multiplier", "epsilon by RDP"), *table])


def _by_rdp(mechanism: mechanisms.Mechanism, rounds: int) -> str:
    try:
        return f"{mechanism.analyses[0].epsilon(rounds, mechanism.delta)[0]:.3g}"
    except ValueError:  # ddp has too few bits for so large a cohort.
        return "-"


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _draw(mechanism: mechanisms.Mechanism, rounds: int, output: str) -> None:
    """Draws epsilon by RDP against rounds, a line for each way of accounting."""
    import matplotlib.figure
    import numpy as np

    figure = matplotlib.figure.Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    shown = np.unique(np.linspace(1, rounds, 200).round().astype(int))
    for analysis in mechanism.analyses:
        epsilons = [analysis.epsilon(int(count), mechanism.delta)[0] for count in shown]
        label = f"{analysis.neighbours}; sampling: {_sampling(analysis.sampling, analysis.assumed)}"
        axes.plot(shown, epsilons, label=label)
    axes.set(
        title=f"{mechanism.kind}, noise multiplier {mechanism.noise_multiplier:g}, cohort {mechanism.cohort:,} of "
        f"{mechanism.population:,}",
        xlabel="round",
        ylabel=f"epsilon at delta {mechanism.delta:.3g} (RDP)",
        yscale="log",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    files.save_picture(figure, output, dpi=120)


if __name__ == "__main__":
    cli.main(define(), program)
