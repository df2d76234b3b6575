"""How long runs take: a few rounds of each kind are measured, and the time of all others follows.

No data has to be downloaded: a data set that is not on this machine is measured on random examples of its size.
"""

import contextlib
import dataclasses
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bandits import initial_flags, studies
from bandits.plans import outcomes
from bandits.plans.executors import Executor
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep
from bandits.results import runs
from data.errors import UsageError
from data.tasks import registry
from optimization.study.metrics import SECONDS

_ROUNDS = 4  # The first compiles; after another one's pre-training epochs the second does, too.
SPARE = 1.1  # What takes longer than a pace was measured to.
_INIT_ROUNDS = "init_rounds"
# Flags on which a round's time depends, where a binary has them.
_COSTLY = (
    "algorithm",
    "client_epochs_per_round",
    "client_selection",
    "clients_per_round",
    "decision_rule",
    "max_examples_per_client",
    "model",
    "model_aggregation",
    "task_type",
)


class Work(NamedTuple):
    """What is run.

    Attributes:
      points: Points, each of which is compiled once by each worker.
      runs: Runs; those that a search goes on with are counted again.
      rounds: Their rounds together.
    """

    points: int
    runs: int
    rounds: int


@dataclasses.dataclass(frozen=True)
class Pace:
    """How fast this machine is, with as many runs at a time as there are workers.

    Attributes:
      round_seconds: A round.
      run_seconds: What a run takes beside its rounds: its start, and the evaluation at its end.
      point_seconds: What the first run of a point takes more than others, as its rounds are compiled.
      workers: Runs at the same time.
    """

    round_seconds: float
    run_seconds: float
    point_seconds: float
    workers: int

    def seconds(self, work: Work) -> float:
        """Returns how long some work takes."""
        beside = work.runs * self.run_seconds + work.rounds * self.round_seconds
        return SPARE * (work.points * self.point_seconds + beside / self.workers)

    def scaled(self, factor: float) -> "Pace":
        """Returns a pace at which all takes so many times as long."""
        names = ("round_seconds", "run_seconds", "point_seconds")
        return dataclasses.replace(self, **{name: factor * getattr(self, name) for name in names})


@dataclasses.dataclass
class Kind:
    """Runs whose rounds take equally long.

    Attributes:
      run: One of them.
      rounds: Of all of them, that are left to play.
      runs: How many are left.
    """

    run: Run
    rounds: int = 0
    runs: int = 0


@dataclasses.dataclass(frozen=True)
class Estimate:
    """How long runs take.

    Attributes:
      text: The time of each kind of run, and of all.
      is_whole: Whether the time of every kind is known.
    """

    text: str
    is_whole: bool


def of(planned: Iterable[tuple[Run, int]], folder: pathlib.Path, executor: Executor, workers: int) -> Estimate:
    """Runs a few rounds of each kind of run, and returns how long what is left of a plan takes.

    Args:
      planned: (run, how often it counts); a run that comes again counts once.
      folder: The plan's folder; measured rounds lie in `estimate` below it, and are run once.
      executor: What executes them.
      workers: Runs at the same time.
    """
    kinds: dict[tuple, Kind] = {}
    once: dict[str, tuple[Run, int]] = {}
    for run, times in planned:
        once.setdefault(run.name, (run, times))
    for run, times in once.values():
        if outcomes.finished_rounds(folder / "runs" / run.name) < run.rounds:
            kind = kinds.setdefault((run.module, *map(run.settings.get, _COSTLY)), Kind(run))
            kind.runs += times
            kind.rounds += times * (run.rounds + init_rounds(run.settings))
    if not kinds:
        return Estimate("All runs are finished.", True)
    some = [kind.run for kind in kinds.values()]
    different = [name for name in _COSTLY if len({run.settings.get(name) for run in some}) > 1]
    measured = [_measure(run, folder / "estimate", executor) for run in some]
    names = [_words(run, different) for run in some]
    found = in_words(list(zip(kinds.values(), names, measured, strict=True)), workers)
    if not any(_is_downloaded(run.settings) for run in some):
        return found
    note = "A data set in neither --data_dir nor FEDBANDITS_DATA_DIR is measured on random examples of its size."
    return dataclasses.replace(found, text=f"{found.text}\n{note}")


