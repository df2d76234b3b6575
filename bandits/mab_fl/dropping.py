"""Which combinations are clearly worse than the best one (Lundahl 2021, section 8.3.2)."""

import numpy as np
import scipy.stats

_LEAST_ROUNDS = 3


def clearly_worse(sums: np.ndarray, products: np.ndarray, rounds: int, level: float) -> np.ndarray:
    """Returns which combinations a paired one-sided t test finds worse than the one with the highest mean reward.

    All were measured in the same rounds against the same model of the target, so their rewards are paired.

    Args:
      sums: float64 [combinations], their rewards.
      products: float64 [combinations, combinations], sums over rounds of the products of two combinations' rewards.
      rounds: Rounds in which all were measured.
      level: Level of one test.

    Returns:
      bool [combinations]; none before round 3, and none whose difference to the best never varies.
    """
    if rounds < _LEAST_ROUNDS:
        return np.zeros(len(sums), bool)
    best = int(np.argmax(sums))
    mean = (sums[best] - sums) / rounds
    squares = products[best, best] + np.diag(products) - 2 * products[best]
    variance = np.maximum(squares / rounds - mean**2, 0) / (rounds - 1)  # Of the mean difference.
    varies = variance > 1e-12 * np.maximum(squares / rounds, np.finfo(float).tiny)
    t = np.divide(mean, np.sqrt(variance), out=np.zeros_like(mean), where=varies)
    return varies & (scipy.stats.t.sf(t, rounds - 1) < level)
