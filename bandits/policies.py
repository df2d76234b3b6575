"""Exploration policies: predicted rewards -> action probabilities (Agarwal et al. 2023, Algorithm 2, lines 4-7).

A policy is a function of the predicted rewards. It can request further arguments: see `MORE`. The action is sampled and
its propensity recorded in a single place, `bandits.process`. A policy can also declare statistics of the clients' logs;
see `Policy.statistics`. It receives their sums over all clients, for the rounds that `Policy.at_deployment` selects.
The exploration parameter (epsilon, temperature or gamma) is usually a number. If a schedule changes it from one
deployment to the next, it is a float32 scalar tensor that a compiled round takes as an input, or None until that tensor
exists.
Ties for the best action are broken at random: tied actions share the greedy action's probability equally. With
`first_of_ties`, the first of the tied actions counts as the best one instead.

If sets of actions change from row to row, the predicted reward of an action that is not offered is -infinity, and its
probability is exactly 0.
"""

import abc
import contextlib
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from data.errors import Failure

Parameter: TypeAlias = float | tf.Tensor
Sums: TypeAlias = Mapping[str, np.ndarray]

ROUNDING = 1e-3  # Larger than a row's total rounding error, smaller than any real mistake.
_LARGEST, _SMALLEST = tf.float32.max, 1e-37  # In float32, 1e-37 is above 0, and its inverse is finite.


# Arguments besides `predicted_rewards` that a policy receives if its `probabilities` method names them.
MORE: Mapping[str, str] = {
    "head_rewards": "float32 [batch, heads, actions], the rewards that each head of the model predicts",
    "representation": "float32 [batch, units], the inputs of the model's last layer",
    "contexts": "the contexts in the model's input form, [batch, ...]; for posts a mapping, see `models.dense`",
    "key": "int32 [2], a random key for the policy alone; depends on the client and on the period or round",
    "round_num": "int32 scalar, the round in which the client acts, from 1",
    "interactions": "float32 scalar, number of all clients' interactions up to (`within`: since) the last deployment",
    "statistics": "the policy's `statistics`, summed over all clients and the rounds that `at_deployment` selects",
}
# Arguments of `Policy.statistics`.
LOGGED = ("contexts", "representation", "action", "reward", "propensity", "predicted_rewards", "target")
ROUND, COUNT, NOISE = "round_num", "interactions", "noise"  # No statistic may have these names.
ACCUMULATE, RESTART, WITHIN = "accumulate", "restart", "within"
_INVALID = "returned the invalid row"


