"""Executes the runs of a plan: all of them, by successive halving, or beyond the edges of a grid.

Successive halving is asynchronous (ASHA): Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020,
Algorithm 2. Every point runs the lowest rung. The best 1/factor of the points that finished a rung are promoted,
without waiting for all others.
"""

import contextlib
import dataclasses
import json
import math
import pathlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from bandits import studies
from bandits.plans import executors, outcomes, plan
from bandits.plans.outcomes import Outcome
from bandits.plans.plan import Run
from bandits.plans.progress import Progress
from bandits.results import runs
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli, frame, run_folder
from optimization.study.metrics import Metric

_ATTEMPTS = 3
_TICK_SECONDS = 1.0  # Between two updates of the progress bar; and a signal just before a wait is answered after it.

Item = tuple[int, int]  # (point, rung)


def claim(folder: pathlib.Path, binary: str, blocks: Sequence[plan.Axes] = ()) -> contextlib.AbstractContextManager:
    """Creates a plan's folder, and returns its lock, which is held while it is open.

    Raises:
      UsageError: If the folder cannot be written, another grid runs in it, or its format differs.
    """
    about = folder / "grid.json"
    if about.exists():
        run_folder.check_format(folder, runs.read_json(about), "grid")
    with run_folder.claiming(folder, "grid") as lock:
        (folder / "runs").mkdir(exist_ok=True)
    content = {"format": run_folder.FORMAT, "binary": binary, "blocks": blocks, "command": cli.command_line()}
    files.replace(about, json.dumps(content, indent=2).encode() + b"\n")
    return lock


def refused(groups: Mapping[str, Sequence[Run]]) -> dict[str, list[str]]:
    """Opens the data of groups of runs before any starts; returns the names of invalid groups, by message."""
    names: dict[str, list[str]] = {}
    for name, runs_of_group in groups.items():
        try:
            for run in runs_of_group:
                frame.checked(studies.load(run.module), [run.settings], warns=False)  # Each run prints its own.
        except UsageError as error:
            names.setdefault(str(error), []).append(name)
    return names


def write_job_array(planned: Iterable[Run], folder: pathlib.Path, cores: int, then: str) -> int:
    """Writes the job array of the unfinished runs; returns the exit status.

    Args:
      planned: The runs; duplicates count once.
      folder: The plan's folder.
      cores: CPU cores of each run.
      then: What the user does after the runs.
    """
    left = {run.name: run for run in outcomes.unfinished(planned, folder / "runs")}
    if not left:
        print(f"All runs are finished: {then}.")
        return 0
    script = executors.write_slurm_script(folder, [run.job(folder / "runs") for run in left.values()], cores)
    print(f"{len(left)} runs in {script}. When they are done, {then}.")
    return 0


def rungs(total_rounds: int, points: int, factor: int, least: int = 1) -> list[int]:
    """Rounds of each rung, ending with `total_rounds`; there are as many rungs as the points allow.

    Args:
      total_rounds: Rounds of the last rung.
      points: Number of points.
      factor: Reduction factor.
      least: Minimum rounds of the lowest rung, unless it is the last.
    """
    promotions = 0
    while factor ** (promotions + 1) <= points and total_rounds // factor ** (promotions + 1) >= least:
        promotions += 1
    return [math.ceil(total_rounds / factor**left) for left in range(promotions, -1, -1)]


