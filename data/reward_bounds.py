"""Bounds of rewards, declared or learned, and the map between the user's unit and [0, 1]."""

import dataclasses
import math
from typing import Any

import numpy as np

from data.errors import UsageError


@dataclasses.dataclass(frozen=True)
class RewardBounds:
    """The interval of rewards that training maps to [0, 1].

    Attributes:
      low: Reward that becomes 0, as smaller ones do.
      high: Reward that becomes 1, as larger ones do.

    Raises:
      ValueError: Unless both are finite and `low` is below `high`.
    """

    low: float
    high: float

    def __post_init__(self):
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"bounds must be finite, and the first below the second: {self.low:g}, {self.high:g}")

    @property
    def span(self) -> float:
        """Distance between the bounds."""
        return self.high - self.low

    def to_unit(self, rewards: np.ndarray) -> np.ndarray:
        """Maps rewards to [0, 1], float64 of the same shape; rewards outside the bounds are clipped."""
        return np.clip((np.asarray(rewards, np.float64) - self.low) / self.span, 0.0, 1.0)

    def to_user(self, rewards: np.ndarray) -> np.ndarray:
        """Maps rewards from [0, 1] to the user's unit, float64 of the same shape."""
        return self.low + np.asarray(rewards, np.float64) * self.span

    def outside(self, rewards: np.ndarray) -> int:
        """Number of rewards that lie outside the bounds."""
        rewards = np.asarray(rewards)
        return int(((rewards < self.low) | (rewards > self.high)).sum())


UNIT = RewardBounds(0.0, 1.0)


def parse(text: str, flag: str = "--reward_bounds") -> RewardBounds:
    """Bounds written as `LOW,HIGH`.

    Raises:
      UsageError: If the text is not two finite numbers, the smaller one first.
    """
    try:
        low, high = map(float, text.split(","))
        return RewardBounds(low, high)
    except ValueError as error:
        raise UsageError(f"{flag}={text} must be two numbers LOW,HIGH, the smaller one first.") from error


def recognized(rewards: np.ndarray) -> RewardBounds | None:
    """Bounds of rewards that are all 0 or 1, or all -1 or 1; None for any other rewards."""
    values = set(np.unique(rewards).tolist())
    for low in (0.0, -1.0):
        if values <= {low, 1.0}:
            return RewardBounds(low, 1.0)
    return None


def robust(rewards: np.ndarray) -> RewardBounds:
    """The 1st and 99th percentile of rewards, or their range if these are equal, as happens if payments are rare.

    Raises:
      UsageError: If all rewards are equal.
    """
    low, high = np.percentile(np.asarray(rewards, np.float64), (1, 99))
    if low == high:
        low, high = float(np.min(rewards)), float(np.max(rewards))
    if low == high:
        raise UsageError(f"All observed rewards are {low:g}: give --reward_bounds=LOW,HIGH if others are possible.")
    return RewardBounds(float(low), float(high))


def scale(declared: str | None, observed: np.ndarray, rewards: np.ndarray) -> dict[str, Any]:
    """Fields `reward_bounds`, `has_learned_bounds` and `clipping` of a task; none if rewards are recognized as 0 and 1.

    Args:
      declared: `--reward_bounds`; None to recognize bounds, or to learn them from `observed`.
      observed: Rewards of one logged or uniformly random action per training row.
      rewards: All known rewards of training rows, of which `clipping` counts those outside of the bounds.

    Raises:
      UsageError: If `declared` is not a pair of bounds, or if all observed rewards are equal and bounds are learned.
    """
    bounds = parse(declared) if declared else recognized(observed)
    if not declared and bounds == RewardBounds(0, 1):
        return {}
    learned = bounds or robust(observed)
    clipping, outside = "", learned.outside(rewards)
    if outside:
        means = np.mean(rewards, dtype=float), learned.to_user(learned.to_unit(rewards)).mean()
        clipping = f"{outside:,} of {rewards.size:,} training rewards lie outside the bounds {learned.low:g} to "
        clipping += f"{learned.high:g}. Training clips them: their mean is {means[1]:.6g} instead of {means[0]:.6g}. "
        clipping += f"The rewards range from {np.min(rewards):g} to {np.max(rewards):g}."
    return {"reward_bounds": learned, "has_learned_bounds": bounds is None, "clipping": clipping}
