"""Combinations of participants, what they cost, and which are clearly worse (Lundahl 2021, section 8.3).

A combination is written as a binary code, such as 0110 for the second and third of four participants.
"""

import itertools
from collections.abc import Collection, Sequence

import numpy as np

MAX_PARTICIPANTS_FOR_ALL = 8
_LEAST_ROUNDS = 3  # Of a t test.


def code(members: Collection[int], num_participants: int) -> str:
    """Integer code of a set of participants' indices."""
    return "".join("01"[index in members] for index in range(num_participants))


def members(combination: str) -> list[int]:
    """Indices of a code's participants."""
    return [index for index, is_member in enumerate(combination) if is_member == "1"]


def pairs(target: int, num_participants: int) -> list[str]:
    """Pairs of the target with each other participant."""
    return [code({target, other}, num_participants) for other in range(num_participants) if other != target]


def all_with(target: int, num_participants: int) -> list[str]:
    """The 2^(participants-1) combinations that contain the target, in the order of their codes."""
    codes = ("".join(bits) for bits in itertools.product("01", repeat=num_participants))
    return [combination for combination in codes if combination[target] == "1"]


def shares(combination: str, num_rows: Sequence[int]) -> np.ndarray:
    """Each participant's weight in a combination's average.

    Args:
      combination: Its code.
      num_rows: Training rows of each participant.

    Returns:
      float32 [participants], 0 outside the combination, summing to 1.
    """
    sizes = np.where([bit == "1" for bit in combination], num_rows, 0).astype(float)
    return (sizes / sizes.sum()).astype(np.float32)


def clearly_worse(sums: np.ndarray, products: np.ndarray, rounds: int, level: float) -> np.ndarray:
    """Combinations that a paired one-sided t test rejects against the best one (8.3.2).

    The best has the highest mean reward. All were measured in the same rounds against the same model of the target, so
    their rewards are paired.

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
    import scipy.stats

    best = int(np.argmax(sums))
    mean = (sums[best] - sums) / rounds
    squares = products[best, best] + np.diag(products) - 2 * products[best]
    variance = np.maximum(squares / rounds - mean**2, 0) / (rounds - 1)  # Of the mean difference.
    varies = variance > 1e-12 * np.maximum(squares / rounds, np.finfo(float).tiny)
    t = np.divide(mean, np.sqrt(variance), out=np.zeros_like(mean), where=varies)
    return varies & (scipy.stats.t.sf(t, rounds - 1) < level)
