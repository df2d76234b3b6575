"""Executes the runs of a plan: all of them, by successive halving, or on beyond the edges.

Successive halving is asynchronous (ASHA): Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020,
Algorithm 2. Every point has the rounds of the lowest rung; the best 1/factor of those that have finished a rung go on
to the next, without waiting for all others.
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
_TICK_SECONDS = 1.0  # Between two looks at the runs in progress.

Item = tuple[int, int]  # (point, rung)


def claim(folder: pathlib.Path, binary: str, blocks: Sequence[plan.Axes] = ()) -> contextlib.AbstractContextManager:
    """Makes a plan's folder, and returns its lock, which is held while it is open.

    Raises:
      UsageError: If it cannot be written, another grid is running in it, or it is of another format.
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
    """Opens the data of groups of runs, before any is started; returns the groups that are refused, by message."""
    found: dict[str, list[str]] = {}
    for name, some in groups.items():
        try:
            for run in some:
                frame.checked(studies.load(run.module), [run.settings], warns=False)  # Each run prints its own.
        except UsageError as error:
            found.setdefault(str(error), []).append(name)
    return found


def write_job_array(some: Iterable[Run], folder: pathlib.Path, cores: int, then: str) -> int:
    """Writes the job array of the runs that are not finished; returns the exit status.

    Args:
      some: The runs; one that comes again counts once.
      folder: The plan's folder.
      cores: CPU cores of each run.
      then: What the user does when they are finished.
    """
    left = {run.name: run for run in some if outcomes.finished_rounds(folder / "runs" / run.name) < run.rounds}
    if not left:
        print(f"All runs are finished: {then}.")
        return 0
    script = executors.write_slurm_script(folder, [run.job(folder / "runs") for run in left.values()], cores)
    print(f"{len(left)} runs in {script}. When they are done, {then}.")
    return 0


def rungs(total_rounds: int, points: int, factor: int, least: int = 1) -> list[int]:
    """Returns the rounds of each rung, ending with `total_rounds`: as many as so many points can climb.

    Args:
      total_rounds: Rounds of the last rung.
      points: Number of points.
      factor: Reduction factor.
      least: Fewest rounds of the lowest rung, if it is not the last.
    """
    climbs = 0
    while factor ** (climbs + 1) <= points and total_rounds // factor ** (climbs + 1) >= least:
        climbs += 1
    return [math.ceil(total_rounds / factor**left) for left in range(climbs, -1, -1)]


