"""Robust aggregation: the coordinate-wise median and trimmed mean of a cohort's updates (Yin et al. 2018).

Clients count equally. An update that is not finite, and the update of a client without examples, count as zeros.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from optimization import collecting

ZERO_SHARE = "zero_share"


@dataclasses.dataclass(frozen=True)
class TrimmedMeanFactory(collecting.CollectingFactory):
    """Drops the smallest and the largest values of each coordinate, and averages the others.

    A round without clients has the result NaN. The measurement `zero_share` is the share of the coordinates whose
    result is exactly 0. A worker holds the updates of the whole cohort once, or four times in rounds with fewer clients
    than `cohort_size`.

    Attributes:
      cohort_size: Maximum number of clients in a round.
      trimmed_share: Share of the values to drop on each side, below 0.5, rounded down to whole clients. None for the
        median; with an even number of clients, this is the average of the middle two values.
    """

    cohort_size: int
    trimmed_share: float | None = None
    measurement = ZERO_SHARE

    def rows(self, update: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        is_finite = tf.reduce_all(tf.math.is_finite(update))
        return tf.where(is_finite, update, tf.zeros_like(update))[tf.newaxis]

    def aggregate(self, updates: Sequence[tf.Tensor], size: int, nothing: tf.Tensor) -> tf.Tensor:
        return collecting.by_blocks(self._of_block, updates, size, nothing)

    def _of_block(self, samples: tf.Tensor) -> tf.Tensor:
        """Results of samples [parameters, clients], and whether each result is 0: float32 [parameters, 2]."""
        num_clients = tf.shape(samples)[1]
        cut = (num_clients - 1) // 2
        if self.trimmed_share is not None:
            # The small number keeps rounding from losing a client: 0.29 * 100 is 28.999999999999996.
            cut = tf.minimum(cut, tf.cast(self.trimmed_share * tf.cast(num_clients, tf.float64) + 1e-9, tf.int32))
        result = tf.reduce_mean(tf.sort(samples, axis=1)[:, cut : num_clients - cut], axis=1)
        return tf.stack([result, tf.cast(tf.equal(result, 0.0), tf.float32)], axis=1)