class Policy(abc.ABC):
    """Maps predicted rewards, and any further arguments it requests, to a distribution over actions.

    Attributes:
      asks: Arguments from MORE that `probabilities` names.
      reads: Arguments in LOGGED that `statistics` names.
      at_deployment: The rounds whose statistics clients act with: all rounds up to the last deployment (`accumulate`),
        only those of the period that this deployment ended (`restart`), or the rounds since then (`within`). A policy
        with statistics must declare it.
      bound: Largest absolute value of a client's statistics and of its number of interactions in a round. Needed only
        for secure sums.
      name: Name in messages.
      is_checked: Whether rows are checked when they are used. Policies of this module need no check.
    """

    asks: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    at_deployment: str = ""
    bound: float | None = None
    is_checked: bool = True
    name: str = ""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.asks = _asked(cls.__name__, [*inspect.signature(cls.probabilities).parameters.values()][2:])
        cls.reads = _asked(cls.__name__, [*inspect.signature(cls.statistics).parameters.values()][1:], LOGGED)
        cls.name = cls.__name__
        cls.is_checked = vars(cls).get("is_checked", cls.__module__ != __name__)

    @property
    def sums(self) -> bool:
        """Whether clients sum statistics, or at least count their interactions."""
        return bool(self.reads) or COUNT in self.asks

    @property
    def has_state(self) -> bool:
        """Whether the policy depends on the round or on sums."""
        return self.sums or ROUND in self.asks

    @abc.abstractmethod
    def probabilities(self, predicted_rewards: tf.Tensor, *args: Any, **kwargs: Any) -> tf.Tensor:
        """Returns the probabilities of the actions, float32 [batch, actions]; each row sums to 1.

        Args:
          predicted_rewards: float32 [batch, actions], finite, but -infinity for actions that are not offered; the mean
            over the heads if the model has several.
          *args: The arguments from MORE that the policy names.
          **kwargs: The same, by keyword.
        """

    def statistics(self, *args: Any, **kwargs: Any) -> Mapping[str, tf.Tensor]:
        """Returns sums over interactions, by name: float32 arrays of fixed shapes.

        Each interaction of a client is counted once, in the first round in which its reward is observed. The sums of
        all clients are added. By default, there are no statistics.

        Args:
          *args: The arguments that the policy names, with one row for each interaction: `contexts` as in MORE;
            `representation`, float32 [batch, units], the inputs of the last layer of the model that acted; its
            `predicted_rewards`, float32 [batch, actions]; `action`, int32 [batch]; `reward`, float32 [batch], in the
            unit of the data; `target`, float32 [batch], the reward that the model learns to predict; and `propensity`,
            float32 [batch].
          **kwargs: The same, by keyword.
        """
        return {}

    def served(self, weights: Sequence[np.ndarray], deployed: Sums, total: Sums) -> tuple[Sequence[np.ndarray], Sums]:
        """Returns the model that is evaluated and saved, and the sums that are saved with it.

        Args:
          weights: The trained model.
          deployed: The sums that clients act with, float64 by name.
          total: The same plus the sums since the last deployment; with noise, also its standard deviation, `noise`.
        """
        del total
        return weights, deployed

    def __call__(self, predicted_rewards: tf.Tensor, offered: tf.Tensor | None = None, **more: Any) -> tf.Tensor:
        """Returns `probabilities`, with uniform rows where they are invalid or a prediction is not finite.

        If the policy is checked, an invalid row is an error; see `shows_invalid_rows`.

        Args:
          predicted_rewards: float32 [batch, actions].
          offered: bool [batch, actions], at least one in each row; None if all actions are offered.
          **more: The arguments that the policy `asks` for.

        Returns:
          float32 [batch, actions]; every row is a distribution over the offered actions.
        """
        usable = is_usable(predicted_rewards, offered)[:, tf.newaxis]
        # Zeros make every policy's arithmetic safe; their rows are replaced below.
        safe = tf.where(usable, predicted_rewards, 0.0)
        rows = self.probabilities(safe if offered is None else tf.where(offered, safe, -np.inf), **more)
        if offered is not None:
            rows = tf.where(offered, rows, 0.0)
        sums = tf.reduce_sum(rows, axis=1, keepdims=True)
        is_distribution = tf.reduce_all(rows >= 0, axis=1, keepdims=True) & (tf.abs(sums - 1) < ROUNDING)
        if self.is_checked:
            is_wrong = tf.squeeze(usable & tf.logical_not(is_distribution), 1)
            shown = [f"policy {self.name} {_INVALID}", tf.boolean_mask(rows, is_wrong)[:1]]
            with tf.control_dependencies([tf.debugging.Assert(tf.logical_not(tf.reduce_any(is_wrong)), shown, 100)]):
                rows = tf.identity(rows)
        rows = tf.where(usable & is_distribution, rows, 1.0 if offered is None else tf.cast(offered, tf.float32))
        return rows / tf.reduce_sum(rows, axis=1, keepdims=True)


def is_usable(predicted_rewards: tf.Tensor, offered: tf.Tensor | None = None) -> tf.Tensor:
    """Whether a row's predictions for offered actions are all finite, bool [batch]; see `Policy.__call__`."""
    is_finite = tf.math.is_finite(predicted_rewards)
    return tf.reduce_all(is_finite if offered is None else is_finite | tf.logical_not(offered), axis=1)


