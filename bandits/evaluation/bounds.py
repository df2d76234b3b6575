"""Bounds of what one client contributes, and the flags of bounds, private values and anytime-valid intervals.

Bounds are fixed before the log is read, because a bound that followed from the log would reveal something of it.
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

_LEDGER_SUFFIX = ".privacy.jsonl"


class _ClientBounds:
    """Bounds of a client's contribution, fixed before the log is read.

    Attributes:
      largest_weight: Importance weights above it count as this (default with --anytime: no limit, as clipping can only
        widen these intervals).
      max_rows_per_client: Rows of a client that count at most; in a round, with --anytime.
      clip_rewards: Move rewards outside their bounds to the nearer one instead of refusing them.
      reward_bounds: Smallest and largest possible reward, LOW,HIGH, for finite-sample intervals, --anytime and
        --private (default: 0,1; without --private also -1,1, if all rewards are -1 or 1).
    """

    largest_weight: float = setting(low=1.0)
    max_rows_per_client: int = setting(low=1)
    clip_rewards: bool = setting(False)
    reward_bounds: str = setting(basic=True)


class _Modes:
    """Anytime-valid intervals and private values.

    Attributes:
      anytime: Print a confidence sequence: one interval after each round, all valid jointly.
      private: Print only values from one noisy sum over clients. Every query spends privacy and is recorded.
    """

    anytime: bool = setting(False, basic=True)
    private: bool = setting(False, basic=True)


class _DifferentialPrivacy:
    """Differential privacy.

    Attributes:
      noise_multiplier: Standard deviation of the noise on the sum, in clip norms.
      target_epsilon: Privacy loss of all --looks together, instead of a noise multiplier.
      looks: Number of queries that --target_epsilon allows.
      target_delta: Delta of the epsilon (default: 1 / clients^1.1).
      accountant: Accountant of --target_epsilon.
      clip_norm: L2 norm that a client's vector, each number over its bound, is clipped to (default: that of a client
        with the most rows whose weights average 1 and whose rewards are 1).
      clients_per_look: Expected size of the secret random sample of clients that a query reads, which amplifies
        (default: all).
      privacy_ledger: File that records all queries on these clients (default: LOG.privacy.jsonl).
      policy_is_public: No client that the run of --policy was trained on needs protection: count nothing for its model.
    """

    noise_multiplier: float = setting(above=True, basic=True)
    target_epsilon: float = setting(above=True, basic=True)
    looks: int = setting(1, low=1, only={"target_epsilon": True})
    target_delta: float = setting(high=1.0, above=True, below=True)
    accountant: str = setting("rdp", mechanisms.ACCOUNTANTS)
    clip_norm: float = setting(above=True)
    clients_per_look: int = setting(low=1)
    privacy_ledger: pathlib.Path = setting()
    policy_is_public: bool = setting(False)


# Flags that have an effect only with --private, or with --private and --anytime.
PRIVATE = frozenset(
    {*names(_ClientBounds, _DifferentialPrivacy), "private", "model_noise_multiplier", "model_clip_norm"}
) - {"reward_bounds"}


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group(_ClientBounds)
    flags.group(_Modes)
    flags.group(_DifferentialPrivacy, private=True)


def check(settings: cli.Settings) -> None:
    """Checks the flags of bounds and of private values together.

    Raises:
      UsageError: If one is missing, or has no effect.
    """
    reward_bounds(settings)
    reader = "private" if settings.private else "anytime" if settings.anytime else None
    for name in ("largest_weight", "max_rows_per_client", "clip_rewards"):
        if not reader and name in settings.set_by_user:
            raise UsageError(f"--{name} has an effect only with --private or --anytime.")
        is_needed = name == "max_rows_per_client" or (name == "largest_weight" and reader == "private")
        if reader and is_needed and settings[name] is None:
            raise UsageError(
                f"--{reader} needs --{name}: a bound that is fixed before the log is read, not taken from it."
            )
    if settings.private and settings.anytime:
        raise UsageError("--anytime shows sums of each round, which --private does not release: leave one out.")
    if settings.private and (settings.noise_multiplier is None) == (settings.target_epsilon is None):
        raise UsageError("--private needs one of --noise_multiplier and --target_epsilon.")


def reward_bounds(settings: cli.Settings) -> RewardBounds | None:
    """Bounds that `--reward_bounds` declares; None without it.

    Raises:
      UsageError: If they are no bounds.
    """
    return reward_bounds_lib.parse(settings.reward_bounds) if settings.reward_bounds else None


def mapped_rewards(settings: cli.Settings, log: InteractionLog) -> tuple[InteractionLog, RewardBounds | None]:
    """Log with rewards in [0, 1], and their bounds, if these are declared or recognized; otherwise the log as it is.

    Raises:
      UsageError: If a reward is outside the declared bounds, and --clip_rewards is not set.
    """
    declared = reward_bounds(settings)
    if declared and not settings.clip_rewards and (outside := declared.outside(log.rewards)):
        row = int(np.argmax((log.rewards < declared.low) | (log.rewards > declared.high)))
        number = row - int(np.searchsorted(log.clients, log.clients[row])) + 1
        raise UsageError(
            f"--reward_bounds={settings.reward_bounds}: the reward {log.rewards[row]:g} in row {number:,} of client "
            f"{log.client_ids[log.clients[row]]!r} is outside ({outside:,} in all): correct the bounds or the log."
        )
    # A single reward shows no bounds. With --private nothing may depend on the rewards.
    is_recognized = not (declared or settings.private or settings.clip_rewards) and np.ptp(log.rewards) > 0
    found = reward_bounds_lib.recognized(log.rewards) if is_recognized else declared
    return (dataclasses.replace(log, rewards=found.to_unit(log.rewards)) if found else log), found


def ledger_path(settings: cli.Settings) -> pathlib.Path:
    """File that records the privacy spent on the clients of `--log`."""
    return pathlib.Path(settings.privacy_ledger or f"{settings.log}{_LEDGER_SUFFIX}")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Bounds of what one client contributes.

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


def of_settings(settings: cli.Settings) -> Bounds:
    """Bounds that the flags declare."""
    return Bounds(settings.largest_weight or math.inf, settings.max_rows_per_client, settings.clip_rewards)


def apply(
    terms: Terms, bounds: Bounds, client_ids: Sequence[str], seed: int, rounds: np.ndarray | None = None
) -> tuple[Terms, np.ndarray]:
    """Clipped terms of the counted rows, and which rows these are.

    Which rows of a client count depends on the seed, its name and how many it has, never on other clients: neighbouring
    logs differ in one client's rows alone after it, too. Predictions of a model are moved into [0, 1].

    Args:
      terms: Terms of all rows.
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
    """Random sample of at most `most` rows per client, or per client and round, as bool [rows].

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
