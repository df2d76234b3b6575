"""Tests of bandits.fairness."""

import math

import numpy as np
import pytest

from bandits import fairness


@pytest.mark.parametrize(("count", "mean"), [(1, 0.0), (10, 0.0), (11, 0.5), (30, 1.0)])
def test_the_worst_tenth_is_rounded_up(count, mean):
    rewards = np.random.default_rng(0).permutation(np.arange(count))
    assert fairness.worst_tenth(rewards) == mean


def test_jains_index_by_hand():
    assert fairness.jain_index(np.array([1.0, 1.0, 1.0])) == 1.0
    assert fairness.jain_index(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25
    assert fairness.jain_index(np.array([1.0, 3.0])) == 16 / 20


@pytest.mark.parametrize("rewards", [[], [0.0, 0.0], [1.0, -1.0]])
def test_jains_index_says_nothing_of(rewards):
    assert math.isnan(fairness.jain_index(np.array(rewards)))


def test_no_clients_have_no_worst_tenth():
    assert math.isnan(fairness.worst_tenth(np.array([])))
