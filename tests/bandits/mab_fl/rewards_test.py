"""Tests of bandits.mab_fl.rewards."""

import numpy as np
import pytest

from bandits.mab_fl import rewards

AFTER = np.array([0.60, 0.65, 0.71])


@pytest.mark.parametrize(
    ("kind", "before", "threshold", "expected"),
    [("increment", 0.65, 0.0, [-0.05, 0, 0.06]), ("binary", 0.65, 0.0, [0, 0, 1]), ("binary", 0.65, -0.1, [1, 1, 1])],
)
def test_rewards_by_hand(kind, before, threshold, expected):
    np.testing.assert_allclose(rewards.Reward(kind)(before, AFTER, threshold), expected, atol=1e-12)


def test_a_threshold_is_its_number_or_the_quantile_of_the_increases_seen():
    seen = np.array([np.nan, 0.04, -0.02, 0.01])
    assert rewards.Reward("binary", 0.025).threshold_after(seen) == 0.025
    assert rewards.Reward("binary", "quantile:0.5").threshold_after(seen) == pytest.approx(0.01)
    # A quarter of the way from the lowest of three to the highest: half-way from the lowest to the middle one.
    assert rewards.Reward("binary", "quantile:0.25").threshold_after(seen) == pytest.approx(-0.005)
    assert rewards.Reward("binary", "quantile:1").threshold_after(seen) == pytest.approx(0.04)
    assert rewards.Reward("binary", "quantile:1").threshold_after(seen[:1]) == 0


ROUNDS = np.arange(20)


def test_a_rising_curve_does_not_fall_and_one_past_its_peak_does():
    noise = 0.002 * np.random.default_rng(1).normal(size=20)
    assert not rewards.is_falling(0.5 + 0.01 * ROUNDS + noise)
    assert rewards.is_falling(0.7 - 0.002 * (ROUNDS - 10.0) ** 2 + noise)
    assert not rewards.is_falling(np.array([0.9, 0.8, 0.7, 0.6]))  # Too few points.