@dataclasses.dataclass
class Halving:
    """State of asynchronous successive halving.

    Attributes:
      points: Number of points.
      rungs: Number of rungs.
      factor: Reduction factor, eta.
      started: Started items, in order.
    """

    points: int
    rungs: int
    factor: int
    started: list[Item] = dataclasses.field(default_factory=list)

    def next(self, scores: Mapping[Item, float]) -> Item | None:
        """The next point and the rung that it must reach; None if that depends on unfinished items.

        Args:
          scores: Scores of finished items; larger is better, and ties rank by the points' order.
        """
        for rung in reversed(range(self.rungs - 1)):
            ranked = sorted((-score, point) for (point, at), score in scores.items() if at == rung)
            for _, point in ranked[: len(ranked) // self.factor]:
                if (point, rung + 1) not in self.started:
                    return self._start((point, rung + 1))
        num_started = sum(rung == 0 for _, rung in self.started)
        return self._start((num_started, 0)) if num_started < self.points else None

    def _start(self, item: Item) -> Item:
        self.started.append(item)
        return item


class Sweep:
    """Executes runs and keeps their outcomes."""

    def __init__(
        self,
        folder: pathlib.Path,
        executor: executors.Executor,
        metric: Metric,
        *,
        smallest: bool,
        write_page: Callable[[], object] | None = None,
        page_seconds: float = 30.0,
    ):
        """Initializes the sweep.

        Args:
          folder: Folder of all runs.
          executor: Executes the runs.
          metric: Metric of the ranking.
          smallest: Whether smaller is better.
          write_page: Writes a page about the runs; see `Progress`.
          page_seconds: Minimum time between two pages.
        """
        self.metric = metric
        self.smallest = smallest
        self.outcomes: dict[str, Outcome] = {}
        self._folder = folder
        self._executor = executor
        self._submitted: dict[executors.Job, Run] = {}
        self._attempts: dict[executors.Job, int] = {}
        self._progress = Progress(folder, smallest=smallest, write_page=write_page, seconds=page_seconds)

    def submit(self, planned: Iterable[Run]) -> None:
        """Submits unfinished runs to the executor."""
        for run in planned:
            self.outcomes.setdefault(run.name, Outcome(run)).run = run
            if not self._is_settled(run):
                self._start(run)
        self._progress.show(self.outcomes.values())

    def _is_settled(self, run: Run) -> bool:
        """Whether a run needs no executor: it is finished, or its folder cannot be used."""
        outcome = self.outcomes[run.name]
        if outcome.status == outcomes.FAILED:
            return True
        try:
            if outcomes.unfinished([run], self._folder):
                return False
            self._finish(run)
        except UsageError as error:
            self._fail(run, str(error))
        return True

    def _start(self, run: Run) -> None:
        job = run.job(self._folder)
        self._submitted[job] = run
        self._attempts[job] = self._attempts.get(job, 0) + 1
        self._executor.submit(job)

    def _finish(self, run: Run) -> None:
        value = outcomes.read_value(self._folder / run.name, self.metric, run.rounds)
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds = outcomes.FINISHED, value, run.rounds
        if outcomes.has_diverged(self._folder / run.name, run.rounds):
            outcome.status, outcome.value = outcomes.DIVERGED, math.nan

    def _fail(self, run: Run, error: str) -> None:
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds, outcome.error = outcomes.FAILED, math.nan, 0, error

    def finish(self, planned: Sequence[Run]) -> None:
        """Waits until these runs are finished or have failed."""
        while not {run.name for run in planned}.isdisjoint(run.name for run in self._submitted.values()):
            ended = self._executor.wait(_TICK_SECONDS)
            if ended is None:
                self._progress.show(self.outcomes.values())
                continue
            job, result = ended
            run = self._submitted.pop(job)
            if result.status not in (0, 2) and self._attempts[job] < _ATTEMPTS:
                self._progress.write(f"{run.name}: {result.message} The run is retried.")
                self._start(run)
                continue
            try:
                if result.status:
                    raise Failure(result.message or f"It ended with status {result.status}.")
                self._finish(run)
            except (Failure, UsageError) as error:
                self._fail(run, str(error))
            self._progress.show(self.outcomes.values())

    def run(self, planned: Sequence[Run]) -> None:
        """Executes runs until they are finished or have failed."""
        self.submit(planned)
        self.finish(planned)

    def run_halving(self, planned: Sequence[Run], factor: int, parallel: int, least: int = 1) -> None:
        """Executes runs by asynchronous successive halving.

        What runs next depends on the results of all but the last `parallel` points, in the order of their starts and
        not of their ends: the same command has the same runs.

        Args:
          planned: The runs of all points.
          factor: One of this many points is promoted.
          parallel: Runs at the same time.
          least: Minimum rounds of a point that is stopped early.
        """
        seeds = list(runs.grouped(planned, lambda run: run.point).values())
        rounds = rungs(planned[0].rounds, len(seeds), factor, least)
        search = Halving(len(seeds), len(rounds), factor)
        window = max(1, math.ceil(parallel / len(seeds[0])))
        scores: dict[Item, float] = {}

        def runs_of(item: Item) -> list[Run]:
            point, rung = item
            return [run.at_rounds(rounds[rung]) if rung < len(rounds) - 1 else run for run in seeds[point]]

        while True:
            item = search.next(scores)
            if item is not None:
                self.submit(runs_of(item))
            elif len(scores) == len(search.started):
                break
            if item is None or len(search.started) - len(scores) >= window:
                oldest = search.started[len(scores)]
                self.finish(runs_of(oldest))
                scores[oldest] = self.score(runs_of(oldest))
        for outcome in self.outcomes.values():
            if outcome.status == outcomes.FINISHED and outcome.rounds < rounds[-1]:
                outcome.status = outcomes.STOPPED_EARLY

    def expand(self, grid: plan.Grid, limit: int) -> None:
        """Adds values where the best point of a configuration lies on an edge, and runs them, until it lies inside."""
        while True:
            added_flags: list[str] = []
            for configuration, points in self.ranked().items():
                best = points[0]
                if math.isnan(best.mean):
                    continue
                grid, added = grid.widened(best.outcomes[0].run, limit)
                added_flags += [f"{configuration} {flag}".strip() for flag in added]
            if not added_flags:
                return
            print(f"The best lies on an edge; added: {'; '.join(added_flags)}.", file=sys.stderr)
            self.run([run for run in grid.runs() if run.name not in self.outcomes])

    def rerun(self, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
        """Runs the best point of each configuration with fresh seeds; returns their outcomes by configuration.

        Args:
          seeds: Fresh seeds. A configuration without a value is left out.
        """
        best = {name: points[0] for name, points in self.ranked().items() if not math.isnan(points[0].mean)}
        fresh = {name: [point.outcomes[0].run.with_seed(seed) for seed in seeds] for name, point in best.items()}
        all_runs = [run for some in fresh.values() for run in some]
        for run in all_runs:
            self.outcomes.setdefault(run.name, Outcome(run)).is_reporting = True
        self.run(all_runs)
        return {name: [self.outcomes[run.name] for run in some] for name, some in fresh.items()}

    def score(self, seeds: Sequence[Run]) -> float:
        """Mean metric of a point's runs, one per seed; larger is better."""
        return outcomes.goodness([self.outcomes[run.name].value for run in seeds], smallest=self.smallest)

    def ranked(self) -> dict[str, list[outcomes.Point]]:
        """Points of each configuration, the best first."""
        return outcomes.rank(list(self.outcomes.values()), smallest=self.smallest)

    def write_last_page(self) -> None:
        """Writes the page, if there is one, after all runs."""
        self._progress.show(self.outcomes.values(), last=True)

    def close(self) -> None:
        """Closes the progress bar."""
        self._progress.close()
