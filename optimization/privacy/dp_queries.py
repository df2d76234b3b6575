"""Private sums that extend TensorFlow Privacy by seeded noise, and by noise that is correlated over rounds.

TensorFlow Privacy's Gaussian sums draw from TensorFlow's unseeded generator. This is right for privacy, but runs cannot
be repeated. The seeded sums here are for experiments and tests.

With correlated noise, round t adds row t of C^-1 W, where W is independent noise and C is a Toeplitz matrix (see
`factorizations`). The program generates this noise outside the TFF rounds, and stores the noise that later rounds need.
If this were part of a TFF round's state, the noise of hundreds of earlier rounds would be sent to the worker and back.
"""

import collections
import functools
from typing import Any, NamedTuple

import dp_accounting
import numpy as np
import tensorflow as tf
import tensorflow_privacy as tfp

from optimization.privacy import mechanisms
from optimization.runtime import private

_SeededState = collections.namedtuple("_SeededState", ["l2_norm_clip", "stddev", "draws"])


def gaussian_sum(l2_norm_clip: float, stddev: float, seed: int | None) -> tfp.SumAggregationDPQuery:
    """Returns a query that sums records clipped to an L2 norm, and adds Gaussian noise to each coordinate.

    Args:
      l2_norm_clip: Clip norm of a record.
      stddev: Standard deviation of the noise on the sum.
      seed: Seed of the noise; None for TensorFlow's unseeded generator.
    """
    return (
        tfp.GaussianSumQuery(l2_norm_clip, stddev) if seed is None else _SeededGaussianSum(l2_norm_clip, stddev, seed)
    )


def adaptive_clip_sum(*, seeds: tuple[int, int] | None, **parameters: Any) -> tfp.SumAggregationDPQuery:
    """Returns a `gaussian_sum` whose clip norm follows a quantile of the records' norms (Andrew et al. 2021).

    Args:
      seeds: Seeds of the noise on the sum and on the count of unclipped records; None as in `gaussian_sum`.
      **parameters: Parameters of `tfp.QuantileAdaptiveClipSumQuery`.
    """
    if seeds is None:
        return tfp.QuantileAdaptiveClipSumQuery(**parameters, geometric_update=True)
    return _SeededAdaptiveClipSum(*seeds, **parameters, geometric_update=True)


class _SeededGaussianSum(tfp.GaussianSumQuery):
    """Gaussian sum whose noise is determined by the seed and the number of earlier sums."""

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
    """Adaptive clipping with seeded noise on both the sum of the records and the count of unclipped records."""

    def __init__(self, seed: int, count_seed: int, **parameters: Any):
        super().__init__(**parameters)
        private.replace_sums(self, *(functools.partial(_SeededGaussianSum, seed=each) for each in (seed, count_seed)))

    def get_noised_result(self, sample_state, global_state):
        result, state, event = super().get_noised_result(sample_state, global_state)
        # The parent class creates a new state for the sum, so the count of draws is carried over here.
        sum_state = state.sum_state._replace(draws=global_state.sum_state.draws + 1)
        return result, state._replace(sum_state=sum_state), event


def tree_sum(
    clip_norm: float, noise_multiplier: float, specs: tuple[tf.TensorSpec, ...], *, noise_seed: int, max_rounds: int
) -> tfp.SumAggregationDPQuery:
    """Returns a query for tree aggregation. Each result is the change of the noisy prefix sum since the last round.

    The noise on the sum of the first t rounds has the variance of as many nodes as t has ones in binary form.

    Args:
      clip_norm: L2 norm to which a record is clipped.
      noise_multiplier: Standard deviation of a node's noise, in clip norms.
      specs: Shapes of a record's tensors.
      noise_seed: Seed of the noise.
      max_rounds: Maximum number of rounds in a tree.
    """
    tree = _FixedShapeTreeSum.build_l2_gaussian_query(
        clip_norm, noise_multiplier, specs, noise_seed=noise_seed, use_efficient=False
    )
    tree.depth = max_rounds.bit_length() + 1
    return tree


class _FixedShapeTreeSum(tfp.TreeResidualSumQuery):
    """Pads the levels of the tree to its depth, so that the state keeps its shape, as checkpoints require."""

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


class _NoisedState(NamedTuple):
    clip_norm: Any
    noise: Any