def in_words(kinds: Sequence[tuple[Kind, str, float | str]], workers: int) -> Estimate:
    """Returns an estimate.

    Args:
      kinds: Each kind, what it is called, and the seconds of its round, or why they are not known.
      workers: Runs at the same time.
    """
    lines = []
    for kind, name, seconds in kinds:
        words = f"{name}: {kind.runs} runs, {kind.rounds:,} rounds"
        if isinstance(seconds, str):
            lines.append(f"{words}: time unknown, because {seconds}")
        else:
            lines.append(f"{words} of {seconds:.3g} s: {duration(seconds * kind.rounds)}")
    known = [(kind.runs, seconds * kind.rounds) for kind, _, seconds in kinds if not isinstance(seconds, str)]
    unknown = len(kinds) - len(known)
    if known:
        at_once = min(workers, sum(runs for runs, _ in known))
        time = duration(sum(seconds for _, seconds in known) / at_once)
        beside = f", {at_once} runs at a time" if at_once > 1 else ""
        left_out = f", without the lines above whose time is unknown ({unknown})" if unknown else ""
        lines.append(f"In all {time}{beside}{left_out}; starting runs, compiling and evaluation are extra.")
    return Estimate("\n".join(lines), not unknown)


def _measure(run: Run, folder: pathlib.Path, executor: Executor) -> float | str:
    """Returns the seconds of a run's round, or why that is not known."""
    arguments = (*run.arguments, *shortened(run))
    try:
        short = dataclasses.replace(run, arguments=arguments, settings=studies.resolve(run.module, arguments))
        with contextlib.closing(Sweep(folder, executor, studies.load(run.module).ranked_by, smallest=False)) as sweep:
            sweep.run([short])
        return sweep.outcomes[short.name].error or round_seconds(folder / run.name, _ROUNDS)
    except UsageError as error:
        return str(error)


def round_seconds(folder: pathlib.Path, rounds: int) -> float:
    """Returns the seconds of a run's round: the median of its first ones without the very first, which compiles."""
    seconds = runs.read_metrics(folder, rounds)[SECONDS].tolist()
    return statistics.median(seconds[1:] or seconds)


def shortened(run: Run) -> list[str]:
    """Returns the flags that make of a run a few rounds, without a burn-in, on data that is not downloaded."""
    settings = run.settings
    found = [f"--total_rounds={min(_ROUNDS, run.rounds)}"]
    found += [f"--{_INIT_ROUNDS}=1"] if init_rounds(settings) else []
    found += ["--burn_in_rounds=0"] if settings.get("burn_in_rounds") else []
    found += [f"--{name}=1" for name in ("diagnose_round", "reset_window") if settings.get(name)]
    return [*found, *(["--random_data"] if _is_downloaded(settings) else [])]


def _is_downloaded(settings: Mapping[str, Any]) -> bool:
    """Returns whether a run's task takes `--random_data`."""
    entry = registry.TASKS.get(settings.get("task_type", ""))
    return "random_data" in settings and entry is not None and "random_data" in entry.options


def init_rounds(settings: Mapping[str, Any]) -> int:
    """Returns the rounds of a run's initial training, which count as its others; most scenarios have none."""
    return settings[_INIT_ROUNDS] if settings.get("scenario") in initial_flags.PRETRAINED else 0


def _words(run: Run, different: Sequence[str]) -> str:
    names = dict.fromkeys(("task_type", "model", "clients_per_round", *different))
    settings = {name: run.settings.get(name) for name in names}
    values = [f"{name}={value}" for name, value in settings.items() if value is not None]
    return " ".join([run.module.rpartition(".")[2], *values])


def duration(seconds: float) -> str:
    """Returns a duration as text, in minutes, hours or days."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
