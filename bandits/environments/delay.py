"""Delayed rewards: the number of rounds between an action and the observation of its reward.

Nothing is stored: a client's delays are sampled again in every round of a deployment period, with a key of the period,
and rewards that are not observed yet are masked.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from data import keys

KINDS: Mapping[str, str] = {
    "uniform": "each after 0 to --delay_rounds rounds, uniformly",
    "geometric": "each after --delay_rounds rounds on average, with the same probability in each round",
}

_LEAST_IN_TIME = 0.01  # Fraction of the rewards below which almost nothing is learned.


@dataclasses.dataclass(frozen=True)
class Delay:
    """Distribution of the delay of rewards.

    Attributes:
      kind: One of `KINDS`, or `none`.
      rounds: For `uniform`, the maximum; for `geometric`, the mean.
      never: Fraction of the rewards that are never observed.
    """

    kind: str = "none"
    rounds: float = 0.0
    never: float = 0.0

    def observed(self, seed: int, period: int, client: int, count: int, waited: int) -> np.ndarray:
        """Whether each of a client's rewards was observed, bool [count]; observed rewards stay observed.

        Args:
          seed: Of the run.
          period: The deployment period, from 0.
          client: Position among the task's clients.
          count: Its interactions.
          waited: Rounds since it acted, from 0.
        """
        draw = keys.generator(seed, keys.Purpose.ARRIVAL, period, client)
        if self.kind == "uniform":
            after = draw.integers(int(self.rounds) + 1, size=count)
        else:
            after = draw.geometric(1 / (1 + self.rounds), size=count) - 1
        return (after <= waited) & (draw.random(count) >= self.never)

    def warning(self, deploy_every: int) -> str:
        """Warning if no reward is delayed, or almost none is observed within a period; else empty."""
        if self.kind == "none":
            return ""
        flags = f"--delay_rounds={self.rounds:g} and --delay_never={self.never:g}"
        if not self.rounds and not self.never:
            return f"--reward_delay={self.kind} delays nothing: see {flags}."
        in_time = (1 - self.never) * self._share(deploy_every - 1)
        if in_time >= _LEAST_IN_TIME:
            return ""
        return (
            f"--reward_delay={self.kind} lets {in_time:.2g} of the rewards arrive before the next deployment, and what "
            f"has not is lost: see {flags}, and --bandits_deploy_freq={deploy_every}."
        )

    def _share(self, waited: int) -> float:
        """Fraction of the rewards ever observed that are observed after this many rounds."""
        if self.kind == "uniform":
            return min(1.0, (waited + 1) / (int(self.rounds) + 1))
        return -math.expm1((waited + 1) * math.log1p(-1 / (1 + self.rounds))) if self.rounds else 1.0


NONE = Delay()
