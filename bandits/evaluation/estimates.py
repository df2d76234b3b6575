"""Estimates of a policy's value by all estimators, from the sums of a log, without TensorFlow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import finite_sample, totals
from bandits.evaluation.estimators import KINDS, LOGGED, Estimator, Terms
from data import log_checks
from data.errors import UsageError
from data.reward_bounds import RewardBounds
from optimization.study.intervals import CONFIDENCE, Interval

# Estimators by the flag that fixes their parameter.
FIXED: Mapping[str, str] = {kind.parameter: name for name, kind in KINDS.items() if kind.parameter}
BIASED = "biased, no interval"  # Printed in place of an interval, as the size of the bias is unknown.
# Kinds of intervals, as files name them.
DELTA, BOOTSTRAP, BETTING = "delta method", "bootstrap", "betting"
# Effective number of clients, and its share of all. Below both, bootstrap intervals cover the value more often than the
# delta method's, otherwise less often (docs/logs.md).
FEW_CLIENTS, FEW_OF_CLIENTS = 30, 0.5
_ONE_CLIENT = 2  # Below this effective number neither covers it.
# The headline is the first estimator with a result; then the reason that is printed.
HEADLINES = {
    "dr": "is unbiased if the propensities or the reward model are right, and usually has less variance than IPS",
    "switch_dr": "is doubly robust, as no weight exceeds --tau",
    "snips": "has little bias if the propensities are right, and is less sensitive to large weights than IPS",
    "ips": "is unbiased if the propensities are right",
    "clipped_ips": "is IPS, as no weight exceeds --clip: unbiased if the propensities are right",
}
# Weights have a mean near 1, so that the same values serve all logs, and none is chosen by a look at one.
_GRID = (math.inf, 1000.0, 500.0, 200.0, 100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0)
PATHS: Mapping[str, tuple[Estimator, ...]] = {
    "clipped_ips": tuple(Estimator("clipped_ips", weight) for weight in _GRID),
    "switch_dr": tuple(Estimator("switch_dr", weight) for weight in (*_GRID, 0.0)),
    # At lambda = w^2, shrinkage halves a weight w.
    "dros": tuple(Estimator("dros", weight**2) for weight in (*_GRID, 0.0)),
}


_COLUMNS = (
    "estimator", "parameter", "value", "low", "high", "difference", "difference_low", "difference_high",
    "bootstrap_low", "bootstrap_high", "bias", "interval", "difference_interval",
)  # fmt: skip


class Estimate(NamedTuple):
    """A policy's value by one estimator.

    Attributes:
      name: Name of the estimator.
      parameter: Its parameter, such as `clip=20, by SLOPE`; empty without one.
      value: The policy's value with its interval over clients; without the interval where the estimator is biased.
      difference: The value less the log's mean reward; None for the log's mean, and where the estimator is biased.
      bootstrap: The value with the bootstrap's interval; None without draws, or without an interval.
      is_biased: Whether it has a bias of unknown size: DM, what SLOPE chose, and a fixed parameter that binds.
      value_by: Kind of the value's interval: `DELTA`, `BOOTSTRAP`, `BETTING`, or empty without one.
      difference_by: Kind of the difference's interval.
    """

    name: str
    parameter: str
    value: Interval
    difference: Interval | None
    bootstrap: Interval | None
    is_biased: bool = False
    value_by: str = ""
    difference_by: str = ""

    def row(self) -> dict[str, Any]:
        """The estimate as a row of a table."""
        missing = Interval(math.nan, math.nan, math.nan, 0)
        difference, drawn = (self.difference or missing)[:3], (self.bootstrap or missing)[1:3]
        kinds = ("unknown" * self.is_biased, self.value_by, self.difference_by)
        cells = (self.name, self.parameter, *self.value[:3], *difference, *drawn, *kinds)
        return dict(zip(_COLUMNS, cells, strict=True))

    def in_unit_of(self, bounds: RewardBounds) -> "Estimate":
        """The estimate of rewards that were mapped to [0, 1], in the user's unit."""
        return self._replace(
            value=self.value.scaled(bounds.span, bounds.low),
            difference=self.difference and self.difference.scaled(bounds.span),  # Both values have the offset.
            bootstrap=self.bootstrap and self.bootstrap.scaled(bounds.span, bounds.low),
        )


