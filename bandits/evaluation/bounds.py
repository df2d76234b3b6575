"""Bounds on one client's contribution, and the flags for bounds, private values and anytime-valid intervals.

Bounds are fixed before the log is read, because a bound derived from the log would reveal information about it.
"""

import dataclasses
import math
import pathlib
from collections.abc import Sequence

import numpy as np

from bandits.evaluation.estimators import Terms
from data import keys
from data import reward_bounds as reward_bounds_lib
from data.errors import UsageError
from data.interaction_log import InteractionLog
from data.reward_bounds import RewardBounds
from data.settings import names, setting
from optimization.privacy import mechanisms
from optimization.study import cli


@dataclasses.dataclass(frozen=True)
class ClientBounds:
    """Bounds of a client's contribution, fixed before the log is read."""

    largest_weight: float = setting(
        None,
        "Maximum importance weight; larger weights are clipped to it (default with --anytime: no limit, because "
        "clipping can only widen these intervals)",
        low=1.0,
    )
    max_rows_per_client: int = setting(
        None, "Maximum number of rows to use per client (with --anytime, per client and round)", low=1
    )
    clip_rewards: bool = setting(False, "Clip rewards outside the bounds to the nearer bound instead of refusing them")
    reward_bounds: str = setting(
        None,
        "Smallest and largest possible reward, LOW,HIGH, for finite-sample intervals, --anytime and --private "
        "(default: 0,1; without --private also -1,1, if all rewards are -1 or 1)",
        basic=True,
    )


@dataclasses.dataclass(frozen=True)
class Modes:
    """Anytime-valid intervals and private values."""

    anytime: bool = setting(
        False, "Print a confidence sequence: one interval after each round, all of them valid jointly", basic=True
    )
    private: bool = setting(
        False,
        "Print only values from one noisy sum over clients. Every query spends privacy budget and is recorded",
        basic=True,
    )


@dataclasses.dataclass(frozen=True)
class DifferentialPrivacy:
    """Differential privacy."""

    noise_multiplier: float = setting(
        None, "Standard deviation of the noise on the sum, as a multiple of the clip norm", above=True, basic=True
    )
    target_epsilon: float = setting(
        None, "Privacy loss (epsilon) of all --looks together, instead of a noise multiplier", above=True, basic=True
    )
    looks: int = setting(1, "Number of queries that --target_epsilon allows", low=1, only={"target_epsilon": True})
    target_delta: float = setting(
        None, "Delta that goes with epsilon (default: 1 / clients^1.1)", high=1.0, above=True, below=True
    )
    accountant: str = setting("rdp", "Accountant that computes --target_epsilon", mechanisms.ACCOUNTANTS)
    clip_norm: float = setting(
        None,
        "L2 norm to which a client's vector is clipped, after each number is divided by its bound (default: the norm "
        "for a client with the maximum number of rows, a mean weight of 1, and rewards of 1)",
        above=True,
    )
    privacy_ledger: pathlib.Path = setting(
        None, "File that records all queries on these clients (default: LOG.privacy.jsonl)"
    )
    policy_is_public: bool = setting(
        False, "Count no privacy loss for the model of --policy: none of its clients needs protection"
    )


# Flags that have an effect only with --private; the bounds also have one with --anytime.
PRIVATE = frozenset({*names(ClientBounds, DifferentialPrivacy), "private"}) - {"reward_bounds"}


def check(settings: cli.Settings) -> None:
    """Checks the flags of bounds and of private values together.

    Raises:
      UsageError: If a flag is missing, has no effect, or conflicts with another one.
    """
    reward_bounds(settings)
    reader = "private" if settings.private else "anytime" if settings.anytime else None
    for name in ("largest_weight", "max_rows_per_client", "clip_rewards"):
        if not reader and name in settings.set_by_user:
            raise UsageError(f"--{name} has an effect only with --private or --anytime.")
        is_needed = name == "max_rows_per_client" or (name == "largest_weight" and settings.private)
        if reader and is_needed and settings[name] is None:
            raise UsageError(
                f"--{reader} needs --{name}, a bound that is chosen before the log is read, not taken from it."
            )
    if settings.private and settings.anytime:
        raise UsageError("--anytime shows sums for each round, which --private does not release: leave one out.")
    if settings.private and (settings.noise_multiplier is None) == (settings.target_epsilon is None):
        raise UsageError("--private needs either --noise_multiplier or --target_epsilon.")


def reward_bounds(settings: cli.Settings) -> RewardBounds | None:
    """Bounds that `--reward_bounds` declares; None if the flag is not set.

    Raises:
      UsageError: If the values are not valid bounds.
    """
    return reward_bounds_lib.parse(settings.reward_bounds) if settings.reward_bounds else None


