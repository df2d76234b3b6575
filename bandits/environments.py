"""Non-stationary environments: drifting rewards, and delayed rewards.

The environments are the task's reward matrix and versions of it with permuted actions. A single number describes a
client's position among the environments in a round: 0 is the first environment, 1 is the second, and 0.25 is a mixture
of three quarters of the first and one quarter of the second.

A delay is the number of rounds between an action and the observation of its reward. Delays are not stored. Every round
of a deployment period samples a client's delays again with the same key, and masks the rewards that have not been
observed yet.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from data import keys
from data.settings import Count, Fraction, none_of, setting

DRIFTS: Mapping[str, str] = {
    "abrupt": "rewards change for all clients at --drift_start, and repeatedly with --drift_every",
    "linear": "from --drift_start on, rewards blend from old to new over --drift_rounds rounds",
    "seasonal": "two environments alternate within each --drift_period, with an overlap",
    "client": "rewards change for each client at its own time, within --drift_rounds rounds from --drift_start",
}
SCENARIO = "drift"  # Value of --scenario: random initial weights and non-stationary rewards.
MOST_ENVIRONMENTS = 10
_MOST_ROUNDS = 1e9  # More rounds than any run has.
DELAYS: Mapping[str, str] = {
    "uniform": "each reward is observed after 0 to --delay_rounds rounds, uniformly at random",
    "geometric": "each reward is observed after --delay_rounds rounds on average, with the same probability each round",
}

_LEAST_IN_TIME = 0.01  # If a smaller fraction of the rewards is observed in time, almost nothing is learned.


@dataclasses.dataclass(frozen=True)
class Drift:
    """Non-stationary environments.

    Attributes:
      environments: Number of reward matrices.
    """

    kind: str = setting(
        lambda settings: "abrupt" if settings["scenario"] == SCENARIO else None,
        "How rewards change over the bandits' rounds: each change permutes the actions' columns in the reward matrix "
        "(default: abrupt with --scenario=drift, otherwise none)",
        {"none": "stationary", **DRIFTS},
        name="reward_drift",
        unset="none",
        convert=none_of("none"),
    )
    start: Count = setting(
        None,
        "First round of the change (default: the first round in the second half of the run)",
        name="drift_start",
        unset=1,
        only={"reward_drift": ("abrupt", "linear", "client")},
        applied_default=lambda settings: settings["total_rounds"] // 2 + 1,
    )
    every: Count = setting(
        None,
        "Number of rounds between changes, each to another environment (default: one change)",
        name="drift_every",
        unset=0,
        only={"reward_drift": ("abrupt",)},
    )
    rounds: Count = setting(
        None,
        "Length of the change in rounds; for client, the rounds within which all clients change (default: a quarter "
        "of the run)",
        name="drift_rounds",
        unset=1,
        only={"reward_drift": ("linear", "client")},
        applied_default=lambda settings: max(1, settings["total_rounds"] // 4),
    )
    period: int = setting(
        None,
        "Length of both seasons together in rounds (default: half of the run)",
        name="drift_period",
        unset=2,
        low=2,
        only={"reward_drift": ("seasonal",)},
        applied_default=lambda settings: max(2, settings["total_rounds"] // 2),
    )
    overlap: Fraction = setting(
        None,
        "Fraction of each season, at its end, that blends into the next season",
        name="drift_overlap",
        unset=0.0,
        only={"reward_drift": ("seasonal",)},
        applied_default=0.0,
    )
    environments: int = 1
    seed: int = setting(
        lambda settings: 0 if settings["reward_drift"] or settings["availability"] else None,
        "Seed for the environment (permutations, clients' times of change and time zones), the same for all values of "
        "--seed",
        name="environment_seed",
        unset=0,
        alias="world_seed",
    )
    only: int | None = setting(
        None,
        "Run all rounds in this environment of the drift; 0 has the task's own rewards. With "
        "--bandits_type=supervised_mse, this is the full-feedback baseline for dynamic regret (default: all in turn)",
        name="drift_environment",
        only={"reward_drift": tuple(DRIFTS)},
        alias="drift_world",
    )

    def matrices(self, matrix: np.ndarray) -> np.ndarray:
        """Reward matrices of all environments.

        Each environment permutes the columns of the previous one with a random cycle through all actions, so no action
        keeps its rewards.

        Args:
          matrix: float32 [labels, actions], the task's reward matrix.

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
        """A client's position among the environments in each round, float64 with the shape of `rounds`.

        Args:
          rounds: Rounds, counted from 1.
          client: The client's index in the task; None for examples that belong to no client. These get the mean over
            the clients' times of change.
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
        """Mean weight of each environment over some rounds, float64 [environments]; arguments as in `at`."""
        points = np.atleast_1d(self.at(rounds, client))
        return np.maximum(0.0, 1 - np.abs(points[:, np.newaxis] - np.arange(self.environments))).mean(axis=0)

    def warning(self, total_rounds: int, acted: npt.ArrayLike | None = None) -> str:
        """Warning if the requested change does not happen within the run's rounds; otherwise empty.

        Args:
          total_rounds: Number of rounds.
          acted: int [total_rounds], the round in which each round's clients acted; None if it is the same round.
        """
        if self.kind == "none" or self.only is not None:
            return ""
        nothing = f"--reward_drift={self.kind} changes nothing up to round {total_rounds}: "
        points = self.at(np.arange(1, total_rounds + 1), None)
        if not points.any():
            return f"{nothing}its first change comes later."
        if (points == points[0]).all():
            return f"{nothing}all rounds come after its change."
        if acted is not None and not np.ptp(self.at(acted, None)):
            return f"{nothing}clients with --cache=persistent act once per deployment, always in the same environment."
        if self.every and self.start + self.every > total_rounds:
            return f"--drift_every={self.every} changes nothing up to round {total_rounds}: there is only one change."
        return ""

    def mean_matrix(self, matrix: np.ndarray, rounds: npt.ArrayLike, client: int | None) -> np.ndarray:
        """Mean reward matrix over some rounds, float [labels, actions]; arguments as in `at`."""
        if self.kind == "none" or self.only is not None:
            return self.matrices(matrix)
        return np.tensordot(self.shares(rounds, client), self.matrices(matrix).astype(float), 1)


NO_DRIFT = Drift()


@dataclasses.dataclass(frozen=True)
class Delay:
    """Delayed rewards."""

    kind: str = setting(
        None,
        "Delay of rewards. A client trains on observed rewards; rewards that are not observed before the next "
        "deployment are lost. Needs --cache=persistent (default: none)",
        {"none": "no delay", **DELAYS},
        name="reward_delay",
        unset="none",
        convert=none_of("none"),
    )
    rounds: float = setting(
        None,
        "Maximum (uniform) or mean (geometric) delay, in rounds (default: half of --bandits_deploy_freq)",
        name="delay_rounds",
        unset=0.0,
        high=_MOST_ROUNDS,
        only={"reward_delay": tuple(DELAYS)},
        applied_default=lambda settings: float(settings["bandits_deploy_freq"] // 2),
    )
    never: Fraction = setting(
        None,
        "Fraction of the rewards that are never observed",
        name="delay_never",
        unset=0.0,
        below=True,
        only={"reward_delay": tuple(DELAYS)},
        applied_default=0.0,
    )

    def observed(self, seed: int, period: int, client: int, count: int, waited: int) -> np.ndarray:
        """Whether each of a client's rewards has been observed, bool [count]; observed rewards stay observed.

        Args:
          seed: Seed of the run.
          period: The deployment period, counted from 0.
          client: The client's index in the task.
          count: Number of interactions.
          waited: Number of rounds since the client acted, from 0.
        """
        draw = keys.generator(seed, keys.Purpose.ARRIVAL, period, client)
        if self.kind == "uniform":
            after = draw.integers(int(self.rounds) + 1, size=count)
        else:
            after = draw.geometric(1 / (1 + self.rounds), size=count) - 1
        return (after <= waited) & (draw.random(count) >= self.never)

    def warning(self, deploy_every: int) -> str:
        """Warning if no reward is delayed, or if almost none is observed in its deployment period; otherwise empty."""
        if self.kind == "none":
            return ""
        flags = f"--delay_rounds={self.rounds:g} and --delay_never={self.never:g}"
        if not self.rounds and not self.never:
            return f"--reward_delay={self.kind} delays no reward: change {flags}."
        in_time = (1 - self.never) * self._share(deploy_every - 1)
        if in_time >= _LEAST_IN_TIME:
            return ""
        return (
            f"--reward_delay={self.kind} lets {in_time:.2g} of the rewards arrive before the next deployment, and all "
            f"others are lost: change {flags} or --bandits_deploy_freq={deploy_every}."
        )

    def _share(self, waited: int) -> float:
        """Rewards observed after this many rounds, as a fraction of those that are ever observed."""
        if self.kind == "uniform":
            return min(1.0, (waited + 1) / (int(self.rounds) + 1))
        return -math.expm1((waited + 1) * math.log1p(-1 / (1 + self.rounds))) if self.rounds else 1.0


NO_DELAY = Delay()
