import math

import pytest
from scipy import stats

from optimization.study import intervals
from optimization.study.intervals import Interval


def test_the_interval_of_a_mean_equals_scipy():
    values = [0.2, 0.5, 0.6, 0.3]
    found = intervals.of_mean(values)
    assert found[:3] == pytest.approx((0.4, *stats.t.interval(0.95, 3, loc=0.4, scale=stats.sem(values))), rel=1e-12)
    assert found.size == 4


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (0.5, 0.4, 0.6, "0.50 (0.40 to 0.60)"),
        (2.0, 1.7516, 2.2484, "2.00 (1.75 to 2.25)"),  # A width of 0.50, rounded to two digits.
        (1234.5, 1100.2, 1351.0, "1230 (1100 to 1350)"),
        (0.000123456, 0.000121, 0.000126, "0.0001235 (0.0001210 to 0.0001260)"),
        (0.5, math.nan, math.nan, "0.5"),
        (math.inf, math.nan, math.nan, "infinite"),
        (0.25, 0.25, 0.25, "0.25 (the same in every seed)"),
    ],
)
def test_an_interval_has_two_digits_of_its_width_and_the_mean_as_many_decimals(mean, low, high, text):
    assert Interval(mean, low, high, 3).text() == text


def test_a_signed_interval_keeps_the_side_of_an_end_that_rounds_to_zero():
    assert Interval(0.2, 0.004, 0.4, 3).text(signed=True) == "+0.20 (+0.00 to +0.40)"
    assert Interval(0.2, -0.004, 0.4, 3).text(signed=True) == "+0.20 (-0.00 to +0.40)"
    assert Interval(1e-17, -3e-17, 5e-17, 8).text(signed=True) == "0 (no difference)"  # Rounding errors.
