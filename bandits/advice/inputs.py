"""Inputs of a recommendation: the flags of all runs, the data, and the deployment that privacy is computed for.

Flags are checked before the data is opened. A simulator of a log is refused if the log contradicts it.

A table is often a sample of the clients in deployment. If a deployment has M clients per round and noise multiplier z,
runs with m clients per round use the noise multiplier z m / M: their mean updates are then as noisy as those in the
deployment. The accountant uses z, M and the population.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import logged_flags, registry, schedule_flags, studies
from bandits.advice.plan import BINARY
from bandits.plans.plan import as_text
from bandits.references import References, Score, simple_policies, simulator_scores
from data.errors import UsageError
from data.settings import numbers, setting
from optimization.privacy import mechanisms
from optimization.study import cli, frame, presets

_MAX_DELTA = 1e-3
_SHARE, _MAX_COHORT = 100, 1000  # Default cohort: 1 / 100 of the clients, at most 1,000.
# A recommendation sets these itself, or does not support them.
RESERVED_FLAGS = ("bandits_type", "seed", "repeat", "restart", "list_presets")
# Values that add no noise and keep cohorts seeded.
_NOISE_FLAGS: Mapping[str, tuple[Any, ...]] = {
    "noise_multiplier": (0.0, None),
    "aggregator_type": ("mean", "none", "dpsgd"),
    "cohort_sampling": ("fixed",),
    "insecure_seeded_noise": (False,),
}


def base_flags(run_flags: Sequence[str]) -> tuple[str, ...]:
    """Flags for all runs.

    Args:
      run_flags: Run flags of the command.

    Raises:
      UsageError: If a flag is unknown, is set by the recommendation itself, or adds noise.
    """
    settings = studies.parse(BINARY, run_flags)
    parameters = [f"bandits_{name}" for entry in registry.POLICIES.values() for name in entry.parameters]
    for name in (*RESERVED_FLAGS, *parameters, *schedule_flags.NAMES):
        if name in settings.set_by_user:
            raise UsageError(f"--{name}: advise sets this flag for its runs, or does not support it: leave it out.")
    _check_noise(presets.applied(settings, studies.load(BINARY).presets))
    is_table = "task_type" not in settings.set_by_user and settings.data_file
    return studies.without_file(BINARY, [*run_flags, *["--task_type=tabular"] * bool(is_table)])


def _check_noise(settings: cli.Settings) -> None:
    """Refuses flags and presets that add noise to every run: searches and comparisons have seeded cohorts and no noise.

    Raises:
      UsageError: If a flag or preset adds noise.
    """
    for name, harmless in _NOISE_FLAGS.items():
        is_ignored = name == "noise_multiplier" and settings.aggregator_type in ("mean", "none")
        is_set = name in settings.set_by_user
        if settings[name] not in harmless and (is_set or not is_ignored):
            by = "" if is_set else f" (set by --preset={settings.preset})"
            raise UsageError(
                f"--{name}={as_text(settings[name])}{by}: advise compares strategies on seeded cohorts without noise, "
                f"and adds noise later. Use --{name}={as_text(harmless[0])}, or a preset without noise."
            )


@dataclasses.dataclass(frozen=True)
class Data:
    """Facts about the data.

    Attributes:
      checksum: Digest of the data.
      report: The loader's report.
      clients: Number of training clients.
      cohort: Clients per round.
      num_actions: Number of actions.
      reward_width: Largest minus smallest reward.
      trained_width: Largest minus smallest reward after the rewards are mapped for training.
      statistics: Statistics that are computed from the clients without noise, in words.
      held_out: Held-out data, in words.
      unit: Unit of privacy, in words.
      scores: Scores of a log's simulator; empty for other data.
      has_learned_bounds: Whether the bounds of the rewards were learned from clients, without noise.
      references: Held-out rewards of simple policies of a table or log; None for other data.
    """

    checksum: str
    report: Mapping[str, Any]
    clients: int
    cohort: int
    num_actions: int
    reward_width: float
    trained_width: float
    statistics: tuple[str, ...]
    held_out: str
    unit: str
    scores: tuple[Score, ...]
    has_learned_bounds: bool
    references: References | None


def open_data(settings: cli.Settings) -> Data:
    """Opens the data of resolved flags, and checks the flags against it.

    Raises:
      UsageError: If the data is missing, or the flags do not fit it.
    """
    study = studies.load(BINARY)
    options = study.options(settings)
    task = study.open(options)
    clients = study.population(options, task) or len(task.clients)
    settings = frame.fitted(study, settings, clients)
    options = study.options(settings)
    scores = tuple(simulator_scores(task.held_out, task.clients)) if logged_flags.is_simulated(options.task) else ()
    for message in study.check(options, task):
        print(message, file=sys.stderr)
    low, high = task.reward_range(options.rewards)
    column, evaluated, of_rows = settings.client_column, len(task.held_out), task.report.get("held_out")
    held_out = of_rows or (f"{evaluated:,} other clients" if evaluated > 1 else "one pooled test set")
    if not column:
        unit = "one client with all its data, not a single example"
    elif column.startswith("rows:"):
        unit = "one synthetic client, which is a random group of rows: give a real --client_column to protect people"
    else:
        unit = f"one value of column {column!r} with all its rows, not the people behind single rows"
    return Data(
        checksum=task.checksum,
        report=task.report,
        clients=clients,
        cohort=settings.clients_per_round,
        num_actions=task.num_actions,
        reward_width=(high - low) or 1.0,
        trained_width=1.0 if task.reward_bounds else (high - low) or 1.0,
        statistics=task.private_statistics,
        held_out=held_out,
        unit=unit,
        scores=scores,
        has_learned_bounds=task.has_learned_bounds,
        references=simple_policies(task, task.rewards[options.rewards]) if of_rows else None,
    )


@dataclasses.dataclass(frozen=True)
class Privacy:
    """Privacy."""

    population: int = setting(
        None,
        "Number of clients in deployment, if the data is a sample of them (default: the training clients in the data)",
        low=1,
    )
    population_clients_per_round: int = setting(
        None,
        "Clients per round in deployment (default: 1% of the population, at most 1,000, at least the runs' cohort)",
        low=1,
        only={"population": True},
    )
    target_delta: float = setting(
        None, "Delta of the privacy guarantees (default: 1 / population^1.1)", high=1.0, above=True, below=True
    )
    accountant: str = setting("rdp", "Accountant that computes the epsilons", mechanisms.ACCOUNTANTS)
    target_epsilons: tuple = setting(
        "3,10,1", "Epsilons to try, separated by commas, with the most important one first", numbers()
    )


def deployment(settings: cli.Settings, clients: int, cohort: int, apart_from: Sequence[str]) -> mechanisms.Mechanism:
    """The mechanism of the deployment: noise with multiplier 1 on the sum of a Poisson sample's clipped updates.

    Args:
      settings: Flags of the recommendation.
      clients: Number of clients in the data.
      cohort: Clients per round of the runs.
      apart_from: Statistics that are computed without noise, in words: no guarantee covers them.

    Raises:
      UsageError: If the population is smaller than the data's, or its cohort is smaller than the runs' cohort.
    """
    population, population_cohort = settings.population or clients, settings.population_clients_per_round
    if population < clients:
        raise UsageError(f"--population={population} is less than the {clients} clients in the data.")
    if population_cohort is not None and population_cohort < cohort:
        raise UsageError(
            f"--population_clients_per_round={population_cohort} is less than the runs' {cohort} clients per round: "
            f"give at least {cohort}, or lower the runs' number with --clients_per_round."
        )
    default = cohort if settings.population is None else max(cohort, min(population // _SHARE, _MAX_COHORT))
    return mechanisms.Mechanism(
        kind="dpsgd",
        noise_multiplier=1.0,
        population=population,
        cohort=population_cohort or default,
        sampling="poisson",
        delta=settings.target_delta,
        accountant=settings.accountant,
        apart_from=tuple(apart_from),
    )


def no_guarantee(deployment: mechanisms.Mechanism, data: Data) -> str:
    """Explains why no epsilon is a meaningful guarantee for these clients; empty if there is no such reason."""
    clients, delta = deployment.population, deployment.delta
    if delta > _MAX_DELTA:
        return (
            f"with {clients:,} clients to protect, delta is {delta:.2g}, above {_MAX_DELTA:g}, so no epsilon is a "
            "meaningful guarantee. If the data is a sample of more clients, give --population"
        )
    if not data.has_learned_bounds:
        return ""
    return "noise needs declared reward bounds, because learned bounds are not private: give --reward_bounds=LOW,HIGH"


def folder_name(settings: cli.Settings) -> str:
    """Default name of the output folder."""
    table = pathlib.Path(settings.data_file).name.partition(".")[0] if settings.data_file else ""
    scenario = "" if settings.preset or settings.scenario == "scratch" else settings.scenario
    return "_".join(filter(None, ("advice", settings.preset or table or settings.task_type, scenario)))


def check_simulator(scores: Sequence[Score], base: Sequence[str], references: str = "") -> None:
    """Refuses a simulator whose scores differ significantly from the log's on held-out clients.

    Args:
      scores: Scores of the logging and the uniform policy, according to the simulator and to the log.
      base: Flags of all runs.
      references: Rewards of simple policies, in words.

    Raises:
      UsageError: If the 99% interval of a difference excludes 0, which is rare for correct logs.
    """
    if not any(score.is_contradicted for score in scores):
        return
    values = "\n".join(f"  {score.in_words()}" for score in scores)
    raise UsageError(
        "The log contradicts its simulator, so a recommendation from the simulator would be wrong. Nothing was run.\n"
        f"Average reward on held-out clients (95% intervals):\n{values}\n"
        "Use the log itself: scripts.evaluate_policy estimates a policy's reward, and this command trains offline.\n"
        f"  {cli.command_line(BINARY, [*base, '--learn_from=dr'])}\n"
        f"{references}\n"
        "Neither command shows whether exploration pays. To find out, log more actions, or columns that explain "
        "rewards better."
    )
