"""Federated supervised training as a TFF process: generalized FedAvg (Reddi et al. 2021, Algorithm 2).

One call of `next` is one round: every client of the cohort trains the broadcast model on its labelled examples, the
deltas are aggregated, the server takes a step. Which clients train, and with which learning rate, the caller says. A
client's losses come back at its position in the cohort: each client contributes a vector that is zero elsewhere, and
vectors are summed, so that the round stays in TFF's MapReduce form.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data import clients
from optimization import client_work, models, server
from optimization.runtime import rounds


class SupervisedState(NamedTuple):
    """The server's state between rounds.

    Attributes:
      weights: The model.
      optimizer: The server optimizer's state.
      aggregator: The aggregator's state.
    """

    weights: tuple
    optimizer: object
    aggregator: object


class ClientInput(NamedTuple):
    """What one client brings to a round.

    Attributes:
      features: [examples, ...], or bags of words.
      labels: As the process' `label_spec`.
      key: int32 [2], key of its mini-batches.
      position: int32, its place in the cohort, from 0.
      weight: float32, its weight in a weighted aggregation.
      learning_rate: float32, of its training.
    """

    features: clients.Features
    labels: np.ndarray
    key: np.ndarray
    position: np.int32
    weight: np.float32
    learning_rate: np.float32


class RoundMetrics(NamedTuple):
    """What one round reports.

    Attributes:
      examples: int32, examples of the cohort.
      loss_sum: float32, losses of all mini-batches' examples, of the clients with finite updates.
      trained_examples: int32, how many those are.
      client_losses: float32 [cohort], each client's mean over its mini-batches; NaN of one that is empty or whose
        update was not finite, 0 at places that no client has.
      client_deviations: float32 [cohort], the standard deviation of its mini-batches' losses, likewise.
      empty_clients: int32, clients without an example; their update is zero.
      nonfinite_clients: int32, clients whose update was not finite and was replaced by zero.
      update_norm: float32, L2 norm of the aggregated update.
      aggregator: The aggregator's measurements.
    """

    examples: int
    loss_sum: float
    trained_examples: int
    client_losses: np.ndarray
    client_deviations: np.ndarray
    empty_clients: int
    nonfinite_clients: int
    update_norm: float
    aggregator: object


class _ClientOutput(NamedTuple):
    delta: tuple
    weight: np.float32
    examples: int
    loss_sum: float
    trained_examples: int
    client_losses: tf.Tensor
    client_deviations: tf.Tensor
    empty_clients: int
    nonfinite_clients: int


def example_losses(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Returns each example's cross entropy.

    Args:
      logits: float32 [examples, outputs].
      labels: int32 [examples] classes, or float32 [examples, outputs] of several labels an example, which share the
        probability in proportion; an example without any label has the loss 0.

    Returns:
      float32 [examples].
    """
    if labels.dtype.is_integer:
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    targets = tf.math.divide_no_nan(labels, tf.reduce_sum(labels, axis=1, keepdims=True))
    return tf.nn.softmax_cross_entropy_with_logits(targets, logits)


def cross_entropy(logits: tf.Tensor, batch: client_work.Batch) -> tf.Tensor:
    """Returns the scalar mean of `example_losses`, given the mini-batch's `labels`."""
    return tf.reduce_mean(example_losses(logits, batch["labels"]))


def at_position(value: tf.Tensor, position: tf.Tensor, size: int) -> tf.Tensor:
    """Returns a vector of this size that holds a scalar at one position, and zero elsewhere."""
    return tf.where(tf.equal(tf.range(size), position), value, tf.zeros_like(value))


