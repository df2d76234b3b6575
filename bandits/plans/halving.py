"""Asynchronous successive halving (ASHA): points that do badly are given up early.

Li et al., "A System for Massively Parallel Hyperparameter Tuning", 2020, Algorithm 2. Every point plays the rounds of
the lowest rung; the best 1/factor of those that have finished a rung go on to the next, without waiting for all others.
"""

import dataclasses
import math
from collections.abc import Mapping

Item = tuple[int, int]  # (point, rung)


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
    """What to play next.

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
        """Returns a point and the rung that it is to play; None if that depends on results to come.

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
