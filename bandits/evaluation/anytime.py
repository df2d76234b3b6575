"""Confidence sequences: intervals that are valid jointly over all rounds, so that one may stop at any time.

After Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, "Anytime-valid off-policy inference for contextual bandits",
2022, arXiv 2210.10768, and Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024.
Here the unit is a cohort of clients, and the estimand a ratio of totals over clients.

A round t gives the means over its cohort's clients, each at most m rows, of a = sum min(w, W) r, b = sum min(w, W)
(1 - r) and n = rows, all over m: n lies in [0, 1], and a and b in [0, W n].

Why it holds. Let v be the value, sum over the population's clients of their rows' expected reward under the target over
the sum of their rows. If a round's cohort is a uniform sample of the population given all that came before, and each
action is drawn given the past with the logged probability, then E[a - v n | past] is 0 without clipping; clipping
lowers a, as rewards are at least 0, and it is at most 0. So for any fraction f in [0, 1] the capital
prod_t (1 + f (a_t / v - n_t)) never falls below 0 (a >= 0, n <= 1), its expectation given the past never rises, and it
is 1 at first; the same is true of a mean of capitals. By Ville's inequality it ever reaches 2 / alpha with probability
at most alpha / 2. Each factor falls as v grows, and so the values that it rejects are those below one number, the
sequence's low. The same with b and 1 - v gives the high. Together they fail with probability at most alpha, at any
number of looks, for the value without clipping; nor does it matter whether the log chooses all that the target chooses.
Logging policies, and how many rounds there are, may depend on the past; the target may not.
"""

import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import bounds as bounds_lib
from bandits.evaluation.estimators import Terms
from bandits.evaluation.target_policies import Target
from data import interaction_log
from data.errors import UsageError
from data.reward_bounds import RewardBounds
from optimization.study import cli, intervals

# Stakes, as fractions of what leaves the capital above 0. The best one falls with the spread of the observations and
# the root of the rounds: 2^-16 is enough for a million rounds of weights up to a hundred.
_FRACTIONS = 2.0 ** -np.arange(1, 17)
# Flags of a run: the values with which its rounds are uniform samples of one value, and what other values do.
_NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "reward_drift": ((), "changes that value"),
    "client_selection": (("uniform",), "chooses clients by what is known of them"),
    "availability": ((), "decides who comes"),
    "drop_out": ((), "decides who comes"),
    "reward_delay": ((), "leaves out whoever had no reward yet"),
    "cohort_sampling": (("fixed", "poisson"), "takes them by turns"),
}
RUN_FLAGS = ("cache", *_NEEDED)  # They determine what one observation of a run's log is.
COHORTS = "cohorts"  # Entry with these flags in the report of a log that is saved apart from its run.
VACUOUS = 0.95  # Width of an interval in [0, 1] that says nothing.
_STEPS = 30  # Halvings of [0, 1]: the limits are exact to 1e-9, to the safe side.
_GRID = 128  # Values at which limits of earlier observations are reported.
_MOST_NUMBERS = 4_000_000  # In memory at once.


class Observations(NamedTuple):
    """Observations of each round's cohort, float64 [..., rounds]: means over clients, divided by `max_rows`.

    Attributes:
      earned: Sums of clipped weights times rewards.
      missed: Sums of clipped weights times 1 - reward.
      rows: Rows.
    """

    earned: np.ndarray
    missed: np.ndarray
    rows: np.ndarray


class ConfidenceSequence(NamedTuple):
    """Estimates and limits after each look, float64 [looks]; the limits of all looks are valid jointly.

    Attributes:
      looks: int [looks], rounds or periods of the observations.
      estimates: Sums of weighted rewards over sums of rows, so far.
      lows: Lower limits, never falling.
      highs: Upper limits, never rising. Below the lower ones, no value is left: an assumption does not hold.
      sentences: The last interval and its assumptions in words.
    """

    looks: np.ndarray
    estimates: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    sentences: tuple[str, ...] = ()

    @property
    def is_vacuous(self) -> bool:
        """Whether the last interval is nearly all of [0, 1], and so says nothing."""
        return self.last.high - self.last.low > VACUOUS

    @property
    def last(self) -> intervals.Interval:
        """The last look's interval; its size is the number of looks."""
        if not len(self.looks):
            return intervals.Interval(math.nan, 0.0, 1.0, 0)
        ends = float(self.lows[-1]), float(self.highs[-1])
        return intervals.Interval(float(self.estimates[-1]), *ends, len(self.looks))