_Found = tuple[Interval, Interval | None, str]  # An interval, the bootstrap's, and the kind of the first.


def headline(results: Sequence[Estimate]) -> tuple[Estimate, str] | None:
    """Reported estimate and the reason for the choice; None if no unbiased estimator has a value."""
    by_name = {one.name: one for one in results if math.isfinite(one.value.mean) and not one.is_biased}
    for name, reason in HEADLINES.items():
        if name in by_name:
            return by_name[name], reason
    return None


def few_clients(rows: Terms, draws: int) -> tuple[log_checks.Finding | None, bool]:
    """Warning if the log has few effective clients, and whether the bootstrap then gives the intervals.

    The effective number is that of log_checks, of clients' rows or of their weights, whichever is smaller.

    Args:
      rows: Terms of the log's rows.
      draws: Number of bootstrap samples.
    """
    sizes, weights = np.bincount(rows.clients), np.bincount(rows.clients, rows.weights)
    clients = np.count_nonzero(sizes)
    effective = min(map(log_checks.effective_sample_size, (sizes, weights)))
    if not effective or effective >= FEW_CLIENTS:  # Without any weight there is no value.
        return None, False
    is_uneven = effective < FEW_OF_CLIENTS * clients
    if effective < _ONE_CLIENT:
        intervals = "one client dominates: 95% intervals held the value in as few as 65% of simulated logs"
    elif not is_uneven:
        intervals = "95% intervals held the value in 91 to 94% of simulated logs"
    elif draws:
        intervals = "95% intervals are the bootstrap's, which held the value in 89 to 94% of simulated logs"
    else:
        intervals = (
            "95% intervals of the delta method held the value in 77 to 94% of simulated logs; leave out --draws=0 for "
            "the bootstrap's"
        )
    text = f"Few clients: the effective number is {effective:.1f} of {clients:,}, and {intervals} (docs/logs.md)."
    return log_checks.Finding("few clients", True, text), is_uneven and draws > 0


def names(text: str | None) -> tuple[str, ...] | None:
    """Distinct names of `--estimators`; None for None.

    Raises:
      UsageError: If one is not known.
    """
    if text is None:
        return None
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if unknown := [name for name in found if name not in KINDS]:
        raise UsageError(f"--estimators: {unknown[0]!r} is none of {', '.join(KINDS)}.")
    return found


def paths(
    has_model: bool, fixed: Mapping[str, float | None], asked: Sequence[str] | None = None
) -> dict[str, tuple[Estimator, ...]]:
    """Candidates of each estimator; a single one if it has no parameter or a fixed one.

    Args:
      has_model: Whether there are predictions.
      fixed: Parameters by estimator; SLOPE chooses those that are None.
      asked: Names of the estimators; None for all without a choice by SLOPE.
    """
    found: dict[str, tuple[Estimator, ...]] = {}
    for name, kind in KINDS.items():
        value = fixed.get(name)
        is_chosen = bool(kind.parameter) and value is None
        is_asked = not is_chosen if asked is None else name in asked
        if name != "logged" and is_asked and (has_model or not kind.needs_model):
            found[name] = PATHS[name] if is_chosen else (Estimator(name, math.inf if value is None else value),)
    return found


def layout(candidates: Mapping[str, Sequence[Estimator]]) -> totals.Layout:
    """Columns for all candidates and for the mean logged reward."""
    return totals.Layout((LOGGED, *(one for path in candidates.values() for one in path)))


