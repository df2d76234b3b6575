"""Inputs of a recommendation: the flags of all runs, the data, and where the model would be trained.

Flags are checked before the data is opened. A simulator of a log is refused if the log contradicts it.

A table is often a sample of the clients in deployment. A run with m clients a round has a noise multiplier of z m / M.
Its mean update is then as noisy as in deployment with M clients a round. The accountant uses z, M and the population.
"""

import dataclasses
import pathlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import logged_flags, registry, schedule_flags, studies
from bandits.advice.plan import BINARY
from bandits.plans.plan import as_text
from bandits.references import References, Score, simple_policies, simulator_scores
from bandits.results import phrases
from data.errors import UsageError
from data.settings import numbers, setting
from optimization.privacy import mechanisms
from optimization.study import cli, frame, intervals, presets

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
_NAMES = {"uniformly random actions": "uniform policy"}


def base_flags(run_flags: Sequence[str]) -> tuple[str, ...]:
    """Flags of all runs.

    Args:
      run_flags: Run flags of the command.

    Raises:
      UsageError: If a flag is unknown, or set by the recommendation itself.
    """
    settings = studies.parse(BINARY, run_flags)
    parameters = [f"bandits_{name}" for entry in registry.POLICIES.values() for name in entry.parameters]
    for name in (*RESERVED_FLAGS, *parameters, *schedule_flags.NAMES):
        if name in settings.set_by_user:
            raise UsageError(f"--{name}: advise sets this flag of its runs itself: leave it out.")
    _check_noise(presets.applied(settings, studies.load(BINARY).presets))
    is_table = "task_type" not in settings.set_by_user and settings.data_file
    return studies.without_file(BINARY, [*run_flags, *["--task_type=tabular"] * bool(is_table)])


def _check_noise(settings: cli.Settings) -> None:
    """Refuses noise in all runs, set by a flag or a preset: searches and comparisons have none.

    Raises:
      UsageError: If a flag or preset adds noise.
    """
    for name, harmless in _NOISE_FLAGS.items():
        is_ignored = name == "noise_multiplier" and settings.aggregator_type in ("mean", "none")
        if settings[name] in harmless or (is_ignored and name not in settings.set_by_user):
            continue
        reason = "advise adds noise itself, in a separate stage"
        if name in settings.set_by_user:
            raise UsageError(f"--{name}: {reason}: leave it out.")
        raise UsageError(
            f"--preset={settings.preset} sets --{name}={as_text(settings[name])}, but {reason}: give "
            f"--{name}={as_text(harmless[0])}, too, or a preset without noise."
        )


@dataclasses.dataclass(frozen=True)
class Data:
    """Facts about the data.

    Attributes:
      checksum: Digest.
      report: The loader's report.
      clients: Training clients.
      cohort: Clients of a round.
      num_actions: Number of actions.
      reward_width: Largest minus smallest reward.
      is_labelled: Whether each label has one right action, whose reward is 1 and that of all others 0.
      statistics: Statistics of the clients that are computed without noise, in words.
      held_out: Held-out data, in words.
      unit: Unit of privacy, in words.
      scores: Scores of a log's simulator; empty for other data.
      trained_width: Largest minus smallest reward that training takes.
      has_learned_bounds: Whether the bounds of the rewards were learned from clients, without noise.
      references: Held-out rewards of simple policies of a table or log; None for other data.
    """

    checksum: str
    report: dict[str, Any]
    clients: int
    cohort: int
    num_actions: int
    reward_width: float
    is_labelled: bool
    statistics: tuple[str, ...]
    held_out: str
    unit: str
    scores: tuple[Score, ...] = ()
    trained_width: float = 1.0
    has_learned_bounds: bool = False
    references: References | None = None

    @property
    def rows(self) -> int:
        """Training rows of a table or log; 0 for other data."""
        return int(self.report.get("training_rows", 0))


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
    evaluated = len(task.held_out)
    of_rows = task.report.get("held_out")
    held_out = of_rows or (f"{evaluated:,} other clients" if evaluated > 1 else "")
    return Data(
        checksum=task.checksum,
        report=dict(task.report),
        clients=clients,
        cohort=settings.clients_per_round,
        num_actions=task.num_actions,
        reward_width=(high - low) or 1.0,
        is_labelled=not task.multi_label and not options.has_shift and options.drift.kind == "none",
        statistics=task.private_statistics,
        held_out=f"held out for evaluation: {held_out}" if held_out else "held out: one pooled test set",
        unit=_unit(settings.client_column, clients, of_rows),
        scores=scores,
        trained_width=1.0 if task.reward_bounds else (high - low) or 1.0,
        has_learned_bounds=task.has_learned_bounds,
        references=simple_policies(task, task.rewards[options.rewards]) if of_rows else None,
    )


def _unit(column: str | None, clients: int, held_out: str | None) -> str:
    """Unit of privacy, in words."""
    if not column:
        return "one client with all its data, not a single example"
    if column.startswith("rows:"):
        return "one synthetic client, a random group of rows: name a real --client_column to protect someone"
    return (
        f"one value of column {column!r} with all its rows, not the people behind single rows: {clients:,} train; "
        f"held out: {held_out or ''}"
    )


def protected(deployment: mechanisms.Mechanism, clients: int) -> str:
    """Clients whom epsilon protects, in words, beside the number of clients in the data."""
    if deployment.population == clients:
        return f"Epsilon protects the {clients:,} training clients of your data."
    return f"Epsilon protects {deployment.population:,} clients; your data has {clients:,} of them."


