"""Tests of bandits.results.words."""

import math

import pytest

from bandits.results import comparison, words
from optimization.study.intervals import Interval

GREEDY = dict(enumerate([0.50, 0.52, 0.48, 0.55, 0.51, 0.49]))
SOFTMAX = dict(enumerate([0.58, 0.57, 0.57, 0.61, 0.60, 0.52]))


def _one(first, second=GREEDY, **settings):
    return comparison.compare_values({"softmax": first, "greedy": second}, "greedy", **settings)["softmax"]


def test_no_p_is_0():
    assert words.p_value(0.0) == "< 0.0001"
    assert words.p_value(float("nan")) == "-"


def test_the_test_is_named():
    several = comparison.compare_values(
        {"softmax": SOFTMAX, "greedy": GREEDY, "falcon": GREEDY}, "greedy", unpaired=["falcon"]
    )
    assert words.family(several.values()) == (
        "Significant: p below 5% by a paired t test and Welch's for configurations whose runs no seed determines, "
        "adjusted by Holm for 2 configurations."
    )
    assert words.family([_one({0: 0.6}, {0: 0.5})]) == ""


@pytest.mark.parametrize("high", [0.5, math.nan, math.inf])
def test_an_estimate_without_a_width_has_three_significant_digits(high):
    told = words.estimate(Interval(0.123456, 0.5, high, 2))
    assert told.startswith("0.123")
    assert "95% CI" not in told


def test_an_estimate_has_the_decimals_of_its_interval_and_is_never_minus_zero():
    assert words.estimate(Interval(0.35949, 0.341, 0.378, 8)) == "0.359 (95% CI 0.341 to 0.378)"
    assert words.estimate(Interval(-0.0004, -0.1, 0.1, 8), signed=True) == "+0.00 (95% CI -0.10 to +0.10)"
