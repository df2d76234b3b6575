"""Flags of clients' bounds, private values and anytime-valid intervals."""

import dataclasses
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from bandits.evaluation import bounds as bounds_lib
from bandits.evaluation import confidence_sequence
from data import reward_bounds as reward_bounds_lib
from data.errors import UsageError
from data.interaction_log import InteractionLog
from data.reward_bounds import RewardBounds
from optimization.privacy import mechanisms
from optimization.study import cli
from optimization.study.settings import names, setting

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


class _Anytime:
    """Anytime-valid intervals.

    Attributes:
      anytime: Print a confidence sequence: one interval after each round, all valid jointly.
    """

    anytime: bool = setting(False, basic=True)


class _Private:
    """Private values.

    Attributes:
      private: Print only values from one noisy sum over clients. Every query spends privacy and is recorded.
    """

    private: bool = setting(False, basic=True)


class _DifferentialPrivacy:
    """Differential privacy.

    Attributes:
      noise_multiplier: Standard deviation of the noise on the sum, in clip norms.
      target_epsilon: Privacy loss of all --looks together, instead of a noise multiplier.
      looks: Number of queries that --target_epsilon allows.
      target_delta: Delta of the epsilon (default: 1 / clients^1.1).
      accountant: Whose epsilon --target_epsilon is.
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
    {*names(_ClientBounds, _Private, _DifferentialPrivacy), "model_noise_multiplier", "model_clip_norm"}
) - {"reward_bounds"}


def define(flags: cli.FlagSet) -> None:
    """Defines the flags."""
    flags.group(_ClientBounds)
    flags.group(_Anytime)
    flags.group(_Private)
    flags.group(_DifferentialPrivacy, private=True)


def check(settings: cli.Settings) -> None:
    """Checks the flags of bounds and of private values together.

    Raises:
      UsageError: If one is missing, or has no effect.
    """
    reward_bounds(settings)
    reader = next((name for name in ("private", "anytime") if settings[name]), None)
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
    bounds = reward_bounds_lib.recognized(log.rewards) if is_recognized else declared
    return (dataclasses.replace(log, rewards=bounds.to_unit(log.rewards)) if bounds else log), bounds


def ledger_path(settings: cli.Settings) -> pathlib.Path:
    """File that records the privacy spent on the clients of `--log`."""
    return pathlib.Path(settings.privacy_ledger or f"{settings.log}{_LEDGER_SUFFIX}")


def bounds(settings: Mapping[str, Any]) -> bounds_lib.Bounds:
    """Checked bounds, from flags."""
    return bounds_lib.Bounds(
        settings["largest_weight"] or math.inf, settings["max_rows_per_client"], settings["clip_rewards"]
    )


def anytime_sentences(
    sequence: confidence_sequence.ConfidenceSequence, chosen: bounds_lib.Bounds, rewards: RewardBounds
) -> list[str]:
    """Text of a sequence of rewards in [0, 1]: its last interval, in the user's unit, and its assumptions."""
    if sequence.is_vacuous:
        return [
            f"Anytime: after {sequence.last.size:,} rounds the interval covers nearly all of the possible values. More "
            "rounds or clients per round narrow it; so does a larger --largest_weight, if weights exceed it."
        ]
    last = sequence.last
    if last.low > last.high:
        return [
            "Anytime: no value is possible, so an assumption fails: wrong propensities, cohorts that are not uniform "
            "samples, or a target that was fitted on this log."
        ]
    weight, rows = chosen.largest_weight, chosen.max_rows
    shown = last.scaled(rewards.span, rewards.low).text(label="95% confidence sequence ")
    return [
        f"Anytime: {shown} after {last.size:,} rounds. With probability 95% the intervals of "
        "all rounds contain the value for the population that cohorts are sampled from, with at most "
        f"{rows:,} rows per client and round."
        + (f" Clipping weights at {weight:g} widens the intervals without bias." if math.isfinite(weight) else ""),
        "It assumes uniform cohorts, correct propensities, and a target and bounds that were fixed without this log. "
        "The policies that acted may have learned from it.",
    ]
