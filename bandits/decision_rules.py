"""Context-free decision rules, which choose the next action from the rewards observed so far.

The same interface serves a server that decides once per round, and thousands of clients who decide in one TensorFlow
computation. `select` and `update` are pure functions of TensorFlow operations, and work eagerly and in graphs. They
take a single state, or a batch of states with leading axes; `select` takes one key for each state. `bandits.registry`,
which does not import TensorFlow, lists the rules' names and the ranges of their parameters.

Unless noted otherwise, sections and equations are those of Lundahl, "Personalization by Combination", Stockholm
University 2021:14.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

Array: TypeAlias = np.ndarray | tf.Tensor


class ValueState(NamedTuple):
    """State of a rule with estimated values.

    Attributes:
      values: float32 [..., actions], estimated expected rewards.
      counts: float32 [..., actions], number of times each action was executed, discounted if the rule discounts.
    """

    values: Array
    counts: Array


class BetaState(NamedTuple):
    """State of a Bayesian rule, without its prior.

    Attributes:
      successes: float32 [..., actions], number of rewards of 1, discounted if the rule discounts.
      failures: float32 [..., actions], number of rewards of 0, discounted if the rule discounts.
    """

    successes: Array
    failures: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecisionRule(abc.ABC):
    """Repeatedly chooses one of several actions. A key is an int32 [..., 2] seed; equal keys give equal samples.

    Attributes:
      explores_all: Whether every round executes all actions instead of the selected one.
    """

    explores_all: ClassVar[bool] = False

    @abc.abstractmethod
    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> Any:
        """State before the first reward: a named tuple of float32 NumPy arrays [*batch_shape, actions]."""

    @abc.abstractmethod
    def estimates(self, state: Any) -> tf.Tensor:
        """The rule's estimates of the expected rewards, float32 [..., actions]."""

    @abc.abstractmethod
    def select(self, state: Any, key: Array) -> tf.Tensor:
        """The next action, int32 [...]; ties are broken uniformly at random."""

    @abc.abstractmethod
    def _learn(self, state: Any, tried: tf.Tensor, rewards: tf.Tensor) -> Any:
        """State after a round.

        Args:
          state: State before the round.
          tried: float32 [..., actions], 1 for the executed actions, else 0.
          rewards: float32 [..., actions], rewards of the executed actions, else 0.
        """

    def update(self, state: Any, action: Array, reward: Array) -> Any:
        """State after one executed action.

        Args:
          state: State before the action.
          action: int [...], the executed action.
          reward: float [...], its reward; 0 or 1 for a Bayesian rule.
        """
        tried = tf.one_hot(action, state[0].shape[-1])
        return self._learn(state, tried, tried * tf.cast(reward, tf.float32)[..., tf.newaxis])

    def update_all(self, state: Any, rewards: Array, tried: Array | None = None) -> Any:
        """State after a round of Extreme Explore (section 8.3.2).

        Args:
          state: State before the round.
          rewards: float [..., actions], finite; those of actions that were not executed are ignored.
          tried: float [..., actions], 1 for executed actions, else 0; None if all were executed.
        """
        rewards = tf.cast(rewards, tf.float32)
        tried = tf.ones_like(rewards) if tried is None else tf.cast(tried, tf.float32)
        return self._learn(state, tried, tried * rewards)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ValueRule(DecisionRule):
    """Estimates rewards by the sample mean (equation 2) or, with `alpha`, exponential recency weighting (section 4.1).

    Attributes:
      alpha: Step size towards each new reward, in (0, 1]; None for the sample mean.
      gamma: Discount factor of the counts; 1 for rules that do not discount.
    """

    alpha: float | None = None
    gamma: ClassVar[float] = 1.0

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> ValueState:
        shape = (*batch_shape, num_actions)
        return ValueState(np.zeros(shape, np.float32), np.zeros(shape, np.float32))

    def estimates(self, state: ValueState) -> tf.Tensor:
        return tf.convert_to_tensor(state.values)

    def _learn(self, state: ValueState, tried: tf.Tensor, rewards: tf.Tensor) -> ValueState:
        # With discounted counts N and a discounted sum of rewards S, steps of 1/N give S/N = q + (r - q)/N.
        counts = self.gamma * state.counts + tried
        # The step is 0 for an action that was not tried, even if its count is 0.
        step = tried * self.alpha if self.alpha is not None else tf.math.divide_no_nan(tried, counts)
        return ValueState(state.values + step * (rewards - state.values), counts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Greedy(_ValueRule):
    """Executes the action with the highest estimate (section 4.1).

    Attributes:
      initial_value: Estimate of an action before its first reward. A value above all possible rewards makes the rule
        try every action first (optimistic initialization).
    """

    initial_value: float = 0.0

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> ValueState:
        state = super().init(num_actions, batch_shape)
        return state._replace(values=np.full_like(state.values, self.initial_value))

    def select(self, state: ValueState, key: Array) -> tf.Tensor:
        return best_action(state.values, key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpsilonGreedy(Greedy):
    """Executes the greedy action or, with probability `epsilon`, a uniformly random action.

    The random action can be the greedy one (Sutton and Barto, "Reinforcement Learning", section 2.2).

    Attributes:
      epsilon: Exploration rate, in [0, 1].
      spares_greedy: Whether the random action is chosen from the other actions only.
    """

    epsilon: float = 0.1
    spares_greedy: ClassVar[bool] = False

    def select(self, state: ValueState, key: Array) -> tf.Tensor:
        return select_epsilon_greedy(state.values, self.epsilon, key, spares_greedy=self.spares_greedy)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpsilonNonGreedy(EpsilonGreedy):
    """The variant of section 4.1.1: with probability `epsilon`, executes an action other than the greedy one."""

    spares_greedy: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ucb(_ValueRule):
    """Upper confidence bound (section 4.1.2), and its discounted form (Garivier and Moulines, 2011, section 3).

    Executes every action once, and then the action with the highest q(a) + c sqrt(2 ln t / N(a)), where t is the sum of
    all N. In the notation of Garivier and Moulines, c = B sqrt(2 xi).

    Attributes:
      c: Exploration coefficient, above 0.
      gamma: Discount factor: weight of a reward relative to the next one, in (0, 1]; 1 is the undiscounted rule.
    """

    c: float = 1.0
    gamma: float = 1.0  # type: ignore[misc]  # A class variable of the rules that do not discount.

    def interval(self, state: ValueState) -> tf.Tensor:
        """Bonus c sqrt(2 ln t / N(a)), float32 [..., actions]; infinite for an action that was never executed."""
        counts = tf.convert_to_tensor(state.counts)
        executed = tf.maximum(tf.reduce_sum(counts, axis=-1, keepdims=True), 1.0)
        interval = self.c * tf.sqrt(tf.math.divide_no_nan(2 * tf.math.log(executed), counts))
        return tf.where(counts > 0, interval, np.inf)

    def select(self, state: ValueState, key: Array) -> tf.Tensor:
        return best_action(state.values + self.interval(state), key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Thompson(DecisionRule):
    """Thompson sampling with a Beta prior and Bernoulli rewards (Algorithms 3 and 4).

    Attributes:
      gamma: Factor by which each new reward discounts earlier successes and failures, in (0, 1]; 1 is the undiscounted
        rule (Raj and Kalyani, 2017).
      prior_alpha: Prior successes, alpha_0 of Algorithm 4, above 0; never discounted.
      prior_beta: Prior failures, beta_0, above 0; never discounted.
    """

    gamma: float = 1.0
    prior_alpha: float = 1.0
    prior_beta: float = 1.0

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> BetaState:
        shape = (*batch_shape, num_actions)
        return BetaState(np.zeros(shape, np.float32), np.zeros(shape, np.float32))

    def estimates(self, state: BetaState) -> tf.Tensor:
        successes, failures = self._posterior(state)
        return successes / (successes + failures)

    def select(self, state: BetaState, key: Array) -> tf.Tensor:
        # If X and Y are Gamma variables, X / (X + Y) is Beta.
        shapes = tf.stack(self._posterior(state), axis=-2)
        draws = _draw(lambda one, shape: tf.random.stateless_gamma(tf.shape(shape), one, shape), key, shapes)
        samples = draws[..., 0, :] / (draws[..., 0, :] + draws[..., 1, :])
        return tf.argmax(samples, axis=-1, output_type=tf.int32)

    def _posterior(self, state: BetaState) -> tuple[tf.Tensor, tf.Tensor]:
        # Averaged counts can be negative if noise for differential privacy was added to them.
        successes, failures = (tf.maximum(counts, 0.0) for counts in (state.successes, state.failures))
        return self.prior_alpha + successes, self.prior_beta + failures

    def _learn(self, state: BetaState, tried: tf.Tensor, rewards: tf.Tensor) -> BetaState:
        return BetaState(self.gamma * state.successes + rewards, self.gamma * state.failures + tried - rewards)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExtremeExplore(Greedy):
    """Executes every action in every round (section 8.3.2), and estimates rewards like `Greedy`.

    The caller then keeps the result of one action: `best_action` of the round's rewards or, if rewards are observed one
    round later, `best_action` of the estimates.
    """

    explores_all = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class BayesianExtremeExplore(Thompson):
    """Extreme Explore with the estimates of Thompson sampling; `select` takes the highest posterior mean."""

    explores_all = True

    def select(self, state: BetaState, key: Array) -> tf.Tensor:
        return best_action(self.estimates(state), key)


def best_action(scores: Array, key: Array) -> tf.Tensor:
    """The action with the highest score, int32 [...]; ties are broken uniformly at random.

    Args:
      scores: float32 [..., actions].
      key: int32 [..., 2].
    """
    return _best(scores, _uniform(key, scores.shape[-1]))


def select_epsilon_greedy(values: Array, epsilon: float | Array, key: Array, *, spares_greedy: bool) -> tf.Tensor:
    """The best action or, with probability epsilon, a random action, int32 [...]; see `EpsilonGreedy`.

    Args:
      values: float32 [..., actions].
      epsilon: Exploration rate, a number or float32 [...].
      key: int32 [..., 2].
      spares_greedy: Whether the random action always differs from the best one, if there are several actions.
    """
    num_actions = values.shape[-1]
    draws = _uniform(key, num_actions + 2)
    greedy = _best(values, draws[..., :num_actions])
    if spares_greedy:
        shift = 1 + tf.cast(draws[..., -1] * (num_actions - 1), tf.int32)
        other = (greedy + shift) % num_actions
    else:
        other = tf.cast(draws[..., -1] * num_actions, tf.int32)
    return tf.where(draws[..., -2] < epsilon, other, greedy)


def _best(scores: Array, noise: tf.Tensor) -> tf.Tensor:
    is_best = tf.equal(scores, tf.reduce_max(scores, axis=-1, keepdims=True))
    return tf.argmax(tf.where(is_best, noise, -1.0), axis=-1, output_type=tf.int32)


def _uniform(key: Array, count: int) -> tf.Tensor:
    return _draw(lambda seed: tf.random.stateless_uniform((count,), seed), key)


def _draw(sample: Callable[..., tf.Tensor], key: Array, *parameters: Array) -> tf.Tensor:
    """`sample(key, *parameters)` for each key separately, so that a draw does not depend on the rest of the batch."""
    key = tf.convert_to_tensor(key)
    if key.shape.rank == 1:
        return sample(key, *parameters)
    return tf.map_fn(lambda row: _draw(sample, *row), (key, *parameters), fn_output_signature=tf.float32)
