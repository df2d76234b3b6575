"""Simulates Algorithm 1 in worlds whose true rewards are known (Agarwal et al. 2023, section 6).

In each period of n samples the model acts that was fitted to all samples before. All runs are simulated at once. A
period of a finite world is a few draws of counts, however many samples it has.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from bandits import policies
from bandits.theory import oracles, regret, worlds

# A policy for all periods, or that of period i, from 1.
Policies: TypeAlias = policies.Policy | Callable[[int], policies.Policy]
# (log so far, the model so far [runs, contexts, actions]) -> the next model.
Oracle = Callable[[oracles.Log, np.ndarray], np.ndarray]


class Regrets(NamedTuple):
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


def sampled_contexts(
    world: worlds.FiniteWorld, samples: int, runs: int, generator: np.random.Generator, clients: int | None = None
) -> np.ndarray:
    """Returns how often each context comes in a period, int64 [runs, contexts].

    Args:
      world: The world.
      samples: n.
      runs: Runs.
      generator: Draws.
      clients: m, drawn anew in each period, with n / m samples each; None for samples that are independent, each of a
        client of its own.

    Raises:
      ValueError: If m does not divide n.
    """
    if clients is None:
        return generator.multinomial(samples, world.contexts, size=runs)
    if samples % clients:
        raise ValueError(f"clients={clients} must divide samples={samples}")
    drawn = generator.choice(len(world.client_weights), size=(runs, clients), p=world.client_weights)
    return generator.multinomial(samples // clients, world.client_contexts[drawn]).sum(axis=1)


def simulate(
    world: worlds.FiniteWorld,
    policy: Policies,
    samples: int,
    periods: int,
    runs: int,
    generator: np.random.Generator,
    *,
    clients: int | None = None,
    oracle: Oracle | None = None,
    first: np.ndarray | None = None,
) -> Regrets:
    """Runs Algorithm 1 with an oracle in the place of its rounds.

    Args:
      world: The world.
      policy: The policy, or a function that returns that of period i, from 1.
      samples: n, of a period.
      periods: I.
      runs: Runs, each with draws of its own.
      generator: Draws all of them.
      clients: Clients of a period, see `sampled_contexts`.
      oracle: Fits the next model to all samples so far; None for the exact pooled one.
      first: float64 [contexts, actions], the first model deployed; None for the first row of each context's candidates.
    """
    first = world.candidates[:, 0] if first is None else first
    predicted = np.broadcast_to(first, (runs, *first.shape))
    log = oracles.Log(np.zeros(1, np.int64), np.zeros(1, np.int64))
    logged, rows = np.zeros(predicted.shape), list[tuple[np.ndarray, ...]]()
    for period in range(1, periods + 1):
        acting = regret.probabilities(policy if isinstance(policy, policies.Policy) else policy(period), predicted)
        contexts = sampled_contexts(world, samples, runs, generator, clients)
        counts = generator.multinomial(contexts, acting)
        log = log.plus(oracles.Log(counts, generator.binomial(counts, world.rewards)))
        logged = logged + (acting - logged) / period
        after = oracle(log, predicted) if oracle else oracles.exact(world, log)
        rows.append(
            (
                rows[-1][2] if rows else regret.of_greedy(world, predicted),
                regret.of_policy(world, acting),
                regret.of_greedy(world, after),
                regret.error(world, after, logged),
            )
        )
        predicted = after
    return Regrets(*(np.stack(column) for column in zip(*rows, strict=True)))


def fitted_after_each(
    world: worlds.FiniteWorld, epsilon: float, samples: int, runs: int, generator: np.random.Generator
) -> np.ndarray:
    """Runs epsilon-greedy whose exact oracle fits again after each sample, as eq. 10 has it.

    Args:
      world: The world.
      epsilon: Of the policy.
      samples: n I.
      runs: Runs.
      generator: Draws.

    Returns:
      float64 [samples, runs], the greedy part's regret in exact expectation, before each sample.
    """
    all_runs, contexts = np.arange(runs), world.contexts
    lost = contexts[:, None] * (world.rewards.max(axis=1, keepdims=True) - world.rewards)
    greedy = np.tile(world.candidates[:, 0].argmax(axis=1), (runs, 1))
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


def simulate_linear(
    world: worlds.LinearWorld,
    epsilon: float,
    samples: int,
    periods: int,
    measured: list[int],
    runs: int,
    generator: np.random.Generator,
    evaluated: int = 4000,
) -> np.ndarray:
    """Runs epsilon-greedy in a linear world, with least squares over all samples so far as the oracle.

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
        rewards = world.rewards(features, actions, generator)
        new = oracles.Moments.of(features, actions, rewards, world.num_actions)
        moments = moments.plus(new) if moments else new
        coefficients = oracles.least_squares(moments)
        if period in measured:
            found.append(world.greedy_regret(contexts(evaluated), coefficients))
    return np.stack(found)
