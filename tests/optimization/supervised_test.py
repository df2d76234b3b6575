"""Rounds of supervised training against TFF's, and what they report of empty and diverged clients."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from optimization import client_work, corrections, supervised
from tests.optimization import linear_rounds


def test_cross_entropy_of_classes_and_of_shared_probability():
    logits = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32))
    np.testing.assert_allclose(supervised.example_losses(logits, tf.constant([0, 2])), -np.log([0.7, 0.6]), rtol=1e-5)
    several = tf.constant([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        supervised.example_losses(logits, several), [-0.5 * np.log(0.7 * 0.2), 0], rtol=1e-5, atol=1e-7
    )


def test_empty_and_diverged_clients_are_zero_updates_and_have_no_loss(tff_worker):
    one, empty, bad = (linear_rounds.client(number, size) for number, size in enumerate((6, 0, 6)))
    bad.features[2, 0] = np.inf
    work = client_work.LocalSgd(0.1, 4, epochs=1)
    rounds = linear_rounds.definition(local_work=work, cohort_size=3).build(linear_rounds.INITIAL)
    _, alone = rounds.next(rounds.initialize(), [one])
    state, metrics = rounds.next(rounds.initialize(), [one, empty, bad])
    assert (metrics.empty_clients, metrics.nonfinite_clients) == (1, 1)
    assert (metrics.trained_examples, metrics.batch_examples) == (6, 6)
    assert np.isnan(metrics.client_losses).tolist() == [False, True, True]
    assert np.isnan(metrics.client_deviations).tolist() == [False, True, True]
    np.testing.assert_allclose(metrics.update_norm, alone.update_norm / 3, rtol=1e-5)
    assert all(np.isfinite(weight).all() for weight in state.weights)
    assert np.isfinite(metrics.loss_sum)


def test_the_poll_gives_each_clients_exact_loss(tff_worker):
    polled = [linear_rounds.client(1, 10), linear_rounds.client(0, 6)]
    found = linear_rounds.definition().build_loss_poll(2)(linear_rounds.INITIAL, polled)
    expected = []
    for one in reversed(polled):
        logits = one.features @ linear_rounds.INITIAL[0] + linear_rounds.INITIAL[1]
        log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        expected.append(-log_probabilities[np.arange(len(logits)), one.labels].mean())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def _of_the_other_sign(step: corrections.Step):
    """FedProx as TFF 0.87 has it: it subtracts the proximal term's gradient."""
    return [2 * one - other for one, other in zip(step.gradients, corrections.Proximal(0.7)(step), strict=True)]


@pytest.mark.parametrize("proximal", [0.0, 0.7])
def test_rounds_are_tffs_fedavg_and_fedprox_of_the_same_batches(tff_worker, proximal):
    """Five rounds of two epochs, without clipping; FedProx but for its sign."""
    keras = tf.keras.Sequential([tf.keras.layers.Input(3), tf.keras.layers.Dense(4)])
    keras.set_weights(linear_rounds.INITIAL)
    spec = (tf.TensorSpec((None, 3)), tf.TensorSpec((None,), tf.int32))
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = tff.learning.models.functional_model_from_keras(keras, loss, spec)
    mean = tff.aggregators.MeanFactory()
    theirs = tff.learning.algorithms.build_weighted_fed_prox(
        model, proximal, tff.learning.optimizers.build_sgdm(0.2), model_aggregator=mean
    )
    work = client_work.LocalSgd(1e9, 4, epochs=2, corrections=(_of_the_other_sign,) if proximal else ())
    mine = linear_rounds.definition(mean, local_work=work, cohort_size=2).build(linear_rounds.INITIAL)
    state, their_state = mine.initialize(), theirs.initialize()
    for round_num in range(5):
        cohort = [linear_rounds.client(0, 6), linear_rounds.client(1, 9)]
        cohort = [one._replace(key=one.key + np.int32(round_num)) for one in cohort]
        state, _ = mine.next(state, cohort)
        their_state = theirs.next(their_state, [_batches(one, 4) for one in cohort]).state
    for found, expected in zip(state.weights, theirs.get_model_weights(their_state).trainable, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def _batches(one: supervised.ClientInput, size: int) -> tf.data.Dataset:
    """Mini-batches of two epochs, in the order of `client_work`."""
    epochs = []
    for epoch in range(2):
        key = tf.random.experimental.stateless_fold_in(one.key, epoch)
        order = tf.random.experimental.stateless_shuffle(tf.range(len(one.labels)), key).numpy()
        epochs.append(tf.data.Dataset.from_tensor_slices((one.features[order], one.labels[order])).batch(size))
    return epochs[0].concatenate(epochs[1])
