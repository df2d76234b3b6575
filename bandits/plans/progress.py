"""What a user sees while runs are executed: rounds done, the best point so far, and a page kept up to date."""

import math
import os
import pathlib
import sys
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import tqdm

from bandits.plans import outcomes
from bandits.plans.outcomes import Outcome

_SHARE = 20  # Nor do they take more than one of so many seconds.
_KEY, _MOST_LETTERS = 13, 60
_TAIL = 1 << 14  # Bytes that surely hold the last row of a `metrics.csv`.


class State(NamedTuple):
    """How far runs are.

    Attributes:
      done: Rounds that are done, of all runs.
      total: Rounds that all runs have; a run that failed has done them.
      words: How many runs are finished.
      best: Value and name of the best point all of whose seeds are finished; empty without one.
    """

    done: int
    total: int
    words: str
    best: str


def state(some: Collection[Outcome], folder: pathlib.Path, *, smallest: bool) -> State:
    """Returns how far runs are.

    Args:
      some: What has become of them.
      folder: Folder of all runs.
      smallest: Whether less of the metric is better.
    """
    going = [one for one in some if one.status != outcomes.FAILED and one.rounds < one.run.rounds]
    total = sum(one.run.rounds for one in some)
    left = sum(max(0, one.run.rounds - last_round(folder / one.run.name)) for one in going)
    ranked = outcomes.rank(list(some), smallest=smallest, apart=False).get("", [])
    best = ""
    if ranked and not math.isnan(ranked[0].mean):
        name = ranked[0].outcomes[0].run.point[:-_KEY]
        best = f"best {ranked[0].mean:.4f}: {name[:_MOST_LETTERS]}"
    return State(total - left, total, f"{len(some) - len(going)}/{len(some)} runs", best)


def last_round(folder: pathlib.Path) -> int:
    """Returns the last round of which a run's `metrics.csv` has a row; 0 if there is none."""
    try:
        with open(folder / "metrics.csv", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            *lines, _ = file.read().split(b"\n")
        return int(lines[-1].partition(b",")[0])
    except (OSError, ValueError, IndexError):
        return 0


class Progress:
    """A bar over the rounds of all runs, and a page that is written again when there is something new."""

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        smallest: bool = False,
        write_page: Callable[[], object] | None = None,
        seconds: float,
    ):
        """Shows nothing yet.

        Args:
          folder: Folder of all runs.
          smallest: Whether less of the metric is better.
          write_page: Writes the page, or saves the time. What it raises is printed once, and ends nothing.
          seconds: Least time between two pages, but for the last.
        """
        self._folder, self._smallest = folder, smallest
        self._write_page, self._seconds = write_page, seconds
        self._bar = tqdm.tqdm(unit="round", total=0, disable=None, dynamic_ncols=True)
        self._begun = False
        self._page_of: tuple[int, str] | None = None
        self._next_page = 0.0
        self._has_failed = False

    @property
    def wants_ticks(self) -> bool:
        """Whether there is anything to show while runs are executed."""
        return not self._bar.disable or self._write_page is not None

    def tell(self, line: str) -> None:
        """Writes a line on stderr, above the bar."""
        self._bar.write(line, file=sys.stderr)

    def show(self, some: Collection[Outcome], *, last: bool = False) -> None:
        """Brings the bar, and in due time the page, up to date; `last` says that all runs have ended."""
        if not self.wants_ticks:
            return
        now = state(some, self._folder, smallest=self._smallest)
        if not self._begun:  # What was done before says nothing of this command's speed.
            self._bar.initial, self._begun = now.done, True
        self._bar.total, self._bar.n = now.total, now.done
        self._bar.set_description_str(now.words, refresh=False)
        self._bar.set_postfix_str(now.best, refresh=False)
        self._bar.refresh()
        self._bring_page(now, last=last)

    def _bring_page(self, now: State, *, last: bool) -> None:
        if self._write_page is None or not now.done or (now.done, now.words) == self._page_of:
            return
        start = time.monotonic()
        if start < self._next_page and not last:
            return
        self._page_of = (now.done, now.words)
        try:
            self._write_page()
        except Exception as error:  # A page is no reason to end a grid, whatever it stumbles over.
            if not self._has_failed:
                self.tell(f"Warning: --report could not be written: {error}")
            self._has_failed = True
        end = time.monotonic()
        self._next_page = end + max(self._seconds, _SHARE * (end - start))

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()
