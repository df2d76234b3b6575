"""The bounds of Agarwal et al. 2023, section 6, with their constants.

Logarithms: `schedules.complexity` is ln(|F| ... / delta), what each bound has of it is said there. `constant` is the
factor that the text's O() hides, of eq. 7; `measured_constant` finds it.
"""

import math

import numpy as np


def error(log_term: float, samples: float, fed_opt: float = 0.0, constant: float = 1.0) -> float:
    """Returns eq. 7's bound on E[(f - f*)^2], constant (ln(.) / (n i) + epsilon_fed-opt)."""
    return constant * (log_term / samples + fed_opt)


def measured_constant(errors: np.ndarray, log_term: float, samples: float, delta: float) -> float:
    """Returns the least constant with which eq. 7 holds in a share 1 - delta of runs without epsilon_fed-opt.

    Args:
      errors: float64 [runs], E[(f - f*)^2] under the log.
      log_term: ln(|F| i / delta).
      samples: n i.
      delta: Share of runs that may lie above.
    """
    return float(np.quantile(errors, 1 - delta, method="higher") * samples / log_term)


def greedy_regret(num_actions: int, epsilon: float, error_bound: float) -> float:
    """Returns eq. 8's bound on the greedy part's regret a sample, sqrt((2 K / epsilon) error)."""
    return math.sqrt(2 * num_actions / epsilon * error_bound)


def delayed(samples: int, periods: int, squared_rate: float) -> float:
    """Returns the greedy part's regret of eq. 9 in all n I samples, without its (epsilon + ...) n I.

    Nothing is known in the first period: that is the term n. From then on a sample of period i loses
    sqrt(squared_rate / (n (i - 1))), and never more than 1, the largest reward. With n = 1 it is eq. 10, whose model is
    fitted again after each sample.

    Args:
      samples: n, of a period.
      periods: I.
      squared_rate: (2 K / epsilon) ln(.).
    """
    known = samples * np.arange(1, periods)
    return samples + samples * float(np.minimum(1, np.sqrt(squared_rate / known)).sum())


def falcon_regret(num_actions: int, error_bound: float, factor: float) -> float:
    """Returns FALCON's bound on the whole regret a sample, factor sqrt(K error)."""
    return factor * math.sqrt(num_actions * error_bound)


def inverse_gap_floor(rewards: np.ndarray, contexts: np.ndarray, mu: float, gamma: float) -> float:
    """Returns what inverse gap weighting with constant parameters loses a sample once it knows f*.

    sum_a gap_a / (mu + gamma gap_a): below (K - 1) / gamma, whatever f* is.

    Args:
      rewards: float64 [contexts, actions], f*.
      contexts: float64 [contexts], how often each comes.
      mu: At least K - 1, so that nothing needs scaling.
      gamma: At least 0.
    """
    gaps = rewards.max(axis=1, keepdims=True) - rewards
    return float(contexts @ (gaps / (mu + gamma * gaps)).sum(axis=1))


def third_root_epsilon(num_actions: int, log_term: float, samples: float) -> float:
    """Returns (K ln(.) / (n I))^(1/3), at most 1: it makes the costs of exploring and of not knowing alike."""
    return min(1.0, (num_actions * log_term / samples) ** (1 / 3))
