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

from optimization import fed_avg, models, supervised
from optimization.runtime import rounds


class CohortUpdates(NamedTuple):
    """What the clients of a cohort sent, a row each, in the cohort's order.

    Attributes:
      deltas: float32 [clients with examples, parameters]; zero where the update was not finite.
      examples: int32 [clients], how many it has.
      batch_examples: int32 [clients], those of all its mini-batches together; 0 where the update was not finite.
      loss_sums: float32 [clients], their losses' sums, likewise.
      deviations: float32 [clients], standard deviation of their mini-batches' losses; NaN where there is none.
      nonfinite: int32 [clients], 1 where the update was not finite.
    """

    deltas: np.ndarray
    examples: np.ndarray
    batch_examples: np.ndarray
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
        examples=output.sums["examples"],
        batch_examples=output.sums["batch_examples"],
        loss_sums=output.sums["loss_sum"],
        deviations=tf.reduce_sum(output.sums["client_deviations"]),
        nonfinite=output.sums["nonfinite_clients"],
    )


def collect(each: tff.Computation, shared: Sequence[Any], cohort: Sequence[Any]) -> tuple[CohortUpdates, list[Any]]:
    """Plays a cohort's client work.

    Args:
      each: What `fed_avg.at_clients` returns; its results are (`client_row`, anything else).
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

    def client_round(*given):
        return client_row(definition.client_round()(*given)), ()

    each = fed_avg.at_clients(definition.at_client(client_round))
    return lambda weights, cohort: collect(each, [weights], cohort)[0]


def initial_state(definition: supervised.SupervisedProcess, weights: models.Weights) -> fed_avg.State:
    """Returns the server's state before round 1, without an aggregator's."""
    optimizer = tf.nest.map_structure(_array, definition.server_optimizer.initialize(definition.model.specs))
    return fed_avg.State((), tuple(weights), (), optimizer, ())


def build_server_step(
    definition: supervised.SupervisedProcess,
) -> Callable[[fed_avg.State, np.ndarray], fed_avg.State]:
    """Returns the function (state, delta float32 [parameters]) -> state after the server optimizer's step."""
    shapes = definition.model.shapes

    def step(state: fed_avg.State, delta: np.ndarray) -> fed_avg.State:
        weights, optimizer = tf.nest.map_structure(tf.constant, (tuple(state.weights), state.optimizer))
        optimizer, weights, _ = fed_avg.server_step(
            definition.server_optimizer, optimizer, weights, models.unflatten(tf.constant(delta), shapes)
        )
        weights, optimizer = tf.nest.map_structure(_array, (weights, optimizer))
        return state._replace(weights=weights, optimizer=optimizer)

    return step


def _array(value) -> np.ndarray:
    return tf.convert_to_tensor(value).numpy()