def unit(flags: Mapping[str, Any]) -> str:
    """Unit of one observation in a run's log: `rounds` or `periods`.

    A run that keeps each client's actions for a deployment period draws once a period: clients that come back within it
    tell nothing new.

    Args:
      flags: Flags of the run, `RUN_FLAGS`, as its configuration records them.

    Raises:
      UsageError: If its cohorts are not uniform samples of the clients given what came before, or its rewards drift.
    """
    for name, (allowed, reason) in _NEEDED.items():
        if (value := flags.get(name)) and value not in allowed:
            raise UsageError(
                "An anytime-valid interval needs each cohort to be a fresh uniform sample of the clients and one value "
                f"at all looks: --{name}={value} of the run that wrote the log {reason}. Use the interval over clients."
            )
    return "periods" if flags.get("cache") == "persistent" else "rounds"


def observations(
    terms: Terms,
    looks: np.ndarray | None,
    bounds: bounds_lib.Bounds,
    client_ids: Sequence[str],
    seed: int,
) -> tuple[np.ndarray, Observations]:
    """Observations in ascending order, int [looks], and the content of each.

    Args:
      terms: Terms of the log's rows.
      looks: int [rows], the row's round, or period (see `unit`).
      bounds: Bounds of a client's rows at one look.
      client_ids: Name of the client for each number in `terms.clients`.
      seed: Seed of the choice among more rows than `bounds` allows.

    Raises:
      UsageError: If the log has no rounds, or numbers out of their bounds.
    """
    if looks is None:
        raise UsageError("An anytime-valid interval needs the round of each row: give --round_column.")
    bounded, kept = bounds_lib.apply(terms, bounds, client_ids, seed, looks)
    names, at = np.unique(np.asarray(looks)[kept], return_inverse=True)
    participants = np.unique(np.stack([at, bounded.clients]), axis=1)[0]
    most = np.bincount(participants, minlength=len(names)) * bounds.max_rows

    def mean(values):
        return np.bincount(at, values, minlength=len(names)) / most

    earned = bounded.weights * bounded.rewards
    return names, Observations(mean(earned), mean(bounded.weights - earned), mean(np.ones(len(at))))


def sequence(looks: np.ndarray, observed: Observations) -> ConfidenceSequence:
    """95% interval after each observation, all valid jointly; see the module for its assumptions.

    Args:
      looks: int [looks], in ascending order.
      observed: The content of each observation, float64 [looks].

    Raises:
      ValueError: If observations are out of the bounds that the proof rests on.
    """
    if any((each < 0).any() for each in observed) or (observed.rows > 1 + 1e-9).any():
        raise ValueError("Observations must be at least 0, and their rows at most 1.")
    earned, missed, rows = observed
    level = math.log(2 / (1 - intervals.CONFIDENCE))
    estimates = np.cumsum(earned) / np.cumsum(rows)
    return ConfidenceSequence(looks, estimates, _limits(earned, rows, level), 1 - _limits(missed, rows, level))


