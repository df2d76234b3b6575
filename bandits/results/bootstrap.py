"""Intervals without a formula: over the seeds of several tasks, and over held-out clients."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from optimization.study.intervals import CONFIDENCE, Interval

if TYPE_CHECKING:
    import numpy as np

DRAWS = 2000
LEAST_CLIENTS = 20  # Percentiles of so many hold the mean in 93% of trials; of 5 in 83%, of 2 in 50%.


def interquartile_mean(scores: "np.ndarray") -> float:
    """Returns the mean of the middle half of all numbers; a quarter of them, rounded down, is left out at each end."""
    from scipy import stats

    return float(stats.trim_mean(scores, proportiontocut=0.25, axis=None))


def over_tasks(
    scores: Mapping[str, Mapping[str, Mapping[int, float]]],
    *,
    statistic: "Callable[[np.ndarray], float]" = interquartile_mean,
    draws: int = DRAWS,
    seed: int = 0,
) -> dict[str, Interval]:
    """Returns a statistic of each arm over several tasks, with a 95% interval by the stratified bootstrap.

    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021, section 4: seeds are
    drawn with replacement within each task; the ends are percentiles. It tells of other seeds, not of other tasks.

    Args:
      scores: By task, arm and seed: normalised scores (`landmarks.normalised`).
      statistic: Of float [seeds, tasks].
      draws: How many times they are drawn.
      seed: Of the draws.

    Returns:
      By arm that all tasks have; `size` is the number of its scores.

    Raises:
      ValueError: If tasks have not as many seeds of an arm, or a score is not finite.
    """
    import numpy as np

    found = {}
    for arm in [arm for arm in next(iter(scores.values()), {}) if all(arm in arms for arms in scores.values())]:
        columns = [list(arms[arm].values()) for arms in scores.values()]
        if len({len(column) for column in columns}) != 1:
            raise ValueError(
                f"{arm} has {', '.join(str(len(column)) for column in columns)} seeds: they must be as many."
            )
        matrix = np.array(columns, float).T
        if not np.isfinite(matrix).all():
            raise ValueError(f"{arm} has scores that are not finite.")
        indices = np.random.default_rng(seed).integers(len(matrix), size=(draws, *matrix.shape))
        found[arm] = stratified(matrix, statistic, indices)
    return found


def stratified(scores: "np.ndarray", statistic: "Callable[[np.ndarray], float]", indices: "np.ndarray") -> Interval:
    """Returns a statistic, and the percentiles of what it gives of given draws.

    Args:
      scores: float [seeds, tasks].
      statistic: Of such an array.
      indices: int [draws, seeds, tasks], which seed of its task stands at each place of a draw.
    """
    import numpy as np

    drawn = [statistic(np.take_along_axis(scores, one, axis=0)) for one in indices]
    return _percentiles(statistic(scores), drawn, scores.size)


def over_clients(
    rewards: "Sequence[float] | np.ndarray",
    weights: "Sequence[float] | np.ndarray | None" = None,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Interval:
    """Returns the mean over clients, with a 95% interval over which clients there are, from `LEAST_CLIENTS` on.

    Args:
      rewards: A client's mean reward, or the difference of two arms' on it.
      weights: What each counts, such as its examples; by default all the same.
      draws: How many times clients are drawn, with replacement.
      seed: Of the draws.

    Returns:
      `size` is the number of clients; the ends are not numbers, where these are too few for an interval.

    Raises:
      ValueError: If there are no clients.
    """
    import numpy as np

    if not len(rewards):
        raise ValueError("There are no clients.")
    values = np.asarray(rewards, float)
    sizes = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    mean = float(sizes @ values / sizes.sum())
    if len(values) < LEAST_CLIENTS:
        return Interval(mean, math.nan, math.nan, len(values))
    totals = np.zeros((draws, 2))
    generator = np.random.default_rng(seed)
    for row in totals:  # One by one, so that all draws never lie in memory together.
        drawn = sizes * np.bincount(generator.integers(len(values), size=len(values)), minlength=len(values))
        row[:] = drawn @ values, drawn.sum()
    return _percentiles(mean, totals[:, 0] / totals[:, 1], len(values))


def _percentiles(value: float, drawn: "Sequence[float] | np.ndarray", count: int) -> Interval:
    import numpy as np

    low, high = np.percentile(drawn, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return Interval(value, float(low), float(high), count)
