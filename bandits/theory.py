"""Regret in environments with known rewards, compared with the bounds of Agarwal et al. 2023, equations (7) and (8).

The true rewards f* are in the fitted class F (Assumption 1). Algorithm 1 is simulated with an exact regression oracle
in place of its rounds, to measure how fast the greedy part of epsilon-greedy learns. The gap between the best
action and the others is always at the edge of what the samples can detect.

Predictions are float [runs, contexts, actions]. Rewards are f*, not the noisy r, unless stated otherwise.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import tensorflow as tf

from bandits import policies, schedules
from data import keys
from optimization.study import intervals

DELTA = 0.05
SEEDS = 20
RUNS_OF_A_SEED = 400
_EDGE = 0.5  # The gap, in units of sqrt(K ln |F| / (epsilon n I)).
# For each varied quantity: the points (K, epsilon, n, I), and the position of the quantity in a point.
GRIDS = {
    "n, samples of a period": ([(5, 0.2, 2**power, 1) for power in range(10, 18)], 2),
    "I, periods": ([(5, 0.2, 2000, 2**power) for power in range(6)], 3),
    "K, actions": ([(4 * 2**power, 0.2, 2**16, 1) for power in range(5)], 0),
    "epsilon": ([(5, 0.05 * 2**power, 2**16, 1) for power in range(5)], 1),
}


@dataclasses.dataclass(frozen=True, eq=False)
class FiniteEnvironment:
    """Environment with finitely many contexts, actions and functions. Rewards are 0 or 1 with mean f*(context, action).

    F is a product: at each context, a function has one of the context's candidate rows. The best fit can therefore be
    computed for each context separately.

    Attributes:
      rewards: float64 [contexts, actions] in [0, 1], f*.
      candidates: float64 [contexts, candidates, actions] in [0, 1], the candidate rows of each context, which
        include the row of f*. Rows can be repeated.
      contexts: float64 [contexts], the frequency of each context.
    """

    rewards: np.ndarray
    candidates: np.ndarray
    contexts: np.ndarray

    @property
    def log_class_size(self) -> float:
        """The logarithm of the number of functions, ln |F|."""
        return float(sum(np.log(len(np.unique(rows, axis=0))) for rows in self.candidates))


def hidden_best(num_actions: int, gap: float) -> FiniteEnvironment:
    """One context whose last action earns 0.5 + `gap`; the others earn 0.5. In F, any action can be the best."""
    rows = 0.5 + gap * np.eye(num_actions)
    return FiniteEnvironment(rows[-1:], rows[None], np.ones(1))


def probabilities(policy: policies.Policy, predicted: np.ndarray) -> np.ndarray:
    """Action probabilities of a policy of `bandits.policies`, float64 [runs, contexts, actions]."""
    rows = predicted.reshape(-1, predicted.shape[-1]).astype(np.float32)
    found = policy(tf.constant(rows)).numpy().astype(np.float64).reshape(predicted.shape)
    return found / found.sum(axis=-1, keepdims=True)  # In 32 bits, probabilities sum to 1 only roughly.


def of_policy(environment: FiniteEnvironment, acting: np.ndarray) -> np.ndarray:
    """Regret per sample, float64 [runs], of action probabilities float64 [runs, contexts, actions]."""
    lost = environment.rewards.max(axis=1, keepdims=True) - environment.rewards
    return np.einsum("x,rxa,xa->r", environment.contexts, acting, lost)


def of_greedy(environment: FiniteEnvironment, predicted: np.ndarray) -> np.ndarray:
    """E[f*(pi*) - f*(pi_f)], float64 [runs]: regret per sample of the greedy policy, averaged over ties."""
    return of_policy(environment, probabilities(policies.Greedy(), predicted))


def error(environment: FiniteEnvironment, predicted: np.ndarray, logged: np.ndarray) -> np.ndarray:
    """E[(f - r)^2 - (f* - r)^2] = E[(f - f*)^2] under a log, float64 [runs], which equation (7) bounds.

    The two expectations are equal because E[r | context, action] = f* (Assumption 1).

    Args:
      environment: The environment.
      predicted: f.
      logged: float64 [runs, contexts, actions] or [contexts, actions], probabilities with which the log's actions
        were chosen; for several deployments, their mean.
    """
    squares = (predicted - environment.rewards) ** 2
    return np.einsum("x,rxa,rxa->r", environment.contexts, np.broadcast_to(logged, predicted.shape), squares)


def simulate(
    environment: FiniteEnvironment,
    policy: policies.Policy,
    samples: int,
    periods: int,
    runs: int,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Runs Algorithm 1, where each period ends by fitting the function in F with the smallest squared loss.

    Args:
      environment: The environment.
      policy: The policy.
      samples: Number of samples per period, n.
      periods: Number of periods, I.
      runs: Number of independent runs.
      generator: Random generator.

    Returns:
      After the last period, float64 [runs]: the greedy part's regret per sample, and E[(f - f*)^2] under the mean of
      all policies so far.
    """
    predicted = np.broadcast_to(environment.candidates[:, 0], (runs, *environment.rewards.shape))
    counts = successes = np.zeros(1, np.int64)
    logged = np.zeros(predicted.shape)
    for period in range(1, periods + 1):
        acting = probabilities(policy, predicted)
        contexts = generator.multinomial(samples, environment.contexts, size=runs)
        new = generator.multinomial(contexts, acting)
        counts, successes = counts + new, successes + generator.binomial(new, environment.rewards)
        logged = logged + (acting - logged) / period
        # sum (f - r)^2 = sum count f^2 - 2 f successes, plus terms that do not depend on f.
        losses = np.einsum("rxa,xma->rxm", counts, environment.candidates**2)
        losses -= 2 * np.einsum("rxa,xma->rxm", successes, environment.candidates)
        predicted = environment.candidates[np.arange(len(environment.rewards)), losses.argmin(axis=2)]
    return of_greedy(environment, predicted), error(environment, predicted, logged)


