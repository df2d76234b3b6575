"""The sums of a log by TFF: clients compute their totals and influences, and only sums over clients reach the server.

Two rounds: the first sums totals, the second the products of influences, which need the first's ratios.

In float64, and equal to `totals.sums` but for the order of additions; by secure sums, but for the 32 bits of a value.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits.evaluation import bootstrap, totals
from bandits.evaluation.terms import Terms
from optimization import aggregators
from optimization.runtime import rounds
from optimization.study import compiled


class ClientInput(NamedTuple):
    """What one client brings: its own rows, and how often it counts in each draw of the bootstrap.

    Attributes:
      weights: float64 [rows], as `Terms` has them, like those that follow.
      rewards: float64 [rows].
      direct: float64 [rows].
      predicted: float64 [rows].
      counts: uint8 [draws], of `bootstrap.client_weights`.
    """

    weights: np.ndarray
    rewards: np.ndarray
    direct: np.ndarray
    predicted: np.ndarray
    counts: np.ndarray


class _Asked(NamedTuple):
    """What the server broadcasts.

    Attributes:
      scale: float64 [k], bounds of totals.
      changes: float64 [ratios, k], of `totals.gradients`; zeros in the first round.
      reach: float64 [ratios], bounds of influences.
    """

    scale: np.ndarray
    changes: np.ndarray
    reach: np.ndarray


class _Sent(NamedTuple):
    """What a client sends, each divided by its bound.

    Attributes:
      totals: float64 [k].
      products: float64 [ratios, ratios].
      drawn: float64 [draws, k].
    """

    totals: np.ndarray
    products: np.ndarray
    drawn: np.ndarray


def client_inputs(terms: Terms, client_ids: Sequence[str] = (), *, seed: int = 0, draws: int = 0) -> list[ClientInput]:
    """Returns the clients that have rows, in the order of `totals.of_clients`.

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
        counts = [bootstrap.client_weights(name, seed, draws) for name in names]
    else:
        counts = [np.zeros(0, np.uint8)] * len(starts)
    return [ClientInput(*own) for own in zip(*parts, counts, strict=True)]


def sums(
    clients: Sequence[ClientInput], layout: totals.Layout, *, bounds: np.ndarray | None = None
) -> tuple[totals.Sums, np.ndarray]:
    """Returns what clients send, summed by the workers that `worker.start` started.

    Args:
      clients: Of `client_inputs`; all with as many draws.
      layout: The columns.
      bounds: float64 [k], largest absolute value of a client's totals, known beforehand; what is larger is clipped to
        it. Sums are secure then. None for plain ones.

    Returns:
      The sums, and the totals of each draw of the bootstrap, float64 [draws, k].
    """
    draws = len(clients[0].counts) if clients else 0
    kind = "mean" if bounds is None else "secure_sum"
    process = compiled.kept(("log sums", layout, draws, kind), lambda: _build(layout, draws, kind))
    scale = np.ones(len(layout)) if bounds is None else np.asarray(bounds, np.float64)
    changes, reach = np.zeros((len(layout.ratios), len(layout))), np.ones(len(layout.ratios))
    _, sent = process.next(_Asked(scale, changes, reach), list(clients))
    together, drawn = sent.totals * scale, np.reshape(sent.drawn, (draws, len(layout))) * scale * _MOST_COUNT
    changes = totals.gradients(together, layout.ratios)
    if bounds is not None:  # A client's influence is at most this.
        reach = np.abs(changes) @ scale
        reach[reach == 0] = 1.0
    _, sent = process.next(_Asked(scale, changes, reach), list(clients))
    return totals.Sums(len(clients), together, layout.ratios, sent.products * np.outer(reach, reach)), drawn


# P(more than 20) is 0 in double precision; a client's counts are divided by it, so that secure sums clip none.
_MOST_COUNT = 20


def _build(layout: totals.Layout, draws: int, kind: str) -> tff.templates.IterativeProcess:
    """Returns the process: `next(_Asked, clients) -> (_Asked, _Sent)`."""
    width, height = len(layout), len(layout.ratios)
    shapes = ((width,), (height, width), (height,))
    asked_type = tff.StructWithPythonType(
        [(name, tff.TensorType(np.float64, shape)) for name, shape in zip(_Asked._fields, shapes, strict=True)], _Asked
    )
    rows = tff.TensorType(np.float64, (None,))
    client_type = tff.StructWithPythonType(
        [
            *((name, rows) for name in ClientInput._fields[:-1]),
            ("counts", tff.TensorType(np.uint8, (draws,))),
        ],
        ClientInput,
    )

    @tff.tensorflow.computation(asked_type, client_type)
    def client_sums(asked, client):
        terms = Terms(None, client.weights, client.rewards, client.direct, client.predicted)  # type: ignore[arg-type]
        own = tf.stack([tf.reduce_sum(column) for column in layout.columns(terms, tf)])
        influences = tf.linalg.matvec(asked.changes, own) / asked.reach
        scaled = own / asked.scale
        counts = tf.cast(client.counts, tf.float64) / _MOST_COUNT
        return _Sent(scaled, tf.tensordot(influences, influences, axes=0), tf.tensordot(counts, scaled, axes=0))

    @tff.tensorflow.computation
    def nothing_asked():
        return _Asked(*(tf.ones(shape, tf.float64) for shape in shapes))

    factory = aggregators.sums(kind)
    aggregation = factory.create(client_sums.type_signature.result)

    @tff.federated_computation
    def initialize():
        return tff.federated_eval(nothing_asked, tff.SERVER)

    @tff.federated_computation(tff.FederatedType(asked_type, tff.SERVER), tff.FederatedType(client_type, tff.CLIENTS))
    def next_round(asked, clients):
        sent = tff.federated_map(client_sums, (tff.federated_broadcast(asked), clients))
        return asked, aggregation.next(aggregation.initialize(), sent).result

    return rounds.fused(tff.templates.IterativeProcess(initialize, next_round))
