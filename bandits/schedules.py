"""Schedules of an exploration parameter over deployments.

A schedule depends only on a run's plan, which is public, and not on clients' data. It therefore has no privacy cost,
and a resumed run has the same values as an uninterrupted one.
"""

import abc
import dataclasses
import math

CONSTANT, LINEAR, COSINE, POWER, EPOCHS = "constant", "linear", "cosine", "power", "epochs"


@dataclasses.dataclass(frozen=True)
class Planned:
    """The plan of a run's deployments.

    Attributes:
      num_actions: Number of actions, K.
      interactions: Number of interactions per deployment period, n: rounds x clients per cohort x the cap on a
        client's examples. 0 without such a cap.
    """

    num_actions: int
    interactions: int


class Schedule(abc.ABC):
    """The value of a parameter in each deployment period."""

    @abc.abstractmethod
    def value(self, period: int, planned: Planned) -> float:
        """Returns the parameter's value in a deployment period, counted from 0."""


@dataclasses.dataclass(frozen=True)
class _Between(Schedule):
    """Changes from one value in the first period to another in the last, and then stays constant.

    Attributes:
      start: Value in the first period.
      end: Value in the last period.
      periods: Number of deployment periods. If there is only one, it has the value `start`.
    """

    start: float
    end: float
    periods: int

    def value(self, period: int, planned: Planned) -> float:
        if period == 0:
            return self.start
        if period >= self.periods - 1:
            return self.end
        left = self._left(period / (self.periods - 1))
        return left * self.start + (1 - left) * self.end

    @abc.abstractmethod
    def _left(self, done: float) -> float:
        """Returns the remaining fraction of the change after a fraction `done` of the periods."""


@dataclasses.dataclass(frozen=True)
class Linear(_Between):
    """Changes linearly."""

    def _left(self, done: float) -> float:
        return 1 - done


@dataclasses.dataclass(frozen=True)
class Cosine(_Between):
    """Changes along half a period of the cosine (Loshchilov and Hutter 2017, equation 5)."""

    def _left(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2


@dataclasses.dataclass(frozen=True)
class Power(Schedule):
    """scale t^exponent. With an exponent of 1/2, this is SquareCB's gamma (Foster and Rakhlin 2020, theorem 1).

    Attributes:
      scale: Value at t = 1.
      exponent: Power of t.
      counts_interactions: Whether t is the number of planned interactions before the deployment (at least 1), just as
        Vowpal Wabbit counts examples. Otherwise, t is the number of the deployment, from 1.
    """

    scale: float
    exponent: float
    counts_interactions: bool = False

    def value(self, period: int, planned: Planned) -> float:
        time = max(1, period * planned.interactions) if self.counts_interactions else period + 1
        return self.scale * float(time) ** self.exponent


@dataclasses.dataclass(frozen=True)
class FalconEpochs(Schedule):
    """FALCON's gamma, where an epoch is a deployment period; see `falcon_gamma`.

    Attributes:
      scale: Constant factor of the square root.
      log_class_size: ln |F|.
      delta: Probability with which the bound may fail to hold.
      fed_opt: epsilon_fed-opt, the excess loss of federated training itself.
      periods: Number of deployment periods, I.
    """

    scale: float
    log_class_size: float
    delta: float
    fed_opt: float
    periods: int

    def value(self, period: int, planned: Planned) -> float:
        term = complexity(self.log_class_size, self.delta, self.periods)
        return falcon_gamma(planned.num_actions, term, period * planned.interactions, self.fed_opt, self.scale)


def complexity(log_class_size: float, delta: float, times: float = 1.0) -> float:
    """Returns ln(|F| m / delta), for m = `times` bounds that hold jointly with a probability of at least 1 - delta."""
    return log_class_size + math.log(times / delta)


def falcon_gamma(num_actions: int, log_term: float, samples: float, fed_opt: float = 0.0, scale: float = 1.0) -> float:
    """FALCON's gamma in an epoch: scale * sqrt(K / (ln(|F| I / delta) / (n (i - 1)) + epsilon_fed-opt)).

    See Simchi-Levi and Xu 2022, Algorithm 1, whose constants differ. The term epsilon_fed-opt is from Agarwal et al.
    2023, section 6.

    Args:
      num_actions: K.
      log_term: ln(|F| I / delta), above 0.
      samples: n (i - 1), the number of samples that the deployed model was fitted to. If it is 0, gamma is 1, as in
        Algorithm 1.
      fed_opt: epsilon_fed-opt, at least 0.
      scale: Constant factor.
    """
    if samples <= 0:
        return 1.0
    return scale * math.sqrt(num_actions / (log_term / samples + fed_opt))
