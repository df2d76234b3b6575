"""SLOPE: which parameter of an estimator, of little bias or of little variance (Su, Srinath and Krishnamurthy 2020).

"Adaptive estimator selection for off-policy evaluation", Algorithm 1: of candidates from the least to the most bias,
the last one whose interval, two standard errors to each side, still has a point in common with all before. Widths must
not grow along the path: one that is below a later one counts as wide as that, as in the authors' experiments.
"""

import math
from collections.abc import Sequence

import numpy as np

from bandits.evaluation import estimators, totals
from optimization.study import intervals

# Weights have a mean near 1, so that the same values serve all logs, and none is chosen by a look at one.
_GRID = (math.inf, 1000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
PATHS: dict[str, tuple[estimators.Estimator, ...]] = {
    estimators.ClippedIps.name: tuple(map(estimators.ClippedIps, _GRID)),
    estimators.SwitchDr.name: tuple(map(estimators.SwitchDr, (*_GRID, 0.0))),
    # A weight of w is half of what it was where lambda is w^2.
    estimators.ShrunkDr.name: tuple(map(estimators.ShrunkDr, (*(weight**2 for weight in _GRID), 0.0))),
}


def last_that_meets(candidates: Sequence[intervals.Interval]) -> int:
    """Returns the number of the last interval that has a point in common with all before it, all together.

    Args:
      candidates: From the least to the most bias, with intervals of 95%; what has none could lie anywhere.
    """
    means = np.nan_to_num([candidate.mean for candidate in candidates])
    halves = np.array([(candidate.high - candidate.low) / 2 for candidate in candidates])
    halves = np.where(np.isnan(halves), np.inf, halves)
    halves = np.maximum.accumulate(halves[::-1])[::-1]
    meets = np.maximum.accumulate(means - halves) <= np.minimum.accumulate(means + halves)
    return int(np.argmin(meets)) - 1 if not meets.all() else len(meets) - 1


def choose(sums: totals.Sums, layout: totals.Layout, path: Sequence[estimators.Estimator]) -> estimators.Estimator:
    """Returns the candidate chosen; its interval would take into account neither the choice nor the bias.

    Args:
      sums: Of a log's clients.
      layout: Of the sums; holds all candidates.
      path: Candidates from the least to the most bias, as those of `PATHS`.
    """
    return path[last_that_meets([totals.interval(sums, layout.ratio(candidate)) for candidate in path])]
