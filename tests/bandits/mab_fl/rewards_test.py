"""Tests of bandits.mab_fl.rewards."""

import numpy as np
import pytest

from bandits.mab_fl import rewards

AFTER = np.array([0.60, 0.65, 0.71])


def test_an_increment_is_the_increase():
    np.testing.assert_allclose(rewards.Reward("increment")(0.65, AFTER), [-0.05, 0, 0.06])


def test_a_binary_reward_is_1_above_the_threshold_only():
    np.testing.assert_array_equal(rewards.Reward("binary", 0.0)(0.65, AFTER, 0.0), [0, 0, 1])
    np.testing.assert_array_equal(rewards.Reward("binary", -0.1)(0.65, AFTER, -0.1), [1, 1, 1])


def test_a_threshold_is_its_number_or_the_quantile_of_the_increases_seen():
    seen = np.array([np.nan, 0.04, -0.02, 0.01])
    assert rewards.Reward("binary", 0.025).threshold_after(seen) == 0.025
    assert rewards.Reward("binary", "quantile:0.5").threshold_after(seen) == pytest.approx(0.01)
    # A quarter of the way from the lowest of three to the highest: half-way from the lowest to the middle one.
    assert rewards.Reward("binary", "quantile:0.25").threshold_after(seen) == pytest.approx(-0.005)
    assert rewards.Reward("binary", "quantile:1").threshold_after(seen) == pytest.approx(0.04)
    assert rewards.Reward("binary", "quantile:1").threshold_after(seen[:1]) == 0


def test_a_percentage_is_relative_to_what_is_compared_with():
    np.testing.assert_allclose(rewards.Reward("percentage")(0.5, AFTER), [0.2, 0.3, 0.42])


def test_a_percentage_of_nothing_is_finite():
    assert rewards.Reward("percentage")(0.0, np.array([0.5]))[0] == pytest.approx(50)


ROUNDS = np.arange(20)


def test_a_spline_follows_a_curve_through_its_noise():
    """Residuals to the true curve shrink; 50 curves with noise of deviation 0.02."""
    true = 0.7 - 0.2 * np.exp(-ROUNDS / 5)
    noisy = true + 0.02 * np.random.default_rng(0).normal(size=(50, 20))
    fitted = np.array([rewards.smooth(curve)(ROUNDS) for curve in noisy])
    assert np.sqrt(np.mean((fitted - true) ** 2)) < 0.015


def test_a_curve_without_noise_is_met():
    curve = 0.5 + 0.01 * ROUNDS
    np.testing.assert_allclose(rewards.smooth(curve)(ROUNDS), curve, atol=1e-4)


def test_a_rising_curve_does_not_fall_and_one_past_its_peak_does():
    noise = 0.002 * np.random.default_rng(1).normal(size=20)
    assert not rewards.is_falling(0.5 + 0.01 * ROUNDS + noise)
    assert rewards.is_falling(0.7 - 0.002 * (ROUNDS - 10.0) ** 2 + noise)


def test_too_few_points_never_fall():
    assert not rewards.is_falling(np.array([0.9, 0.8, 0.7, 0.6]))
