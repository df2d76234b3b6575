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


@pytest.mark.parametrize("text", ["1", "1,0", "0,0", "0,inf", "a,b", "0,1,2"])
def test_malformed_bounds_are_refused(text):
    with pytest.raises(UsageError, match="--reward_bounds="):
        reward_bounds.parse(text)


@pytest.mark.parametrize(
    ("rewards", "bounds"), [([0, 1, 1], (0, 1)), ([-1, 1], (-1, 1)), ([0, 0], (0, 1)), ([0.5], None)]
)
def test_two_valued_rewards_are_recognized(rewards, bounds):
    recognized = reward_bounds.recognized(np.array(rewards, float))
    assert recognized == (bounds and reward_bounds.RewardBounds(*bounds))
