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
    """What one client brings: its own rows, and how often it counts in each draw of the bootstrap.

    Attributes:
      weights: float64 [rows], as `Terms` has them, like those that follow.
      rewards: float64 [rows].
      direct: float64 [rows].
      predicted: float64 [rows].
      counts: uint8 [draws], of `totals.client_weights`.
    """

    weights: np.ndarray
    rewards: np.ndarray
    direct: np.ndarray
    predicted: np.ndarray
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


def client_inputs(terms: Terms, client_ids: Sequence[str] = (), *, seed: int = 0, draws: int = 0) -> list[ClientInput]:
    """Clients with rows, in the order of `totals.of_clients`.

    Args:
      terms: Of a log.
      client_ids: Names of its clients; not needed without draws.
      seed: Of the draws.
      draws: Of the bootstrap; 0 for none.
    """
    if not len(terms.clients):
        return []
    starts = np.flatnonzero(np.diff(terms.clients, prepend=terms.clients[0] - 1))
    parts = [np.split(np.asarray(column, np.float64), starts[1:]) for column in terms[1:]]
    if draws:
        names = totals.present(terms.clients, client_ids)
        counts = [totals.client_weights(name, seed, draws) for name in names]
    else:
        counts = [np.zeros(0, np.uint8)] * len(starts)
    return [ClientInput(*own) for own in zip(*parts, counts, strict=True)]


def sums(clients: Sequence[ClientInput], layout: totals.Layout) -> tuple[totals.Sums, np.ndarray]:
    """Sums of the clients' messages, computed by the workers of `worker.start`.

    Args:
      clients: Of `client_inputs`; all with as many draws.
      layout: The columns.

    Returns:
      The sums, and the totals of each draw of the bootstrap, float64 [draws, k].
    """
    draws = len(clients[0].counts) if clients else 0
    process = compiled.kept(("log sums", layout, draws), lambda: _build(layout, draws))
    nothing = np.zeros((len(layout.ratios), len(layout)))
    _, first = process.next(nothing, list(clients))
    _, sent = process.next(totals.gradients(first.totals, layout.ratios), list(clients))
    together = totals.Sums(len(clients), first.totals, layout.ratios, sent.products)
    return together, np.reshape(first.drawn, (draws, len(layout)))


def _build(layout: totals.Layout, draws: int) -> tff.templates.IterativeProcess:
    """Iterative process: `next(gradients, clients) -> (gradients, _Sent)`, see `totals.gradients`."""
    gradients_type = tff.TensorType(np.float64, (len(layout.ratios), len(layout)))
    rows = tff.TensorType(np.float64, (None,))
    fields = dict.fromkeys(ClientInput._fields, rows) | {"counts": tff.TensorType(np.uint8, (draws,))}
    client_type = tff.StructWithPythonType(list(fields.items()), ClientInput)

    @tff.tensorflow.computation(gradients_type, client_type)
    def client_sums(gradients, client):
        terms = Terms(None, client.weights, client.rewards, client.direct, client.predicted)  # type: ignore[arg-type]
        own = tf.stack([tf.reduce_sum(column) for column in layout.columns(terms, tf)])
        influences = tf.linalg.matvec(gradients, own)
        counts = tf.cast(client.counts, tf.float64)
        return _Sent(own, tf.tensordot(influences, influences, axes=0), tf.tensordot(counts, own, axes=0))

    @tff.tensorflow.computation
    def no_gradients():
        return tf.zeros(gradients_type.shape, tf.float64)

    @tff.federated_computation
    def initialize():
        return tff.federated_eval(no_gradients, tff.SERVER)

    @tff.federated_computation(
        tff.FederatedType(gradients_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS)
    )
    def next_round(gradients, clients):
        return gradients, tff.federated_sum(
            tff.federated_map(client_sums, (tff.federated_broadcast(gradients), clients))
        )

    return rounds.fused(tff.templates.IterativeProcess(initialize, next_round))
