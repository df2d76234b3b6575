"""How equally clients fare."""

import math

import numpy as np


def worst_tenth(rewards: np.ndarray) -> float:
    """Returns the mean of the worst tenth of clients' rewards, rounded up to whole clients; not a number of none."""
    ordered = np.sort(np.asarray(rewards, float))
    return float(ordered[: math.ceil(len(ordered) / 10)].mean()) if len(ordered) else math.nan


def jain_index(rewards: np.ndarray) -> float:
    """Returns Jain's index, (sum x)^2 / (n sum x^2): 1 where all fare alike, 1 / n where one client has it all.

    Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination", 1984, equation 1. Not a number where a
    reward is negative, of which it says nothing, or all are 0.
    """
    rewards = np.asarray(rewards, float)
    squares = len(rewards) * float(np.sum(rewards**2))
    return math.nan if not squares or rewards.min() < 0 else float(rewards.sum()) ** 2 / squares
