"""Plays worlds: periods of n samples; a model fitted to all so far is deployed for the next (the study's section 6).

All runs are played at once. A period of a finite world is a few draws of counts, however many samples it has.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bandits import policies
from bandits.theory import oracles, regret, worlds

# (log so far, the model so far [runs, contexts, actions]) -> the next model.
Oracle = Callable[[oracles.Log, np.ndarray], np.ndarray]


class Played(NamedTuple):
    """What was measured, in exact expectation over a sample of each period; all float64 [periods, runs].

    Attributes:
      greedy: Regret of the greedy part of the policy that acted in the period.
      whole: Regret of the policy itself.
      after: Regret of the greedy part of the model that was fitted after the period.
      error: E[(f - f*)^2] of that model, under the mean of all policies so far.
    """

    greedy: np.ndarray
    whole: np.ndarray
    after: np.ndarray
    error: np.ndarray


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Where a period's samples come from.

    Attributes:
      samples: n.
      clients: m, drawn anew in each period, with n / m samples each; None for samples that are independent, each of a
        client of its own.

    Raises:
      ValueError: If m does not divide n.
    """

    samples: int
    clients: int | None = None

    def __post_init__(self):
        if self.clients and self.samples % self.clients:
            raise ValueError(f"clients={self.clients} must divide samples={self.samples}")

    def contexts(self, world: worlds.FiniteWorld, runs: int, generator: np.random.Generator) -> np.ndarray:
        """Returns how often each context comes, int64 [runs, contexts]."""
        if self.clients is None:
            return generator.multinomial(self.samples, world.contexts, size=runs)
        drawn = generator.choice(len(world.client_weights), size=(runs, self.clients), p=world.client_weights)
        each = generator.multinomial(self.samples // self.clients, world.client_contexts[drawn])
        return each.sum(axis=1)


def draw(
    world: worlds.FiniteWorld, contexts: np.ndarray, acting: np.ndarray, generator: np.random.Generator
) -> oracles.Log:
    """Returns the log of acting in these contexts, int [runs, contexts], with float64 [runs, contexts, actions]."""
    counts = generator.multinomial(contexts, acting)
    return oracles.Log(counts, generator.binomial(counts, world.rewards))


def play(
    world: worlds.FiniteWorld,
    policy: Callable[[int], policies.Policy],
    oracle: Oracle,
    first: np.ndarray,
    sampling: Sampling,
    periods: int,
    runs: int,
    generator: np.random.Generator,
) -> Played:
    """Plays Algorithm 1 with an oracle in the place of its rounds.

    Args:
      world: The world.
      policy: The policy of period i, from 1, such as `lambda period: policies.EpsilonGreedy(0.1)`.
      oracle: Fits the next model to all samples so far.
      first: float64 [contexts, actions], the first model deployed.
      sampling: A period's samples.
      periods: I.
      runs: Runs, each with draws of its own.
      generator: Draws all of them.
    """
    predicted = np.broadcast_to(first, (runs, *first.shape))
    log: oracles.Log | None = None
    logged, rows = np.zeros(predicted.shape), list[tuple[np.ndarray, ...]]()
    for period in range(1, periods + 1):
        acting = regret.probabilities(policy(period), predicted)
        new = draw(world, sampling.contexts(world, runs, generator), acting, generator)
        log = log.plus(new) if log else new
        logged = logged + (acting - logged) / period
        after = oracle(log, predicted)
        rows.append(
            (
                rows[-1][2] if rows else regret.of_greedy(world, predicted),
                regret.of_policy(world, acting),
                regret.of_greedy(world, after),
                regret.error(world, after, logged),
            )
        )
        predicted = after
    return Played(*(np.stack(column) for column in zip(*rows, strict=True)))


def exact_oracle(world: worlds.FiniteWorld) -> Oracle:
    """Returns the exact pooled oracle, as `play` takes it."""
    return lambda log, predicted: oracles.exact(world, log)


def fitted_after_each(
    world: worlds.FiniteWorld,
    epsilon: float,
    first: np.ndarray,
    samples: int,
    runs: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """Plays epsilon-greedy whose exact oracle fits again after each sample, as eq. 10 has it.

    Args:
      world: The world.
      epsilon: Of the policy.
      first: float64 [contexts, actions], the first model.
      samples: n I, how many are played.
      runs: Runs.
      generator: Draws.

    Returns:
      float64 [samples, runs], the greedy part's regret in exact expectation, before each sample.
    """
    all_runs, contexts = np.arange(runs), world.contexts
    lost = contexts[:, None] * (world.rewards.max(axis=1, keepdims=True) - world.rewards)
    greedy = np.tile(first.argmax(axis=1), (runs, 1))
    losses = np.zeros((runs, *world.candidates.shape[:2]))
    now = lost[np.arange(len(contexts)), greedy].sum(axis=1)
    best_of = world.candidates.argmax(axis=2)
    found = np.empty((samples, runs))
    seen = generator.choice(len(contexts), size=(samples, runs), p=contexts)
    explored = np.where(
        generator.random((samples, runs)) < epsilon, generator.integers(world.num_actions, size=(samples, runs)), -1
    )
    thresholds = generator.random((samples, runs))
    for sample in range(samples):
        found[sample] = now
        context = seen[sample]
        before = greedy[all_runs, context]
        action = np.where(explored[sample] >= 0, explored[sample], before)
        reward = thresholds[sample] < world.rewards[context, action]
        losses[all_runs, context] += (world.candidates[context, :, action] - reward[:, None]) ** 2
        after = best_of[context, losses[all_runs, context].argmin(axis=1)]
        greedy[all_runs, context] = after
        now = now + lost[context, after] - lost[context, before]
    return found


def play_linear(
    world: worlds.LinearWorld,
    epsilon: float,
    samples: int,
    periods: int,
    measured: list[int],
    runs: int,
    generator: np.random.Generator,
    evaluated: int = 4000,
) -> np.ndarray:
    """Plays epsilon-greedy in a linear world, with least squares over all samples so far as the oracle.

    Args:
      world: The world.
      epsilon: Of the policy, whose first model predicts the same of all actions.
      samples: n; each of a client of its own.
      periods: I.
      measured: After which periods regret is measured.
      runs: Runs.
      generator: Draws.
      evaluated: Contexts, of each run its own, over which the greedy part's regret is averaged.

    Returns:
      float64 [measured, runs], the greedy part's regret of the models fitted after those periods.
    """
    policy, found = policies.EpsilonGreedy(epsilon), []
    moments: oracles.Moments | None = None
    coefficients = np.zeros((runs, *world.coefficients.shape))

    def contexts(count: int) -> np.ndarray:
        return world.features(generator.integers(world.num_clients, size=(runs, count)), generator)

    for period in range(1, periods + 1):
        features = contexts(samples)
        acting = regret.probabilities(policy, features @ coefficients)
        actions = (acting.cumsum(axis=2) < generator.random((runs, samples, 1))).sum(axis=2)
        actions = np.minimum(actions, world.num_actions - 1)
        expected = np.take_along_axis(features @ world.coefficients, actions[..., None], axis=2)[..., 0]
        rewards = (generator.random(expected.shape) < expected).astype(float)
        new = oracles.Moments.of(features, actions, rewards, world.num_actions)
        moments = moments.plus(new) if moments else new
        coefficients = oracles.least_squares(moments)
        if period in measured:
            features = contexts(evaluated)
            true = features @ world.coefficients
            chosen = (features @ coefficients).argmax(axis=2)[..., None]
            found.append((true.max(axis=2) - np.take_along_axis(true, chosen, axis=2)[..., 0]).mean(axis=1))
    return np.stack(found)