def estimates(
    sums: totals.Sums,
    columns: totals.Layout,
    candidates: Mapping[str, Sequence[Estimator]],
    drawn: np.ndarray | None,
    *,
    largest_weight: float = math.inf,
    by_bootstrap: bool = False,
    few: finite_sample.FewOutcomes | None = None,
) -> list[Estimate]:
    """Estimates, beginning with the mean logged reward.

    Args:
      sums: Sums of the log's clients.
      columns: Columns of the sums.
      candidates: Candidates of each estimator, see `paths`.
      drawn: float64 [draws, k], totals of the bootstrap's draws; None for none.
      largest_weight: Largest weight of the log's rows.
      by_bootstrap: Whether values and differences have the bootstrap's intervals, if there are draws.
      few: Outcomes whose finite-sample interval replaces these, the same for all estimators, but widened to contain
        their values; None if there is none.
    """
    logged = columns.ratio(LOGGED)

    def large_sample(ratio: totals.Ratio, confidence: float, minus: totals.Ratio | None = None) -> _Found:
        by_delta = totals.interval(sums, ratio, minus, confidence)
        if drawn is None or math.isnan(by_delta.low):
            return by_delta, None, "" if math.isnan(by_delta.low) else DELTA
        resampled = totals.bootstrap_interval(sums, drawn, ratio, minus, confidence)
        return (resampled, resampled, BOOTSTRAP) if by_bootstrap else (by_delta, resampled, DELTA)

    def of_value(ratio: totals.Ratio, confidence: float = CONFIDENCE) -> _Found:
        outcomes = few and (few.log if ratio == logged else few.policy)
        if not (outcomes and outcomes.are_few):
            return large_sample(ratio, confidence)
        (low, high), mean = outcomes.limits(confidence), float(totals.value(sums.totals, ratio))
        if math.isnan(low):
            return totals.interval(sums, ratio)._replace(low=low, high=high), None, ""
        return Interval(mean, min(low, mean), max(high, mean), sums.clients), None, BETTING

    def of_difference(ratio: totals.Ratio) -> _Found:
        if not few or few.is_same:
            return large_sample(ratio, CONFIDENCE, logged)
        first, second = (of_value(one, (1 + CONFIDENCE) / 2)[0] for one in (ratio, logged))  # They hold jointly.
        low, high = first.low - second.high, first.high - second.low
        if math.isnan(low):
            return Interval(math.nan, low, high, sums.clients), None, ""
        return Interval(first.mean - second.mean, low, high, sums.clients), None, BETTING

    value, resampled, kind = of_value(logged)
    found, has_reward, has_weight = [], not math.isnan(value.mean), totals.has_weight(sums)
    found.append(Estimate("logged", "", value, None, resampled, value_by=kind))
    for name, path in candidates.items():
        chosen = path[0] if len(path) == 1 else choose_by_slope(sums, columns, path)
        ratio, parameter = columns.ratio(chosen), chosen.kind.parameter
        if parameter:
            parameter = f"{parameter}={chosen.parameter:g}{', by SLOPE' * (len(path) > 1)}"
        is_biased = len(path) > 1 or chosen.is_biased(largest_weight)
        value, resampled, kind = of_value(ratio)
        # Without a reward nothing is known; of a policy that chooses no logged action a model's guess is left.
        if not has_reward or (name != "dm" and not has_weight):
            value = value._replace(mean=math.nan)
        if is_biased or math.isnan(value.mean):
            value = value._replace(low=math.nan, high=math.nan)
            found.append(Estimate(name, parameter, value, None, None, is_biased))
        else:
            difference, _, by = of_difference(ratio)
            found.append(Estimate(name, parameter, value, difference, resampled, False, kind, by))
    return found


def last_that_meets(candidates: Sequence[Interval]) -> int:
    """Number of intervals, from the first, that have a common point.

    Args:
      candidates: From the least to the most bias, with intervals of 95%; what has none could lie anywhere.
    """
    means = np.nan_to_num([candidate.mean for candidate in candidates])
    halves = np.array([(candidate.high - candidate.low) / 2 for candidate in candidates])
    halves = np.where(np.isnan(halves), np.inf, halves)
    halves = np.maximum.accumulate(halves[::-1])[::-1]
    meets = np.maximum.accumulate(means - halves) <= np.minimum.accumulate(means + halves)
    return int(np.argmin(meets)) - 1 if not meets.all() else len(meets) - 1


def choose_by_slope(sums: totals.Sums, layout: totals.Layout, path: Sequence[Estimator]) -> Estimator:
    """Parameter that SLOPE chooses to balance bias and variance.

    Su, Srinath and Krishnamurthy, "Adaptive estimator selection for off-policy evaluation", 2020, Algorithm 1: of
    candidates from the least to the most bias, the last one whose interval, two standard errors to each side, still has
    a point in common with all before. Widths must not grow along the path: one that is below a later one counts as wide
    as that, as in the authors' experiments. The chosen one's interval would take into account neither the choice
    nor the bias.

    Args:
      sums: Sums of a log's clients.
      layout: Columns of the sums, which hold all candidates.
      path: Candidates from the least to the most bias, as those of `PATHS`.
    """
    return path[last_that_meets([totals.interval(sums, layout.ratio(candidate)) for candidate in path])]
