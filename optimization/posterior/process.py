"""A cohort's updates, side by side at the server: for aggregation that no sum expresses.

`supervised.SupervisedProcess` says what a client does and how the server steps; here its clients' deltas are stacked
instead of averaged. Each is written to its place as it comes, so that the cohort's models are in memory once, in the
program, and a few of them at the worker.
"""

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import models, server, supervised
from optimization.runtime import rounds


class CohortUpdates(NamedTuple):
    """What the clients of a cohort sent, a row each, in the cohort's order.

    Attributes:
      deltas: float32 [clients with examples, parameters]; zero where the update was not finite.
      examples: int32 [clients], how many it has.
      trained_examples: int32 [clients], those of all its mini-batches together; 0 where the update was not finite.
      loss_sums: float32 [clients], their losses' sums, likewise.
      deviations: float32 [clients], standard deviation of their mini-batches' losses; NaN where there is none.
      nonfinite: int32 [clients], 1 where the update was not finite.
    """

    deltas: np.ndarray
    examples: np.ndarray
    trained_examples: np.ndarray
    loss_sums: np.ndarray
    deviations: np.ndarray
    nonfinite: np.ndarray

    @property
    def trained(self) -> np.ndarray:
        """Whether a client has examples and a finite update, bool [clients]."""
        return (self.examples > 0) & (self.nonfinite == 0)

    def with_examples(self) -> "CohortUpdates":
        """Returns what is known of clients with examples: those without have no model."""
        return CohortUpdates(self.deltas, *(part[self.examples > 0] for part in self[1:]))


def client_row(output) -> CohortUpdates:
    """Returns a client's part of `CohortUpdates` from what it has at the end of its round.

    Args:
      output: The output of a process' `client_round`; its `client_deviations` are zero but at the client's position.
    """
    return CohortUpdates(
        deltas=models.flatten(output.delta),
        examples=output.examples,
        trained_examples=output.trained_examples,
        loss_sums=output.loss_sum,
        deviations=tf.reduce_sum(output.client_deviations),
        nonfinite=output.nonfinite_clients,
    )


def at_clients(client_round: tff.Computation) -> tff.Computation:
    """Returns (*models at the server, clients) -> results at the clients, of (*models, client) -> result."""
    *models_types, client_type = (
        part for _, part in tff.structure.iter_elements(client_round.type_signature.parameter)
    )
    sent = [tff.FederatedType(models_type, tff.SERVER) for models_type in models_types]

    @tff.federated_computation(tff.StructType([*sent, tff.FederatedType(client_type, tff.CLIENTS)]))
    def each(given):
        broadcast = [tff.federated_broadcast(given[index]) for index in range(len(sent))]
        return tff.federated_map(client_round, (*broadcast, given[len(sent)]))

    return each


def collect(each: tff.Computation, shared: Sequence[Any], cohort: Sequence[Any]) -> tuple[CohortUpdates, list[Any]]:
    """Plays a cohort's client work.

    Args:
      each: What `at_clients` returns; its results are (`client_row`, anything else).
      shared: The models that all clients are given.
      cohort: The clients, each with its `position`.

    Returns:
      The updates in the order of the positions; what else came from each client, in the order of `cohort`.
    """
    row_type = each.type_signature.result.member[0]
    values = CohortUpdates(*(_mapped((len(cohort), *part.shape), part.dtype) for part in row_type))
    places = np.argsort([client.position for client in cohort])
    rows = np.empty_like(places)
    rows[places] = np.arange(len(cohort))
    others = [None] * len(cohort)

    def take(index: int, result: tuple[CohortUpdates, Any]) -> None:
        for value, part in zip(values, result[0], strict=True):
            value[rows[index]] = part
        others[index] = result[1]

    rounds.at_hand().each_client(each, shared, cohort, take)
    kept = np.flatnonzero(values.examples)
    for row, found in enumerate(kept):
        if row != found:
            values.deltas[row] = values.deltas[found]
    return values._replace(deltas=values.deltas[: len(kept)]), others


def _mapped(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Returns an array of zeros in memory of its own, returned when it is gone: a heap would keep it, in pieces."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, mmap.mmap(-1, max(1, size)))


def build_collection(definition: supervised.SupervisedProcess) -> Callable[..., CohortUpdates]:
    """Returns the function (weights, list of `supervised.ClientInput`) -> `CohortUpdates`: a round's client work."""

    @tff.tensorflow.computation(definition.weights_type, definition.client_type)
    def client_round(weights, client):
        return client_row(definition.client_round()(weights, client)), ()

    each = at_clients(client_round)
    return lambda weights, cohort: collect(each, [weights], cohort)[0]


def initial_state(definition: supervised.SupervisedProcess, weights: models.Weights) -> supervised.SupervisedState:
    """Returns the server's state before round 1, without an aggregator's."""
    optimizer = tf.nest.map_structure(_array, definition.server_optimizer.initialize(definition.model.specs))
    return supervised.SupervisedState(tuple(weights), optimizer, ())


def build_server_step(
    definition: supervised.SupervisedProcess,
) -> Callable[[supervised.SupervisedState, np.ndarray], supervised.SupervisedState]:
    """Returns the function (state, delta float32 [parameters]) -> state after the server optimizer's step."""
    shapes = definition.model.shapes

    def step(state: supervised.SupervisedState, delta: np.ndarray) -> supervised.SupervisedState:
        weights, optimizer = tf.nest.map_structure(tf.constant, (tuple(state.weights), state.optimizer))
        optimizer, weights, _ = server.server_step(
            definition.server_optimizer, optimizer, weights, models.unflatten(tf.constant(delta), shapes)
        )
        weights, optimizer = tf.nest.map_structure(_array, (weights, optimizer))
        return state._replace(weights=weights, optimizer=optimizer)

    return step


def _array(value) -> np.ndarray:
    return tf.convert_to_tensor(value).numpy()
