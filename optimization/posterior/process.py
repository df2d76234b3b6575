"""Stacked updates of a cohort at the server, for aggregations that are not sums.

`fed_avg.Process` defines the clients' work and the server's step; here clients' deltas are stacked instead of averaged.
Each is written to its place on arrival, so that the cohort's models are in memory once, in the program, and only a few
of them at the worker.
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
    """Results of a cohort's clients, one row each, in the cohort's order.

    Attributes:
      deltas: float32 [clients with examples, parameters]; zero where the update was not finite.
      examples: int32 [clients], number of examples.
      batch_examples: int32 [clients], those of all its mini-batches together; 0 where the update was not finite.
      loss_sums: float32 [clients], their losses' sums, likewise.
      deviations: float32 [clients], standard deviation of their mini-batches' losses; NaN without a mini-batch.
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
        """The part of clients with examples; the others have no model."""
        return CohortUpdates(self.deltas, *(part[self.examples > 0] for part in self[1:]))


def client_row(output) -> CohortUpdates:
    """A client's part of `CohortUpdates` from its results at the end of its round.

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
    """Runs a cohort's client work.

    Args:
      each: What `fed_avg.at_clients` returns; its results are (`client_row`, anything else).
      shared: The models that all clients receive.
      cohort: The clients, each with its `position`.

    Returns:
      The updates in the order of the positions; the other results of each client, in the order of `cohort`.
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
    """Array of zeros in memory of its own, freed with it: a heap would keep the memory, fragmented."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, mmap.mmap(-1, max(1, size)))


def build_collection(definition: supervised.SupervisedProcess) -> Callable[..., CohortUpdates]:
    """Builds the function (weights, list of `supervised.ClientInput`) -> `CohortUpdates`: a round's client work."""

    def client_round(*arguments):
        return client_row(definition.client_round()(*arguments)), ()

    each = fed_avg.at_clients(definition.at_client(client_round))
    return lambda weights, cohort: collect(each, [weights], cohort)[0]


class CollectedRounds:
    """Rounds whose server combines the cohort's updates in the program, with the interface of `fed_avg.Process.build`.

    Attributes:
      initialize: State before round 1.
    """

    def __init__(self, definition: fed_avg.Process, initial_weights: models.Weights):
        """Builds the computations; the aggregator of `definition` is not used."""
        built = definition.build(initial_weights)
        self.initialize = built.initialize
        self._definition = definition

        def client_round(*arguments):
            output = definition.client_round()(*arguments)
            return client_row(output), output.sums

        self._at_clients = fed_avg.at_clients(definition.at_client(client_round))
        taken = built.state_type.member, definition.weights_type
        self._server_round = tff.tensorflow.computation(definition.server_round, *taken)

    def next(
        self, state: fed_avg.State, cohort: Sequence[Any], aggregate: Callable[[np.ndarray, CohortUpdates], Any]
    ) -> tuple[fed_avg.State, fed_avg.RoundMetrics]:
        """Runs a round; without examples the update is zero, without clients there is no update.

        Args:
          state: State before the round.
          cohort: The clients' inputs.
          aggregate: (weights before, updates of clients with examples) -> `algorithms.ServerUpdate`.

        Returns:
          State after the round; metrics, whose `aggregator` has the update's other fields.
        """
        sent = [state.deployed, state.weights] if self._definition.deploy_every else [state.weights]
        updates, summed = collect(self._at_clients, sent, cohort)
        before = models.flatten(state.weights).numpy()
        delta, others = np.full_like(before, 0 if len(updates.examples) else np.nan), {}
        if updates.examples.any():
            others = aggregate(before, updates.with_examples())._asdict()
            delta = others.pop("delta")
        step = self._server_round(state, models.unflatten(tf.constant(delta), self._definition.model.shapes))
        metrics = fed_avg.RoundMetrics(**self._sums(summed), update_norm=step[4], deployed=step[5], aggregator=others)
        return fed_avg.State._make((*step[:4], state.aggregator)), metrics

    def _sums(self, summed: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Sums over clients, added sequentially as in TFF's aggregations."""
        types = tff.structure.iter_elements(self._at_clients.type_signature.result.member[1])
        totals = {name: np.zeros(part.shape, part.dtype) for name, part in types}
        for client in summed:
            totals = {name: total + client[name] for name, total in totals.items()}
        return totals
