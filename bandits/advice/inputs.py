"""Inputs of a recommendation: the flags of all runs, and the data. Flags are checked before the data is opened.

A simulator of a log is refused if the log contradicts it.
"""

import dataclasses
import math
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from bandits import logged_flags, references, registry, schedule_flags, simulator, studies
from bandits.advice.strategies import BINARY
from bandits.plans.plan import as_text
from bandits.results import phrases as words
from data.errors import UsageError
from optimization.study import cli, frame, intervals, presets

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
      references: Held-out rewards of simple policies of a table or log, by name; empty for other data.
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
    scores: tuple[simulator.Score, ...] = ()
    trained_width: float = 1.0
    has_learned_bounds: bool = False
    references: Mapping[str, intervals.Interval] = dataclasses.field(default_factory=dict)

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
    # Before the study's check, which prints these scores, too.
    scores = tuple(simulator.score(task.held_out)) if logged_flags.is_simulated(options.task) else ()
    study.check(options, task)
    low, high = task.reward_range(options.rewards)
    evaluated = len(task.held_out)
    held_out = f"held out for evaluation: {evaluated:,} other clients" if evaluated > 1 else ""
    if of_rows := task.report.get("held_out"):
        held_out = f"held out for evaluation: {of_rows}"
    return Data(
        checksum=task.checksum,
        report=dict(task.report),
        clients=clients,
        cohort=settings.clients_per_round,
        num_actions=task.num_actions,
        reward_width=(high - low) or 1.0,
        is_labelled=not task.multi_label and not options.has_shift and options.drift.kind == "none",
        statistics=task.private_statistics,
        held_out=held_out or "held out: one pooled test set",
        unit=_unit(settings.client_column, clients, of_rows),
        scores=scores,
        trained_width=1.0 if task.reward_bounds else (high - low) or 1.0,
        has_learned_bounds=task.has_learned_bounds,
        references=references.simple_policies(task, task.rewards[options.rewards]) if of_rows else {},
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


def folder_name(settings: cli.Settings) -> str:
    """Default name of the output folder."""
    table = pathlib.Path(settings.data_file).name.partition(".")[0] if settings.data_file else ""
    scenario = "" if settings.preset or settings.scenario == "scratch" else settings.scenario
    return "_".join(filter(None, ("advice", settings.preset or table or settings.task_type, scenario)))


def check_simulator(scores: Sequence[simulator.Score], base: Sequence[str], references: str = "") -> None:
    """Refuses a simulator that held-out clients of the log contradict.

    Args:
      scores: Scores of the logging and the uniform policy, by the simulator and by the log.
      base: Flags of all runs.
      references: Rewards of simple policies, in words.

    Raises:
      UsageError: If the 95% interval of a difference excludes 0.
    """
    if not any(score.is_off for score in scores):
        return
    values = "\n".join(f"  {_score(score)}" for score in scores)
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


def _score(score: simulator.Score) -> str:
    name = _NAMES.get(score.policy, score.policy)
    by = "doubly robust" if name == "uniform policy" else "logged"
    digits = intervals.decimals(score.difference)
    if digits is None:
        return f"{name}: cannot be compared, as all rewards are equal"
    simulated, logged = (f"{value.mean:.{max(digits, 0)}f}" for value in (score.simulated, score.logged))
    return f"{name}: {simulated} simulated, {logged} {by}, difference {words.estimate(score.difference, signed=True)}"


def simulated(scores: Sequence[simulator.Score]) -> str:
    """Scores of a simulator that the log does not contradict, in words; empty without a simulator."""
    if not scores:
        return ""
    values = "\n".join(f"- {_score(score)}" for score in scores)
    is_known = any(math.isfinite(score.difference.low) for score in scores)
    checked = "do not contradict it" if is_known else "cannot check it"
    return (
        "Rewards are simulated: they are sampled from a regression of the log, and have its bias.\n"
        f"Held-out clients of the log {checked}:\n{values}\n"
        "scripts.evaluate_policy estimates a policy's value from the log itself.\n"
    )
