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
    """Returns the minimum detectable difference: the smallest true one that a two-sided test finds with `POWER`.

    Args:
      deviation: Standard deviation of the paired differences; of unpaired configurations, of the one.
      seeds: Pairs; of unpaired configurations, seeds of the one.
      alpha: Level of the test.
      other: Of Welch's test, the standard error of the mean that is compared with, and its number of observations.

    Returns:
      The difference, in the units of the deviation; not a number where there is no test.
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
    """Returns the seeds required of each configuration to find a true difference with a probability of `POWER`.

    Args:
      difference: The difference.
      deviation: As in `detectable`.
      alpha: Level of the test.
      others: Of unpaired configurations, the standard deviation of the other one.
      sample: Of a configuration against a mean over a sample of clients, that mean's standard error and how many they
        are: seeds make its error no smaller.

    Returns:
      A whole number from 2 on; infinite above `MOST_SEEDS`; not a number where there is no spread, or it is unknown.
    """
    if not math.isfinite(difference) or not _is_tested(deviation, 2, (others, 2) if others is not None else sample):
        return math.nan

    def finds(seeds: int) -> bool:
        other = sample if others is None else (others / math.sqrt(seeds), seeds)
        return _Test(deviation, seeds, alpha, other).power(difference) >= POWER

    low, high = 1, 2  # The last that is too few, and a candidate.
    while not finds(high):
        if high >= MOST_SEEDS:
            return math.inf
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def welch(deviation: float, seeds: int, other: tuple[float, int]) -> tuple[float, float]:
    """Returns standard error and degrees of freedom, by Welch, of a mean over seeds minus another mean.

    Args:
      deviation: Standard deviation of the seeds.
      seeds: How many there are, 2 at least.
      other: Standard error of the other mean, and its observations.
    """
    own, (error, observations) = deviation**2 / seeds, other
    variance = own + error**2
    return math.sqrt(variance), variance**2 / (own**2 / (seeds - 1) + error**4 / (observations - 1))


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
        own, weights = _variances(self.error, seeds)
        theirs, others = _variances(*other)
        own, theirs = own[:, None], theirs[None]
        freedom = (own + theirs) ** 2 / (own**2 / (seeds - 1) + theirs**2 / (other[1] - 1))
        self.error = math.hypot(self.error, other[0])
        self._weights = np.outer(weights, others)
        self._critical = stats.t.isf(alpha / 2, freedom) * np.sqrt(own + theirs) / self.error

    def power(self, difference: float) -> float:
        """Returns the probability that the test is significant at a true difference."""
        from scipy import special, stats

        shift = abs(difference) / self.error
        if self._is_welch:
            ends = special.ndtr(shift - self._critical) + special.ndtr(-shift - self._critical)
            return float((self._weights * ends).sum())
        # Some versions of SciPy give NaN where the probability of the wrong side is below 1e-16.
        wrong = stats.nct.cdf(-self._critical, self._freedom, shift)
        return float(stats.nct.sf(self._critical, self._freedom, shift) + (0.0 if math.isnan(wrong) else wrong))


def _variances(error: float, observations: int) -> "tuple[np.ndarray, np.ndarray]":
    """Returns estimates of a squared standard error that the chi-squared distribution gives, and their weights."""
    import numpy as np
    from scipy import stats

    freedom = observations - 1
    chi = stats.chi(freedom)
    low, high = math.log(chi.ppf(_TAIL)), math.log(chi.isf(_TAIL))  # Significance comes of small estimates.
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
