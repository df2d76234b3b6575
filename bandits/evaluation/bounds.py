"""What one client may contribute at most, where a guarantee rests on it: clipped weights, bounded rewards, few rows.

All of it is fixed before the log is read: a bound that follows from the log would itself tell of it.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from bandits.evaluation.estimators import Terms
from data import keys
from data.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds of a client's part.

    Attributes:
      largest_weight: Importance weights above it count as this; at least 1, which is their mean; infinite for no limit.
      max_rows: Rows of a client that count at most, in all or in a round; others are left out by a keyed choice. A
        client then weighs in the value as if it had no more rows than that.
      clips_rewards: Whether rewards outside [0, 1] are moved to its ends instead of refused.

    Raises:
      ValueError: If a bound is out of range.
    """

    largest_weight: float
    max_rows: int
    clips_rewards: bool = False

    def __post_init__(self):
        if not self.largest_weight >= 1:
            raise ValueError(f"largest_weight is {self.largest_weight}, not a number of at least 1.")
        if self.max_rows < 1:
            raise ValueError(f"max_rows is {self.max_rows}, not at least 1.")


def apply(
    terms: Terms, bounds: Bounds, client_ids: Sequence[str], seed: int, rounds: np.ndarray | None = None
) -> tuple[Terms, np.ndarray]:
    """Clipped terms of the counted rows, and which rows these are.

    Which rows of a client count depends on the seed, its name and how many it has, never on other clients: neighbouring
    logs differ in one client's rows alone after it, too. Predictions of a model are moved into [0, 1].

    Args:
      terms: Of all rows.
      bounds: The bounds.
      client_ids: The client's name for each number in `terms.clients`.
      seed: Seed of the choice.
      rounds: int [rows], where `max_rows` is that of a client in a round; None where it is of a client.

    Returns:
      The terms; bool [rows], whether a row counts.

    Raises:
      UsageError: If a reward is not in [0, 1] and may not be clipped, or a number is not finite.
    """
    for name, values in zip(Terms._fields, terms, strict=True):
        if not np.isfinite(values).all():
            raise UsageError(f"The rows' {name} must be finite numbers: {int((~np.isfinite(values)).sum()):,} are not.")
    if (terms.weights < 0).any():
        raise UsageError("Importance weights must be at least 0.")
    outside = (terms.rewards < 0) | (terms.rewards > 1)
    if outside.any() and not bounds.clips_rewards:
        raise UsageError(
            f"{int(outside.sum()):,} of {len(outside):,} rewards are not in [0, 1], which bounds what a client can "
            "change: declare bounds that are known beforehand with --reward_bounds, or clip them with --clip_rewards."
        )
    kept = chosen(terms.clients, bounds.max_rows, client_ids, seed, rounds)
    return Terms(
        terms.clients[kept],
        np.minimum(terms.weights[kept], bounds.largest_weight),
        np.clip(terms.rewards[kept], 0.0, 1.0),
        np.clip(terms.direct[kept], 0.0, 1.0),
        np.clip(terms.predicted[kept], 0.0, 1.0),
    ), kept


def chosen(
    clients: np.ndarray, most: int, client_ids: Sequence[str], seed: int, rounds: np.ndarray | None = None
) -> np.ndarray:
    """Random sample of at most `limit` rows per client, or per client and round, as bool [rows].

    Args:
      clients: int [rows], ascending.
      most: Rows of a client at most.
      client_ids: The client's name for each number in `clients`.
      seed: Seed of the choice.
      rounds: int [rows]; None where all rows of a client are taken together.
    """
    kept = np.ones(len(clients), bool)
    turns = np.zeros(len(clients), np.int64) if rounds is None else rounds
    order = np.lexsort((turns, clients))  # Stable: rows of one group stay in the log's order.
    starts = np.flatnonzero(np.diff(clients[order], prepend=-1) | np.diff(turns[order], prepend=-1))
    sizes = np.diff(starts, append=len(clients))
    for start, size in zip(starts[sizes > most], sizes[sizes > most], strict=True):
        rows = order[start : start + size]
        client = keys.number_of(client_ids[clients[rows[0]]])
        draw = keys.generator(seed, keys.Purpose.LOG_ROWS, int(turns[rows[0]]), client)
        drawn = draw.choice(size, most, replace=False)
        kept[rows] = False
        kept[rows[drawn]] = True
    return kept
