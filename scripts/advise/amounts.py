"""Differences and numbers in the sentences of an advice."""

import math

from scripts.verdicts import words
from scripts.verdicts.comparison import Comparison


def sure(one: Comparison) -> str:
    """Returns interval and seeds of a difference; and Holm's p, where it does not tell what the interval would."""
    is_doubted = one.is_judged and not one.is_told_apart and one.low * one.high > 0
    return f"{over_seeds(one)}; p {words.p_value(one.adjusted_p)} by Holm" if is_doubted else over_seeds(one)


def over_seeds(one: Comparison) -> str:
    """Returns interval and seeds of a difference."""
    return f"{ends(one)}, {words.seeds(one.pairs)}"


def ends(one: Comparison) -> str:
    """Returns the interval of a difference."""
    return f"95% interval {signed(one.low)} to {signed(one.high)}" if math.isfinite(one.low) else "no interval"


def amount(one: Comparison) -> str:
    """Returns a difference as so much more, or less."""
    return f"{difference(one.difference)} {'more' if one.difference >= 0 else 'less'}"


def signed(value: float) -> str:
    """Returns a number with its sign."""
    if 0 < abs(value) < 0.0005:
        return f"{value:+.1g}"
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+.4g}"


def difference(value: float) -> str:
    """Returns a difference without its sign: a small one as more than 0.000."""
    return number(abs(value))


def number(value: float) -> str:
    """Returns a number: a small one as more than 0.000."""
    if 0 < abs(value) < 0.0005:
        return f"{value:.1g}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def capital(text: str) -> str:
    """Returns a text with a first capital letter, the others as they are."""
    return text[:1].upper() + text[1:]