def greedy_bound(num_actions: int, epsilon: float, error: npt.ArrayLike) -> np.ndarray:
    """Bound of equation (8) on the greedy part's regret per sample, sqrt((2 K / epsilon) error).

    Where the greedy action is not the best, f is wrong by half the gap or more at one of the two actions, and any
    epsilon-greedy policy chooses each of them with a probability of at least epsilon / K.
    """
    return np.sqrt(2 * num_actions / epsilon * np.asarray(error))


def slope(places: Sequence[float], values: np.ndarray) -> intervals.Interval:
    """Returns the slope of log value against log x, with a 95% Student's t interval over seeds.

    Args:
      places: The values of x, [places], above 0.
      values: float64 [seeds, places], above 0.
    """
    centred = np.log(places) - np.log(places).mean()
    return intervals.of_mean((np.log(values) @ centred / (centred @ centred)).tolist())


def rates(seed: int) -> pd.DataFrame:
    """Measured slopes next to those of equation (8), with one row for each quantity in the equation.

    The constant of equation (7) is the smallest with which the equation holds at all points.
    """
    generator = keys.generator(seed, keys.Purpose.LABORATORY, 2)
    regrets, terms, constant = {}, {}, 0.0
    for point in [point for grid, _ in GRIDS.values() for point in grid]:
        actions, epsilon, samples, periods = point
        total = samples * periods
        gap = _EDGE * math.sqrt(actions * math.log(actions) / (epsilon * total))
        environment, policy = hidden_best(actions, gap), policies.EpsilonGreedy(epsilon)
        greedy, errors = simulate(environment, policy, samples, periods, SEEDS * RUNS_OF_A_SEED, generator)
        terms[point] = schedules.complexity(environment.log_class_size, DELTA, periods)
        # Equation (7) bounds E[(f - f*)^2] by constant ln(|F| I / delta) / (n I) in a fraction 1 - delta of the runs.
        constant = max(constant, float(np.quantile(errors, 1 - DELTA, method="higher") * total / terms[point]))
        regrets[point] = greedy.reshape(SEEDS, -1).mean(axis=1)
    rows = []
    for name, (grid, varied) in GRIDS.items():
        limits = [greedy_bound(point[0], point[1], constant * terms[point] / (point[2] * point[3])) for point in grid]
        measured, places = np.array([regrets[point] for point in grid]).T, [point[varied] for point in grid]
        of_bound = slope(places, np.tile(limits, (2, 1))).mean
        share = (measured.mean(axis=0) / limits).max()
        span = f"{places[0]:g} to {places[-1]:g}"
        rows.append([name, span, slope(places, measured).text(), f"{of_bound:.2f}", f"{share:.2f}"])
    heads = ["against", "from, to", "measured slope", "slope of (8)", "largest regret / bound"]
    return pd.DataFrame(rows, columns=heads)
