import numpy as np
import pytest
import tensorflow as tf

from optimization import client_work, models
from optimization.posterior import samplers

KEY = tf.constant([3, 4])
MODEL = models.mlp(3, (4,), 2)


def _squared_error(outputs: tf.Tensor, batch: client_work.Batch) -> tf.Tensor:
    return tf.reduce_mean(tf.square(outputs - batch["targets"]))


def _examples(num_examples: int = 11) -> client_work.Batch:
    draw = np.random.default_rng(0)
    return {
        "features": tf.constant(draw.normal(size=(num_examples, 3)), tf.float32),
        "targets": tf.constant(draw.normal(size=(num_examples, 2)), tf.float32),
    }


def _sgd(learning_rate=0.1, batch_size=4, epochs=3, momentum=0.0, **settings) -> samplers.ChainSgd:
    return samplers.ChainSgd(client_work.LocalSgd(learning_rate, batch_size, epochs, momentum=momentum), **settings)


def _chain(examples=None, **settings) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    run = _sgd(**settings).build_chain(MODEL, _squared_error)
    return run(MODEL.initial_weights(0), examples or _examples(), KEY)


def _update(examples=None, **settings) -> client_work.ClientUpdate:
    run = _sgd(**settings).build(MODEL, _squared_error)
    return run(MODEL.initial_weights(0), examples or _examples(), KEY)


@pytest.mark.slow
def test_the_last_step_equals_plain_sgds():
    weights = MODEL.initial_weights(0)
    plain = client_work.LocalSgd(0.1, 4, 3).build(MODEL, _squared_error)(weights, _examples(), KEY)
    samples, loss_sum, _ = _chain(steps_per_sample=1)
    np.testing.assert_allclose(samples[-1], models.flatten(plain.delta), atol=1e-6)
    np.testing.assert_allclose(loss_sum, plain.loss_sum, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("steps_per_sample", "ends"), [(3, [3, 6, 9]), (0, [3, 6, 9]), (4, [4, 9]), (20, [9])])
def test_samples_average_their_steps_and_the_last_one_the_rest(steps_per_sample, ends):
    every = _chain(steps_per_sample=1)[0].numpy()
    assert every.shape == (9, 3 * 4 + 4 + 4 * 2 + 2)
    expected = [part.mean(axis=0) for part in np.split(every, ends)[:-1]]
    np.testing.assert_allclose(_chain(steps_per_sample=steps_per_sample)[0], expected, atol=1e-6)


def test_fedpa_sends_the_samples_mean_times_their_inverse_covariance():
    samples, _, _ = _chain()
    found = models.flatten(_update(shrinkage=0.1).delta)
    np.testing.assert_allclose(found, samplers.inverse_times_mean(samples, 0.1), atol=1e-7)


@pytest.mark.slow
def test_a_client_without_examples_sends_no_change():
    for shrinkage in (0.0, 0.1):
        update = _update(_examples(0), shrinkage=shrinkage)
        assert update.is_finite
        assert not models.flatten(update.delta).numpy().any()


def test_a_diverged_client_sends_no_change_and_reports_it():
    update = _update(learning_rate=1e20, shrinkage=0.1)
    assert not update.is_finite
    assert not models.flatten(update.delta).numpy().any()


@pytest.mark.parametrize("size", [1e25, 2.2e19])
def test_an_update_whose_norm_overflows_counts_as_diverged(monkeypatch, size):
    # Clipping would make it not a number, and with it the whole sum.
    sizes = tf.eye(1, sum(int(np.prod(shape)) for shape in MODEL.shapes.values())) * size
    chain = sizes, tf.constant(0.0), tf.constant(0.0)
    monkeypatch.setattr(samplers.ChainSgd, "build_chain", lambda *_: lambda *_: chain)
    update = _update()
    clipped, _ = tf.clip_by_global_norm(update.delta, 1.0)
    assert np.isfinite(models.flatten(clipped).numpy()).all()
    assert not update.is_finite


def _dense(samples: np.ndarray, shrinkage: float) -> np.ndarray:
    """Solves with the whole covariance."""
    count, size = samples.shape
    share = 1 / (1 + (count - 1) * shrinkage)
    sample_covariance = np.cov(samples, rowvar=False).reshape(size, size) if count > 1 else np.zeros((size, size))
    return np.linalg.solve(share * np.eye(size) + (1 - share) * sample_covariance, samples.mean(axis=0))


@pytest.mark.parametrize("size", [1, 3, 20, 50])
@pytest.mark.parametrize("count", [1, 2, 5, 10])
@pytest.mark.parametrize("shrinkage", [0.0, 0.01, 0.1, 1.0, 10.0])
def test_the_delta_equals_the_dense_solve(size, count, shrinkage):
    samples = np.random.default_rng(size * count).normal(0.3, 1, (count, size))
    found = samplers.inverse_times_mean(tf.constant(samples, tf.float32), shrinkage)
    np.testing.assert_allclose(found, _dense(samples, shrinkage), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("shrinkage", [0.1, 1e6])
def test_equal_samples_with_their_singular_covariance_give_a_finite_delta(shrinkage):
    found = samplers.inverse_times_mean(tf.fill([4, 6], 0.5), shrinkage)
    np.testing.assert_allclose(found, np.full(6, 0.5 * (1 + 3 * shrinkage)), rtol=1e-5)
