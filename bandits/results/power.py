"""Power of the t tests that compare configurations: minimum detectable differences and seeds required."""

import math

POWER = 0.8
MOST_SEEDS = 10_000


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

    Its power is that of the noncentral t distribution, for Welch's test with the degrees of freedom of the true
    variances.

    Attributes:
      error: The true standard error of the difference.
    """

    def __init__(self, deviation: float, seeds: int, alpha: float, other: tuple[float, int] | None):
        from scipy import stats

        self.error, self._freedom = welch(deviation, seeds, other or (0.0, 2))
        self._critical = stats.t.isf(alpha / 2, self._freedom)

    def power(self, difference: float) -> float:
        """Probability that the test is significant at a true difference."""
        from scipy import stats

        shift = abs(difference) / self.error
        # Some versions of SciPy return NaN if the probability of the wrong side is below 1e-16.
        wrong = stats.nct.cdf(-self._critical, self._freedom, shift)
        return float(stats.nct.sf(self._critical, self._freedom, shift) + (0.0 if math.isnan(wrong) else wrong))


def _is_tested(deviation: float, seeds: int, other: tuple[float, int] | None) -> bool:
    if seeds < 2 or not deviation >= 0:
        return False
    if other is None:
        return deviation > 0
    return other[1] > 1 and deviation + other[0] > 0
