"""Tests of bandits.metrics."""

import math

import numpy as np
import pytest

from bandits import metrics


@pytest.mark.parametrize(("count", "mean"), [(1, 0.0), (10, 0.0), (11, 0.5), (30, 1.0)])
def test_the_worst_tenth_is_rounded_up(count, mean):
    rewards = np.random.default_rng(0).permutation(np.arange(count))
    assert metrics.worst_tenth(rewards) == mean
    assert metrics.worst_tenth(-rewards, largest=True) == -mean


def test_jains_index_by_hand():
    assert metrics.jain_index(np.array([1.0, 1.0, 1.0])) == 1.0
    assert metrics.jain_index(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert metrics.jain_index(np.array([1.0, 3.0])) == 16 / 20
    assert metrics.jain_index(np.zeros(4), of_zeros=1.0) == 1


@pytest.mark.parametrize("rewards", [[], [0.0, 0.0], [1.0, -1.0]])
def test_jains_index_says_nothing_of(rewards):
    assert math.isnan(metrics.jain_index(np.array(rewards)))
