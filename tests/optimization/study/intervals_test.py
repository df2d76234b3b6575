"""Tests of optimization.study.intervals."""

import math

import numpy as np
import pytest
from scipy import stats

from optimization.study import intervals
from optimization.study.intervals import Interval


def test_the_interval_of_a_mean_equals_scipy():
    values = [0.2, 0.5, 0.6, 0.3]
    found = intervals.of_mean(values)
    assert found[:3] == pytest.approx((0.4, *stats.t.interval(0.95, 3, loc=0.4, scale=stats.sem(values))), rel=1e-12)
    assert found.size == 4


@pytest.mark.parametrize(("values", "mean"), [([], math.nan), ([0.5], 0.5)])
def test_fewer_than_two_values_have_none(values, mean):
    found = intervals.of_mean(values)
    np.testing.assert_array_equal(found, [mean, math.nan, math.nan, len(values)])


def test_half_widths_of_arrays():
    found = intervals.half_width(np.array([1.0, 1.0]), np.array([1, 3]))
    np.testing.assert_allclose(found, [math.nan, 4.302652729911275 / math.sqrt(3)], rtol=1e-12)


@pytest.mark.parametrize(
    ("other", "meets"),
    [((0.6, 0.9), True), ((0.61, 0.9), False), ((0.0, 0.4), True), ((0.0, 0.3), False), ((math.nan, math.nan), True)],
)
def test_intervals_meet(other, meets):
    assert Interval(0.5, 0.4, 0.6, 3).meets(Interval(0.5, *other, 3)) is meets
