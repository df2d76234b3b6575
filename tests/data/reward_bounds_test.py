"""Tests of data.reward_bounds."""

import numpy as np
import pytest

from data import reward_bounds
from data.errors import UsageError


def test_map_to_unit_interval_clips_and_inverts():
    bounds = reward_bounds.parse("-50,150")
    np.testing.assert_allclose(bounds.to_unit(np.array([-50, 0, 150, 400])), [0, 0.25, 1, 1])
    np.testing.assert_allclose(bounds.to_user(np.array([0, 0.25, 1])), [-50, 0, 150])
    assert bounds.outside(np.array([-51, -50, 150, 151])) == 2


@pytest.mark.parametrize(
    ("rewards", "bounds"), [([0, 1, 1], (0, 1)), ([-1, 1], (-1, 1)), ([0, 0], (0, 1)), ([0.5], None)]
)
def test_two_valued_rewards_are_recognized(rewards, bounds):
    recognized = reward_bounds.recognized(np.array(rewards, float))
    assert recognized == (bounds and reward_bounds.RewardBounds(*bounds))


def test_robust_bounds_are_percentiles_or_the_range_of_rare_rewards():
    assert reward_bounds.robust(np.arange(101.0)) == reward_bounds.RewardBounds(1, 99)
    assert reward_bounds.robust(np.array([0.0] * 999 + [50.0])) == reward_bounds.RewardBounds(0, 50)
    with pytest.raises(UsageError, match="All observed rewards are 7: give --reward_bounds"):
        reward_bounds.robust(np.full(3, 7.0))


def test_a_scale_is_declared_recognized_or_learned():
    clicks, signs, profits = np.array([0.0, 1]), np.array([-1.0, 1]), np.array([0, 2, 4.0])
    assert reward_bounds.scale(None, clicks, clicks) == {}
    recognized = reward_bounds.scale(None, signs, signs)
    assert (recognized["reward_bounds"], recognized["has_learned_bounds"]) == (reward_bounds.RewardBounds(-1, 1), False)
    assert reward_bounds.scale(None, profits, profits)["has_learned_bounds"]
    declared = reward_bounds.scale("0,2", profits, profits)
    assert declared["reward_bounds"] == reward_bounds.RewardBounds(0, 2)
    assert declared["clipping"].startswith("1 of 3 training rewards lie outside the bounds 0 to 2.")
    assert declared["clipping"].endswith("their mean is 1.33333 instead of 2. The rewards range from 0 to 4.")
