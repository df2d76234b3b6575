"""Power of the t tests that compare configurations: minimum detectable differences and seeds required.

The power of a one-sample test is that of the noncentral t distribution. Welch's test has no such formula: its power is
integrated over both estimated variances, which are chi-squared.
"""

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

POWER = 0.8
MOST_SEEDS = 10_000
_NODES = 64  # Of the quadrature, for each variance.
_TAIL = 1e-9  # Probability that the quadrature leaves out at each end.


def detectable(deviation: float, seeds: int, alpha: float, *, other: tuple[float, int] | None = None) -> float:
    """Minimum detectable difference: the smallest true difference that a two-sided test detects with power `POWER`.

    Args:
      deviation: Standard deviation of the paired differences; for unpaired configurations, of the first.
      seeds: Number of pairs; for unpaired configurations, seeds of the first.
      alpha: Level of the test.
      other: For Welch's test, the standard error of the reference's mean, and its number of observations.

    Returns:
      The difference, in the units of the deviation; NaN without a test.
    """
    if not _is_tested(deviation, seeds, other):
        return math.nan
    from scipy import optimize

    test = _Test(deviation, seeds, alpha, other)
    most = 2 * test.error
    while test.power(most) < POWER:
        most *= 2
    return float(optimize.brentq(lambda difference: test.power(difference) - POWER, 0, most, rtol=1e-10))


def seeds_needed(
    difference: float,
    deviation: float,
    alpha: float,
    *,
    others: float | None = None,
    sample: tuple[float, int] | None = None,
) -> float:
    """Seeds required of each configuration to detect a true difference with power `POWER`.

    Args:
      difference: The difference.
      deviation: As in `detectable`.
      alpha: Level of the test.
      others: For unpaired configurations, the standard deviation of the other one.
      sample: For a reference that is a mean over a sample of clients, its standard error and number of clients; more
        seeds do not reduce that error.

    Returns:
      A whole number from 2 on; infinite above `MOST_SEEDS`; NaN if the deviation is zero or unknown.
    """
    if not math.isfinite(difference) or not _is_tested(deviation, 2, (others, 2) if others is not None else sample):
        return math.nan

    def detects(seeds: int) -> bool:
        other = sample if others is None else (others / math.sqrt(seeds), seeds)
        return _Test(deviation, seeds, alpha, other).power(difference) >= POWER

    low, high = 1, 2  # Too few seeds, and a candidate.
    while not detects(high):
        if high >= MOST_SEEDS:
            return math.inf
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detects(middle) else (middle, high)
    return high


def welch(deviation: float, seeds: int, other: tuple[float, int]) -> tuple[float, float]:
    """Standard error and degrees of freedom, by Welch, of a mean over seeds minus another mean.

    Args:
      deviation: Standard deviation over seeds.
      seeds: Number of seeds, at least 2.
      other: Standard error of the other mean, and its number of observations.
    """
    of_seeds, (error, observations) = deviation**2 / seeds, other
    variance = of_seeds + error**2
    return math.sqrt(variance), variance**2 / (of_seeds**2 / (seeds - 1) + error**4 / (observations - 1))


class _Test:
    """A two-sided t test of one mean, or Welch's of two.

    Attributes:
      error: The true standard error of the difference.
    """

    def __init__(self, deviation: float, seeds: int, alpha: float, other: tuple[float, int] | None):
        import numpy as np
        from scipy import stats

        self.error = deviation / math.sqrt(seeds)
        self._freedom, self._is_welch = seeds - 1, other is not None
        if other is None:
            self._critical = stats.t.isf(alpha / 2, self._freedom)
            return
        first, first_weights = _variances(self.error, seeds)
        second, second_weights = _variances(*other)
        first, second = first[:, None], second[None]
        freedom = (first + second) ** 2 / (first**2 / (seeds - 1) + second**2 / (other[1] - 1))
        self.error = math.hypot(self.error, other[0])
        self._weights = np.outer(first_weights, second_weights)
        self._critical = stats.t.isf(alpha / 2, freedom) * np.sqrt(first + second) / self.error

    def power(self, difference: float) -> float:
        """Probability that the test is significant at a true difference."""
        from scipy import special, stats

        shift = abs(difference) / self.error
        if self._is_welch:
            rejections = special.ndtr(shift - self._critical) + special.ndtr(-shift - self._critical)
            return float((self._weights * rejections).sum())
        # Some versions of SciPy return NaN if the probability of the wrong side is below 1e-16.
        wrong = stats.nct.cdf(-self._critical, self._freedom, shift)
        return float(stats.nct.sf(self._critical, self._freedom, shift) + (0.0 if math.isnan(wrong) else wrong))


def _variances(error: float, observations: int) -> "tuple[np.ndarray, np.ndarray]":
    """Quadrature nodes of an estimated squared standard error (chi-squared), and their weights."""
    import numpy as np
    from scipy import stats

    freedom = observations - 1
    chi = stats.chi(freedom)
    low, high = math.log(chi.ppf(_TAIL)), math.log(chi.isf(_TAIL))  # Small estimates decide.
    places, weights = np.polynomial.legendre.leggauss(_NODES)
    roots = np.exp(low + (high - low) * (places + 1) / 2)
    weights = weights * roots * chi.pdf(roots)
    return error**2 * roots**2 / freedom, weights / weights.sum()


def _is_tested(deviation: float, seeds: int, other: tuple[float, int] | None) -> bool:
    if seeds < 2 or not deviation >= 0:
        return False
    if other is None:
        return deviation > 0
    return other[1] > 1 and deviation + other[0] > 0
