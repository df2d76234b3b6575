"""Plays the runs of a grid: all of them, by successive halving, or on beyond the edges."""

import math
import pathlib
import sys
from collections.abc import Iterable, Sequence

import tqdm

from data.errors import Failure, UsageError
from scripts.grid import halving, plan, player, players, results
from scripts.grid.plan import Run
from scripts.grid.results import Outcome

_ATTEMPTS = 3


class Sweep:
    """Runs that are played, and what becomes of them."""

    def __init__(self, folder: pathlib.Path, team: players.Team, metric: str, *, smallest: bool):
        """Takes where and by whom runs are played; `smallest` says whether less of the metric is better."""
        self.metric = metric
        self.smallest = smallest
        self.outcomes: dict[str, Outcome] = {}
        self._folder = folder
        self._team = team
        self._waiting: dict[player.Job, Run] = {}
        self._attempts: dict[player.Job, int] = {}
        self._progress = tqdm.tqdm(unit="run", total=0, disable=None, dynamic_ncols=True)

    def submit(self, some: Iterable[Run]) -> None:
        """Has runs played that are not finished yet."""
        for run in some:
            self.outcomes.setdefault(run.name, Outcome(run)).run = run
            self._progress.total += 1
            if self._is_settled(run):
                self._progress.update()
            else:
                self._start(run)
        self._progress.refresh()

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

    def _fail(self, run: Run, error: str) -> None:
        outcome = self.outcomes[run.name]
        outcome.status, outcome.value, outcome.rounds, outcome.error = results.FAILED, math.nan, 0, error

    def finish(self, some: Sequence[Run]) -> None:
        """Waits until these runs are finished or have failed."""
        while not {run.name for run in some}.isdisjoint(run.name for run in self._waiting.values()):
            one, result = self._team.wait()
            run = self._waiting.pop(one)
            if result.status not in (0, 2) and self._attempts[one] < _ATTEMPTS:
                self._progress.write(f"{run.name}: {result.message} It is tried again.", file=sys.stderr)
                self._start(run)
                continue
            try:
                if result.status:
                    raise Failure(result.message or f"It ended with status {result.status}.")
                self._finish(run)
            except (Failure, UsageError) as error:
                self._fail(run, str(error))
            self._progress.update()

    def play(self, some: Sequence[Run]) -> None:
        """Plays runs to their ends."""
        self.submit(some)
        self.finish(some)

    def play_halving(self, some: Sequence[Run], factor: int, at_once: int) -> None:
        """Plays runs by asynchronous successive halving.

        What is played next depends on the results of all but the last `at_once` points begun, in the order in which
        they were begun, not on which happened to finish first: the same command plays the same runs.

        Args:
          some: The runs of all points.
          factor: One of so many points goes on.
          at_once: Runs that are played at the same time.
        """
        points: dict[str, list[Run]] = {}
        for run in some:
            points.setdefault(run.point, []).append(run)
        seeds = list(points.values())
        rungs = halving.rungs(some[0].rounds, len(seeds), factor)
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

    def score(self, some: Sequence[Run]) -> float:
        """Returns how good a point's seeds are."""
        return results.goodness([self.outcomes[run.name].value for run in some], smallest=self.smallest)

    def ranked(self) -> dict[str, list[results.Point]]:
        """Returns the points of each configuration, the best first."""
        return results.rank(list(self.outcomes.values()), smallest=self.smallest)

    def close(self) -> None:
        """Ends the progress bar."""
        self._progress.close()
