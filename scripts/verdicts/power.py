"""What so many seeds could find: power of the t tests by which arms are compared."""

import math

POWER = 0.8
MOST_SEEDS = 10_000


def detectable(
    deviation: float,
    seeds: int,
    alpha: float,
    *,
    others: int | None = None,
    sample: tuple[float, int] | None = None,
) -> float:
    """Returns the smallest true difference that a two-sided t test finds with a probability of `POWER`.

    Args:
      deviation: Standard deviation of the paired differences; of unpaired arms, the root of the mean of both variances.
      seeds: Pairs; of unpaired arms, seeds of the one.
      alpha: Level of the test.
      others: Of unpaired arms, seeds of the other.
      sample: Of an arm against a mean over a sample of clients, that mean's standard error and how many they are.

    Returns:
      The difference, in the units of the deviation; not a number where there is no test.
    """
    if not _is_tested(seeds, others) or not _is_spread(deviation, sample):
        return math.nan
    from statsmodels.stats import power

    if sample:
        from scipy import optimize, stats

        error, freedom = welch(deviation, seeds, sample)
        most = 2 * stats.t.isf(alpha / 2, freedom) + 2  # Found far more often, of however few seeds.
        size = optimize.brentq(lambda one: power.ttest_power(one, 1, alpha, df=freedom) - POWER, 0, most)
        return float(size) * error
    if others is None:
        size = power.TTestPower().solve_power(None, seeds, alpha, POWER)
    else:
        size = power.TTestIndPower().solve_power(None, seeds, alpha, POWER, ratio=others / seeds)
    return float(size) * deviation


def seeds_needed(
    difference: float,
    deviation: float,
    alpha: float,
    *,
    is_paired: bool = True,
    sample: tuple[float, int] | None = None,
) -> float:
    """Returns how many seeds of each arm would find a true difference with a probability of `POWER`.

    Args:
      difference: The difference.
      deviation: As in `detectable`.
      alpha: Level of the test.
      is_paired: Whether it is paired.
      sample: As in `detectable`: seeds make its error no smaller.

    Returns:
      A whole number from 2 on; infinite above `MOST_SEEDS`; not a number where there is no spread, or it is unknown.
    """
    if not _is_spread(deviation, sample) or not math.isfinite(difference):
        return math.nan
    from statsmodels.stats import power

    test = power.TTestPower() if is_paired else power.TTestIndPower()

    def finds(seeds: int) -> bool:
        if sample:
            error, freedom = welch(deviation, seeds, sample)
            return float(power.ttest_power(abs(difference) / error, 1, alpha, df=freedom)) >= POWER
        return float(test.power(abs(difference) / deviation, seeds, alpha)) >= POWER

    low, high = 1, 2  # The last that is too few, and a candidate.
    while not finds(high):
        if high >= MOST_SEEDS:
            return math.inf
        low, high = high, min(2 * high, MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def welch(deviation: float, seeds: int, sample: tuple[float, int]) -> tuple[float, float]:
    """Returns standard error and degrees of freedom, by Welch, of a mean over seeds minus that of a sample of clients.

    Args:
      deviation: Standard deviation of the seeds.
      seeds: How many there are, 2 at least.
      sample: Standard error of the other mean, and its clients.
    """
    own, (error, clients) = deviation**2 / seeds, sample
    variance = own + error**2
    return math.sqrt(variance), variance**2 / (own**2 / (seeds - 1) + error**4 / (clients - 1))


def _is_spread(deviation: float, sample: tuple[float, int] | None) -> bool:
    return deviation > 0 or (deviation == 0 and sample is not None)


def _is_tested(seeds: int, others: int | None) -> bool:
    return seeds > 1 and (others is None or others > 1)
