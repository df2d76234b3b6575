"""Extra rounds of Extreme Explore around a decision rule (Lundahl 2021, section 8.4)."""

import dataclasses
from typing import Any

import tensorflow as tf

from bandits import decision_rules
from bandits.decision_rules import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithExploreRounds(decision_rules.DecisionRule):
    """A rule with extra rounds of Extreme Explore (section 8.4).

    Attributes:
      rule: The rule of all other rounds.
      every: Every so many rounds is one; 0 for none by schedule.
      probability: Probability that any other round is one, in [0, 1].

    Raises:
      ValueError: If `every` is negative or the probability outside [0, 1].
    """

    rule: decision_rules.DecisionRule
    every: int = 0
    probability: float = 0.0

    def __post_init__(self):
        if self.every < 0:
            raise ValueError(f"every must be at least 0; got {self.every}.")
        decision_rules.check_range("probability", self.probability)

    def init(self, num_actions: int, batch_shape: tuple[int, ...] = ()) -> Any:
        return self.rule.init(num_actions, batch_shape)

    def estimates(self, state: Any) -> tf.Tensor:
        return self.rule.estimates(state)

    def select(self, state: Any, key: Array) -> tf.Tensor:
        return self.rule.select(state, key)

    def _learn(self, state: Any, tried: tf.Tensor, rewards: tf.Tensor) -> Any:
        return self.rule._learn(state, tried, rewards)

    def _checked(self, reward: Array) -> tf.Tensor:
        return self.rule._checked(reward)

    def explores_all(self, round_num: int, key: Array) -> bool:
        if self.rule.explores_all(round_num, key) or (self.every and round_num % self.every == 0):
            return True
        own_key = tf.random.experimental.stateless_fold_in(key, 1)  # The same key may select the action.
        return bool(tf.random.stateless_uniform((), own_key) < self.probability)
