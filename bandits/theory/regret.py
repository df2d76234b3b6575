"""Regret in exact expectation, and both sides of the inequality between regret and a fit's error.

Everything takes a leading axis of runs: predictions are float [runs, contexts, actions]. Rewards are f*, not the noisy
r, unless it says so.
"""

import numpy as np
import tensorflow as tf

from bandits import policies
from bandits.theory import environments


def probabilities(policy: policies.Policy, predicted: np.ndarray) -> np.ndarray:
    """Action probabilities of a policy of `bandits.policies`, float64 [runs, contexts, actions]."""
    rows = predicted.reshape(-1, predicted.shape[-1]).astype(np.float32)
    found = policy(tf.constant(rows)).numpy().astype(np.float64).reshape(predicted.shape)
    return found / found.sum(axis=-1, keepdims=True)  # 32 bits sum to 1 but roughly.


def of_policy(environment: environments.FiniteEnvironment, acting: np.ndarray) -> np.ndarray:
    """Regret per sample, float64 [runs], of action probabilities float64 [runs, contexts, actions]."""
    lost = environment.rewards.max(axis=1, keepdims=True) - environment.rewards
    return np.einsum("x,rxa,xa->r", environment.contexts, acting, lost)


def of_greedy(environment: environments.FiniteEnvironment, predicted: np.ndarray) -> np.ndarray:
    """E[f*(pi*) - f*(pi_f)], float64 [runs]: regret per sample of the greedy policy, averaged over ties."""
    return of_policy(environment, probabilities(policies.Greedy(), predicted))


def error(environment: environments.FiniteEnvironment, predicted: np.ndarray, logged: np.ndarray) -> np.ndarray:
    """E[(f - r)^2 - (f* - r)^2] = E[(f - f*)^2] under a log, float64 [runs]: what eq. 7 bounds.

    The two are equal because E[r | context, action] = f* (Assumption 1).

    Args:
      environment: The environment.
      predicted: f.
      logged: float64 [runs, contexts, actions] or [contexts, actions], probabilities with which the log's actions
        were chosen; of several deployments, their mean.
    """
    squares = (predicted - environment.rewards) ** 2
    return np.einsum("x,rxa,rxa->r", environment.contexts, np.broadcast_to(logged, predicted.shape), squares)


def bound_by_error(
    environment: environments.FiniteEnvironment, predicted: np.ndarray, logged: np.ndarray, epsilon: float
) -> np.ndarray:
    """The bound sqrt((2 K / epsilon) E[(f - f*)^2]), float64 [runs], which `of_greedy` never exceeds.

    The inequality behind eq. 8. Where the greedy action is not the best, f is wrong by half the gap or more at one of
    the two, and any epsilon-greedy log has each of them with probability epsilon / K or more.

    Args:
      environment: The environment.
      predicted: f.
      logged: See `error`; each probability at least epsilon / K.
      epsilon: Of the log's epsilon-greedy policies.
    """
    return np.sqrt(2 * environment.num_actions / epsilon * error(environment, predicted, logged))
