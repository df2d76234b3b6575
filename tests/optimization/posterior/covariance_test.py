"""Tests of optimization.posterior.covariance."""

import numpy as np
import pytest
import tensorflow as tf

from optimization.posterior import covariance


def _dense(samples: np.ndarray, shrinkage: float) -> np.ndarray:
    """Solves with the whole covariance."""
    count, size = samples.shape
    share = 1 / (1 + (count - 1) * shrinkage)
    sample_covariance = np.cov(samples, rowvar=False).reshape(size, size) if count > 1 else np.zeros((size, size))
    return np.linalg.solve(share * np.eye(size) + (1 - share) * sample_covariance, samples.mean(axis=0))


@pytest.mark.parametrize("size", [1, 3, 20, 50])
@pytest.mark.parametrize("count", [1, 2, 5, 10])
@pytest.mark.parametrize("shrinkage", [0.01, 0.1, 1.0, 10.0])
def test_the_delta_equals_the_dense_solve(size, count, shrinkage):
    samples = np.random.default_rng(size * count).normal(0.3, 1, (count, size))
    found = covariance.inverse_times_mean(tf.constant(samples, tf.float32), shrinkage)
    np.testing.assert_allclose(found, _dense(samples, shrinkage), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("chunk", [1, 7, 20])
def test_chunks_of_the_parameters_give_the_same_delta(monkeypatch, chunk):
    monkeypatch.setattr(covariance, "_CHUNK", chunk)
    samples = np.random.default_rng(1).normal(0.3, 1, (5, 20))
    found = covariance.inverse_times_mean(tf.constant(samples, tf.float32), 0.1)
    np.testing.assert_allclose(found, _dense(samples, 0.1), rtol=2e-5, atol=2e-5)


def test_shrinkage_zero_gives_the_samples_mean():
    samples = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    np.testing.assert_allclose(covariance.inverse_times_mean(samples, 0.0), samples.mean(axis=0), rtol=1e-6)


def test_two_samples_by_hand():
    # Mean (2, 1), centred -+(1, 0), rho = 1/2: covariance I/2 + diag(2, 0)/2 = diag(3/2, 1/2).
    found = covariance.inverse_times_mean(tf.constant([[1.0, 1.0], [3.0, 1.0]]), 1.0)
    np.testing.assert_allclose(found, [4 / 3, 2], rtol=1e-6)


@pytest.mark.parametrize("shrinkage", [0.1, 1e6])
def test_equal_samples_with_their_singular_covariance_give_a_finite_delta(shrinkage):
    found = covariance.inverse_times_mean(tf.fill([4, 6], 0.5), shrinkage)
    np.testing.assert_allclose(found, np.full(6, 0.5 * (1 + 3 * shrinkage)), rtol=1e-5)


def test_a_million_parameters_need_no_matrix_of_them():
    samples = np.random.default_rng(0).normal(size=(5, 1_000_000)).astype(np.float32)
    assert np.isfinite(covariance.inverse_times_mean(samples, 0.1)).all()


def test_a_negative_shrinkage_is_refused():
    with pytest.raises(ValueError, match=r"shrinkage=-0.1 must be at least 0"):
        covariance.inverse_times_mean(tf.zeros([2, 2]), -0.1)