class NoisedSum(tfp.SumAggregationDPQuery):
    """Sum of clipped records, plus the noise in the state, which the caller sets in each round; see `CorrelatedNoise`.

    If the caller sets no noise, NaN is added. This ensures that no sum is released without noise, or twice with the
    same noise.
    """

    def __init__(self, clip_norm: float, specs: tuple[tf.TensorSpec, ...]):
        """Takes the L2 norm to which a record is clipped, and the specifications of its tensors."""
        self._clip_norm = clip_norm
        self._specs = specs

    def initial_global_state(self):
        missing = tuple(tf.fill(spec.shape, np.float32(np.nan)) for spec in self._specs)
        return _NoisedState(tf.constant(self._clip_norm, tf.float32), missing)

    def derive_sample_params(self, global_state):
        return global_state.clip_norm

    def preprocess_record(self, params, record):
        clipped, _ = tf.clip_by_global_norm(tf.nest.flatten(record), params)
        return tf.nest.pack_sequence_as(record, clipped)

    def get_noised_result(self, sample_state, global_state):
        noise = tf.nest.pack_sequence_as(sample_state, tf.nest.flatten(global_state.noise))
        result = tf.nest.map_structure(tf.add, sample_state, noise)
        return result, self.initial_global_state(), dp_accounting.UnsupportedDpEvent()


class NoiseState(NamedTuple):
    """The aggregator's state in rounds with correlated noise.

    Attributes:
      aggregator: TFF's state of the aggregator, which contains that of a `NoisedSum`.
      generator: State of the generator of the independent noise, with its seed.
      memory: Correlated noise of the last bands - 1 rounds, float32 [parameters] each, oldest first. These arrays are
        never modified.
    """

    aggregator: Any
    generator: Any
    memory: tuple[np.ndarray, ...]


class CorrelatedNoise:
    """Correlated noise for the rounds of a mechanism.

    The noise of round t is z_t = (w_t - sum_{j>=1} c_j z_{t-j}) / c_0, where w_t is independent noise and c is the
    first column of C (Choquette-Choo et al. 2023).
    """

    def __init__(self, mechanism: mechanisms.Mechanism, shapes: tuple[tuple[int, ...], ...], seed: int):
        """Takes an `mf_dpftrl` mechanism, the shapes of a record's tensors, and the seed of the independent noise."""
        self._shapes = shapes
        specs = tuple(tf.TensorSpec(shape) for shape in shapes)
        stddev = mechanism.noise_multiplier * mechanism.clip_norm
        self._generator = tfp.tree_aggregation.GaussianNoiseGenerator(stddev, specs, seed)
        self._first, *others = mechanism.column(mechanism.bands).tolist()
        self._weights = tuple(reversed(others))

    def initial_state(self, aggregator: Any) -> NoiseState:
        """State before the first round, given TFF's state of the aggregator."""
        nothing = np.zeros(sum(map(int, map(np.prod, self._shapes))), np.float32)
        return NoiseState(aggregator, self._generator.initialize(), (nothing,) * len(self._weights))

    def next(self, state: NoiseState) -> tuple[tuple[np.ndarray, ...], NoiseState]:
        """Returns the noise of a round, float32 with the tensors' shapes, and the next state."""
        fresh, generator = self._generator.next(state.generator)
        noise = np.concatenate([np.ravel(part) for part in fresh])
        part = np.empty_like(noise)
        for weight, earlier in zip(self._weights, state.memory, strict=True):
            noise -= np.multiply(earlier, weight, out=part)
        noise /= self._first
        memory = (*state.memory, noise)[1:]
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        parts = tuple(part.reshape(shape) for part, shape in zip(np.split(noise, ends), self._shapes, strict=True))
        return parts, NoiseState(state.aggregator, generator, memory)


def with_noise(aggregator: Any, noise: tuple[np.ndarray, ...]) -> Any:
    """Returns an aggregator's state that contains the noise of the next round."""
    query = aggregator.query_state
    return aggregator._replace(query_state=query._replace(numerator_state=query.numerator_state._replace(noise=noise)))


class NoisyRounds(NamedTuple):
    """Rounds that add correlated noise, with the interface of a process.

    Attributes:
      process: Process whose states have a field `aggregator`.
      noise: Generator of the noise.
    """

    process: Any
    noise: CorrelatedNoise

    def initialize(self) -> Any:
        """State before round 1."""
        state = self.process.initialize()
        return state._replace(aggregator=self.noise.initial_state(state.aggregator))

    def next(self, state: Any, clients: Any) -> tuple[Any, Any]:
        """Runs one round: (state, clients) -> (state, metrics)."""
        noise, noise_state = self.noise.next(state.aggregator)
        before = state._replace(aggregator=with_noise(noise_state.aggregator, noise))
        after, metrics = self.process.next(before, clients)
        return after._replace(aggregator=noise_state._replace(aggregator=after.aggregator)), metrics