def guarantees_hold_for(deployment: mechanisms.Mechanism, clients: int) -> str:
    """Clients and cohorts of the guarantees, in sentences, given the number of clients in the data."""
    trained = f"{deployment.population:,} clients, about {deployment.cohort:,} a round."
    if deployment.population == clients:
        return f"Guarantees hold for training on the {trained.replace('clients', 'training clients')}"
    sample = "The data counts as a sample of them, and the runs' mean updates are as noisy as with such cohorts."
    return f"Guarantees hold for training on {trained} {sample}"


class Privacy:
    """Privacy.

    Attributes:
      population: Clients in deployment, if the data is a sample of them (default: the clients of the data that train).
      population_clients_per_round: Clients of a round in deployment (default: one of 100, at most 1,000, at least the
        runs' cohort).
      target_delta: Delta of the guarantees (default: 1 / population^1.1).
      accountant: Accountant of the epsilons.
      target_epsilons: Epsilons to try, separated by commas, the most important first.
    """

    population: int = setting(low=1)
    population_clients_per_round: int = setting(low=1, only={"population": True})
    target_delta: float = setting(high=1.0, above=True, below=True)
    accountant: str = setting("rdp", mechanisms.ACCOUNTANTS)
    target_epsilons: tuple = setting("3,10,1", numbers())


def check_population(settings: cli.Settings) -> None:
    """Checks the flags against each other.

    Raises:
      UsageError: If a round has more clients than the population.
    """
    cohort = settings.population_clients_per_round
    if cohort is not None and cohort > settings.population:
        raise UsageError(f"--population_clients_per_round={cohort} exceeds --population={settings.population}.")


def deployment(
    settings: cli.Settings, clients: int, cohort: int, apart_from: Sequence[str] = ()
) -> mechanisms.Mechanism:
    """What the deployment would release: noise of multiplier 1 on the sum of a Poisson sample's clipped updates.

    Args:
      settings: Flags of the recommendation.
      clients: Clients of the data.
      cohort: Clients of a round of the runs.
      apart_from: Statistics that are computed without noise, in words: no guarantee covers them.

    Raises:
      UsageError: If the population or its cohort is smaller than that of the data.
    """
    population, population_cohort = settings.population or clients, settings.population_clients_per_round
    if population < clients:
        raise UsageError(f"--population={population} is less than the {clients} clients of the data, its sample.")
    if population_cohort is not None and population_cohort < cohort:
        raise UsageError(
            f"--population_clients_per_round={population_cohort} is less than the {cohort} clients of a round of the "
            f"runs, its sample: give at least {cohort}, or fewer to the runs with --clients_per_round."
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


def no_guarantee(deployment: mechanisms.Mechanism) -> str:
    """Why no epsilon is a guarantee for so few clients, in sentences; empty otherwise."""
    delta = deployment.delta
    if delta <= _MAX_DELTA:
        return ""
    return (
        f"with {deployment.population:,} clients to protect, delta is {delta:.2g}, above {_MAX_DELTA:g}, so no epsilon "
        "is a meaningful guarantee. If the data is a sample of more clients, give --population"
    )


def folder_name(settings: cli.Settings) -> str:
    """Default name of the output folder."""
    table = pathlib.Path(settings.data_file).name.partition(".")[0] if settings.data_file else ""
    scenario = "" if settings.preset or settings.scenario == "scratch" else settings.scenario
    return "_".join(filter(None, ("advice", settings.preset or table or settings.task_type, scenario)))


def check_simulator(scores: Sequence[Score], base: Sequence[str], references: str = "") -> None:
    """Refuses a simulator that held-out clients of the log contradict.

    Args:
      scores: Scores of the logging and the uniform policy, by the simulator and by the log.
      base: Flags of all runs.
      references: Rewards of simple policies, in words.

    Raises:
      UsageError: If the 99% interval of a difference excludes 0, which is rare for correct logs.
    """
    if not any(score.is_contradicted for score in scores):
        return
    values = "\n".join(f"  {score_text(score)}" for score in scores)
    file = next((flag.partition("=")[2] for flag in base if flag.startswith("--data_file=")), "LOG")
    raise UsageError(
        "The log contradicts its simulator, so a recommendation from the simulator would be wrong. Nothing was run.\n"
        f"Average reward on held-out clients:\n{values}\n"
        "Use the log itself, by doubly robust (DR) estimation:\n"
        f"  value of a policy: scripts.evaluate_policy --log={shlex.quote(file)} --policy=uniform, with the log's "
        "columns\n"
        f"  offline training:  {cli.command_line(BINARY, [*base, '--learn_from=dr'])}\n"
        f"{references}\n"
        "Neither says whether exploration pays: for that, log more actions, or columns that explain rewards better."
    )


def score_text(score: Score) -> str:
    """A policy's reward by the simulator and by the log, in words."""
    name = _NAMES.get(score.policy, score.policy)
    by = "doubly robust" if name == "uniform policy" else "logged"
    digits = intervals.decimals(score.difference)
    if digits is None:
        return f"{name}: cannot be compared, as all rewards are equal"
    simulated, logged = (f"{value.mean:.{max(digits, 0)}f}" for value in (score.simulated, score.logged))
    return f"{name}: {simulated} simulated, {logged} {by}, difference {phrases.estimate(score.difference, signed=True)}"
