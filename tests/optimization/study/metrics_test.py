"""Tests of what studies declare of their metrics."""

import math

import numpy as np

from optimization.study.metrics import Metric, declared, mean


def test_declared_metrics_are_in_the_modules_order_each_once():
    first, second = Metric("b", "one"), Metric("a", "two", better="down")
    assert declared({"X": first, "name": "b", "Y": second, "AGAIN": first}) == ("b", "a")
    assert declared({"Y": second})[0].better == "down"


def test_the_mean_over_nothing_is_not_a_number():
    assert mean(np.float32(3), np.int32(2)) == 1.5
    assert math.isnan(mean(0.0, 0))
