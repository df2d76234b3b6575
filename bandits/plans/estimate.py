"""Estimates the time of planned runs from a few timed rounds of each kind of run.

Nothing is downloaded. A missing data set is replaced by random examples of the same size.
"""

import contextlib
import dataclasses
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits import studies, task_defaults
from bandits.plans import executors, sweep
from bandits.plans.executors import Executor
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep
from bandits.results import runs
from data.errors import UsageError
from data.tasks import registry
from optimization.posterior import flags as posterior_flags
from optimization.study import payloads, run_folder
from optimization.study.metrics import SECONDS

_ROUNDS = 4  # The first round compiles. So does the second, if the first has extra pre-training epochs.
SAFETY_FACTOR = 1.1  # Runs take longer than the timed rounds suggest.
_INIT_ROUNDS = "init_rounds"
# Flags that determine the time of a round, if a binary has them.
_TIMED_FLAGS = (
    "task_type",
    "model",
    "clients_per_round",
    "algorithm",
    "client_epochs_per_round",
    "client_selection",
    "decision_rule",
    "federation",
    "max_examples_per_client",
    "model_aggregation",
)


class Work(NamedTuple):
    """Amount of work.

    Attributes:
      points: Number of points. Each worker compiles each point once.
      runs: Number of runs. A run that a search continues is counted again.
      rounds: Total number of rounds of these runs.
    """

    points: int
    runs: int
    rounds: int


@dataclasses.dataclass(frozen=True)
class Pace:
    """Speed of this machine if each worker executes one run at a time.

    Attributes:
      round_seconds: Seconds per round.
      run_seconds: Seconds per run in addition to its rounds, for the start and the evaluation at the end.
      point_seconds: Additional seconds for the first run of each point, which compiles the rounds.
      workers: Number of runs at the same time.
    """

    round_seconds: float
    run_seconds: float
    point_seconds: float
    workers: int

    def seconds(self, work: Work) -> float:
        """Seconds that the work takes."""
        parallel = work.runs * self.run_seconds + work.rounds * self.round_seconds
        return SAFETY_FACTOR * (work.points * self.point_seconds + parallel / self.workers)

    def scaled(self, factor: float) -> "Pace":
        """The pace with all times multiplied by `factor`."""
        names = ("round_seconds", "run_seconds", "point_seconds")
        return dataclasses.replace(self, **{name: factor * getattr(self, name) for name in names})


# Runs whose rounds take the same time: module and flags as text, number of unfinished runs, total number of their
# unfinished rounds, and the measured seconds per round, or the reason why they are unknown.
Kind = tuple[str, int, int, float | str]


class Estimate(NamedTuple):
    """Estimated time of runs.

    Attributes:
      text: Time of each kind of run, and total time.
      is_whole: Whether the time of every kind is known.
    """

    text: str
    is_whole: bool


def of(planned: Iterable[Run], folder: pathlib.Path, executor: Executor, workers: int) -> Estimate:
    """Runs a few rounds of each kind of run, and estimates the time of the rounds that remain.

    Args:
      planned: The runs. If a run is planned twice, the first one counts.
      folder: The plan's folder. Timed runs are stored in its subfolder `estimate`, and are executed only once.
      executor: Executes the timed runs.
      workers: Number of runs at the same time.
    """
    once: dict[str, Run] = {}
    for run in planned:
        once.setdefault(run.name, run)
    left = sweep.unfinished(once.values(), folder / "runs")
    if not left:
        return Estimate("All runs are finished.", True)
    groups = runs.grouped(left, lambda run: (run.module, *map(run.settings.get, _TIMED_FLAGS)))
    kinds, notes = [], []
    for some in groups.values():
        example = some[0]
        flags = [f"{name}={example.settings[name]}" for name in _TIMED_FLAGS if example.settings.get(name) is not None]
        name = " ".join([example.module.rpartition(".")[2], *flags])
        rounds = sum(remaining_rounds(run, folder / "runs") for run in some)
        seconds = _measure(example, folder / "estimate", executor)
        kinds.append((name, len(some), rounds, seconds))
        if not isinstance(seconds, str) and (needed := _round_bytes(example, folder / "estimate")):
            notes.append(f"A round of {name} needs about {needed / 1e9:.1f} GB of memory besides its data.")
    if any(_is_downloaded(run.settings) for run in left):
        notes.append(
            "For data in neither --data_dir nor FEDBANDITS_DATA_DIR, random examples of the same size are timed."
        )
    estimate = summarize(kinds, workers)
    return estimate._replace(text="\n".join([estimate.text, *notes]))


def remaining_rounds(run: Run, folder: pathlib.Path) -> int:
    """Rounds that a run still has to execute, including its initial training, in the folder of all runs."""
    done = executors.last_round(folder / run.name)
    return max(0, run.rounds - done) if done else run.rounds + init_rounds(run.settings)


def summarize(kinds: Sequence[Kind], workers: int) -> Estimate:
    """Estimate from the timed rounds, when several runs are executed at the same time."""
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
        left_out = f", not counting the lines above whose time is unknown ({unknown})" if unknown else ""
        lines.append(f"In all {time}{at_a_time}{left_out}. Starting runs, compilation and evaluation are extra.")
    return Estimate("\n".join(lines), not unknown)


def _measure(run: Run, folder: pathlib.Path, executor: Executor) -> float | str:
    """Seconds per round of a run, or the reason why they are unknown."""
    try:
        short = run.with_flags(*short_run_flags(run))
        with contextlib.closing(Sweep(folder, executor, studies.load(run.module).ranked_by)) as sweep:
            sweep.run([short])
        return sweep.outcomes[short.name].error or round_seconds(folder / run.name, _ROUNDS)
    except UsageError as error:
        return str(error)


def _round_bytes(run: Run, folder: pathlib.Path) -> int | None:
    """Memory of a round, from the saved model of a timed run; None for methods that do not keep all models."""
    if not {run.settings.get("algorithm"), run.settings.get("model_aggregation")} & {*posterior_flags.KEEP_MODELS}:
        return None
    with np.load(folder / run.name / run_folder.MODEL_FILE) as weights:
        size = sum(weights[name].nbytes for name in weights.files)
    return payloads.usual_bytes(size, run.settings["clients_per_round"], keeps_models=True)


def round_seconds(folder: pathlib.Path, rounds: int) -> float:
    """Median seconds per round of a run's first rounds, except for the very first one, which compiles."""
    seconds = runs.read_metrics(folder, rounds)[SECONDS].tolist()
    return statistics.median(seconds[1:] or seconds)


def short_run_flags(run: Run) -> list[str]:
    """Flags that shorten a run to a few rounds without a burn-in, on data that need not be downloaded."""
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
    """Number of rounds of a run's initial training, which most scenarios do not have."""
    return settings[_INIT_ROUNDS] if settings.get("scenario") in task_defaults.PRETRAINED else 0


def duration(seconds: float) -> str:
    """A duration as text, in seconds, minutes, hours or days."""
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    return f"{seconds:.0f} seconds"
