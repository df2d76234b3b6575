"""The private sum over clients as a TFF computation: TFF's factory clips clients' vectors, sums and adds noise."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits.evaluation.private_sums import Query
from bandits.evaluation.terms import Terms
from optimization import aggregators
from optimization.privacy.mechanisms import Mechanism
from optimization.runtime import rounds


def build(query: Query, own: Mechanism) -> tff.templates.IterativeProcess:
    """Returns the process `next(state, clients' rows) -> (state, float64 [size])`: noised sums of clipped vectors.

    A client's rows are those of `inputs`. What clips and adds noise is the factory of training's private sums, in
    float64.

    Args:
      query: What is asked of each client.
      own: What the release is accounted as.
    """
    aggregation = aggregators.private_sum(query.norm, own.noise_multiplier).create(
        tff.TensorType(np.float64, (query.size,))
    )
    count = len(query.candidates)
    rows_type = tff.to_type((tff.TensorType(np.float64, (None,)), *[tff.TensorType(np.float64, (None, count))] * 3))

    @tff.tensorflow.computation(rows_type)
    def vector(rows):
        rewards, weights, direct, predicted = rows
        # Whose rows they are no column reads.
        terms = [
            Terms(rewards, weights[:, each], rewards, direct[:, each], predicted[:, each]) for each in range(count)
        ]
        columns = [tf.reduce_sum(column) for column in query.columns(terms, tf)]
        return query.vectors(tf.stack(columns)[tf.newaxis], tf)[0]

    @tff.federated_computation(aggregation.initialize.type_signature.result, tff.FederatedType(rows_type, tff.CLIENTS))
    def next_round(state, rows):
        output = aggregation.next(state, tff.federated_map(vector, rows))
        return output.state, output.result

    return rounds.fused(tff.templates.IterativeProcess(aggregation.initialize, next_round))


def inputs(terms: Sequence[Terms]) -> list[tuple[np.ndarray, ...]]:
    """Returns each client's rows: rewards, float64 [rows], and weights, direct and predicted, [rows, candidates] each.

    Args:
      terms: Of each candidate, of the same rows, within the bounds.
    """
    clients = terms[0].clients
    starts = np.flatnonzero(np.diff(clients, prepend=-1))[1:]
    others = [np.stack([getattr(one, name) for one in terms], axis=1) for name in ("weights", "direct", "predicted")]
    return list(zip(*(np.split(array, starts) for array in (terms[0].rewards, *others)), strict=True))
