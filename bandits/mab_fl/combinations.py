"""Combinations of participants, what they cost, and which are clearly worse (Lundahl 2021, section 8.3).

A combination is written as a binary code, such as 0110 for the second and third of four participants.
"""

import itertools
from collections.abc import Collection, Sequence

import numpy as np

MAX_PARTICIPANTS_FOR_ALL = 8
MAX_PROPOSALS = 8
_MAX_OVERLAP = 0.8
_LEAST_ROUNDS = 3  # Of a t test.


def code(members: Collection[int], num_participants: int) -> str:
    """Returns the code of these participants' indices."""
    return "".join("01"[index in members] for index in range(num_participants))


def members(combination: str) -> list[int]:
    """Returns the indices of a code's participants."""
    return [index for index, is_member in enumerate(combination) if is_member == "1"]


def pairs(target: int, num_participants: int) -> list[str]:
    """Returns the target with each other participant."""
    return [code({target, other}, num_participants) for other in range(num_participants) if other != target]


def all_with(target: int, num_participants: int) -> list[str]:
    """Returns the 2^(participants-1) combinations that hold the target, in the order of their codes."""
    codes = ("".join(bits) for bits in itertools.product("01", repeat=num_participants))
    return [combination for combination in codes if combination[target] == "1"]


def proposals(updates: np.ndarray, target: int) -> list[str]:
    """Returns combinations of participants whose model updates point the target's way.

    Clustered federated learning splits participants in two so that the most similar pair across the cut is as
    dissimilar as can be, and goes on within each part (Sattler, Müller and Samek 2020, section II). Those cuts are the
    merges of single-linkage clustering by cosine distance. The parts that hold the target are nested; those that stay
    unchanged over the widest range of distances are proposed, unless one and a better one are the same but for a fifth
    of their participants: almost equal combinations have the same effect within noise (section 8.3.1). At most
    `MAX_PROPOSALS`, the smallest first.

    Args:
      updates: float [participants, weights], trained minus initial model.
      target: Index of the target.
    """
    import scipy.cluster.hierarchy
    import scipy.spatial.distance

    merges = scipy.cluster.hierarchy.linkage(scipy.spatial.distance.pdist(updates, "cosine"), "single")
    count = len(updates)
    clusters = [{participant} for participant in range(count)]
    nested, formed_at = [{target}], [0.0]
    for first, second, distance, _ in merges:
        clusters.append(clusters[int(first)] | clusters[int(second)])
        if target in clusters[-1]:
            nested.append(clusters[-1])
            formed_at.append(distance)
    # All participants together are never split off: they count to the largest distance that there can be.
    persistence = np.diff([*formed_at, 2.0])
    kept: list[set[int]] = []
    for index in np.argsort(-persistence, kind="stable"):
        cluster = nested[index]
        if all(len(cluster & other) <= _MAX_OVERLAP * len(cluster | other) for other in kept):
            kept.append(cluster)
    return [code(cluster, count) for cluster in sorted(kept[:MAX_PROPOSALS], key=len)]


def shares(combination: str, num_rows: Sequence[int], target: int, target_weight: float | None) -> np.ndarray:
    """Returns each participant's weight in a combination's average.

    Args:
      combination: Its code.
      num_rows: Training rows of each participant.
      target: Index of the target.
      target_weight: The target's weight, the others sharing the rest by size; None for all by size.

    Returns:
      float32 [participants], 0 outside the combination, summing to 1.
    """
    sizes = np.where([bit == "1" for bit in combination], num_rows, 0).astype(float)
    if target_weight is not None and np.count_nonzero(sizes) > 1:
        sizes[target] = 0
        sizes *= (1 - target_weight) / sizes.sum()
        sizes[target] = target_weight
    return (sizes / sizes.sum()).astype(np.float32)


def communications(num_participants: int, *, is_evaluated: bool) -> int:
    """Returns a round's exchanges (section 8.3.2), each of which counts as one, however much it carries.

    Args:
      num_participants: Who trains: to each the model, and back.
      is_evaluated: Whether the averages go to the target right away, and their measures back. Nothing is measured for
        who does not choose, and Extreme Explore with delayed rewards sends both with the next round's models.
    """
    return 2 * num_participants + 2 * is_evaluated


def expected_overlap(num_participants: int) -> float:
    """Returns how many participants beside the target two different random combinations share on average.

    Section 8.3.1 has (k-1)/4 - 1/4^(k-1) in (12), since its (6) subtracts 1 where two equal combinations hold everyone.
    Instead, all pairs of equal combinations have to be left out, and the mean taken over the other pairs.

    Args:
      num_participants: With the target, k; at least 2.
    """
    others = num_participants - 1
    return others / 4 * (2**others - 2) / (2**others - 1)


def clearly_worse(sums: np.ndarray, products: np.ndarray, rounds: int, level: float) -> np.ndarray:
    """Returns which combinations a paired one-sided t test finds worse than the best one (8.3.2).

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
