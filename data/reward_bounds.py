"""Declared bounds of rewards, and the map between the user's unit and [0, 1]."""

import dataclasses
import math

import numpy as np

from data.errors import UsageError


@dataclasses.dataclass(frozen=True)
class RewardBounds:
    """The interval that rewards lie in.

    Attributes:
      low: Smallest possible reward.
      high: Largest possible reward.

    Raises:
      ValueError: Unless both are finite and `low` is below `high`.
    """

    low: float
    high: float

    def __post_init__(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"{self.low:g} is not below {self.high:g}.")

    def to_unit(self, rewards: np.ndarray) -> np.ndarray:
        """Maps rewards to [0, 1], float64 of the same shape; rewards outside the bounds are clipped."""
        return np.clip((np.asarray(rewards, np.float64) - self.low) / (self.high - self.low), 0.0, 1.0)

    def to_user(self, rewards: np.ndarray) -> np.ndarray:
        """Maps rewards from [0, 1] to the user's unit, float64 of the same shape."""
        return self.low + np.asarray(rewards, np.float64) * (self.high - self.low)

    def outside(self, rewards: np.ndarray) -> int:
        """Number of rewards that lie outside the bounds."""
        rewards = np.asarray(rewards)
        return int(((rewards < self.low) | (rewards > self.high)).sum())


def parse(text: str, flag: str = "--reward_bounds") -> RewardBounds:
    """Bounds written as `LOW,HIGH`.

    Raises:
      UsageError: If the text is not two finite numbers, the smaller one first.
    """
    try:
        low, high = map(float, text.split(","))
        return RewardBounds(low, high)
    except ValueError as error:
        raise UsageError(f"{flag}={text} must be LOW,HIGH: two numbers, the smaller one first.") from error


def recognized(rewards: np.ndarray) -> RewardBounds | None:
    """Bounds of rewards that are all 0 or 1, or all -1 or 1; None for others."""
    values = set(np.unique(rewards).tolist())
    for low in (0.0, -1.0):
        if values <= {low, 1.0}:
            return RewardBounds(low, 1.0)
    return None
