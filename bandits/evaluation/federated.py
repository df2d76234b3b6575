"""The sums of a log by TFF: clients compute their totals and influences, and only sums over clients reach the server.

Two rounds: the first sums totals, the second the products of influences, which need the first's ratios.

In float64, and equal to `totals.sums` but for the order of additions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits.evaluation import totals
from bandits.evaluation.estimators import Terms
from optimization.runtime import rounds
from optimization.study import compiled


class ClientInput(NamedTuple):
    """The input of one client: its own rows, and how often it counts in each draw of the bootstrap.

    Attributes:
      terms: float64 [rows, 4], the fields of `Terms` after the client.
      counts: uint8 [draws], see `totals.client_weights`.
    """

    terms: np.ndarray
    counts: np.ndarray


class _Sent(NamedTuple):
    """What a client sends.

    Attributes:
      totals: float64 [k].
      products: float64 [ratios, ratios], of its influences; zeros in the first round.
      drawn: float64 [draws, k].
    """

    totals: np.ndarray
    products: np.ndarray
    drawn: np.ndarray


def client_inputs(terms: Terms, client_ids: Sequence[str], *, seed: int = 0, draws: int = 0) -> list[ClientInput]:
    """Inputs of the clients with rows, in the order of `totals.of_clients`.

    Args:
      terms: Terms of a log's rows.
      client_ids: Names of its clients.
      seed: Random seed of the bootstrap.
      draws: Number of its draws; 0 for none.
    """
    names = totals.present(terms.clients, client_ids)
    starts = np.flatnonzero(np.diff(terms.clients))
    parts = np.split(np.stack(terms[1:], axis=1), starts + 1)
    return [
        ClientInput(*own) for own in zip(parts, [totals.client_weights(n, seed, draws) for n in names], strict=True)
    ]


def sums(clients: Sequence[ClientInput], layout: totals.Layout) -> tuple[totals.Sums, np.ndarray]:
    """Sums of the clients' messages, computed by the workers of `worker.start`.

    Args:
      clients: Inputs of the clients; all with as many draws.
      layout: The columns.

    Returns:
      The sums, and the totals of each draw of the bootstrap, float64 [draws, k].
    """
    draws = len(clients[0].counts)
    process = compiled.kept(("log sums", layout, draws), lambda: _build(layout, draws))
    nothing = np.zeros((len(layout.ratios), len(layout)))
    _, first = process.next(nothing, list(clients))
    _, sent = process.next(totals.gradients(first.totals, layout.ratios), list(clients))
    together = totals.Sums(len(clients), first.totals, layout.ratios, sent.products)
    return together, np.reshape(first.drawn, (draws, len(layout)))


def _build(layout: totals.Layout, draws: int) -> tff.templates.IterativeProcess:
    """Iterative process: `next(gradients, clients) -> (gradients, _Sent)`, see `totals.gradients`."""
    gradients_type = tff.TensorType(np.float64, (len(layout.ratios), len(layout)))
    types = [tff.TensorType(np.float64, (None, 4)), tff.TensorType(np.uint8, (draws,))]
    client_type = tff.StructWithPythonType(list(zip(ClientInput._fields, types, strict=True)), ClientInput)

    @tff.tensorflow.computation(gradients_type, client_type)
    def client_sums(gradients, client):
        terms = Terms(None, *tf.unstack(client.terms, axis=1))  # type: ignore[arg-type]
        own = tf.stack([tf.reduce_sum(column) for column in layout.columns(terms, tf)])
        influences = tf.linalg.matvec(gradients, own)
        counts = tf.cast(client.counts, tf.float64)
        return _Sent(own, tf.tensordot(influences, influences, axes=0), tf.tensordot(counts, own, axes=0))

    @tff.federated_computation
    def initialize():
        return tff.federated_value(np.zeros(gradients_type.shape), tff.SERVER)

    @tff.federated_computation(
        tff.FederatedType(gradients_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
    )
    def next_round(gradients, clients):
        sent = tff.federated_map(client_sums, (tff.federated_broadcast(gradients), clients))
        return gradients, tff.federated_sum(sent)

    return rounds.fused(tff.templates.IterativeProcess(initialize, next_round))
