"""Plays the runs of a grid: all of them, by successive halving, or on beyond the edges."""

import math
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence

from bandits import studies
from bandits.plans import halving, plan, player, players, results
from bandits.plans.plan import Run
from bandits.plans.results import Outcome
from bandits.plans.watch import Watch
from data.errors import Failure, UsageError
from optimization.study import frame
from optimization.study.metrics import Metric

_ATTEMPTS = 3
_TICK_SECONDS = 1.0  # Between two looks at the runs that are played.


def check_shared(some: Sequence[Run]) -> None:
    """Opens the data of runs, and checks the flags that all of them share against it, before any run is started.

    Raises:
      UsageError: If the first and the last run are refused for the same reason.
    """
    study = studies.load(some[0].module)
    refused = []
    for run in (some[0], some[-1]):
        try:
            frame.checked(study, [run.settings], warns=False)  # Each run prints its own.
        except UsageError as error:
            refused.append(str(error))
        if not refused:
            return
    if len(refused) == 2 and refused[0] == refused[1]:
        raise UsageError(refused[0])


class Sweep:
    """Runs that are played, and what becomes of them."""

    def __init__(
        self,
        folder: pathlib.Path,
        team: players.Team,
        metric: Metric,
        *,
        smallest: bool,
        write_page: Callable[[], object] | None = None,
        watch: Watch | None = None,
    ):
        """Takes where and by whom runs are played.

        Args:
          folder: Folder of all runs.
          team: Who plays them.
          metric: What ranks them.
          smallest: Whether less of it is better.
          write_page: Writes a page about the runs; see `Watch`.
          watch: Shows how far the runs are; if left out, a bar of their own.
        """
        self.metric = metric
        self.smallest = smallest
        self.outcomes: dict[str, Outcome] = {}
        self._folder = folder
        self._team = team
        self._waiting: dict[player.Job, Run] = {}
        self._attempts: dict[player.Job, int] = {}
        self._watch = watch or Watch(folder, smallest=smallest, write_page=write_page)

    def submit(self, some: Iterable[Run]) -> None:
        """Has runs played that are not finished yet."""
        for run in some:
            self.outcomes.setdefault(run.name, Outcome(run)).run = run
            if not self._is_settled(run):
                self._start(run)
        self._watch.show(self.outcomes.values())

    def _is_settled(self, run: Run) -> bool:
        """Returns whether a run needs no playing: it is finished, or its folder cannot be used."""
        outcome = self.outcomes[run.name]
        if outcome.status == results.FAILED:
            return True
        try:
            if results.finished_rounds(self._folder / run.name) < run.rounds:
                return False
            self._finish(run)
        except UsageError as error:
            self._fail(run, str(error))
        return True

    def _start(self, run: Run) -> None:
        one = run.job(self._folder)
        self._waiting[one] = run
        self._attempts[one] = self._attempts.get(one, 0) + 1
        self._team.submit(one)

    def _finish(self, run: Run) -> None:
        value = results.read_value(self._folder / run.name, self.metric, run.rounds)
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds = results.FINISHED, value, run.rounds
        if results.has_diverged(self._folder / run.name, run.rounds):
            outcome.status, outcome.value = results.DIVERGED, math.nan

    def _fail(self, run: Run, error: str) -> None:
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds, outcome.error = results.FAILED, math.nan, 0, error

    def finish(self, some: Sequence[Run]) -> None:
        """Waits until these runs are finished or have failed."""
        while not {run.name for run in some}.isdisjoint(run.name for run in self._waiting.values()):
            ended = self._team.wait(_TICK_SECONDS if self._watch.wants_ticks else None)
            if ended is None:
                self._watch.show(self.outcomes.values())
                continue
            one, result = ended
            run = self._waiting.pop(one)
            if result.status not in (0, 2) and self._attempts[one] < _ATTEMPTS:
                self._watch.tell(f"{run.name}: {result.message} It is tried again.")
                self._start(run)
                continue
            try:
                if result.status:
                    raise Failure(result.message or f"It ended with status {result.status}.")
                self._finish(run)
            except (Failure, UsageError) as error:
                self._fail(run, str(error))
            self._watch.show(self.outcomes.values())

    def play(self, some: Sequence[Run]) -> None:
        """Plays runs to their ends."""
        self.submit(some)
        self.finish(some)

    def play_halving(self, some: Sequence[Run], factor: int, at_once: int, least: int = 1) -> None:
        """Plays runs by asynchronous successive halving.

        What is played next depends on the results of all but the last `at_once` points begun, in the order in which
        they were begun, not on which happened to finish first: the same command plays the same runs.

        Args:
          some: The runs of all points.
          factor: Points of which one goes on.
          at_once: Runs that are played at the same time.
          least: Fewest rounds by which a point is given up.
        """
        points: dict[str, list[Run]] = {}
        for run in some:
            points.setdefault(run.point, []).append(run)
        seeds = list(points.values())
        rungs = halving.rungs(some[0].rounds, len(seeds), factor, least)
        search = halving.Halving(len(seeds), len(rungs), factor)
        window = max(1, math.ceil(at_once / len(seeds[0])))
        scores: dict[halving.Item, float] = {}

        def runs_of(item: halving.Item) -> list[Run]:
            point, rung = item
            return [run.at_rounds(rungs[rung]) if rung < len(rungs) - 1 else run for run in seeds[point]]

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
            if outcome.status == results.FINISHED and outcome.rounds < rungs[-1]:
                outcome.status = results.STOPPED_EARLY

    def expand(self, grid: plan.Grid, most: int) -> None:
        """Adds values where the best point of a configuration lies on an edge, and plays them, until it lies inside."""
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
            self.play([run for run in grid.runs() if run.name not in self.outcomes])

    def replay(self, seeds: Sequence[int]) -> dict[str, list[Outcome]]:
        """Plays the best point of each configuration with fresh seeds, which picked nothing; returns what they gave.

        Args:
          seeds: Those seeds. A configuration without a value is left out.
        """
        best = {name: points[0] for name, points in self.ranked().items() if not math.isnan(points[0].mean)}
        again = {name: [point.outcomes[0].run.with_seed(seed) for seed in seeds] for name, point in best.items()}
        everything = [run for some in again.values() for run in some]
        for run in everything:
            self.outcomes.setdefault(run.name, Outcome(run)).reports = True
        self.play(everything)
        return {name: [self.outcomes[run.name] for run in some] for name, some in again.items()}

    def score(self, some: Sequence[Run]) -> float:
        """Returns how good a point's seeds are."""
        return results.goodness([self.outcomes[run.name].value for run in some], smallest=self.smallest)

    def ranked(self) -> dict[str, list[results.Point]]:
        """Returns the points of each configuration, the best first."""
        return results.rank(list(self.outcomes.values()), smallest=self.smallest)

    def write_last_page(self) -> None:
        """Writes the page, if there is one, about how all runs ended."""
        self._watch.show(self.outcomes.values(), last=True)

    def close(self) -> None:
        """Ends the bar."""
        self._watch.close()