@dataclasses.dataclass(frozen=True)
class SupervisedProcess:
    """Everything that defines the rounds.

    Attributes:
      model: The model.
      local_work: The clients' training.
      aggregator: Factory of a weighted aggregation of deltas.
      server_optimizer: Takes the aggregated step.
      feature_spec: Shapes and dtypes of a client's features, first axis None.
      label_spec: Shape and dtype of its labels, first axis None.
      cohort_size: Most clients of a round.
      loss: Mean loss of a mini-batch.
    """

    model: models.Model
    local_work: client_work.ClientWork
    aggregator: tff.aggregators.WeightedAggregationFactory
    server_optimizer: tff.learning.optimizers.Optimizer
    feature_spec: models.FeatureSpec
    label_spec: tf.TensorSpec
    cohort_size: int
    loss: client_work.Loss = cross_entropy

    @property
    def weights_type(self) -> tff.Type:
        """TFF type of the model."""
        return tff.types.tensorflow_to_type(self.model.specs)

    @property
    def client_type(self) -> tff.Type:
        """TFF type of a `ClientInput`."""
        return tff.StructWithPythonType(
            [
                ("features", tff.types.tensorflow_to_type(self.feature_spec)),
                ("labels", tff.types.tensorflow_to_type(self.label_spec)),
                ("key", tff.TensorType(np.int32, (2,))),
                ("position", tff.TensorType(np.int32)),
                ("weight", tff.TensorType(np.float32)),
                ("learning_rate", tff.TensorType(np.float32)),
            ],
            ClientInput,
        )

    def client_round(self) -> Callable[..., _ClientOutput]:
        """Returns the function (weights, client) -> _ClientOutput; call it where it will run."""
        train = self.local_work.build(self.model, self.loss)

        def run(weights, client: ClientInput) -> _ClientOutput:
            labelled = {"features": models.dense(client.features), "labels": client.labels}
            update = train(weights, labelled, client.key, client.learning_rate)
            examples = tf.shape(client.labels)[0]
            trained = tf.where(update.is_finite, self.local_work.examples_trained(examples), 0)
            has_loss = trained > 0
            mean = update.loss_sum / tf.cast(trained, tf.float32)
            deviation = tf.where(has_loss, update.loss_deviation, np.nan)
            return _ClientOutput(
                delta=update.delta,
                weight=client.weight,
                examples=examples,
                loss_sum=tf.where(update.is_finite, update.loss_sum, 0.0),
                trained_examples=trained,
                client_losses=at_position(tf.where(has_loss, mean, np.nan), client.position, self.cohort_size),
                client_deviations=at_position(deviation, client.position, self.cohort_size),
                empty_clients=tf.cast(tf.equal(examples, 0), tf.int32),
                nonfinite_clients=tf.cast(tf.logical_not(update.is_finite), tf.int32),
            )

        return run

    def build(self, initial_weights: models.Weights) -> tff.templates.IterativeProcess:
        """Returns the process: `initialize() -> SupervisedState`, `next(state, clients) -> (state, RoundMetrics)`.

        Args:
          initial_weights: float32 arrays in the model's order.
        """
        weights_type = self.weights_type
        aggregation = self.aggregator.create(weights_type, tff.TensorType(np.float32))

        @tff.tensorflow.computation
        def initial_server():
            weights = tuple(tf.constant(weight) for weight in initial_weights)
            return weights, self.server_optimizer.initialize(self.model.specs)

        @tff.federated_computation
        def initialize():
            parts = tff.federated_eval(initial_server, tff.SERVER)
            return tff.federated_zip(SupervisedState(parts[0], parts[1], aggregation.initialize()))

        @tff.tensorflow.computation(weights_type, self.client_type)
        def client_round(weights, client):
            return self.client_round()(weights, client)

        state_type = initialize.type_signature.result.member

        @tff.tensorflow.computation(state_type, weights_type)
        def server_round(state, delta):
            optimizer, weights, norm = server.server_step(self.server_optimizer, state.optimizer, state.weights, delta)
            return weights, optimizer, norm

        @tff.federated_computation(
            tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(self.client_type, tff.CLIENTS)
        )
        def next_round(state, cohort):
            work = tff.federated_map(client_round, (tff.federated_broadcast(state.weights), cohort))
            aggregate = aggregation.next(state.aggregator, work.delta, work.weight)
            step = tff.federated_map(server_round, (state, aggregate.result))
            metrics = RoundMetrics(
                **{name: tff.federated_sum(getattr(work, name)) for name in _SUMMED},
                update_norm=step[2],
                aggregator=aggregate.measurements,
            )
            new_state = SupervisedState(step[0], step[1], aggregate.state)
            return tff.federated_zip(new_state), tff.federated_zip(metrics)

        return rounds.fused(tff.templates.IterativeProcess(initialize, next_round))

    def build_loss_poll(self, num_clients: int) -> tff.Computation:
        """Returns the computation (weights, clients) -> float32 [num_clients], exact losses at the clients' positions.

        Args:
          num_clients: Most clients to poll.
        """

        @tff.tensorflow.computation(self.weights_type, self.client_type)
        def poll(weights, client):
            value = self.loss(self.model.forward(weights, models.dense(client.features)), {"labels": client.labels})
            return at_position(value, client.position, num_clients)

        @tff.federated_computation(
            tff.FederatedType(self.weights_type, tff.SERVER), tff.FederatedType(self.client_type, tff.CLIENTS)
        )
        def poll_all(weights, polled):
            return tff.federated_sum(tff.federated_map(poll, (tff.federated_broadcast(weights), polled)))

        return poll_all


_SUMMED = [name for name in RoundMetrics._fields if name in _ClientOutput._fields]
