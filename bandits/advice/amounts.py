"""Estimates as text: a mean and its interval, rounded to two significant digits of the interval's width."""

import math

from bandits.results import words
from bandits.results.comparison import Comparison
from optimization.study.intervals import Interval

_MOST_DECIMALS = 6


def number(value: float, decimals: int | None = None, sign: str = "") -> str:
    """Returns a number with so many decimals; without them, with three significant digits."""
    if decimals is None:
        return f"{value:{sign}.3g}"
    return f"{round(value, decimals) + 0.0:{sign}.{decimals}f}"  # No -0.00.


def decimals(low: float, high: float) -> int | None:
    """Returns the decimals that give an interval's width two significant digits; None where there is no width."""
    width = high - low
    if not (math.isfinite(width) and width > 0):
        return None
    return min(max(1 - math.floor(math.log10(width)), 0), _MOST_DECIMALS)


def estimate(one: Interval, sign: str = "") -> str:
    """Returns a mean and its interval, such as `0.359 (95% CI 0.341 to 0.378)`."""
    digits = decimals(one.low, one.high)
    ends = (
        f" (95% CI {number(one.low, digits, sign)} to {number(one.high, digits, sign)})" if digits is not None else ""
    )
    return f"{number(one.mean, digits, sign)}{ends}"


def effect(one: Comparison) -> str:
    """Returns a difference, such as `+0.136 (95% CI +0.119 to +0.153, 8 seeds)`."""
    digits = decimals(one.low, one.high)
    interval = f"95% CI {number(one.low, digits, '+')} to {number(one.high, digits, '+')}, "
    return f"{number(one.difference, digits, '+')} ({interval * (digits is not None)}{words.seeds(one.pairs)})"


def capital(text: str) -> str:
    """Returns a text with a first capital letter, the others as they are."""
    return text[:1].upper() + text[1:]


def count(size: int, what: str) -> str:
    """Returns a number of things, such as `1 round`."""
    return f"{size:,} {what}{'s' * (size != 1)}"


def not_judged(one: Comparison) -> str:
    """Returns why there is no test."""
    return "one seed gives no interval and no test" if one.pairs < 2 else "a run that is compared diverged"
