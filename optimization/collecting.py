"""TFF aggregations that need all of a cohort's updates at once, such as a coordinate-wise mode or median.

A worker holds a round's updates in memory only once, and aggregates them in blocks of parameters. The accumulator is a
tuple of updates: a new update moves the others by one place, which copies nothing. TFF sends a finished accumulator
from its clients' executor to its server's executor, which makes three copies. To avoid these copies, the updates are
aggregated as soon as the last client's update arrives, and only the aggregate is sent.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import models

_PLACES = 128  # Maximum number of updates that are collected without copying them.
_COLLECTED_CELLS = 1 << 22  # Number of elements in a block: parameters times updates.


class Collected(NamedTuple):
    """Some of a round's updates, or the aggregate of all of them.

    Attributes:
      places: Tuple of float32 [updates, parameters], newest first. Each has one row or none.
      others: float32 [updates, parameters], updates that do not fit into `places`.
      aggregate: float32 [parameters, 2], see `CollectingFactory.aggregate`; empty until the last client's update
        arrives.
      clients: int32, number of clients.
    """

    places: tuple[tf.Tensor, ...]
    others: tf.Tensor
    aggregate: tf.Tensor
    clients: tf.Tensor


class CollectingFactory(tff.aggregators.WeightedAggregationFactory):
    """An aggregation of the collected updates of a cohort.

    Attributes:
      cohort_size: Maximum number of clients in a round. Rounds with fewer clients need 3 more copies of the updates.
      measurement: Name under which TFF reports the mean of the second column of `aggregate`.
    """

    cohort_size: int
    measurement: str

    @abc.abstractmethod
    def rows(self, update: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        """Returns an update [parameters] as a row, float32 [1, parameters]; [0, parameters] if it does not count."""

    @abc.abstractmethod
    def aggregate(self, updates: Sequence[tf.Tensor], size: int, nothing: tf.Tensor) -> tf.Tensor:
        """Aggregates a cohort's updates.

        Args:
          updates: Parts of the cohort, float32 [clients, parameters] each.
          size: Number of parameters.
          nothing: Value of the aggregate's elements if no update counts, float32.

        Returns:
          float32 [parameters, 2]: the aggregate, and a value that is averaged for `measurement`.
        """

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> tff.templates.AggregationProcess:
        """Builds the process. Values are float32 tensors, and a weight is a number."""
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        shapes = {str(index): tuple(spec.shape) for index, spec in enumerate(tf.nest.flatten(specs))}
        size, num_places = sum(math.prod(shape) for shape in shapes.values()), min(self.cohort_size, _PLACES)
        matrix = tff.TensorType(np.float32, (None, None))
        collected_type = tff.to_type(Collected((matrix,) * num_places, matrix, matrix, np.int32))

        def step(collected: Collected) -> tf.Tensor:
            nothing = tf.where(collected.clients > 0, 0.0, np.nan)
            return _unsized(self.aggregate([*collected.places, collected.others], size, nothing))

        @tff.tensorflow.computation(value_type, weight_type)
        def at_client(value, weight):
            return _unsized(self.rows(models.flatten(tf.nest.flatten(value)), weight))

        @tff.tensorflow.computation
        def zero():
            none = _unsized(tf.zeros([0, size]))
            return Collected((none,) * num_places, none, none, tf.constant(0))

        @tff.tensorflow.computation(collected_type, at_client.type_signature.result)
        def accumulate(collected, update):
            places, clients = (update, *collected.places[:-1]), collected.clients + 1
            others, none = tf.concat([collected.places[-1], collected.others], axis=0), update[:0]
            after = Collected(places, others, collected.aggregate, clients)
            message = f"A round has more clients than cohort_size={self.cohort_size}."
            with tf.control_dependencies([tf.debugging.Assert(clients <= self.cohort_size, [message])]):
                is_last = tf.equal(clients, self.cohort_size)
            return tf.cond(is_last, lambda: Collected((none,) * num_places, none, step(after), clients), lambda: after)

        @tff.tensorflow.computation(collected_type, collected_type)
        def merge(first, second):
            updates = tf.concat([*second.places, second.others, *first.places, first.others], axis=0)
            return Collected((updates[:0],) * num_places, updates, updates[:0], first.clients + second.clients)

        @tff.tensorflow.computation(collected_type)
        def report(collected):
            has_aggregate = tf.shape(collected.aggregate)[0] > 0
            result = tf.cond(has_aggregate, lambda: collected.aggregate, lambda: step(Collected(*collected)))
            update = models.unflatten(tf.ensure_shape(result[:, 0], [size]), shapes)
            return tf.nest.pack_sequence_as(specs, update), {self.measurement: tf.reduce_mean(result[:, 1])}

        initialize = tff.federated_computation(lambda: tff.federated_value((), tff.SERVER))
        types = [tff.FederatedType(part, tff.CLIENTS) for part in (value_type, weight_type)]

        @tff.federated_computation(initialize.type_signature.result, *types)
        def next_round(state, value, weight):
            updates = tff.federated_map(at_client, (value, weight))
            result, measurements = tff.federated_aggregate(updates, zero(), accumulate, merge, report)
            return tff.templates.MeasuredProcessOutput(state, result, measurements)

        return tff.templates.AggregationProcess(initialize, next_round)


def _unsized(matrix: tf.Tensor) -> tf.Tensor:
    """Hides the shape of a matrix from the compiler, which would allocate memory for every input of known shape."""
    return tf.compat.v1.placeholder_with_default(matrix, [None, None])


def by_blocks(
    function: Callable[[tf.Tensor], tf.Tensor], updates: Sequence[tf.Tensor], size: int, nothing: tf.Tensor | float
) -> tf.Tensor:
    """Aggregates a cohort's updates in blocks of parameters.

    Args:
      function: Maps a block, float32 [parameters, clients], to the columns of `CollectingFactory.aggregate`.
      updates: Parts of the cohort, float32 [clients, parameters] each.
      size: Number of parameters.
      nothing: Value of the aggregate's elements if no update counts, float32.

    Returns:
      float32 [parameters, 2]. If no update counts, the columns are `nothing` and NaN.
    """
    num_clients = tf.add_n([tf.shape(part)[0] for part in updates])
    block = tf.maximum(1, _COLLECTED_CELLS // tf.maximum(1, num_clients))

    def collect(start: tf.Tensor) -> tf.Tensor:
        return function(tf.transpose(tf.concat([part[:, start : start + block] for part in updates], axis=0)))

    return tf.cond(
        num_clients > 0,
        lambda: in_blocks(collect, size, block, parallel_iterations=1),
        lambda: tf.fill([size, 1], nothing) * [[1.0, np.nan]],
    )


def in_blocks(
    function: Callable[[tf.Tensor], tf.Tensor], size: int | tf.Tensor, block: tf.Tensor, parallel_iterations: int = 10
) -> tf.Tensor:
    """Concatenates the results of function(start), float32 [block, 2], for the first index of each block."""
    parts = tf.TensorArray(tf.float32, -(-size // block), infer_shape=False, element_shape=[None, 2])
    _, parts = tf.while_loop(
        lambda index, _: index * block < size,
        lambda index, parts: (index + 1, parts.write(index, function(index * block))),
        (0, parts),
        parallel_iterations=parallel_iterations,
    )
    return parts.concat()
