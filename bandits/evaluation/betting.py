"""Betting intervals for logs with few distinct outcomes, and confidence sequences, which are valid at every look.

Both need rewards in [0, 1] (Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024;
Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, "Anytime-valid off-policy inference for contextual bandits", 2022,
arXiv 2210.10768). Both bet against each possible value v, and exclude v if the capital of the bets reaches 2 / alpha.
The capital is a mean of products. Each factor is at least 0, and if v is the true value, its expectation is at most 1,
so the true value is excluded with probability at most alpha / 2. The capital falls as v grows, so the excluded values
are those below some number, which is the lower limit. The upper limit is 1 minus the lower limit of the missed rewards,
1 - r.

**Few distinct outcomes.** Without a single success, a large-sample interval has no width at all. A client has weights w
that sum to k, and payoffs w r that sum to P, which is between 0 and k. Over clients, E[P - v k] = 0. For a fixed stake
f in [0, 1], the capital is the product over clients of 1 + f (P / v - k) / max k. Clients are independent, so its
expectation is at most 1, and the limit follows from Markov's inequality. The interval depends neither on the unit of
the rewards nor on their direction. The largest k in the log is used as the largest possible k. The limits of a
difference follow from the limits of both values, which then hold jointly.

**Confidence sequences.** The unit is a cohort of clients, and the estimand is a ratio of totals over clients. Each
client has at most m rows per round. Round t gives the means over the clients of its cohort of a = sum min(w, W) r,
b = sum min(w, W) (1 - r) and n = rows, all divided by m. Hence n lies in [0, 1], and a and b lie in [0, W n]. Let v be
the expected reward of the rows under the target, summed over all clients of the population and divided by their total
number of rows. Assume that a round's cohort is a uniform sample of the population given the past, and that each action
is sampled given the past with the logged probability. Then E[a - v n | past] is 0 without clipping, and at most 0 with
clipping, which lowers a because rewards are at least 0. For any fraction f in [0, 1], the capital
prod_t (1 + f (a_t / v - n_t)) therefore starts at 1, never falls below 0 (a >= 0, n <= 1), and has an expectation given
the past that never rises. The same is true of a mean of capitals. By Ville's inequality, the probability that it ever
reaches 2 / alpha is at most alpha / 2. The same argument with b and 1 - v gives the upper limit. Together, the limits
fail with probability at most alpha for the value without clipping, at any number of looks. This holds even if the
logging policy never chooses some actions of the target. Logging policies and the number of rounds may depend on the
past, but the target may not.
"""

import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import bounds as bounds_lib
from bandits.evaluation.estimators import Terms
from bandits.evaluation.target_policies import Target
from data import interaction_log, log_checks
from data.errors import UsageError
from data.reward_bounds import UNIT, RewardBounds
from optimization.study import cli, intervals

# If fewer than FEW effective clients have a reward other than the mode, large-sample intervals contain the value in as
# few as 63% of logs; otherwise, in at least 93%. Even so, they are used if such clients are a large fraction of all
# effective clients (docs/logs.md).
FEW, FEW_OF_CLIENTS = 10, 0.25
FEW_OUTCOMES = "few distinct outcomes"  # Name of the finding.
# Large stakes are for the limit on the side of the rare rewards, and small stakes for the other limit.
_STAKES = np.array([1, 0.75, 0.5, 0.25, *4.0 ** -np.arange(2, 9)])
_LOG_SHARES = np.log(np.repeat([1 / 8, 1 / 14], [4, 7]))  # Logarithm of each stake's share of the capital.
# Stakes of a sequence. The best stake decreases with the spread of the observations and the square root of the number
# of rounds: 2^-16 is small enough for a million rounds with weights up to a hundred.
_FRACTIONS = 2.0 ** -np.arange(1, 17)
# For each flag: values with which rounds are uniform samples with a constant expected reward, and the effect of others.
_NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "reward_drift": ((), "changes that value"),
    "client_selection": (("uniform",), "chooses clients by what is known about them"),
    "availability": ((), "decides which clients take part"),
    "drop_out": ((), "decides which clients take part"),
    "reward_delay": ((), "leaves out clients without an observed reward"),
    "cohort_sampling": (("fixed", "poisson"), "selects clients in turns"),
}
COHORTS = "cohorts"  # Entry for these flags in the report on a log that is stored separately from its run.
_STEPS = 40  # Number of times that a search halves [0, 1].
_GRID = 128  # Number of grid values to which limits of earlier observations are rounded.
_MOST_NUMBERS = 4_000_000  # Maximum number of floats in memory at once.