def mapped_rewards(settings: cli.Settings, log: InteractionLog) -> tuple[InteractionLog, RewardBounds | None]:
    """Maps rewards to [0, 1] if their bounds are declared or recognized; returns the log, and the bounds or None.

    Raises:
      UsageError: If a reward is outside the declared bounds, and --clip_rewards is not set.
    """
    bounds = reward_bounds(settings)
    if bounds and not settings.clip_rewards and (outside := bounds.outside(log.rewards)):
        row = int(np.argmax((log.rewards < bounds.low) | (log.rewards > bounds.high)))
        number = row - int(np.searchsorted(log.clients, log.clients[row])) + 1
        raise UsageError(
            f"--reward_bounds={settings.reward_bounds}: the reward {log.rewards[row]:g} in row {number:,} of client "
            f"{log.client_ids[log.clients[row]]!r} is out of bounds (1 of {outside:,}): correct the bounds or the log."
        )
    # A single distinct reward does not reveal the bounds. With --private, the bounds must not depend on the rewards.
    if not (bounds or settings.private or settings.clip_rewards) and np.ptp(log.rewards) > 0:
        bounds = reward_bounds_lib.recognized(log.rewards)
    return (dataclasses.replace(log, rewards=bounds.to_unit(log.rewards)) if bounds else log), bounds


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds on one client's contribution.

    Attributes:
      largest_weight: Upper limit to which importance weights are clipped. It is at least 1, the expected weight, and
        infinite for no limit.
      max_rows: Maximum number of rows that count for a client, in total or per round. If there are more, a keyed sample
        is used, and the client counts like a client with this many rows.
      clips_rewards: Whether rewards outside [0, 1] are clipped instead of rejected.
    """

    largest_weight: float
    max_rows: int
    clips_rewards: bool = False


def of_settings(settings: cli.Settings) -> Bounds:
    """The bounds that the flags declare."""
    return Bounds(settings.largest_weight or math.inf, settings.max_rows_per_client, settings.clip_rewards)


def apply(
    terms: Terms, bounds: Bounds, client_ids: Sequence[str], seed: int, rounds: np.ndarray | None = None
) -> tuple[Terms, np.ndarray]:
    """Clipped terms of the rows that count, and which rows these are.

    The selection of a client's rows depends on the seed, the client's name and its number of rows, but never on other
    clients. After the selection, neighbouring logs therefore still differ only in the rows of one client.

    Args:
      terms: Terms of all rows.
      bounds: The bounds.
      client_ids: The client's name for each number in `terms.clients`.
      seed: Random seed of the sample.
      rounds: int [rows], the round of each row if `max_rows` applies per client and round; None if it applies per
        client.

    Returns:
      The terms, and whether each row counts, bool [rows].

    Raises:
      UsageError: If a reward is outside [0, 1] and may not be clipped, or a weight is negative or not finite.
    """
    if not (np.isfinite(terms.weights) & (terms.weights >= 0)).all() or not np.isfinite(terms.rewards).all():
        raise UsageError("Rewards must be finite numbers, and importance weights finite numbers of at least 0.")
    outside = (terms.rewards < 0) | (terms.rewards > 1)
    if outside.any() and not bounds.clips_rewards:
        raise UsageError(
            f"{int(outside.sum()):,} of {len(outside):,} rewards are not in [0, 1], which bounds what a client can "
            "change: declare bounds that are known beforehand with --reward_bounds, or clip them with --clip_rewards."
        )
    counted = chosen(terms.clients, bounds.max_rows, client_ids, seed, rounds)
    weights = np.minimum(terms.weights, bounds.largest_weight)
    bounded = terms._replace(weights=weights, rewards=np.clip(terms.rewards, 0.0, 1.0))
    return Terms(*(column[counted] for column in bounded)), counted


def chosen(
    clients: np.ndarray, most: int, client_ids: Sequence[str], seed: int, rounds: np.ndarray | None = None
) -> np.ndarray:
    """Random sample of at most `most` rows per client, or per client and round, as bool [rows].

    Args:
      clients: int [rows].
      most: Maximum number of rows per client, or per client and round.
      client_ids: The client's name for each number in `clients`.
      seed: Random seed of the sample.
      rounds: int [rows]; None to sample from all rows of a client together.
    """
    import pandas as pd

    counted = np.ones(len(clients), bool)
    group = ["client", "round"]
    rows = pd.DataFrame({"client": clients, "round": 0 if rounds is None else rounds})
    crowded = rows[rows.groupby(group)["client"].transform("size") > most]
    for (client, round_num), places in crowded.groupby(group).groups.items():
        draw = keys.generator(seed, keys.Purpose.LOG_ROWS, int(round_num), keys.number_of(client_ids[client]))
        counted[np.delete(np.asarray(places), draw.choice(len(places), most, replace=False))] = False
    return counted
