"""What so many seeds could find: power of the t tests by which arms are compared."""

import math

POWER = 0.8
MOST_SEEDS = 10_000


def detectable(deviation: float, seeds: int, alpha: float, *, others: int | None = None) -> float:
    """Returns the smallest true difference that a two-sided t test finds with a probability of `POWER`.

    Args:
      deviation: Standard deviation of the paired differences; of unpaired arms, the root of the mean of both variances.
      seeds: Pairs; of unpaired arms, seeds of the one.
      alpha: Level of the test.
      others: Of unpaired arms, seeds of the other.

    Returns:
      The difference, in the units of the deviation; not a number where there is no test.
    """
    if not _is_tested(seeds, others) or not deviation > 0:
        return math.nan
    from statsmodels.stats import power

    if others is None:
        size = power.TTestPower().solve_power(None, seeds, alpha, POWER)
    else:
        size = power.TTestIndPower().solve_power(None, seeds, alpha, POWER, ratio=others / seeds)
    return float(size) * deviation


def seeds_needed(difference: float, deviation: float, alpha: float, *, is_paired: bool = True) -> float:
    """Returns how many seeds of each arm would find a true difference with a probability of `POWER`.

    Args:
      difference: The difference.
      deviation: As in `detectable`.
      alpha: Level of the test.
      is_paired: Whether it is paired.

    Returns:
      A whole number from 2 on; infinite above `MOST_SEEDS`; not a number where the deviation is 0 or unknown.
    """
    if not deviation > 0 or not math.isfinite(difference):
        return math.nan
    from statsmodels.stats import power

    test = power.TTestPower() if is_paired else power.TTestIndPower()

    def finds(seeds: int) -> bool:
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


def _is_tested(seeds: int, others: int | None) -> bool:
    return seeds > 1 and (others is None or others > 1)