class Outcomes(NamedTuple):
    """Sums over each client's rows, from which limits for the value of a policy or of the log follow.

    Attributes:
      mode: The most frequent reward, by weight.
      payoffs: float64 [clients], sums of w r; NaN if the bounds of the rewards are unknown.
      weights: float64 [clients], sums of w.
      others: Effective number of clients with a reward other than the mode.
      are_few: Whether there are too few of these clients for large-sample intervals.
    """

    mode: float
    payoffs: np.ndarray
    weights: np.ndarray
    others: float
    are_few: bool

    def limits(self, confidence: float) -> tuple[float, float]:
        """Limits of the value; NaN if the bounds of the rewards are unknown."""
        if np.isnan(self.payoffs).any():
            return np.nan, np.nan
        low = _lower_limit(self.payoffs, self.weights, confidence)
        return low, 1 - _lower_limit(self.weights - self.payoffs, self.weights, confidence)


class FewOutcomes(NamedTuple):
    """Outcomes of a log and a policy, if either has too few distinct outcomes for large-sample intervals.

    Attributes:
      log: Outcomes of the log.
      policy: Outcomes of the policy.
      is_same: Whether the policy is the logging policy, so that their values do not differ.
    """

    log: Outcomes
    policy: Outcomes
    is_same: bool


def few_outcomes(terms: Terms, bounds: RewardBounds | None) -> tuple[FewOutcomes, log_checks.Finding] | None:
    """Outcomes and a finding about the intervals if outcomes are few; None if large-sample intervals are valid.

    Args:
      terms: Terms of the log's rows, with rewards in [0, 1] if there are bounds.
      bounds: Bounds in the user's unit; None if unknown.
    """
    clients = np.unique(terms.clients, return_inverse=True)[1]
    values, which = np.unique(terms.rewards, return_inverse=True)

    def outcomes(weights: np.ndarray) -> Outcomes:
        mode = int(np.bincount(which, weights).argmax())
        others = log_checks.effective_sample_size(np.bincount(clients, weights * (which != mode)))
        of_clients = np.bincount(clients, weights)
        few = min(FEW, FEW_OF_CLIENTS * log_checks.effective_sample_size(of_clients))
        payoffs = np.bincount(clients, weights * (terms.rewards if bounds else np.nan))
        return Outcomes(float(values[mode]), payoffs, of_clients, others, others < few)

    log, policy = outcomes(np.ones(len(clients))), outcomes(terms.weights)
    unit = bounds or UNIT  # Without bounds, rewards are already in the user's unit.
    here = " and ".join(
        f"{each.others:.3g} {place} (other than {unit.low + unit.span * each.mode:g})"
        for place, each in (("in the log", log), ("for the policy", policy))
        if each.are_few
    )
    if not here:
        return None
    text = f"Finite-sample intervals (betting, rewards from {unit.low:g} to {unit.high:g})" if bounds else "No interval"
    text += f": large-sample intervals are too narrow if fewer than {FEW} effective clients have a reward other than "
    text += f"the most frequent one, here {here}."
    if not bounds:
        text += (
            " Declare the smallest and largest possible reward, --reward_bounds=LOW,HIGH, for finite-sample intervals."
        )
    is_same = bool((terms.weights == 1).all())
    return FewOutcomes(log, policy, is_same), log_checks.Finding(FEW_OUTCOMES, not bounds, text)


