"""A cohort's updates, side by side at the server: for aggregation that no sum expresses.

`supervised.SupervisedProcess` says what a client does and how the server steps; here its clients' deltas are stacked
instead of averaged. They meet only in an aggregation, whose accumulator is bounded by the cohort's models.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import models, server, supervised
from optimization.posterior import vectors


class CohortUpdates(NamedTuple):
    """What the clients of a cohort sent, a row each, in the cohort's order.

    Attributes:
      deltas: float32 [clients, parameters]; zero for a client without examples or whose update was not finite.
      positions: int32 [clients], its place in the cohort.
      examples: int32 [clients], how many it has.
      trained_examples: int32 [clients], those of all its mini-batches together; 0 where the update was not finite.
      loss_sums: float32 [clients], their losses' sums, likewise.
      deviations: float32 [clients], standard deviation of their mini-batches' losses; NaN where there is none.
      nonfinite: int32 [clients], 1 where the update was not finite.
    """

    deltas: np.ndarray
    positions: np.ndarray
    examples: np.ndarray
    trained_examples: np.ndarray
    loss_sums: np.ndarray
    deviations: np.ndarray
    nonfinite: np.ndarray

    @property
    def trained(self) -> np.ndarray:
        """Whether a client has examples and a finite update, bool [clients]."""
        return (self.examples > 0) & (self.nonfinite == 0)

    def in_order(self) -> "CohortUpdates":
        """Returns NumPy arrays in the cohort's order, from rows as they were collected."""
        rows = CohortUpdates(*(np.asarray(part) for part in self))
        order = np.argsort(rows.positions)
        if (order == np.arange(len(order))).all():
            return rows
        return CohortUpdates(*(part[order] for part in rows))

    def with_examples(self) -> "CohortUpdates":
        """Returns the rows of clients with examples: those without have no model, diverged ones a zero update."""
        chosen = self.examples > 0
        return self if chosen.all() else CohortUpdates(*(part[chosen] for part in self))


def client_row(output, position: tf.Tensor) -> CohortUpdates:
    """Returns a client's row, for `stack`, from what it has at the end of its round.

    Args:
      output: The output of a process' `client_round`; its `client_deviations` are zero but at the client's position.
      position: int32, its place in the cohort.
    """
    row = CohortUpdates(
        deltas=vectors.flatten(output.delta),
        positions=position,
        examples=output.examples,
        trained_examples=output.trained_examples,
        loss_sums=output.loss_sum,
        deviations=tf.reduce_sum(output.client_deviations),
        nonfinite=output.nonfinite_clients,
    )
    return tf.nest.map_structure(lambda value: value[tf.newaxis], row)


def stack(rows_at_clients):
    """Returns the clients' `client_row`s as one `CohortUpdates` at the server; to call in a federated computation."""
    row_type = rows_at_clients.type_signature.member
    rows_type = tff.StructWithPythonType(
        [
            (name, tff.TensorType(part.dtype, (None, *part.shape[1:])))
            for name, part in zip(CohortUpdates._fields, row_type, strict=True)
        ],
        CohortUpdates,
    )

    @tff.tensorflow.computation
    def no_rows():
        return CohortUpdates(*(tf.zeros((0, *part.shape[1:]), part.dtype) for part in row_type))

    @tff.tensorflow.computation(rows_type, row_type)
    def add_row(rows, row):
        return CohortUpdates(*(tf.concat(parts, axis=0) for parts in zip(rows, row, strict=True)))

    @tff.tensorflow.computation(rows_type, rows_type)
    def add_rows(rows, others):
        return CohortUpdates(*(tf.concat(parts, axis=0) for parts in zip(rows, others, strict=True)))

    @tff.tensorflow.computation(rows_type)
    def all_rows(rows):
        return rows

    return tff.federated_aggregate(rows_at_clients, no_rows(), add_row, add_rows, all_rows)


def build_collection(definition: supervised.SupervisedProcess) -> Callable[..., CohortUpdates]:
    """Returns the function (weights, list of `supervised.ClientInput`) -> `CohortUpdates`: a round's client work."""
    weights_type, client_type = definition.weights_type, definition.client_type

    @tff.tensorflow.computation(weights_type, client_type)
    def client_round(weights, client):
        return client_row(definition.client_round()(weights, client), client.position)

    @tff.federated_computation(tff.FederatedType(weights_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS))
    def collect(weights, cohort):
        return stack(tff.federated_map(client_round, (tff.federated_broadcast(weights), cohort)))

    return lambda weights, cohort: CohortUpdates(*collect(weights, cohort)).in_order()


def initial_state(definition: supervised.SupervisedProcess, weights: models.Weights) -> supervised.SupervisedState:
    """Returns the server's state before round 1, without an aggregator's."""
    specs = tuple(tf.TensorSpec(shape) for shape in definition.model.shapes.values())
    optimizer = tf.nest.map_structure(_array, definition.server_optimizer.initialize(specs))
    return supervised.SupervisedState(tuple(weights), optimizer, ())


def build_server_step(
    definition: supervised.SupervisedProcess,
) -> Callable[[supervised.SupervisedState, np.ndarray], supervised.SupervisedState]:
    """Returns the function (state, delta float32 [parameters]) -> state after the server optimizer's step."""
    shapes = definition.model.shapes

    def step(state: supervised.SupervisedState, delta: np.ndarray) -> supervised.SupervisedState:
        weights, optimizer = tf.nest.map_structure(tf.constant, (tuple(state.weights), state.optimizer))
        optimizer, weights, _ = server.server_step(
            definition.server_optimizer, optimizer, weights, vectors.unflatten(tf.constant(delta), shapes)
        )
        weights, optimizer = tf.nest.map_structure(_array, (weights, optimizer))
        return state._replace(weights=weights, optimizer=optimizer)

    return step


def _array(value) -> np.ndarray:
    return tf.convert_to_tensor(value).numpy()
