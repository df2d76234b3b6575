"""Noise that earlier rounds' noise is part of, made beside the rounds that add it.

Round t adds row t of C^-1 W, where W is independent noise and C a Toeplitz matrix (see `factorizations`). The program
makes this noise and keeps what later rounds need of it. In the state of a TFF round, hundreds of earlier noises would
be sent to the worker and back.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_privacy as tfp

from optimization.privacy import mechanisms


class State(NamedTuple):
    """What rounds with such noise keep as the aggregator's state.

    Attributes:
      aggregator: TFF's own, with a `dp_queries.NoisedSum`.
      generator: State of the independent noise, with its seed.
      memory: float32 [parameters] each; the last bands - 1 noises, oldest first; never changed.
    """

    aggregator: Any
    generator: Any
    memory: tuple[np.ndarray, ...]


class Noise:
    """The noise of a mechanism's rounds.

    Choquette-Choo et al. 2023: z_t = (w_t - sum_{j>=1} c_j z_{t-j}) / c_0.
    """

    def __init__(self, mechanism: mechanisms.Mechanism, shapes: tuple[tuple[int, ...], ...], seed: int):
        """Takes the mechanism, `mf_dpftrl`, the shapes of a record's tensors, and the seed of the independent noise."""
        self._shapes = shapes
        specs = tuple(tf.TensorSpec(shape) for shape in shapes)
        stddev = mechanism.noise_multiplier * mechanism.clip_norm
        self._generator = tfp.tree_aggregation.GaussianNoiseGenerator(stddev, specs, seed)
        self._first, *others = mechanism.column(mechanism.bands).tolist()
        self._weights = tuple(reversed(others))

    def initial_state(self, aggregator: Any) -> State:
        """State before the first round, from the state of TFF."""
        nothing = np.zeros(sum(map(int, map(np.prod, self._shapes))), np.float32)
        return State(aggregator, self._generator.initialize(), (nothing,) * len(self._weights))

    def next(self, state: State) -> tuple[tuple[np.ndarray, ...], State]:
        """Noise of a round, float32 in the tensors' shapes, and the state after it."""
        fresh, generator = self._generator.next(state.generator)
        noise = np.concatenate([np.ravel(part) for part in fresh])
        part = np.empty_like(noise)
        for weight, earlier in zip(self._weights, state.memory, strict=True):
            noise -= np.multiply(earlier, weight, out=part)
        noise /= self._first
        memory = (*state.memory, noise)[1:]
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])[:-1]
        parts = tuple(part.reshape(shape) for part, shape in zip(np.split(noise, ends), self._shapes, strict=True))
        return parts, State(state.aggregator, generator, memory)


def with_noise(aggregator: Any, noise: tuple[np.ndarray, ...]) -> Any:
    """State of an aggregator with the noise of the next round."""
    query = aggregator.query_state
    return aggregator._replace(query_state=query._replace(numerator_state=query.numerator_state._replace(noise=noise)))


class Rounds(NamedTuple):
    """Rounds that are each given their noise, with the interface of the process.

    Attributes:
      process: Its states have a field `aggregator`.
      noise: The noise.
    """

    process: Any
    noise: Noise

    def initialize(self) -> Any:
        """State before round 1."""
        state = self.process.initialize()
        return state._replace(aggregator=self.noise.initial_state(state.aggregator))

    def next(self, state: Any, clients: Any) -> tuple[Any, Any]:
        """Runs one round: (state, clients) -> (state, metrics)."""
        noise, kept = self.noise.next(state.aggregator)
        given = state._replace(aggregator=with_noise(kept.aggregator, noise))
        after, metrics = self.process.next(given, clients)
        return after._replace(aggregator=kept._replace(aggregator=after.aggregator)), metrics
