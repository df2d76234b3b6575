"""Private sums beside those of TensorFlow Privacy: correlated noise of Toeplitz matrices, and noise from a given seed.

TensorFlow Privacy's Gaussian sums draw from TensorFlow's unseeded generator. That is right for privacy, but no run can
be repeated; the seeded sums here are for experiments and tests.
"""

import collections
import functools
from typing import Any, NamedTuple

import dp_accounting
import tensorflow as tf
import tensorflow_privacy as tfp

from optimization.privacy import factorizations
from optimization.runtime import private

_State = collections.namedtuple("_State", ["l2_norm_clip", "stddev"])
_SeededState = collections.namedtuple("_SeededState", ["l2_norm_clip", "stddev", "draws"])


def gaussian_sum(l2_norm_clip: float, stddev: float, seed: int | None) -> tfp.SumAggregationDPQuery:
    """Returns the sum of records clipped to an L2 norm, with Gaussian noise on each coordinate.

    Args:
      l2_norm_clip: Clip norm of a record.
      stddev: Standard deviation of the noise on the sum.
      seed: Seed of the noise; None for TensorFlow's own, which cannot be repeated.
    """
    return (
        tfp.GaussianSumQuery(l2_norm_clip, stddev) if seed is None else _SeededGaussianSum(l2_norm_clip, stddev, seed)
    )


def adaptive_clip_sum(*, seeds: tuple[int, int] | None, **parameters: Any) -> tfp.SumAggregationDPQuery:
    """Returns such a sum whose clip norm follows a quantile of the records' norms (Andrew et al. 2021).

    Args:
      seeds: Of the noise on the sum and of that on the count of clipped records; None as for `gaussian_sum`.
      **parameters: Those of `tfp.QuantileAdaptiveClipSumQuery`.
    """
    if seeds is None:
        return tfp.QuantileAdaptiveClipSumQuery(**parameters, geometric_update=True)
    return _SeededAdaptiveClipSum(*seeds, **parameters, geometric_update=True)


class _SeededGaussianSum(tfp.GaussianSumQuery):
    """Draws noise from (seed, number of earlier draws)."""

    def __init__(self, l2_norm_clip: float, stddev: float, seed: int):
        super().__init__(l2_norm_clip, stddev)
        self._seed = seed

    def make_global_state(self, l2_norm_clip, stddev):
        return _SeededState(tf.cast(l2_norm_clip, tf.float32), tf.cast(stddev, tf.float32), tf.constant(0, tf.int64))

    def get_noised_result(self, sample_state, global_state):
        leaves = tf.nest.flatten(sample_state)
        keys = tf.random.experimental.stateless_split(
            tf.stack([tf.constant(self._seed, tf.int64), global_state.draws]), len(leaves)
        )
        noised = [
            leaf + tf.random.stateless_normal(tf.shape(leaf), key, stddev=global_state.stddev)
            for leaf, key in zip(leaves, tf.unstack(keys), strict=True)
        ]
        state = global_state._replace(draws=global_state.draws + 1)
        event = dp_accounting.GaussianDpEvent(global_state.stddev / global_state.l2_norm_clip)
        return tf.nest.pack_sequence_as(sample_state, noised), state, event


class _SeededAdaptiveClipSum(tfp.QuantileAdaptiveClipSumQuery):
    """The same for both sums of adaptive clipping: the records, and the count of the unclipped."""

    def __init__(self, seed: int, count_seed: int, **parameters: Any):
        super().__init__(**parameters)
        private.replace_sums(self, *(functools.partial(_SeededGaussianSum, seed=each) for each in (seed, count_seed)))

    def get_noised_result(self, sample_state, global_state):
        result, state, event = super().get_noised_result(sample_state, global_state)
        # The parent makes the sum's state anew.
        sum_state = state.sum_state._replace(draws=global_state.sum_state.draws + 1)
        return result, state._replace(sum_state=sum_state), event


def tree_sum(
    clip_norm: float, noise_multiplier: float, specs: tuple[tf.TensorSpec, ...], *, noise_seed: int, max_rounds: int
) -> tfp.SumAggregationDPQuery:
    """Returns the residual sums of tree aggregation: after t rounds their noise has popcount(t) nodes' variance.

    Args:
      clip_norm: L2 norm that a record is clipped to.
      noise_multiplier: Standard deviation of a node's noise, in clip norms.
      specs: A record's tensors.
      noise_seed: Seed of the noise.
      max_rounds: Most rounds of one tree.
    """
    tree = _FixedShapeTreeSum.build_l2_gaussian_query(
        clip_norm, noise_multiplier, specs, noise_seed=noise_seed, use_efficient=False
    )
    tree.depth = max_rounds.bit_length() + 1
    return tree