@contextlib.contextmanager
def shows_invalid_rows() -> Iterator[None]:
    """Converts a checked policy's error for an invalid row, even if a worker raised it, to a `Failure` with the row."""
    try:
        yield
    except Exception as error:  # Workers raise several types.
        if not (found := re.search(rf"(policy \S+ {_INVALID})['\]]\s*\[*([^\]\n]*)", str(error))):
            raise
        rule = "each row must have probabilities of at least 0 that sum to 1"
        raise Failure(f"{found[1]} [{found[2]}]: {rule}.") from error


def _asked(name: str, parameters: Sequence[inspect.Parameter], known: Iterable[str] = MORE) -> tuple[str, ...]:
    """Returns the names of a function's arguments. Raises a TypeError if one is not known; by default, not in MORE."""
    names = tuple(one.name for one in parameters if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL))
    if unknown := set(names) - set(known):
        raise TypeError(f"{name} has unknown arguments {', '.join(sorted(unknown))}: use only {', '.join(known)}.")
    return names


@dataclasses.dataclass(frozen=True)
class OfFunction(Policy):
    """Policy that wraps a user-defined function.

    Attributes:
      function: Function with the same arguments and result as `probabilities`.
    """

    function: Callable[..., tf.Tensor]
    is_checked = True

    def __post_init__(self):
        parameters = [*inspect.signature(self.function).parameters.values()][1:]
        object.__setattr__(self, "asks", _asked(repr(self.function), parameters))
        object.__setattr__(self, "name", getattr(self.function, "__name__", repr(self.function)))

    def probabilities(self, predicted_rewards: tf.Tensor, **more: Any) -> tf.Tensor:
        return self.function(predicted_rewards, **more)


def of(given: Any) -> Policy:
    """Returns a policy for a user-supplied policy, function, or object with a `probabilities` method."""
    return given if isinstance(given, Policy) else OfFunction(getattr(given, "probabilities", given))