@dataclasses.dataclass
class Halving:
    """What to run next, by asynchronous successive halving.

    Attributes:
      points: Number of points.
      rungs: Number of rungs.
      factor: Reduction factor, eta.
      started: What was handed out, in order.
    """

    points: int
    rungs: int
    factor: int
    started: list[Item] = dataclasses.field(default_factory=list)

    def next(self, scores: Mapping[Item, float]) -> Item | None:
        """Returns a point and the rung that it is to reach; None if that depends on results to come.

        Args:
          scores: Larger is better, for what has finished; equal ones rank by the points' order.
        """
        for rung in reversed(range(self.rungs - 1)):
            ranked = sorted((-score, point) for (point, at), score in scores.items() if at == rung)
            for _, point in ranked[: len(ranked) // self.factor]:
                if (point, rung + 1) not in self.started:
                    return self._start((point, rung + 1))
        begun = sum(rung == 0 for _, rung in self.started)
        return self._start((begun, 0)) if begun < self.points else None

    def _start(self, item: Item) -> Item:
        self.started.append(item)
        return item


class Sweep:
    """Runs that are executed, and what becomes of them."""

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
        """Starts nothing yet.

        Args:
          folder: Folder of all runs.
          executor: What executes them.
          metric: What ranks them.
          smallest: Whether less of it is better.
          write_page: Writes a page about the runs; see `Progress`.
          page_seconds: Least time between two pages.
        """
        self.metric = metric
        self.smallest = smallest
        self.outcomes: dict[str, Outcome] = {}
        self._folder = folder
        self._executor = executor
        self._waiting: dict[executors.Job, Run] = {}
        self._attempts: dict[executors.Job, int] = {}
        self._progress = Progress(folder, smallest=smallest, write_page=write_page, seconds=page_seconds)

    def submit(self, some: Iterable[Run]) -> None:
        """Has runs executed that are not finished yet."""
        for run in some:
            self.outcomes.setdefault(run.name, Outcome(run)).run = run
            if not self._is_settled(run):
                self._start(run)
        self._progress.show(self.outcomes.values())

    def _is_settled(self, run: Run) -> bool:
        """Returns whether a run needs no executor: it is finished, or its folder cannot be used."""
        outcome = self.outcomes[run.name]
        if outcome.status == outcomes.FAILED:
            return True
        try:
            if outcomes.finished_rounds(self._folder / run.name) < run.rounds:
                return False
            self._finish(run)
        except UsageError as error:
            self._fail(run, str(error))
        return True

    def _start(self, run: Run) -> None:
        one = run.job(self._folder)
        self._waiting[one] = run
        self._attempts[one] = self._attempts.get(one, 0) + 1
        self._executor.submit(one)

    def _finish(self, run: Run) -> None:
        value = outcomes.read_value(self._folder / run.name, self.metric, run.rounds)
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds = outcomes.FINISHED, value, run.rounds
        if outcomes.has_diverged(self._folder / run.name, run.rounds):
            outcome.status, outcome.value = outcomes.DIVERGED, math.nan

    def _fail(self, run: Run, error: str) -> None:
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds, outcome.error = outcomes.FAILED, math.nan, 0, error

    def finish(self, some: Sequence[Run]) -> None:
        """Waits until these runs are finished or have failed."""
        while not {run.name for run in some}.isdisjoint(run.name for run in self._waiting.values()):
            ended = self._executor.wait(_TICK_SECONDS if self._progress.wants_ticks else None)
            if ended is None:
                self._progress.show(self.outcomes.values())
                continue
            one, result = ended
            run = self._waiting.pop(one)
            if result.status not in (0, 2) and self._attempts[one] < _ATTEMPTS:
                self._progress.tell(f"{run.name}: {result.message} It is tried again.")
                self._start(run)
                continue
            try:
                if result.status:
                    raise Failure(result.message or f"It ended with status {result.status}.")
                self._finish(run)
            except (Failure, UsageError) as error:
                self._fail(run, str(error))
            self._progress.show(self.outcomes.values())

    def run(self, some: Sequence[Run]) -> None:
        """Executes runs to their ends."""
        self.submit(some)
        self.finish(some)

    def run_halving(self, some: Sequence[Run], factor: int, at_once: int, least: int = 1) -> None:
        """Executes runs by asynchronous successive halving.

        What runs next depends on the results of all but the last `at_once` points begun, in the order in which
        they were begun, not on which happened to finish first: the same command has the same runs.

        Args:
          some: The runs of all points.
          factor: Points of which one goes on.
          at_once: Runs at the same time.
          least: Fewest rounds by which a point is given up.
        """
        points: dict[str, list[Run]] = {}
        for run in some:
            points.setdefault(run.point, []).append(run)
        seeds = list(points.values())
        rounds = rungs(some[0].rounds, len(seeds), factor, least)
        search = Halving(len(seeds), len(rounds), factor)
        window = max(1, math.ceil(at_once / len(seeds[0])))
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

    def expand(self, grid: plan.Grid, most: int) -> None:
        """Adds values where the best point of a configuration lies on an edge, and runs them, until it lies inside."""
        while True:
            told: list[str] = []
            for configuration, points in self.ranked().items():
                best = points[0]
                if math.isnan(best.mean):
                    continue
                grid, added = grid.widened(best.outcomes[0].run, most)
                told += [f"{configuration} {flag}".strip() for flag in added]
            if not told:
                return
            print(f"The best lies on an edge; added: {'; '.join(told)}.", file=sys.stderr)
            self.run([run for run in grid.runs() if run.name not in self.outcomes])

    def rerun(self, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
        """Reruns the best point of each configuration with fresh seeds, which picked nothing; returns what they gave.

        Args:
          seeds: Those seeds. A configuration without a value is left out.
        """
        best = {name: points[0] for name, points in self.ranked().items() if not math.isnan(points[0].mean)}
        again = {name: [point.outcomes[0].run.with_seed(seed) for seed in seeds] for name, point in best.items()}
        everything = [run for some in again.values() for run in some]
        for run in everything:
            self.outcomes.setdefault(run.name, Outcome(run)).reports = True
        self.run(everything)
        return {name: [self.outcomes[run.name] for run in some] for name, some in again.items()}

    def score(self, some: Sequence[Run]) -> float:
        """Returns how good a point's seeds are."""
        return outcomes.goodness([self.outcomes[run.name].value for run in some], smallest=self.smallest)

    def ranked(self) -> dict[str, list[outcomes.Point]]:
        """Returns the points of each configuration, the best first."""
        return outcomes.rank(list(self.outcomes.values()), smallest=self.smallest)

    def write_last_page(self) -> None:
        """Writes the page, if there is one, about how all runs ended."""
        self._progress.show(self.outcomes.values(), last=True)

    def close(self) -> None:
        """Ends the bar."""
        self._progress.close()
