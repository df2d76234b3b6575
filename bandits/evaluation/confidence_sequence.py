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

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import bounds as bounds_lib
from bandits.evaluation.estimators import Terms
from data.errors import UsageError
from optimization.study import intervals

# Stakes, as fractions of what leaves the capital above 0. The best one falls with the spread of the observations and
# the root of the rounds: 2^-16 is enough for a million rounds of weights up to a hundred.
_FRACTIONS = 2.0 ** -np.arange(1, 17)
# By flag of a run: the values with which its looks are uniform samples of one value, and what others do.
_NEEDED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "reward_drift": ((), "changes that value"),
    "client_selection": (("uniform",), "chooses clients by what is known of them"),
    "availability": ((), "decides who comes"),
    "drop_out": ((), "decides who comes"),
    "reward_delay": ((), "leaves out whoever had no reward yet"),
    "cohort_sampling": (("fixed", "poisson"), "takes them by turns"),
}
RUN_FLAGS = ("cache", *_NEEDED)  # What says what one observation of a run's log is.
VACUOUS = 0.95  # Width of an interval in [0, 1] that says nothing.
_STEPS = 30  # Halvings of [0, 1]: the limits are exact to 1e-9, to the safe side.
_GRID = 128  # Values at which limits of earlier observations are reported.
_MOST_NUMBERS = 4_000_000  # In memory at once.


class Observations(NamedTuple):
    """What each round's cohort tells, float64 [..., rounds]: means over clients, over `max_rows`.

    Attributes:
      earned: Sums of clipped weights times rewards.
      missed: Of clipped weights times 1 - reward.
      rows: Rows.
    """

    earned: np.ndarray
    missed: np.ndarray
    rows: np.ndarray


class ConfidenceSequence(NamedTuple):
    """Estimates and limits after each look, float64 [looks]; the limits of all looks hold together.

    Attributes:
      looks: int [looks], rounds or periods of the observations.
      estimates: Sums of weighted rewards over sums of rows, so far.
      lows: Lower limits, never falling.
      highs: Upper limits, never rising. Below the lower ones, no value is left: an assumption does not hold.
    """

    looks: np.ndarray
    estimates: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

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
      flags: Of the run, those of `RUN_FLAGS` as its configuration records them.

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
      terms: Of the log's rows.
      looks: int [rows], the row's round, or period (see `unit`).
      bounds: Bounds of a client's rows at one look.
      client_ids: The client's name for each number in `terms.clients`.
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


def log_capitals(observed: Observations, values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the wealth of bets against values, which starts at 1, float64 [..., rounds] each.

    Args:
      observed: What each round tells.
      values: float [...], in (0, 1), broadcast against the observations' leading axes.

    Returns:
      The capitals of betting that the value is higher, and that it is lower; at level alpha, 1 / alpha rejects.
    """
    values = np.asarray(values, float)
    earned, missed, rows = observed
    return _log_capital(earned, rows, values), _log_capital(missed, rows, 1 - values)


def sequence(
    looks: np.ndarray, observed: Observations, *, confidence: float = intervals.CONFIDENCE
) -> ConfidenceSequence:
    """Interval after each observation; see the module for its assumptions.

    Args:
      looks: int [looks], in ascending order.
      observed: What each tells, float64 [looks].
      confidence: Probability that every look's interval holds the value, at least.

    Raises:
      ValueError: If observations are out of the bounds that the proof rests on.
    """
    if any((each < 0).any() for each in observed) or (observed.rows > 1 + 1e-9).any():
        raise ValueError("Observations must be at least 0, and their rows at most 1.")
    earned, missed, rows = observed
    level = math.log(2 / (1 - confidence))
    estimates = np.cumsum(earned) / np.cumsum(rows)
    return ConfidenceSequence(looks, estimates, _limits(earned, rows, level), 1 - _limits(missed, rows, level))


def _log_capital(payoffs, rows, values):
    """Logarithm of the mean over fractions of the products of 1 + fraction (payoff / value - rows)."""
    gains = payoffs / values[..., np.newaxis] - rows
    total = np.full(gains.shape, -np.inf)
    for fraction in _FRACTIONS:
        total = np.logaddexp(total, np.cumsum(np.log1p(fraction * gains), axis=-1))
    return total - math.log(len(_FRACTIONS))


def _limits(payoffs, rows, level):
    """Lower limit after each observation, float64 [looks]: bets reached the level against all lower values."""

    def rejected(values):
        """First observation that rejects each value, int [values]; the number of observations if none does."""
        reached = _log_capital(payoffs, rows, values) >= level
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