@dataclasses.dataclass(frozen=True)
class FromSamples(Policy):
    """Policy whose action probabilities are the actions' shares among several samples, mixed with the uniform policy.

    A function that samples actions with a key, such as Thompson sampling, does not return their probabilities. The
    actions' shares among the draws are the policy: the executed action is sampled from them, so the logged propensity
    is exact.

    Attributes:
      draws: Function (key, predicted_rewards, further arguments from MORE) -> one-hot rows [batch, actions], or actions
        int [batch].
      floor: Smallest probability of an action, above 0. If it exceeds 1 / actions, the policy is uniform.
      num_draws: Number of draws.

    Raises:
      ValueError: If the floor or the number of draws is not above 0.
    """

    draws: Callable[..., tf.Tensor]
    floor: float
    num_draws: int = 100
    is_checked = True

    def __post_init__(self):
        if not self.floor > 0 or not self.num_draws > 0:
            raise ValueError(f"floor and num_draws must be above 0, got {self.floor} and {self.num_draws}")
        asked = _asked(repr(self.draws), [*inspect.signature(self.draws).parameters.values()][2:])
        object.__setattr__(self, "asks", ("key", *asked))

    def probabilities(self, predicted_rewards: tf.Tensor, key: tf.Tensor, **more: Any) -> tf.Tensor:
        num_actions, offered = tf.shape(predicted_rewards)[1], _offered(predicted_rewards)

        def add(place: tf.Tensor, chosen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            drawn = self.draws(tf.random.experimental.stateless_fold_in(key, place), predicted_rewards, **more)
            rows = drawn if len(drawn.shape) == 2 else tf.one_hot(drawn, num_actions)
            return place + 1, chosen + tf.cast(rows, tf.float32)

        start = tf.constant(0), tf.zeros_like(predicted_rewards)
        _, chosen = tf.while_loop(lambda place, _: place < self.num_draws, add, start, parallel_iterations=1)
        num_offered = tf.reduce_sum(offered, axis=1, keepdims=True)
        floor = tf.minimum(self.floor, 1 / num_offered)
        return floor * offered + (1 - floor * num_offered) * chosen / self.num_draws


from_samples = FromSamples


def _best(predicted_rewards: tf.Tensor, only_first: bool) -> tf.Tensor:
    """Marks each row's best actions, or only the first of them, with 1: float32 [..., actions]."""
    if only_first:
        return tf.one_hot(tf.argmax(predicted_rewards, axis=-1), tf.shape(predicted_rewards)[-1])
    top = tf.reduce_max(predicted_rewards, axis=-1, keepdims=True)
    return tf.cast(predicted_rewards >= top, tf.float32)


def _gaps(predicted_rewards: tf.Tensor) -> tf.Tensor:
    """Returns the exact, finite gap between each prediction and the best in its row, float32 [batch, actions]."""
    return tf.minimum(tf.reduce_max(predicted_rewards, axis=1, keepdims=True) - predicted_rewards, _LARGEST)


def _is_known(parameter: Parameter) -> bool:
    """Whether a parameter is a number; a schedule's values are checked elsewhere."""
    return parameter is not None and not tf.is_tensor(parameter)


def _within(value: Parameter, low: float, high: float) -> Parameter:
    """Limits a parameter to the range from `low` to `high`."""
    return tf.clip_by_value(value, low, high) if tf.is_tensor(value) else min(max(value, low), high)  # type: ignore


def _in_range(value: Parameter) -> Parameter:
    """Limits a positive parameter so that float32 can represent both it and its inverse."""
    return _within(value, _SMALLEST, 1 / _SMALLEST)


def _offered(predicted_rewards: tf.Tensor) -> tf.Tensor:
    """Marks the actions that are offered with 1: float32 [batch, actions]."""
    return tf.cast(predicted_rewards > -np.inf, tf.float32)


def _greedy(predicted_rewards: tf.Tensor, first_of_ties: bool) -> tf.Tensor:
    best = _best(predicted_rewards, first_of_ties)
    return best / tf.reduce_sum(best, axis=-1, keepdims=True)


def _uniform(predicted_rewards: tf.Tensor) -> tf.Tensor:
    offered = _offered(predicted_rewards)
    return offered / tf.reduce_sum(offered, axis=1, keepdims=True)


@dataclasses.dataclass(frozen=True)
class Greedy(Policy):
    """Chooses the action with the highest predicted reward (Agarwal et al. 2023, eq. 3).

    Attributes:
      first_of_ties: Whether ties go to the first of the tied actions instead of a random one.
    """

    first_of_ties: bool = False

    def probabilities(self, predicted_rewards: tf.Tensor) -> tf.Tensor:
        return _greedy(predicted_rewards, self.first_of_ties)


@dataclasses.dataclass(frozen=True)
class Uniform(Policy):
    """Chooses every action with equal probability."""

    def probabilities(self, predicted_rewards: tf.Tensor) -> tf.Tensor:
        return _uniform(predicted_rewards)


@dataclasses.dataclass(frozen=True)
class EpsilonGreedy(Policy):
    """Chooses a uniformly random action with probability epsilon, otherwise the best (Algorithm 2, line 5).

    Attributes:
      epsilon: Probability of a uniformly random action, in [0, 1]. The random action can also be the best one.
      first_of_ties: Whether ties go to the first of the tied actions instead of a random one.

    Raises:
      ValueError: If epsilon lies outside [0, 1].
    """

    epsilon: Parameter
    first_of_ties: bool = False

    def __post_init__(self):
        if _is_known(self.epsilon) and not 0 <= self.epsilon <= 1:
            raise ValueError(f"epsilon must lie in [0, 1], got {self.epsilon}")

    def probabilities(self, predicted_rewards: tf.Tensor) -> tf.Tensor:
        explore = self.epsilon * _uniform(predicted_rewards)
        return (1 - self.epsilon) * _greedy(predicted_rewards, self.first_of_ties) + explore


@dataclasses.dataclass(frozen=True)
class Softmax(Policy):
    """Chooses action a with probability proportional to exp(f(x, a) / temperature) (Algorithm 2, line 6).

    Attributes:
      temperature: Beta in the paper, above 0. The policy is greedy in the limit 0 and uniform in the limit infinity.

    Raises:
      ValueError: If temperature is not above 0.
    """

    temperature: Parameter

    def __post_init__(self):
        if _is_known(self.temperature) and not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")

    def probabilities(self, predicted_rewards: tf.Tensor) -> tf.Tensor:
        # Gaps to the best action are exact, and a tiny temperature can at most make them infinite, which is clipped.
        return tf.nn.softmax(tf.maximum(-_gaps(predicted_rewards) / _in_range(self.temperature), -_LARGEST))


@dataclasses.dataclass(frozen=True)
class InverseGapWeighting(Policy):
    """Chooses an action less often the further its predicted reward lies below the best (Algorithm 2, line 7).

    p(a) = 1 / (mu + gamma (f(x, best) - f(x, a))) for all but the best action, which gets the remaining probability. If
    the other actions' probabilities add up to more than 1, which is possible for mu below actions - 1, they are scaled
    to sum to 1 and the best action gets 0. FALCON (Simchi-Levi and Xu 2022, Algorithm 1) and SquareCB (Foster and
    Rakhlin 2020, section 3) use mu = actions and a growing gamma, see `bandits.schedules`; Agarwal et al. 2023 keep
    both constant.

    Attributes:
      mu: Inverse probability, before scaling, of an action that ties with the best one but does not count as the best;
        above 0. Larger values explore less. `actions - 1` is the smallest value that never needs the scaling. None
        means the number of actions.
      gamma: Factor of the reward gap in the formula above, at least 0. Larger values are greedier.
      first_of_ties: Whether ties go to the first of the tied actions instead of a random one.

    Raises:
      ValueError: If mu is not above 0 or gamma is negative.
    """

    mu: float | None
    gamma: Parameter
    first_of_ties: bool = False

    def __post_init__(self):
        if self.mu is not None and not self.mu > 0:
            raise ValueError(f"mu must be above 0, got {self.mu}")
        if _is_known(self.gamma) and not self.gamma >= 0:
            raise ValueError(f"gamma must be at least 0, got {self.gamma}")

    def probabilities(self, predicted_rewards: tf.Tensor) -> tf.Tensor:
        best = _best(predicted_rewards, self.first_of_ties)
        num_best = tf.reduce_sum(best, axis=1, keepdims=True)
        offered = _offered(predicted_rewards)
        num_actions = tf.reduce_sum(offered, axis=1, keepdims=True)
        # The product overflows to infinity for a huge gap or gamma, which gives probability 0.
        mu, gamma = num_actions if self.mu is None else _in_range(self.mu), _within(self.gamma, 0.0, _LARGEST)
        below = (offered - best) / (mu + gamma * _gaps(predicted_rewards))
        below_sum = tf.reduce_sum(below, axis=1, keepdims=True)
        # If m actions tie, one is the best action of line 7; the remaining m - 1 have gap 0 and count as other actions.
        scale = 1 / tf.maximum(1.0, below_sum + (num_best - 1) / mu)
        return scale * below + best * tf.maximum(0.0, 1 - scale * below_sum) / num_best


@dataclasses.dataclass(frozen=True)
class Bag(Policy):
    """Chooses each action with probability equal to the fraction of the model's heads that predict it to be the best.

    The heads are a bootstrap ensemble (Oza and Russell 2001; Bietti, Agarwal and Langford 2021, Algorithm 4), see
    `losses.Bootstrapped`. By default, a head splits its vote among tied actions. For given predictions, this is the
    same as Vowpal Wabbit's `--bag`.

    Attributes:
      first_of_ties: Whether ties go to the first of the tied actions instead of a random one.
    """

    first_of_ties: bool = False

    def probabilities(self, predicted_rewards: tf.Tensor, head_rewards: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(_greedy(head_rewards, self.first_of_ties), axis=1)
