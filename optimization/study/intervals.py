"""Confidence intervals: their class and formatting, and the interval of a mean over seeds."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

CONFIDENCE = 0.95
UNBOUNDED = -math.inf, math.inf
_ROUNDING = 1e-9  # Smaller differences are rounding errors.


class Interval(NamedTuple):
    """A mean and its confidence interval.

    Attributes:
      mean: The mean; NaN if there are no values.
      low: Lower end of the interval; NaN if there is no interval.
      high: Upper end of the interval; NaN if there is no interval.
      size: Number of values.
    """

    mean: float
    low: float
    high: float
    size: int

    def within(self, low: float, high: float) -> "Interval":
        """Clips the interval to bounds on the true mean, which does not change its coverage.

        If the estimate is outside the bounds, which can happen with importance weighting, the interval is not clipped.
        """
        if not low <= self.mean <= high or math.isnan(self.low):
            return self
        return self._replace(low=max(self.low, low), high=min(self.high, high))

    def scaled(self, factor: float, offset: float = 0.0) -> "Interval":
        """Multiplies the interval by a positive factor, and adds an offset."""
        mean, low, high = (offset + factor * end for end in self[:3])
        return Interval(mean, low, high, self.size)

    def number(self, value: float, *, signed: bool = False) -> str:
        """Formats a number to the decimals that show the width to two digits; without a width, to three digits."""
        sign, digits = "+" if signed else "", decimals(self)
        if digits is None:
            return f"{value:{sign}.3g}"
        rounded = round(value, digits) + (-0.0 if signed else 0.0)  # A difference that rounds to zero keeps its sign.
        return f"{rounded:{sign}.{max(digits, 0)}f}"

    def mean_text(self, *, signed: bool = False) -> str:
        """The mean as text, with the digits that `text` shows."""
        if not math.isfinite(self.mean):
            return "-" if math.isnan(self.mean) else "infinite"
        mean = self.number(self.mean, signed=signed)
        return mean if float(mean) else self.number(0.0, signed=signed)  # Avoids -0.00.

    def text(self, *, signed: bool = False, label: str = "") -> str:
        """Mean and interval as text, such as `0.359 (0.341 to 0.378)`; see `number`.

        Args:
          signed: Whether positive numbers have a plus sign, as in differences.
          label: Text in front of the interval, such as `95% CI `.
        """
        if signed and max(abs(self.low), abs(self.high)) < _ROUNDING:
            return "0 (no difference)"
        mean = self.mean_text(signed=signed)
        if decimals(self) is None:
            return f"{mean} (the same in every seed)" if self.low == self.high else mean
        low, high = (self.number(end, signed=signed) for end in (self.low, self.high))
        return f"{mean} ({label}{low} to {high})"


def decimals(interval: Interval) -> int | None:
    """Decimals that show the width to two significant digits (-1 for tens); None without a finite width above 0."""
    width, rounding = interval.high - interval.low, 1e-12 * max(abs(interval.low), abs(interval.high))
    return 1 - math.floor(math.log10(width)) if math.isfinite(width) and width > rounding else None


def half_width(deviation: Any, count: Any, confidence: float = CONFIDENCE) -> Any:
    """Half the width of Student's t interval for a mean; NaN for fewer than two values.

    Args:
      deviation: Standard deviation of the values, with n - 1 degrees of freedom; a number or an array.
      count: Number of values, n; a number or an array.
      confidence: Confidence level of the interval.
    """
    import numpy as np
    from scipy import stats

    count = np.asarray(count, float)
    quantile = stats.t.ppf((1 + confidence) / 2, np.maximum(count - 1, 1))
    return np.where(count > 1, deviation * quantile / np.sqrt(np.maximum(count, 1)), np.nan)


def of_mean(values: Sequence[float]) -> Interval:
    """Mean of the values, with Student's t interval if there are at least two."""
    import numpy as np

    if not len(values):
        return Interval(np.nan, np.nan, np.nan, 0)
    mean, count = float(np.mean(values)), len(values)
    deviation = float(np.std(values, ddof=1)) if count > 1 else np.nan
    half = float(half_width(deviation, count))
    return Interval(mean, mean - half, mean + half, count)