def _largest_excluded(is_excluded: Callable[[float], bool]) -> float:
    """Largest excluded value in [0, 1], rounded down. All values below an excluded value must be excluded, too."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_excluded(middle) else (low, middle)
    return low


def _lower_limit(payoffs: np.ndarray, sizes: np.ndarray, confidence: float) -> float:
    """Lower limit of the ratio of expected payoffs (at least 0) to expected sizes, both float64 [clients]."""
    pairs = np.stack([payoffs, sizes], axis=1) / sizes.max()
    (payoffs, sizes), counts = (each.T for each in np.unique(np.maximum(pairs, 0), axis=0, return_counts=True))

    def is_excluded(value: float) -> bool:
        with np.errstate(divide="ignore"):  # A stake of 1 can lose the entire capital.
            capitals = np.log1p(np.multiply.outer(_STAKES, payoffs / value - sizes)) @ counts
        return np.logaddexp.reduce(_LOG_SHARES + capitals) >= np.log(2 / (1 - confidence))

    return _largest_excluded(is_excluded)


class Observations(NamedTuple):
    """Observations of each round's cohort, float64 [..., rounds]: means over clients, divided by `max_rows`.

    Attributes:
      earned: Sums of clipped weights times rewards.
      missed: Sums of clipped weights times 1 - reward.
      rows: Number of rows.
    """

    earned: np.ndarray
    missed: np.ndarray
    rows: np.ndarray


class ConfidenceSequence(NamedTuple):
    """Estimates and limits after each look, float64 [looks]; the limits of all looks are valid jointly.

    Attributes:
      looks: int [looks], rounds or periods of the observations.
      estimates: Sum of the weighted rewards so far, divided by the number of rows so far.
      lows: Lower limits, which never fall.
      highs: Upper limits, which never rise. If an upper limit is below the lower limit, an assumption does not hold.
      sentences: The last interval and its assumptions, in words.
    """

    looks: np.ndarray
    estimates: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    sentences: tuple[str, ...] = ()


def unit(flags: Mapping[str, Any]) -> str:
    """Unit of one observation in a run's log: `rounds` or `periods`.

    A run that caches each client's actions for a deployment period samples once per period, because clients that
    participate again within the period do not provide new observations.

    Args:
      flags: Flags of the run as its configuration records them.

    Raises:
      UsageError: If the cohorts are not uniform samples of the clients given the past, or the rewards drift.
    """
    for name, (allowed, reason) in _NEEDED.items():
        if (value := flags.get(name)) and value not in allowed:
            raise UsageError(
                "An anytime-valid interval needs each cohort to be a fresh uniform sample of the clients and one value "
                f"at all looks: --{name}={value} in the run that wrote the log {reason}. Use the interval over clients."
            )
    return "periods" if flags.get("cache") == "persistent" else "rounds"


def observations(
    terms: Terms, looks: np.ndarray | None, bounds: bounds_lib.Bounds, client_ids: Sequence[str], seed: int
) -> tuple[np.ndarray, Observations]:
    """The rounds or periods with observations, int [looks] in ascending order, and the observations.

    Args:
      terms: Terms of the log's rows.
      looks: int [rows], the row's round or period (see `unit`); None if the log has none.
      bounds: Bounds of a client's rows at one look.
      client_ids: Name of the client for each number in `terms.clients`.
      seed: Random seed of the sample of rows for clients with more rows than `bounds` allows.

    Raises:
      UsageError: If the log has no rounds, or has numbers outside their bounds.
    """
    if looks is None:
        raise UsageError("An anytime-valid interval needs the round of each row: give --round_column.")
    bounded, counted = bounds_lib.apply(terms, bounds, client_ids, seed, looks)
    names, at = np.unique(np.asarray(looks)[counted], return_inverse=True)
    participants = np.unique(np.stack([at, bounded.clients]), axis=1)[0]
    most = np.bincount(participants, minlength=len(names)) * bounds.max_rows
    earned = bounded.weights * bounded.rewards
    columns = (earned, bounded.weights - earned, np.ones(len(at)))
    return names, Observations(*(np.bincount(at, column, len(names)) / most for column in columns))


def sequence(looks: np.ndarray, observed: Observations) -> ConfidenceSequence:
    """95% interval after each observation, all valid jointly; see the module for its assumptions.

    Args:
      looks: int [looks], the rounds or periods in ascending order.
      observed: The observations, float64 [looks].

    Raises:
      ValueError: If observations are outside the bounds that the proof assumes.
    """
    if any((each < 0).any() for each in observed) or (observed.rows > 1 + 1e-9).any():
        raise ValueError("Observations must be at least 0, and their rows at most 1.")
    earned, missed, rows = observed
    estimates = np.cumsum(earned) / np.cumsum(rows)
    return ConfidenceSequence(looks, estimates, _limits(earned, rows), 1 - _limits(missed, rows))


def log_capital(payoffs: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Logarithm of the capital of bets against each value, float64 [values, rounds].

    The bets are that the true value is higher. The capital starts at 1 and is the mean over stakes f of the products
    of 1 + f (payoff / value - rows).

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


def _limits(payoffs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Lower limit after each observation, float64 [looks]. Bets against all smaller values have reached the level."""
    level = math.log(2 / (1 - intervals.CONFIDENCE))

    def first_rejection(values: np.ndarray) -> np.ndarray:
        """First observation that rejects each value, int [values]; the number of observations if none does."""
        reached = log_capital(payoffs, rows, values) >= level
        return np.where(reached.any(axis=1), reached.argmax(axis=1), len(rows))

    low = _largest_excluded(lambda value: first_rejection(np.array([value]))[0] < len(rows))
    limits = np.zeros(len(rows) + 1)
    if low:
        grid = np.linspace(0.0, low, _GRID + 1)[1:]
        size = max(1, _MOST_NUMBERS // len(rows))
        first = np.concatenate([first_rejection(grid[start : start + size]) for start in range(0, len(grid), size)])
        np.maximum.at(limits, first, grid)
    # A rejected value stays rejected, and so do all values below it.
    return np.maximum.accumulate(limits[:-1])


def cohorts(path: str) -> dict[str, Any]:
    """The flags of a log's run that decide whether its rounds are independent samples of one value.

    Args:
      path: The run's folder or one of its files. Without a readable configuration, there are no flags.
    """
    location = pathlib.Path(path)
    for folder in (location, *list(location.parents)[:2]):
        try:
            flags = dict(json.loads((folder / "config.json").read_text())["flags"])
            return {name: flags[name] for name in ("cache", *_NEEDED) if name in flags}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return {}


def is_own_model(log: str, target: Target) -> bool:
    """Whether a policy is the model of the run that wrote the log (its folder or one of its files)."""
    path = pathlib.Path(log).resolve()
    return target.kind == "run" and pathlib.Path(target.name).resolve() in (path, *path.parents)


def check(settings: cli.Settings, target: Target, *, is_runs: bool) -> None:
    """Rejects `--anytime` if no confidence sequence is valid, before the log is read.

    Args:
      settings: The flags.
      target: The policy. `logged` and the model of the log's own run are rejected.
      is_runs: Whether a run wrote the log.

    Raises:
      UsageError: If no confidence sequence is valid for the log.
    """
    if not settings.anytime:
        return
    if target.kind == "logged":
        raise UsageError(
            "--anytime: --policy=logged is the policy that acted. It may have learned from the log, so it has no "
            "single value: leave out --anytime, or name a policy that was fixed without this log."
        )
    if is_runs and is_own_model(settings.log, target):
        raise UsageError(
            f"--anytime: the model of --policy=run:{cli.shown_path(target.name)} was trained on this log, but the "
            "interval holds only for policies that were fixed without it: leave out --anytime, or use another log."
        )
    if is_runs:
        unit(cohorts(settings.log))
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
      is_runs: Whether a run wrote the log.

    Raises:
      UsageError: If the log has no rounds, violates its bounds, or has cohorts for which no interval is valid.
    """
    limits = bounds_lib.of_settings(settings)
    when = "periods" if settings.period_column else "rounds"
    if is_runs:
        when = unit(log.report.get(COHORTS) or cohorts(settings.log))
    looks = log.periods if when == "periods" else log.rounds
    result = sequence(*observations(rows, looks, limits, log.client_ids, settings.seed))
    in_unit = {name: rewards.to_user(getattr(result, name)) for name in ("estimates", "lows", "highs")}
    return result._replace(**in_unit, sentences=tuple(sentences(result, limits, rewards, when)))


def sentences(result: ConfidenceSequence, limits: bounds_lib.Bounds, rewards: RewardBounds, when: str) -> list[str]:
    """The last interval in the user's unit, and its assumptions, in words; `when` is `rounds` or `periods`."""
    size, weight = len(result.looks), limits.largest_weight
    mean, low, high = (float(values[-1]) for values in (result.estimates, result.lows, result.highs))
    last = intervals.Interval(mean, low, high, size)
    if last.low > last.high:
        return [
            "Anytime: no value is possible, so an assumption is wrong: the propensities, uniform cohorts, or that the "
            "target was not fitted on this log."
        ]
    shown = last.scaled(rewards.span, rewards.low).text(label="95% confidence sequence ")
    return [
        f"Anytime: {shown} after {size:,} {when}. With probability 95% the intervals of all {when} contain the value "
        f"for the population that cohorts are sampled from, with at most {limits.max_rows:,} rows per client and "
        f"{when.removesuffix('s')}."
        + (f" Clipping weights at {weight:g} widens the intervals without bias." if math.isfinite(weight) else ""),
        "It assumes uniform cohorts, correct propensities, and a target and bounds that were fixed without this log. "
        "The policies that acted may have learned from it.",
    ]
