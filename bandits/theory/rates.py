"""How fast the greedy part of epsilon-greedy learns, beside the bounds of Agarwal et al. 2023, equations (7) and (8).

Algorithm 1 is simulated with an exact regression oracle in the place of its rounds. The gap between the best action
and the others is always at the edge of what the samples can detect.
"""

import math
from collections.abc import Sequence

import numpy as np

from bandits import policies, schedules
from bandits.results.tables import markdown
from bandits.theory import environments, regret
from data import keys
from optimization.study import intervals

DELTA = 0.05
SEEDS = 20
RUNS_OF_A_SEED = 400
_EDGE = 0.5  # The gap, in units of sqrt(K ln |F| / (epsilon n I)).
# For each varied quantity, (K, epsilon, n, I) of its points, and its position among them.
GRIDS = {
    "n, samples of a period": ([(5, 0.2, 2**power, 1) for power in range(10, 18)], 2),
    "I, periods": ([(5, 0.2, 2000, 2**power) for power in range(6)], 3),
    "K, actions": ([(4 * 2**power, 0.2, 2**16, 1) for power in range(5)], 0),
    "epsilon": ([(5, 0.05 * 2**power, 2**16, 1) for power in range(5)], 1),
}


def simulate(
    environment: environments.FiniteEnvironment,
    policy: policies.Policy,
    samples: int,
    periods: int,
    runs: int,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Runs Algorithm 1 with the function in F of the smallest squared loss after each period.

    Args:
      environment: The environment.
      policy: The policy.
      samples: n, samples of a period.
      periods: I.
      runs: Runs, each with draws of its own.
      generator: Random generator.

    Returns:
      After the last period, float64 [runs]: the greedy part's regret, and E[(f - f*)^2] under the mean of all policies
      so far.
    """
    predicted = np.broadcast_to(environment.candidates[:, 0], (runs, *environment.rewards.shape))
    counts = successes = np.zeros(1, np.int64)
    logged = np.zeros(predicted.shape)
    for period in range(1, periods + 1):
        acting = regret.probabilities(policy, predicted)
        contexts = generator.multinomial(samples, environment.contexts, size=runs)
        new = generator.multinomial(contexts, acting)
        counts, successes = counts + new, successes + generator.binomial(new, environment.rewards)
        logged = logged + (acting - logged) / period
        # sum (f - r)^2 = sum count f^2 - 2 f successes, and what does not depend on f.
        losses = np.einsum("rxa,xma->rxm", counts, environment.candidates**2)
        losses -= 2 * np.einsum("rxa,xma->rxm", successes, environment.candidates)
        predicted = environment.candidates[np.arange(len(environment.rewards)), losses.argmin(axis=2)]
    return regret.of_greedy(environment, predicted), regret.error(environment, predicted, logged)


def error_bound(log_term: float, samples: float, constant: float = 1.0) -> float:
    """Bound of equation (7) on E[(f - f*)^2] for an exact oracle, constant ln(|F| I / delta) / (n I)."""
    return constant * log_term / samples


def measured_constant(errors: np.ndarray, log_term: float, samples: float) -> float:
    """Smallest constant with which equation (7) holds in a fraction 1 - `DELTA` of runs, float64 [runs]."""
    return float(np.quantile(errors, 1 - DELTA, method="higher") * samples / log_term)


def greedy_bound(num_actions: int, epsilon: float, error: float) -> float:
    """Bound of equation (8) on the greedy part's regret per sample, sqrt((2 K / epsilon) error)."""
    return math.sqrt(2 * num_actions / epsilon * error)


def slope(places: Sequence[float], values: np.ndarray) -> intervals.Interval:
    """Slope of log value against log place with its 95% interval by Student's t over the seeds.

    Args:
      places: [places], above 0.
      values: float64 [seeds, places], above 0.
    """
    centred = np.log(places) - np.log(places).mean()
    return intervals.of_mean((np.log(values) @ centred / (centred @ centred)).tolist())


def table(seed: int) -> str:
    """Markdown table of measured slopes beside those of equation (8), for each quantity that it depends on.

    Equation (7)'s constant is the smallest with which it holds at all points.
    """
    generator = keys.generator(seed, keys.Purpose.LABORATORY, 2)
    regrets, terms, constant = {}, {}, 0.0
    for point in [point for grid, _ in GRIDS.values() for point in grid]:
        actions, epsilon, samples, periods = point
        total = samples * periods
        gap = _EDGE * math.sqrt(actions * math.log(actions) / (epsilon * total))
        environment, policy = environments.hidden_best(actions, gap), policies.EpsilonGreedy(epsilon)
        greedy, errors = simulate(environment, policy, samples, periods, SEEDS * RUNS_OF_A_SEED, generator)
        terms[point] = schedules.complexity(environment.log_class_size, DELTA, periods)
        constant = max(constant, measured_constant(errors, terms[point], total))
        regrets[point] = greedy.reshape(SEEDS, -1).mean(axis=1)
    rows = []
    for name, (grid, varied) in GRIDS.items():
        limits = [
            greedy_bound(point[0], point[1], error_bound(terms[point], point[2] * point[3], constant)) for point in grid
        ]
        measured, places = np.array([regrets[point] for point in grid]).T, [point[varied] for point in grid]
        of_bound = slope(places, np.tile(limits, (2, 1))).mean
        share = (measured.mean(axis=0) / limits).max()
        span = f"{places[0]:g} to {places[-1]:g}"
        rows.append([name, span, slope(places, measured).text(), f"{of_bound:.2f}", f"{share:.2f}"])
    return markdown(["against", "from, to", "measured slope", "slope of (8)", "largest regret / bound"], rows)