def log_capital(payoffs: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Logarithm of the wealth of bets that a value is higher, which starts at 1, float64 [values, rounds].

    It is the mean over fractions of the products of 1 + fraction (payoff / value - rows).

    Args:
      payoffs: float64 [rounds].
      rows: float64 [rounds].
      values: float64 [values], in (0, 1).
    """
    gains = payoffs / values[..., np.newaxis] - rows
    total = np.full(gains.shape, -np.inf)
    for fraction in _FRACTIONS:
        total = np.logaddexp(total, np.cumsum(np.log1p(fraction * gains), axis=-1))
    return total - math.log(len(_FRACTIONS))


def _limits(payoffs, rows, level):
    """Lower limit after each observation, float64 [looks]: bets reached the level against all lower values."""

    def rejected(values):
        """First observation that rejects each value, int [values]; the number of observations if none does."""
        reached = log_capital(payoffs, rows, values) >= level
        return np.where(reached.any(axis=1), reached.argmax(axis=1), len(rows))

    low, high = 0.0, 1.0
    for _ in range(_STEPS if len(rows) else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if rejected(np.array([middle]))[0] < len(rows) else (low, middle)
    limits = np.zeros(len(rows) + 1)
    if low:
        grid = np.linspace(0.0, low, _GRID + 1)[1:]
        size = max(1, _MOST_NUMBERS // len(rows))
        first = np.concatenate([rejected(grid[start : start + size]) for start in range(0, len(grid), size)])
        np.maximum.at(limits, first, grid)
    # What is rejected stays so, and so does all below it.
    return np.maximum.accumulate(limits[:-1])


def flags_of_log(path: str) -> Mapping[str, Any]:
    """Flags of the run that wrote a log, from its folder or one of its files; empty if unknown."""
    location = pathlib.Path(path)
    for folder in (location, *list(location.parents)[:2]):
        try:
            return dict(json.loads((folder / "config.json").read_text())["flags"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return {}


def cohorts(path: str) -> dict[str, Any]:
    """Flags of the log's run that decide whether its rounds are independent samples of one value."""
    flags = flags_of_log(path)
    return {name: flags[name] for name in RUN_FLAGS if name in flags}


def is_own_model(log: str, target: Target) -> bool:
    """Whether a policy is the model of the run that wrote the log (its folder or one of its files)."""
    path = pathlib.Path(log).resolve()
    return target.kind == "run" and pathlib.Path(target.name).resolve() in (path, *path.parents)


def check(settings: cli.Settings, target: Target, *, is_runs: bool) -> None:
    """Refuses a log without rounds or without uniform cohorts, before it is read.

    Args:
      settings: The flags.
      target: The policy, which may not have learned from the log.
      is_runs: Whether a run wrote the log.

    Raises:
      UsageError: If it refuses.
    """
    if not settings.anytime:
        return
    if target.kind == "logged":
        raise UsageError(
            "--anytime: --policy=logged is the policy that acted, which may have learned from the log and so has no "
            "single value: leave out --anytime, or name a policy that was fixed without this log."
        )
    if is_runs and is_own_model(settings.log, target):
        raise UsageError(
            f"--anytime: the model of --policy=run:{cli.shown_path(target.name)} was trained on this log, and the "
            "interval holds for policies that were fixed without it: leave out --anytime, or take another log."
        )
    if is_runs:
        unit(flags_of_log(settings.log))
    elif not (settings.round_column or settings.period_column):
        raise UsageError("--anytime needs the round of each row: name its column with --round_column.")


def of_log(
    settings: cli.Settings, log: interaction_log.InteractionLog, rows: Terms, rewards: RewardBounds, *, is_runs: bool
) -> ConfidenceSequence:
    """Confidence sequence of a log, in the unit of its rewards.

    Args:
      settings: The flags.
      log: The log.
      rows: Terms of its rows, with rewards in [0, 1].
      rewards: Bounds of the rewards in the user's unit.
      is_runs: Whether a run wrote it.

    Raises:
      UsageError: If the log has no rounds, does not keep its bounds, or has cohorts for which no interval is valid.
    """
    limits = bounds_lib.of_settings(settings)
    when = "periods" if settings.period_column else "rounds"
    if is_runs:
        when = unit(log.report.get(COHORTS) or flags_of_log(settings.log))
    looks = log.periods if when == "periods" else log.rounds
    result = sequence(*observations(rows, looks, limits, log.client_ids, settings.seed))
    in_unit = {name: rewards.to_user(getattr(result, name)) for name in ("estimates", "lows", "highs")}
    return result._replace(**in_unit, sentences=tuple(sentences(result, limits, rewards)))


def sentences(result: ConfidenceSequence, limits: bounds_lib.Bounds, rewards: RewardBounds) -> list[str]:
    """Text of a sequence of rewards in [0, 1]: its last interval, in the user's unit, and its assumptions."""
    last, weight = result.last, limits.largest_weight
    if result.is_vacuous:
        return [
            f"Anytime: after {last.size:,} rounds the interval covers nearly all of the possible values. More "
            "rounds or clients per round narrow it; so does a larger --largest_weight, if weights exceed it."
        ]
    if last.low > last.high:
        return [
            "Anytime: no value is possible, so an assumption fails: wrong propensities, cohorts that are not uniform "
            "samples, or a target that was fitted on this log."
        ]
    shown = last.scaled(rewards.span, rewards.low).text(label="95% confidence sequence ")
    return [
        f"Anytime: {shown} after {last.size:,} rounds. With probability 95% the intervals of "
        "all rounds contain the value for the population that cohorts are sampled from, with at most "
        f"{limits.max_rows:,} rows per client and round."
        + (f" Clipping weights at {weight:g} widens the intervals without bias." if math.isfinite(weight) else ""),
        "It assumes uniform cohorts, correct propensities, and a target and bounds that were fixed without this log. "
        "The policies that acted may have learned from it.",
    ]
