"""Tests of bandits.mab_fl.splines."""

import numpy as np

from bandits.mab_fl import splines

ROUNDS = np.arange(20)


def test_a_spline_follows_a_curve_through_its_noise():
    """Residuals to the true curve shrink; 50 curves with noise of deviation 0.02."""
    true = 0.7 - 0.2 * np.exp(-ROUNDS / 5)
    noisy = true + 0.02 * np.random.default_rng(0).normal(size=(50, 20))
    fitted = np.array([splines.smooth(curve)(ROUNDS) for curve in noisy])
    assert np.sqrt(np.mean((fitted - true) ** 2)) < 0.015


def test_a_curve_without_noise_is_met():
    curve = 0.5 + 0.01 * ROUNDS
    np.testing.assert_allclose(splines.smooth(curve)(ROUNDS), curve, atol=1e-4)


def test_a_rising_curve_does_not_fall_and_one_past_its_peak_does():
    noise = 0.002 * np.random.default_rng(1).normal(size=20)
    assert not splines.is_falling(0.5 + 0.01 * ROUNDS + noise)
    assert splines.is_falling(0.7 - 0.002 * (ROUNDS - 10.0) ** 2 + noise)


def test_too_few_points_never_fall():
    assert not splines.is_falling(np.array([0.9, 0.8, 0.7, 0.6]))
