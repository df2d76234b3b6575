"""What each client earned: expected rewards in halves A and B of its examples, and after an adaptation."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from bandits import logged_rounds, metrics, personalization, process
from data import clients, keys
from optimization import fed_avg
from optimization.runtime import rounds
from optimization.study.metrics import mean


def of_halves(counts: fed_avg.RoundMetrics) -> dict[str, float]:
    """Mean expected rewards of a cohort's halves, by metric; none without halves."""
    names = (metrics.HALF_A_REWARD, metrics.HALF_B_REWARD)
    pairs = zip(names, counts.half_rewards, counts.half_examples, strict=False)
    return {name: mean(np.sum(rewards, dtype=float), int(np.sum(examples))) for name, rewards, examples in pairs}


def after(
    before: np.ndarray, cohort: Sequence[logged_rounds.Participation], counts: fed_avg.RoundMetrics
) -> np.ndarray:
    """Sums of each client after a round.

    Args:
      before: float64 [clients, 5]: participations, and the number of examples and the sum of expected rewards in half
        A, and in half B.
      cohort: The round's clients.
      counts: The round's measurements, in which each place of halves is a client's.
    """
    sums = before.copy()
    for inputs, client, _ in cohort:
        halves = zip(counts.half_examples, counts.half_rewards, strict=True)
        sums[client] += [1, *(part[inputs.position] for half in halves for part in half)]
    return sums


def report(sums: np.ndarray, names: Sequence[str]) -> dict[str, list]:
    """Content of `private_client_rewards.json`: the clients that took part, and their means; None over nothing.

    Args:
      sums: As in `after`.
      names: Names of the clients.
    """
    took_part = np.flatnonzero(sums[:, 0])
    times, examples_a, rewards_a, examples_b, rewards_b = sums[took_part].T
    halves = {"half_a": (rewards_a, examples_a), "half_b": (rewards_b, examples_b)}
    return {
        "clients": [names[index] for index in took_part],
        "participations": times.astype(int).tolist(),
        "examples": ((examples_a + examples_b) / times).tolist(),
        **{
            half: [one / count if count else None for one, count in zip(rewards.tolist(), examples, strict=True)]
            for half, (rewards, examples) in halves.items()
        },
    }


@dataclasses.dataclass(frozen=True)
class AdaptedRewards:
    """Expected rewards of clients on half B, with the model that they adapt on half A.

    Attributes:
      definition: The process.
      seed: Seed of the run.
    """

    definition: personalization.PersonalizedProcess
    seed: int

    @functools.cached_property
    def _expected(self) -> tff.Computation:
        """Computation of (deployed, weights, clients): expected rewards after the adaptation, and before."""
        adaptation = dataclasses.replace(self.definition.adaptation, epochs=0)
        both = self.definition, dataclasses.replace(self.definition, adaptation=adaptation)

        def expected(deployed, weights, client):
            del weights
            return [one.act(deployed, client)[0]["expected"] for one in both]

        return fed_avg.at_clients(self.definition.at_client(expected))

    def evaluate(
        self,
        weights: Sequence[np.ndarray],
        names: Sequence[str],
        examples: Sequence[clients.Examples],
        scheduled: float,
        environment: float,
    ) -> tuple[float, dict[str, Any]]:
        """Evaluates a model.

        Args:
          weights: The model.
          names: Names of the clients.
          examples: Their examples, features as the model takes them.
          scheduled: Scheduled value of the policy's parameter.
          environment: Mixture of environments, see `process.mixture`.

        Returns:
          The mean reward over the examples of all halves B; and by client, of those with a half B, its number of
          examples there and its mean rewards before and after the adaptation.
        """
        inputs = []
        for place, (features, labels) in enumerate(examples):
            key = keys.tensorflow_key(self.seed, keys.Purpose.EVALUATION, 1, place)
            one = process.ClientInput(features, labels, process.ClientKeys(key, key))
            half = clients.second_half(self.seed, place, np.arange(len(labels)))
            one = one._replace(scheduled=np.float32(scheduled), environment_position=np.float32(environment), half=half)
            inputs.append(one)
        sums = np.zeros((len(inputs), 2))

        def take(place: int, expected: Sequence) -> None:
            sums[place] = [np.sum(np.asarray(one)[inputs[place].half], dtype=float) for one in expected]

        weights = tuple(weights)
        models = [(weights,) * (1 + self.definition.max_delay), weights]
        rounds.at_hand().each_client(self._expected, models, inputs, take)
        counts = np.array([each.half.sum() for each in inputs])
        known = np.flatnonzero(counts)
        adapted, before = (sums[known] / counts[known, np.newaxis]).T.tolist()
        kept = {"clients": [names[place] for place in known], "examples": counts[known].tolist()}
        return mean(sums[:, 0].sum(), counts.sum()), {**kept, "before": before, "after": adapted}
