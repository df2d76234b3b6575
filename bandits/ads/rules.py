"""Decision rules in a federation: what of their state is averaged, and two rules that average more than values.

The two follow the text's list of remedies for federated exploration, which names them in a line each; the equations
are this project's.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bandits import decision_rules
from bandits.decision_rules import Array


class EpsilonState(NamedTuple):
    """State of `GradientEpsilon`.

    Attributes:
      values: float32 [..., actions], estimated expected rewards.
      counts: float32 [..., actions], times each action was executed.
      epsilon: float32 [..., 1], the probability of an action at random.
    """

    values: Array
    counts: Array
    epsilon: Array


class IntervalState(NamedTuple):
    """State of `FederatedUcb`.

    Attributes:
      values: float32 [..., actions], estimated expected rewards.
      counts: float32 [..., actions], times each action was executed.
      interval: float32 [..., actions], how far the expected reward may lie above its estimate.
    """

    values: Array
    counts: Array
    interval: Array


# The fields of a state that every client takes from the server and whose differentials are averaged; the others start
# anew with each round, as N does in Algorithm 1.
AVERAGED: Mapping[type, tuple[str, ...]] = {
    decision_rules.ValueState: ("values",),
    decision_rules.BetaState: ("successes", "failures"),
    EpsilonState: ("values", "epsilon"),
    IntervalState: ("values", "interval"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientEpsilon(decision_rules.EpsilonGreedy):
    """Epsilon-greedy whose epsilon follows the gradient of the expected reward.

    That reward is (1 - epsilon) max_a Q(a) + epsilon mean_a Q(a), so epsilon falls by epsilon_step times
    max_a Q(a) - mean_a Q(a) at each reward: the faster, the better the best action stands out. That difference is never
    below 0, so epsilon never rises, on a client or in the mean over clients; noise for privacy alone can raise it.

    Attributes:
      epsilon: Its value before the first reward.
      epsilon_step: Step along the gradient, at least 0.
    """

    epsilon_step: float = 0.02

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> EpsilonState:
        state = super().init(num_actions, batch_shape)
        return EpsilonState(*state, np.full((*batch_shape, 1), self.epsilon, np.float32))

    def select(self, state: EpsilonState, key: Array) -> tf.Tensor:
        return decision_rules.select_epsilon_greedy(
            state.values, state.epsilon[..., 0], key, spares_greedy=self.spares_greedy
        )

    def _learn(self, state: EpsilonState, tried: tf.Tensor, rewards: tf.Tensor) -> EpsilonState:
        values, counts = super()._learn(decision_rules.ValueState(state.values, state.counts), tried, rewards)
        gap = tf.reduce_max(values, axis=-1, keepdims=True) - tf.reduce_mean(values, axis=-1, keepdims=True)
        return EpsilonState(values, counts, tf.clip_by_value(state.epsilon - self.epsilon_step * gap, 0.0, 1.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FederatedUcb(decision_rules.Ucb):
    """Upper confidence bound whose interval is a learned quantity of its own, so that it can be averaged.

    The interval is Hoeffding's at a fixed confidence, c / sqrt(n), with n = 1 before the first reward; each execution
    adds 1 to the n that the interval stands for: 1/U^2 grows by 1/c^2.
    """

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> IntervalState:
        state = super().init(num_actions, batch_shape)
        return IntervalState(*state, np.full_like(state.values, self.c))

    def interval(self, state: IntervalState) -> tf.Tensor:
        return tf.convert_to_tensor(state.interval)

    def _learn(self, state: IntervalState, tried: tf.Tensor, rewards: tf.Tensor) -> IntervalState:
        values, counts = super()._learn(decision_rules.ValueState(state.values, state.counts), tried, rewards)
        # Noise for differential privacy can push an averaged interval below 0: then there is nothing left to narrow.
        positive = tf.maximum(state.interval, 0.0)
        interval = positive / tf.sqrt(1 + tried * tf.square(positive / self.c))
        return IntervalState(values, counts, interval)


def averaged_vector(state: Any) -> tf.Tensor:
    """Returns float32 [..., numbers], the averaged fields of a state side by side."""
    return tf.concat([getattr(state, name) for name in AVERAGED[type(state)]], axis=-1)


def server_state(fresh: Any, vector: Array) -> Any:
    """Returns the server's state: its averaged fields, and the others as before the first reward.

    Args:
      fresh: The rule's `init(num_actions)`.
      vector: float32 [numbers], as `averaged_vector` lays the averaged fields out.
    """
    names = AVERAGED[type(fresh)]
    parts = tf.split(vector, [getattr(fresh, name).shape[-1] for name in names])
    return fresh._replace(**dict(zip(names, parts, strict=True)))


def learned(state: Any) -> tuple[float, float]:
    """Returns what a rule learned beside its values, NaN where it does not: epsilon, and the mean interval over ads."""
    epsilon, interval = (float(np.mean(getattr(state, name, np.nan))) for name in ("epsilon", "interval"))
    return epsilon, interval


def client_state(fresh: Any, vector: Array, batch_size: Array) -> Any:
    """Returns the state that each of several clients starts with: the server's averaged fields, the others anew.

    Args:
      fresh: The rule's `init(num_actions)`.
      vector: float32 [numbers], the server's averaged fields as `averaged_vector` lays them out.
      batch_size: int32 scalar, clients.
    """
    fields = server_state(fresh, vector)
    return tf.nest.map_structure(lambda field: tf.tile(field[tf.newaxis], [batch_size, 1]), fields)
