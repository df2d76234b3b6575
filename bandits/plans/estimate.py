"""Estimates the time of planned runs from a few measured rounds of each kind.

Nothing is downloaded: a missing data set is replaced by random examples of its size.
"""

import contextlib
import dataclasses
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bandits import studies, task_defaults
from bandits.plans import sweep
from bandits.plans.executors import Executor
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep
from bandits.results import runs
from data.errors import UsageError
from data.tasks import registry
from optimization.study.metrics import SECONDS

_ROUNDS = 4  # The first compiles; after another one's pre-training epochs the second does, too.
SAFETY_FACTOR = 1.1  # Runs take longer than a pace was measured to.
_INIT_ROUNDS = "init_rounds"
# Flags that determine the time of a round, where a binary has them.
_TIMED_FLAGS = (
    "task_type",
    "model",
    "clients_per_round",
    "algorithm",
    "client_epochs_per_round",
    "client_selection",
    "decision_rule",
    "max_examples_per_client",
    "model_aggregation",
)


class Work(NamedTuple):
    """Amount of work.

    Attributes:
      points: Points; each worker compiles each of them once.
      runs: Runs; a run that a search continues counts again.
      rounds: Rounds of all these runs.
    """

    points: int
    runs: int
    rounds: int


@dataclasses.dataclass(frozen=True)
class Pace:
    """Speed of this machine, with one run per worker at the same time.

    Attributes:
      round_seconds: Seconds of a round.
      run_seconds: Seconds of a run beside its rounds: its start, and the evaluation at its end.
      point_seconds: Additional seconds of the first run of a point, which compiles its rounds.
      workers: Runs at the same time.
    """

    round_seconds: float
    run_seconds: float
    point_seconds: float
    workers: int

    def seconds(self, work: Work) -> float:
        """Seconds that some work takes."""
        parallel = work.runs * self.run_seconds + work.rounds * self.round_seconds
        return SAFETY_FACTOR * (work.points * self.point_seconds + parallel / self.workers)

    def scaled(self, factor: float) -> "Pace":
        """The pace with all times multiplied by `factor`."""
        names = ("round_seconds", "run_seconds", "point_seconds")
        return dataclasses.replace(self, **{name: factor * getattr(self, name) for name in names})


# Runs whose rounds take equally long: module and flags as text, number of unfinished runs, unfinished rounds of all of
# them, and the measured seconds of a round, or the reason why they are unknown.
Kind = tuple[str, int, int, float | str]


class Estimate(NamedTuple):
    """Estimated time of runs.

    Attributes:
      text: Time of each kind of run, and in total.
      is_whole: Whether the time of every kind is known.
    """

    text: str
    is_whole: bool


def of(planned: Iterable[tuple[Run, int]], folder: pathlib.Path, executor: Executor, workers: int) -> Estimate:
    """Runs a few rounds of each kind of run, and estimates the time of the unfinished runs.

    Args:
      planned: (run, weight) pairs; only the first pair of a run counts.
      folder: The plan's folder. Measured runs are stored in `estimate` below it, and run once.
      executor: Executes the measured runs.
      workers: Runs at the same time.
    """
    once: dict[str, tuple[Run, int]] = {}
    for run, weight in planned:
        once.setdefault(run.name, (run, weight))
    left = [pair for pair in once.values() if sweep.unfinished(pair[:1], folder / "runs")]
    if not left:
        return Estimate("All runs are finished.", True)
    groups = runs.grouped(left, lambda pair: (pair[0].module, *map(pair[0].settings.get, _TIMED_FLAGS)))
    kinds = []
    for pairs in groups.values():
        example = pairs[0][0]
        flags = [f"{name}={example.settings[name]}" for name in _TIMED_FLAGS if example.settings.get(name) is not None]
        name = " ".join([example.module.rpartition(".")[2], *flags])
        rounds = sum(weight * (run.rounds + init_rounds(run.settings)) for run, weight in pairs)
        seconds = _measure(example, folder / "estimate", executor)
        kinds.append((name, sum(weight for _, weight in pairs), rounds, seconds))
    estimate = summarize(kinds, workers)
    if any(_is_downloaded(run.settings) for run, _ in left):
        note = "A data set in neither --data_dir nor FEDBANDITS_DATA_DIR is measured on random examples of its size."
        return estimate._replace(text=f"{estimate.text}\n{note}")
    return estimate


def summarize(kinds: Sequence[Kind], workers: int) -> Estimate:
    """Estimate from the measured rounds, with several runs at the same time."""
    lines, known = [], []
    for name, number, rounds, seconds in kinds:
        prefix = f"{name}: {number} runs, {rounds:,} rounds"
        if isinstance(seconds, str):
            lines.append(f"{prefix}: time unknown, because {seconds}")
        else:
            lines.append(f"{prefix} of {seconds:.3g} s: {duration(seconds * rounds)}")
            known.append((number, seconds * rounds))
    unknown = len(kinds) - len(known)
    if known:
        parallel = min(workers, sum(number for number, _ in known))
        time = duration(sum(seconds for _, seconds in known) / parallel)
        at_a_time = f", {parallel} runs at a time" if parallel > 1 else ""
        left_out = f", without the lines above whose time is unknown ({unknown})" if unknown else ""
        lines.append(f"In all {time}{at_a_time}{left_out}. Starting runs, compiling and evaluation are extra.")
    return Estimate("\n".join(lines), not unknown)


def _measure(run: Run, folder: pathlib.Path, executor: Executor) -> float | str:
    """Seconds of a run's round, or the reason why they are unknown."""
    arguments = (*run.arguments, *short_run_flags(run))
    try:
        short = dataclasses.replace(run, arguments=arguments, settings=studies.resolve(run.module, arguments))
        with contextlib.closing(Sweep(folder, executor, studies.load(run.module).ranked_by, smallest=False)) as sweep:
            sweep.run([short])
        return sweep.outcomes[short.name].error or round_seconds(folder / run.name, _ROUNDS)
    except UsageError as error:
        return str(error)


def round_seconds(folder: pathlib.Path, rounds: int) -> float:
    """Median seconds of a run's first rounds, without the very first, which compiles."""
    seconds = runs.read_metrics(folder, rounds)[SECONDS].tolist()
    return statistics.median(seconds[1:] or seconds)


def short_run_flags(run: Run) -> list[str]:
    """Flags that shorten a run to a few rounds, without a burn-in, on data that is not downloaded."""
    settings = run.settings
    flags = [f"--total_rounds={min(_ROUNDS, run.rounds)}"]
    flags += [f"--{_INIT_ROUNDS}=1"] if init_rounds(settings) else []
    flags += ["--burn_in_rounds=0"] if settings.get("burn_in_rounds") else []
    flags += [f"--{name}=1" for name in ("diagnose_round", "reset_window") if settings.get(name)]
    return [*flags, *(["--random_data"] if _is_downloaded(settings) else [])]


def _is_downloaded(settings: Mapping[str, Any]) -> bool:
    entry = registry.TASKS.get(settings.get("task_type", ""))
    return "random_data" in settings and entry is not None and "random_data" in entry.options


def init_rounds(settings: Mapping[str, Any]) -> int:
    """Rounds of a run's initial training; most scenarios have none."""
    return settings[_INIT_ROUNDS] if settings.get("scenario") in task_defaults.PRETRAINED else 0


def duration(seconds: float) -> str:
    """A duration as text, in seconds, minutes, hours or days."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