class _FixedShapeTreeSum(tfp.TreeResidualSumQuery):
    """Pads the levels of the tree to its depth: state keeps its shape over rounds, as checkpoints need."""

    depth: int

    def _pad(self, state):
        missing = self.depth - tf.shape(state.tree_state.level_buffer_idx)[0]

        def pad(values, filler=0):
            padded = tf.pad(values, [[0, missing]] + [[0, 0]] * (len(values.shape) - 1), constant_values=filler)
            return tf.ensure_shape(padded, [self.depth, *values.shape[1:]])

        return self._with_levels(state, pad, lambda indices: pad(indices, -1))

    def _cut(self, state):
        used = tf.reduce_sum(tf.cast(state.tree_state.level_buffer_idx >= 0, tf.int32))
        return self._with_levels(state, lambda values: values[:used], lambda indices: indices[:used])

    @staticmethod
    def _with_levels(state, of_values, of_indices):
        tree = state.tree_state
        levels = tf.nest.map_structure(of_values, tree.level_buffer)
        tree = tree._replace(level_buffer=levels, level_buffer_idx=of_indices(tree.level_buffer_idx))
        return state._replace(tree_state=tree)

    def initial_global_state(self):
        return self._pad(super().initial_global_state())

    def get_noised_result(self, sample_state, global_state):
        result, state, event = super().get_noised_result(sample_state, self._cut(global_state))
        return result, self._pad(state), event

    def reset_state(self, noised_results, global_state):
        return self._pad(super().reset_state(noised_results, self._cut(global_state)))


class _CorrelatedState(NamedTuple):
    clip_norm: Any
    generator: Any
    memory: Any
    round_num: Any


class _CorrelatedSum(tfp.SumAggregationDPQuery):
    """The sum of clipped records with correlated noise: round t adds row t of C^-1 W, where W is independent noise.

    A subclass keeps what it needs of earlier rounds' noise.
    """

    def __init__(self, clip_norm: float, stddev: float, specs: tuple[tf.TensorSpec, ...], seed: int, rows: int):
        """Makes the query.

        Args:
          clip_norm: L2 norm that a record is clipped to.
          stddev: Standard deviation of the independent noise.
          specs: A record's tensors.
          seed: Seed of the noise.
          rows: Arrays of a record's shape that the memory has.
        """
        self._clip_norm = clip_norm
        self._specs = specs
        self._rows = rows
        self._generator = tfp.tree_aggregation.GaussianNoiseGenerator(stddev, specs, seed)

    def _noise(self, fresh: tf.Tensor, memory: tf.Tensor, round_num: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A round's noise of one tensor, and the memory after it, from the fresh noise and the memory before."""
        raise NotImplementedError

    def initial_global_state(self):
        memory = tuple(tf.zeros([self._rows, *spec.shape]) for spec in self._specs)
        generator = self._generator.initialize()
        return _CorrelatedState(tf.constant(self._clip_norm, tf.float32), generator, memory, tf.constant(0))

    def derive_sample_params(self, global_state):
        return global_state.clip_norm

    def preprocess_record(self, params, record):
        clipped, _ = tf.clip_by_global_norm(tf.nest.flatten(record), params)
        return tf.nest.pack_sequence_as(record, clipped)

    def get_noised_result(self, sample_state, global_state):
        fresh, generator = self._generator.next(global_state.generator)
        number = global_state.round_num
        pairs = [
            self._noise(new, before, number)
            for new, before in zip(tf.nest.flatten(fresh), global_state.memory, strict=True)
        ]
        noises, memory = zip(*pairs, strict=True)
        result = tf.nest.map_structure(tf.add, sample_state, tf.nest.pack_sequence_as(sample_state, noises))
        state = _CorrelatedState(global_state.clip_norm, generator, memory, number + 1)
        return result, state, dp_accounting.UnsupportedDpEvent()


class BandedSum(_CorrelatedSum):
    """Noise of a banded matrix (Choquette-Choo et al. 2023): z_t = (w_t - sum_{j>=1} c_j z_{t-j}) / c_0.

    The memory is a ring of the last bands - 1 noises, of which a round replaces the oldest.
    """

    def __init__(self, clip_norm: float, stddev: float, bands: int, specs: tuple[tf.TensorSpec, ...], seed: int):
        """As the base class, with the number of bands; 1 is independent noise."""
        super().__init__(clip_norm, stddev, specs, seed, bands - 1)
        self._column = factorizations.banded_column(bands)

    def _noise(self, fresh, memory, round_num):
        first, *others = (float(entry) for entry in self._column)
        if not others:
            return fresh / first, memory
        place = round_num % self._rows
        # Row r holds z_{t-j} for j = (place - r) mod rows, in 1 to rows.
        weights = tf.roll(tf.constant(others[::-1], tf.float32), place, axis=0)
        noise = (fresh - tf.tensordot(weights, memory, 1)) / first
        return noise, tf.tensor_scatter_nd_update(memory, [[place]], noise[tf.newaxis])


class BufferedSum(_CorrelatedSum):
    """Noise of a buffered linear Toeplitz matrix (Dvijotham et al. 2024): z_t = w_t - sum of scale_i s_{t,i}.

    The memory is the buffers s_{t,i} = z_{t-1} + decay_i s_{t-1,i}.
    """

    def __init__(
        self,
        clip_norm: float,
        stddev: float,
        buffers: tuple[tuple[float, float], ...],
        specs: tuple[tf.TensorSpec, ...],
        seed: int,
    ):
        """As the base class, with the (decay, scale) of each buffer."""
        super().__init__(clip_norm, stddev, specs, seed, len(buffers))
        self._decays, self._scales = (tf.constant(values, tf.float32) for values in zip(*buffers, strict=True))

    def _noise(self, fresh, memory, round_num):
        del round_num
        noise = fresh - tf.tensordot(self._scales, memory, 1)
        decays = tf.reshape(self._decays, [-1] + [1] * len(fresh.shape))
        return noise, decays * memory + noise
