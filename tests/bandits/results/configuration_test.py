"""Tests for the results table."""

import math

import pytest

from bandits.results import comparison
from tests.bandits.results.tables import REWARD, configuration

NAN = math.nan
SOFTMAX = configuration("softmax", [0.5, 0.7, 0.75])
GREEDY = configuration("greedy", [0.4, 0.65, 0.6])


def test_estimate_is_the_mean_over_seeds_with_students_interval():
    estimate = SOFTMAX.estimate(REWARD)
    assert estimate.mean == pytest.approx(0.65)
    assert estimate.high - estimate.mean == pytest.approx(4.302653 * 0.1322876 / math.sqrt(3))
    assert SOFTMAX.estimate("unknown").size == 0


def test_a_diverged_seed_counts_in_the_mean_but_not_in_tests():
    lost = configuration("lost", [0.5, 0.6, 0.1], diverged=frozenset([2]))
    assert lost.estimate(REWARD).mean == pytest.approx(0.4)
    assert lost.by_seed(REWARD) == pytest.approx({0: 0.5, 1: 0.6, 2: NAN}, nan_ok=True)


def test_a_missing_value_is_not_called_diverged():
    (one,) = comparison.compare([(configuration("short", [0.5, NAN, 0.4], diverged=frozenset()), GREEDY)], REWARD)
    assert not one.is_judged
    assert one.notes[0] == "short has no value for seed 1: not tested"


def test_a_value_that_is_never_reached_has_no_interval():
    estimate = configuration("slow", [10.0, math.inf]).estimate(REWARD)
    assert estimate.mean == math.inf
    assert math.isnan(estimate.low)
