"""Progress of a recommendation: one bar over all stages, in planned seconds."""

import pathlib
import sys
import time
from collections.abc import Callable, Collection

import tqdm

from bandits.plans import watch
from bandits.plans.results import Outcome

_SECONDS = 5.0  # Between two times that the time spent is saved.


class Progress(watch.Watch):
    """A bar that goes on from sweep to sweep; it takes the place of each sweep's own."""

    def __init__(self, folder: pathlib.Path, save: Callable[[], None]):
        """Shows nothing yet.

        Args:
          folder: Folder of the advice.
          save: Saves how long it has taken so far.
        """
        self._root, self._save = folder, save
        self._next = 0.0
        self._bar = tqdm.tqdm(
            total=1,
            disable=None,
            dynamic_ncols=True,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]{postfix}",
        )
        self._before = self._length = 0.0
        self._rounds, self._played, self._now = 1, 0, 0
        self._folder = folder

    @property
    def wants_ticks(self) -> bool:
        """Whether there is anything to do while runs are played: time is saved."""
        return True

    def begin(self, words: str, done: float, length: float, total: float, rounds: int) -> None:
        """Begins a stage.

        Args:
          words: What it is.
          done: Seconds of the stages before, as they were planned.
          length: Of this one.
          total: Of all.
          rounds: Rounds of this stage.
        """
        if not self._bar.n and done:
            self._bar.initial = done
        self._before, self._length, self._rounds = done, length, max(rounds, 1)
        self._played = self._now = 0
        self._bar.total = max(total, done + length, 1.0)
        self._bar.set_description_str(words, refresh=False)
        self._draw()

    def sweep(self, where: str) -> None:
        """Begins a sweep of this stage, whose runs lie in a folder below the advice's."""
        self._folder = self._root / where
        self._played += self._now
        self._now = 0

    def show(self, outcomes: Collection[Outcome], *, last: bool = False) -> None:
        """Brings the bar up to date, and in due time saves how long it has taken."""
        del last
        self._now = sum(min(one.run.rounds, watch.last_round(self._folder / one.run.name)) for one in outcomes)
        self._draw()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SECONDS
            self._save()

    def _draw(self) -> None:
        share = min(1.0, (self._played + self._now) / self._rounds)
        self._bar.n = self._before + share * self._length
        self._bar.refresh()

    def tell(self, line: str) -> None:
        """Writes a line on stderr, above the bar."""
        self._bar.write(line, file=sys.stderr)

    def close(self) -> None:
        """Ends the bar."""
        self._bar.close()
