"""Rounds of two clients, one linear model and one example each, against numbers computed by hand."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from optimization import client_work, fed_avg, models, options


class Client(NamedTuple):
    features: np.ndarray
    targets: np.ndarray
    position: np.int32
    weight: np.float32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Process(fed_avg.Process):
    @property
    def client_type(self) -> tff.Type:
        parts = [("features", (np.float32, (None, 2))), ("targets", (np.float32, (None,)))]
        parts += [("position", np.int32), ("weight", np.float32)]
        return tff.StructWithPythonType([(name, tff.to_type(part)) for name, part in parts], Client)

    def log(self, deployed, client) -> fed_avg.Log:
        examples = {"features": client.features, "targets": client.targets}
        return fed_avg.Log(examples, tf.shape(client.targets)[0], client.weight, tf.constant([1, 2]))


# From zero weights, the clients' gradients are 2 (0 - 2) (1, 0) and 2 (0 + 3) (0, 1). At rate 0.25 their deltas are
# (1, 0) and (0, -1.5), and their losses 4 and 9.
COHORT = [
    Client(np.float32([[1, 0]]), np.float32([2]), np.int32(0), np.float32(3)),
    Client(np.float32([[0, 1]]), np.float32([-3]), np.int32(1), np.float32(1)),
]
ZEROS = (np.zeros(2, np.float32),)
MEAN = tff.aggregators.UnweightedMeanFactory()


def play(num_rounds: int = 1, optimizer=("sgd", 1.0), **changes):
    """State and metrics after some rounds of the cohort from zero weights."""
    fields = {
        "model": models.Model({"w": (2,)}, lambda weights, features: tf.linalg.matvec(features, weights[0])),
        "loss": lambda outputs, batch: tf.reduce_mean(tf.square(outputs - batch["targets"])),
        "local_work": client_work.LocalSgd(0.25, 4, epochs=1),
        "aggregator": tff.aggregators.MeanFactory(),
        "server_optimizer": fed_avg.server_optimizer(options.ServerOptimizer(*optimizer)),
        "feature_spec": tf.TensorSpec((None, 2)),
        "label_spec": tf.TensorSpec((None,)),
        "cohort_size": 2,
    }
    process = Process(**(fields | changes)).build(ZEROS)
    state, metrics = process.initialize(), None
    for _ in range(num_rounds):
        state, metrics = process.next(state, COHORT)
    return state, metrics


def test_a_round_is_the_mean_weighted_by_the_clients_weights(tff_worker):
    state, metrics = play()
    np.testing.assert_allclose(state.weights[0], [3 / 4, -1.5 / 4], rtol=1e-6)
    assert metrics.update_norm == pytest.approx(np.hypot(3 / 4, 1.5 / 4))
    assert (metrics.loss_sum, metrics.examples, metrics.batch_examples) == (13, 2, 2)
    np.testing.assert_array_equal(metrics.client_losses, [4, 9])


def test_adam_at_the_server_takes_the_negative_mean_as_its_gradient(tff_worker):
    state, _ = play(2, ("adam", 0.1), aggregator=tff.aggregators.as_weighted_aggregator(MEAN))
    weights, first, second = np.zeros(2), np.zeros(2), np.zeros(2)
    for step in (1, 2):
        gradient = np.array([weights[0] - 2, weights[1] + 3]) * 0.5 / 2
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        weights = weights - 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * first / (np.sqrt(second) + 1e-7)
    np.testing.assert_allclose(state.weights[0], weights, rtol=1e-5)


def test_models_are_deployed_in_every_second_round_and_the_one_before_stays(tff_worker):
    first, metrics = play(1, deploy_every=2, max_delay=1)
    assert (first.round_num, metrics.deployed) == (1, False)
    np.testing.assert_array_equal([model[0] for model in first.deployed], np.zeros((2, 2)))
    second, metrics = play(2, deploy_every=2, max_delay=1)
    assert metrics.deployed
    np.testing.assert_array_equal(second.deployed[0][0], second.weights[0])
    np.testing.assert_array_equal(second.deployed[1][0], [0, 0])


def test_without_training_the_model_stays(tff_worker):
    state, metrics = play(local_work=None)
    np.testing.assert_array_equal(state.weights[0], [0, 0])
    assert (metrics.update_norm, metrics.examples, metrics.batch_examples) == (0, 2, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_step_whose_norm_is_not_finite_changes_nothing(bad):
    optimizer = fed_avg.server_optimizer(options.ServerOptimizer("sgd", 0.5, (("momentum", 0.9),)))
    before = optimizer.initialize((tf.TensorSpec((2,)),))
    state, weights, norm = fed_avg.server_step(optimizer, before, (tf.constant([1.0, 2.0]),), (tf.constant([bad, 1]),))
    np.testing.assert_array_equal(weights[0], [1, 2])
    assert norm == 0
    np.testing.assert_array_equal(state["accumulator"], before["accumulator"])
