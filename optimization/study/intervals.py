"""The interval of a mean over seeds, wherever one is told or drawn."""

from collections.abc import Sequence
from typing import Any, NamedTuple

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean and its interval of confidence.

    Attributes:
      mean: The mean; not a number of nothing.
      low: Lower end of its interval; not a number where there is none.
      high: Upper end.
      size: How many values there are.
    """

    mean: float
    low: float
    high: float
    size: int

    def meets(self, other: "Interval") -> bool:
        """Returns whether the intervals could have a value in common; what has no interval could lie anywhere."""
        return not (self.high < other.low or other.high < self.low)


def half_width(deviation: Any, count: Any, confidence: float = CONFIDENCE) -> Any:
    """Returns half the width of Student's t interval of a mean; not a number of fewer than two values.

    Args:
      deviation: Standard deviation of the values, with n - 1; a number or an array.
      count: How many values there are, n; likewise.
      confidence: Of the interval.
    """
    import numpy as np
    from scipy import stats

    count = np.asarray(count, float)
    quantile = stats.t.ppf((1 + confidence) / 2, np.maximum(count - 1, 1))
    return np.where(count > 1, deviation * quantile / np.sqrt(np.maximum(count, 1)), np.nan)


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Returns the mean of values and Student's t interval: none of fewer than two values."""
    import numpy as np

    if not len(values):
        return Interval(np.nan, np.nan, np.nan, 0)
    mean, count = float(np.mean(values)), len(values)
    deviation = float(np.std(values, ddof=1)) if count > 1 else np.nan
    half = float(half_width(deviation, count, confidence))
    return Interval(mean, mean - half, mean + half, count)
