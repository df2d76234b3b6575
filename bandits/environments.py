"""Non-stationary environments: drifting rewards, and delays of rewards.

Environments are the task's reward matrix and versions with permuted actions. One number is a client's position among
the environments in a round: 0 is the first, 1 the second, and 0.25 is a mixture of three quarters of the first and a
quarter of the second.

A delay is the number of rounds between an action and the observation of its reward. Nothing is stored: a client's
delays are sampled again in every round of a deployment period, with a key of the period, and rewards that are not
observed yet are masked.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from data import keys

DRIFTS: Mapping[str, str] = {
    "abrupt": "they change for all clients at --drift_start, and repeatedly with --drift_every",
    "linear": "from --drift_start, over --drift_rounds, they blend from old to new",
    "seasonal": "two environments alternate within each --drift_period, with an overlap",
    "client": "each client changes at its own time, within --drift_rounds from --drift_start",
}
MOST_ENVIRONMENTS = 10
DELAYS: Mapping[str, str] = {
    "uniform": "each after 0 to --delay_rounds rounds, uniformly",
    "geometric": "each after --delay_rounds rounds on average, with the same probability in each round",
}

_LEAST_IN_TIME = 0.01  # Fraction of the rewards below which almost nothing is learned.


@dataclasses.dataclass(frozen=True)
class Drift:
    """How rewards change over rounds.

    Attributes:
      kind: One of `DRIFTS`, or `none`.
      start: First round of the change; not for `seasonal`.
      every: For `abrupt`, rounds between changes; 0 for one change alone.
      rounds: For `linear`, rounds from the old environment to the new one; for `client`, rounds within which clients
        change.
      period: For `seasonal`, rounds of both seasons; the first half is the first environment's.
      overlap: For `seasonal`, the last fraction of each season, which blends into the next.
      environments: Number of reward matrices.
      seed: Seed of the permutations and of the clients' times of change.
      only: Environment of all rounds, from 0; None for the scheduled ones.
    """

    kind: str = "none"
    start: int = 1
    every: int = 0
    rounds: int = 1
    period: int = 2
    overlap: float = 0.0
    environments: int = 1
    seed: int = 0
    only: int | None = None

    def matrices(self, matrix: np.ndarray) -> np.ndarray:
        """Reward matrices of all environments.

        Each environment permutes the previous one's columns by a random cycle through all actions: no action keeps its
        rewards.

        Args:
          matrix: float32 [labels, actions], the task's own.

        Returns:
          float32 [environments, labels, actions]; [labels, actions] without drift or with `only`.
        """
        if self.kind == "none":
            return matrix
        matrices = [matrix]
        for environment in range(1, self.environments):
            cycle = keys.generator(self.seed, keys.Purpose.DRIFT, environment).permutation(matrix.shape[1])
            source = np.empty_like(cycle)
            source[cycle] = np.roll(cycle, 1)
            matrices.append(matrices[-1][:, source])
        return np.stack(matrices) if self.only is None else matrices[self.only]

    def at(self, rounds: npt.ArrayLike, client: int | None) -> np.ndarray:
        """A client's mixture of environments in each round, float64 of the shape of `rounds`.

        Args:
          rounds: Rounds, from 1.
          client: Its position among the task's clients; None for examples of no client, which get the mean over
            clients' times of change.
        """
        rounds = np.asarray(rounds)
        if self.only is not None:
            return np.full(rounds.shape, float(self.only))
        if self.kind == "abrupt":
            later = (rounds - self.start) // self.every if self.every else np.zeros_like(rounds)
            return np.where(rounds < self.start, 0, np.minimum(later + 1, self.environments - 1)).astype(float)
        if self.kind == "client" and client is not None:
            draw = keys.generator(self.seed, keys.Purpose.CLIENT_TIME, client)
            return (rounds >= self.start + draw.integers(self.rounds)).astype(float)
        if self.kind in ("linear", "client"):
            return np.clip((rounds - self.start + 1) / self.rounds, 0.0, 1.0)
        if self.kind == "seasonal":
            half = self.period / 2
            season, since = np.divmod((rounds - 1) % self.period, half)
            over = half * self.overlap
            gone = np.clip((since - (half - over)) / over, 0.0, 1.0) if over else np.zeros_like(since)
            return np.where(season == 0, gone, 1 - gone)
        return np.zeros(rounds.shape)

    def shares(self, rounds: npt.ArrayLike, client: int | None) -> np.ndarray:
        """Mean weight of each environment over some rounds, float64 [environments]; arguments as of `at`."""
        points = np.atleast_1d(self.at(rounds, client))
        return np.maximum(0.0, 1 - np.abs(points[:, np.newaxis] - np.arange(self.environments))).mean(axis=0)

    def warning(self, total_rounds: int, acted: npt.ArrayLike | None = None) -> str:
        """Warning if the requested change does not happen within the run's rounds; else empty.

        Args:
          total_rounds: Rounds.
          acted: int [total_rounds], the round in which the clients of each acted; None for the round itself.
        """
        if self.kind == "none" or self.only is not None:
            return ""
        nothing = f"--reward_drift={self.kind} changes nothing up to round {total_rounds}: "
        points = self.at(np.arange(1, total_rounds + 1), None)
        if not points.any():
            return f"{nothing}its first change comes later."
        if (points == points[0]).all():
            return f"{nothing}all of them come after its change."
        if acted is not None and not np.ptp(self.at(acted, None)):
            return f"{nothing}clients with --cache=persistent act once a deployment period, always in one environment."
        if self.every and self.start + self.every > total_rounds:
            return f"--drift_every={self.every} changes nothing up to round {total_rounds}: there is one change alone."
        return ""

    def mean_matrix(self, matrix: np.ndarray, rounds: npt.ArrayLike, client: int | None) -> np.ndarray:
        """Mean reward matrix over some rounds, float [labels, actions]; arguments as of `at`."""
        if self.kind == "none" or self.only is not None:
            return self.matrices(matrix)
        return np.tensordot(self.shares(rounds, client), self.matrices(matrix).astype(float), 1)


NO_DRIFT = Drift()


@dataclasses.dataclass(frozen=True)
class Delay:
    """Distribution of the delay of rewards.

    Attributes:
      kind: One of `DELAYS`, or `none`.
      rounds: For `uniform`, the maximum; for `geometric`, the mean.
      never: Fraction of the rewards that are never observed.
    """

    kind: str = "none"
    rounds: float = 0.0
    never: float = 0.0

    def observed(self, seed: int, period: int, client: int, count: int, waited: int) -> np.ndarray:
        """Whether each of a client's rewards was observed, bool [count]; observed rewards stay observed.

        Args:
          seed: Seed of the run.
          period: The deployment period, from 0.
          client: Position among the task's clients.
          count: Number of interactions.
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


NO_DELAY = Delay()
