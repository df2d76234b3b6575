"""Estimates have two significant digits of their interval's width."""

import math

import pytest

from bandits.advice import amounts
from optimization.study.intervals import Interval


@pytest.mark.parametrize(
    ("low", "high", "decimals"),
    [(0.06, 0.17, 2), (0.341, 0.378, 3), (-0.0005, 0.0011, 4), (10.0, 31.0, 0), (1.0, 901.0, 0), (0.0, 1.0, 1)],
)
def test_the_width_has_two_significant_digits(low, high, decimals):
    assert amounts.decimals(low, high) == decimals


@pytest.mark.parametrize("high", [0.5, math.nan, math.inf])
def test_without_a_width_there_are_three_significant_digits(high):
    assert amounts.estimate(Interval(0.123456, 0.5, high, 2)) == "0.123"


def test_a_mean_has_the_decimals_of_its_interval():
    assert amounts.estimate(Interval(0.35949, 0.341, 0.378, 8)) == "0.359 (95% CI 0.341 to 0.378)"


def test_no_number_is_minus_zero():
    assert amounts.number(-0.0004, 3, "+") == "+0.000"
