"""What a search is worth: the best of b points, expected before one knows which."""

import math
from collections.abc import Sequence

from bandits.results.significance import Better


def expected_best(values: Sequence[float], budget: int, *, better: Better = "up") -> float:
    """Returns the expected best value of `budget` of n points drawn without replacement.

    With v_(1) <= ... <= v_(n): sum over i of v_(i) C(i - 1, b - 1) / C(n, b), the unbiased estimator in Tang et al.,
    "Showing Your Work Doesn't Always Work", 2020. Strategies with more parameters have more points; at one budget all
    of them get as many draws.

    Args:
      values: A value a point; one that is not finite has diverged, and counts as the worst that is.
      budget: How many are drawn, b, of 1 to n.
      better: Whether more or less is better.

    Returns:
      The expectation; not a number, if no value is finite.

    Raises:
      ValueError: If the budget is not from 1 to n.
    """
    count, sign = len(values), 1 if better == "up" else -1
    if not 1 <= budget <= count:
        raise ValueError(f"A budget of {budget} must be 1 to the {count} points that there are.")
    finite = [sign * value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan
    ordered = sorted([*finite, *[min(finite)] * (count - len(finite))])
    draws = math.comb(count, budget)
    return sign * sum(value * (math.comb(below, budget - 1) / draws) for below, value in enumerate(ordered))
