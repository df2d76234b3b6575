"""Progress of runs: a bar with finished rounds and the best point so far, and a page kept up to date."""

import math
import pathlib
import sys
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import tqdm

from bandits.plans import executors, outcomes
from bandits.plans.outcomes import Outcome

_SHARE = 20  # Writing pages takes at most one of this many seconds.
_KEY, _MAX_LETTERS = 13, 60


class State(NamedTuple):
    """Progress of several runs.

    Attributes:
      done: Finished rounds of all runs.
      total: Rounds of all runs; those of a failed run count as finished.
      words: Number of finished runs, as text.
      best: Value and name of the best point with all seeds finished; empty if there is none.
    """

    done: int
    total: int
    words: str
    best: str


def state(runs: Collection[Outcome], folder: pathlib.Path, *, smallest: bool) -> State:
    """Progress of runs.

    Args:
      runs: Their outcomes so far.
      folder: Folder of all runs.
      smallest: Whether a smaller metric is better.
    """
    unfinished = [each for each in runs if each.status != outcomes.FAILED and each.rounds < each.run.rounds]
    total = sum(each.run.rounds for each in runs)
    left = sum(max(0, each.run.rounds - executors.last_round(folder / each.run.name)) for each in unfinished)
    ranked = outcomes.rank(list(runs), smallest=smallest, apart=False).get("", [])
    best = ""
    if ranked and not math.isnan(ranked[0].mean):
        name = ranked[0].outcomes[0].run.point[:-_KEY]
        best = f"best {ranked[0].mean:.4f}: {name[:_MAX_LETTERS]}"
    return State(total - left, total, f"{len(runs) - len(unfinished)}/{len(runs)} runs", best)


class Progress:
    """A bar over the rounds of all runs, and a page that is updated when rounds finish."""

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        smallest: bool = False,
        write_page: Callable[[], object] | None = None,
        seconds: float,
    ):
        """Initializes the bar.

        Args:
          folder: Folder of all runs.
          smallest: Whether a smaller metric is better.
          write_page: Writes the page, or saves the time. Its first error is printed, and none stops the runs.
          seconds: Minimum time between two pages, except for the last.
        """
        self._folder, self._smallest = folder, smallest
        self._write_page, self._seconds = write_page, seconds
        self._bar = tqdm.tqdm(unit="round", total=0, disable=None, dynamic_ncols=True)
        self._begun = False
        self._page_of: tuple[int, str] | None = None
        self._next_page = 0.0
        self._has_failed = False

    def write(self, line: str) -> None:
        """Writes a line on stderr, above the bar."""
        self._bar.write(line, file=sys.stderr)

    def show(self, runs: Collection[Outcome], *, last: bool = False) -> None:
        """Updates the bar and, after its minimum time, the page; `last` is for the end of all runs."""
        if self._bar.disable and self._write_page is None:
            return
        now = state(runs, self._folder, smallest=self._smallest)
        if not self._begun:  # Rounds of earlier commands do not count for this one's speed.
            self._bar.initial, self._begun = now.done, True
        self._bar.total, self._bar.n = now.total, now.done
        self._bar.set_description_str(now.words, refresh=False)
        self._bar.set_postfix_str(now.best, refresh=False)
        self._bar.refresh()
        self._update_page(now, last=last)

    def _update_page(self, now: State, *, last: bool) -> None:
        if self._write_page is None or not now.done or (now.done, now.words) == self._page_of:
            return
        start = time.monotonic()
        if start < self._next_page and not last:
            return
        self._page_of = (now.done, now.words)
        try:
            self._write_page()
        except Exception as error:  # A failing page must not stop the runs.
            if not self._has_failed:
                self.write(f"Warning: --report could not be written: {error}")
            self._has_failed = True
        end = time.monotonic()
        self._next_page = end + max(self._seconds, _SHARE * (end - start))

    def close(self) -> None:
        """Closes the bar."""
        self._bar.close()
