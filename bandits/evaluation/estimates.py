"""Estimates of a policy's value by all estimators, and tests for changes over time; needs no TensorFlow."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import betting, estimators
from bandits.evaluation.estimators import KINDS, LOGGED, Estimator, Terms
from data import log_checks, log_time
from data.errors import UsageError
from data.reward_bounds import UNIT, RewardBounds
from optimization.study.intervals import CONFIDENCE, Interval

BIASED = "biased, no interval"  # Printed in place of an interval, as the size of the bias is unknown.
# Kinds of intervals, as files name them.
DELTA, BOOTSTRAP, BETTING = "delta method", "bootstrap", "betting"
# Thresholds for the effective number of clients, and for its share of all clients. Below both, bootstrap intervals
# cover the value more often than the delta method's; otherwise, less often (docs/logs.md).
FEW_CLIENTS, FEW_OF_CLIENTS = 30, 0.5
_ONE_CLIENT = 2  # Below this effective number, neither interval is reliable.
# The headline is the first of these estimators that has a result. The text is the reason that is printed.
HEADLINES = {
    "dr": "is unbiased if the propensities or the reward model are right, and usually has less variance than IPS",
    "switch_dr": "is doubly robust, because no weight exceeds --tau",
    "snips": "has little bias if the propensities are right, and is less sensitive to large weights than IPS",
    "ips": "is unbiased if the propensities are right",
    "clipped_ips": "is the same as IPS, because no weight exceeds --clip: unbiased if the propensities are right",
}
_LAST = 1 / 3  # The last third of a log is compared with the earlier rows. This share is fixed in advance.
_LEVEL = 0.05  # Significance level of the tests for changes.
_COLUMNS = (
    "estimator", "parameter", "value", "low", "high", "difference", "difference_low", "difference_high",
    "bootstrap_low", "bootstrap_high", "bias", "interval", "difference_interval",
)  # fmt: skip


class Estimate(NamedTuple):
    """A policy's value, as estimated by one estimator.

    Attributes:
      name: Name of the estimator.
      parameter: The estimator's parameter, such as `clip=20`; empty if it has none.
      value: The policy's value with its interval over clients; the interval is NaN if the estimator is biased.
      difference: The value minus the log's mean reward; None for the log's mean itself, and for a biased estimator.
      bootstrap: The value with a bootstrap interval; None without bootstrap samples or without an interval.
      is_biased: Whether the bias has an unknown size, as for DM, DRos, and estimators that limit some of the weights.
      value_by: Kind of the value's interval: `DELTA`, `BOOTSTRAP`, `BETTING`, or empty if there is none.
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
        """Converts an estimate for rewards in [0, 1] back to the user's unit."""
        return self._replace(
            value=self.value.scaled(bounds.span, bounds.low),
            difference=self.difference and self.difference.scaled(bounds.span),  # The offsets cancel.
            bootstrap=self.bootstrap and self.bootstrap.scaled(bounds.span, bounds.low),
        )


_WithKind = tuple[Interval, Interval | None, str]  # An interval, the bootstrap interval, and the kind of the first.


def headline(results: Sequence[Estimate]) -> tuple[Estimate, str] | None:
    """The estimate to report, and the reason for this choice; None if no unbiased estimator has a value."""
    by_name = {each.name: each for each in results if math.isfinite(each.value.mean) and not each.is_biased}
    for name, reason in HEADLINES.items():
        if name in by_name:
            return by_name[name], reason
    return None


def few_clients(rows: Terms, draws: int) -> tuple[log_checks.Finding | None, bool]:
    """Warning if the log has few effective clients, and whether the bootstrap then gives the intervals.

    The effective number of clients (see `log_checks`) is computed from their numbers of rows and from their weights,
    and the smaller result counts.

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
        intervals = "one client dominates: 95% intervals contained the value in as few as 65% of simulated logs"
    elif not is_uneven:
        intervals = "95% intervals contained the value in 91 to 94% of simulated logs"
    elif draws:
        intervals = "95% intervals come from the bootstrap, and contained the value in 89 to 94% of simulated logs"
    else:
        intervals = (
            "95% intervals of the delta method contained the value in 77 to 94% of simulated logs; leave out --draws=0 "
            "for bootstrap intervals"
        )
    text = f"Few clients: the effective number is {effective:.1f} of {clients:,}, and {intervals} (docs/logs.md)."
    return log_checks.Finding("few clients", True, text), is_uneven and draws > 0


def names(text: str | None) -> tuple[str, ...] | None:
    """Distinct names in `--estimators`; None if the flag is not set.

    Raises:
      UsageError: If a name is unknown.
    """
    if text is None:
        return None
    distinct = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if unknown := [name for name in distinct if name not in KINDS]:
        raise UsageError(f"--estimators: {unknown[0]!r} is not one of {', '.join(KINDS)}.")
    return distinct


def chosen(
    has_model: bool, parameters: Mapping[str, float | None], asked: Sequence[str] | None = None
) -> list[Estimator]:
    """Estimators that are evaluated, apart from the mean logged reward.

    Args:
      has_model: Whether there are predictions.
      parameters: Value of each parameter, by its flag.
      asked: Names of the estimators; None for all whose parameters are given.
    """
    return [
        Estimator(name, parameters.get(kind.parameter) or math.inf)
        for name, kind in KINDS.items()
        if name != "logged"
        and (has_model or not kind.needs_model)
        and (name in asked if asked else not kind.parameter or parameters[kind.parameter] is not None)
    ]


def estimates(
    rows: Terms,
    asked: Sequence[Estimator],
    names: Sequence[str],
    *,
    seed: int = 0,
    draws: int = 0,
    by_bootstrap: bool = False,
    few: betting.FewOutcomes | None = None,
) -> list[Estimate]:
    """Estimates, beginning with the mean logged reward.

    Args:
      rows: Terms of the log's rows.
      asked: The estimators.
      names: Names of the clients that have rows, in order.
      seed: Random seed of the bootstrap.
      draws: Number of bootstrap samples.
      by_bootstrap: Whether values and differences have bootstrap intervals.
      few: Sums for finite-sample intervals. These replace the intervals of a value whose outcomes are few, and of all
        differences, and are widened to contain the estimate. None if large-sample intervals are valid.
    """
    totals = {each: each.totals(rows) for each in (LOGGED, *asked)}
    drawn = estimators.ratio(estimators.resampled(np.stack([*totals.values()], axis=1), names, seed, draws))
    by_draw = dict(zip(totals, drawn.T, strict=True))
    has_weight, largest_weight = bool(rows.weights.any()), float(rows.weights.max())

    def large_sample(each: Estimator, confidence: float, minus: Estimator | None = None) -> _WithKind:
        by_delta = estimators.interval(totals[each], totals[minus] if minus else None, confidence)
        if math.isnan(by_delta.low) or not draws:
            return by_delta, None, "" if math.isnan(by_delta.low) else DELTA
        low, high = estimators.percentiles(by_draw[each] - (by_draw[minus] if minus else 0), confidence)
        resampled = by_delta._replace(low=low, high=high)
        return (resampled, resampled, BOOTSTRAP) if by_bootstrap else (by_delta, resampled, DELTA)

    def of_value(each: Estimator, confidence: float = CONFIDENCE) -> _WithKind:
        outcomes = few and (few.log if each == LOGGED else few.policy)
        if not (outcomes and outcomes.are_few):
            return large_sample(each, confidence)
        (low, high), mean = outcomes.limits(confidence), float(estimators.ratio(totals[each].sum(axis=0)))
        if math.isnan(low):
            return estimators.interval(totals[each])._replace(low=low, high=high), None, ""
        return Interval(mean, min(low, mean), max(high, mean), len(names)), None, BETTING

    def of_difference(each: Estimator) -> _WithKind:
        if not few or few.is_same:
            return large_sample(each, CONFIDENCE, LOGGED)
        first, second = (of_value(which, (1 + CONFIDENCE) / 2)[0] for which in (each, LOGGED))  # Both hold jointly.
        low, high = first.low - second.high, first.high - second.low
        mean = math.nan if math.isnan(low) else first.mean - second.mean
        return Interval(mean, low, high, len(names)), None, "" if math.isnan(low) else BETTING

    value, resampled, kind = of_value(LOGGED)
    results, has_reward = [Estimate("logged", "", value, None, resampled, value_by=kind)], not math.isnan(value.mean)
    for each in asked:
        flag, is_biased = KINDS[each.name].parameter, each.is_biased(largest_weight)
        parameter = f"{flag}={each.parameter:g}" if flag else ""
        value, resampled, kind = of_value(each)
        # Without a reward there is no estimate. If the policy chooses none of the logged actions, only DM has one.
        if not has_reward or (each.name != "dm" and not has_weight):
            value = value._replace(mean=math.nan)
        if is_biased or math.isnan(value.mean):
            value = value._replace(low=math.nan, high=math.nan)
            results.append(Estimate(each.name, parameter, value, None, None, is_biased))
        else:
            difference, _, by = of_difference(each)
            results.append(Estimate(each.name, parameter, value, difference, resampled, False, kind, by))
    return results


def changes(rows: Terms, is_last: np.ndarray, estimator: Estimator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values before and after a cut, their changes with intervals, and Holm-adjusted p-values.

    The two quantities are the policy's difference from the log and the log's mean reward. A change's error is computed
    from the differences between each client's residuals in the two parts, because a client may have rows in both. The
    degrees of freedom of Student's t are Kish's effective number of clients by these differences, minus one. They are
    few if only a few clients determine the change.

    Args:
      rows: Terms of the log's rows.
      is_last: bool [rows], whether a row is after the cut.
      estimator: Estimator of the policy's value.

    Returns:
      For each quantity: its values in both parts, float64 [2]; its change with a 95% interval, float64 [3]; and its
      p-value, which is NaN if no error can be computed.
    """
    from scipy import stats

    values, residuals = [], []
    for part in (~is_last, is_last):
        pairs = [[side * part for side in each.parts(rows)] for each in (estimator, LOGGED)]
        policy, log = (estimators.client_totals(rows.clients, pair) for pair in pairs)
        means = [float(estimators.ratio(each.sum(axis=0))) for each in (policy, log)]
        values.append([means[0] - means[1], means[1]])
        of_policy, of_log = estimators.influences(policy), estimators.influences(log)
        residuals.append(np.stack([of_policy - of_log, of_log], axis=1))
    (before, after), count = np.array(values), len(residuals[0])
    shifts = residuals[1] - residuals[0]
    squares = (shifts**2).sum(axis=0)
    squares[squares <= 1e-26 * np.square(values).max()] = np.nan  # All clients agree, up to rounding.
    freedom = squares**2 / (shifts**4).sum(axis=0) - 1
    errors = np.sqrt(squares * count / (count - 1)) if count > 1 else squares * np.nan
    gap = after - before
    p_values = 2 * stats.t.sf(np.abs(gap / errors), freedom)
    known = p_values[np.isfinite(p_values)]
    # Holm's correction for at most two tests.
    p_values = np.minimum(1, np.maximum(p_values, len(known) * np.min(known, initial=1)))
    half = errors * stats.t.ppf(1 - _LEVEL / 2, freedom)
    return np.stack([before, after], axis=1), np.stack([gap, gap - half, gap + half], axis=1), p_values


def findings_on_changes(
    rows: Terms, times: log_time.Times | None, estimator: Estimator, policy: str, unit: RewardBounds = UNIT
) -> list[log_checks.Finding]:
    """Findings about changes, as warnings if they are significant.

    There are none without times, or if the last third of the rows begins at the earliest time.

    Args:
      rows: Terms of the log's rows.
      times: Times of the rows.
      estimator: Estimator of the policy's value.
      policy: Description of the policy.
      unit: The user's unit of rewards; the rewards in `rows` were mapped from it to [0, 1].
    """
    if times is None or (cut := times.cut(_LAST)) == times.values.min():
        return []
    findings, since = [], times.shown(cut)
    quantities = (f"the difference between {policy} and the log", 0.0), ("the log's mean reward", unit.low)
    for (what, offset), values, change, p_value in zip(
        quantities, *changes(rows, times.values >= cut, estimator), strict=True
    ):
        gap, low, high = change
        interval = Interval(gap, low, high, len(rows.clients)).scaled(unit.span)
        before, after = (interval.number(value * unit.span + offset) for value in values)
        is_warning = bool(p_value < _LEVEL)
        text = f"{'Significant' if is_warning else 'No significant'} change of {what}: {before} before {since}, "
        text += f"{after} from then on (last third of the rows), {interval.text(signed=True, label='95% CI ')}, "
        text += f"Holm-adjusted p = {p_value:.2g}."
        if is_warning:
            text += f" Estimates average over both parts: evaluate each one with --until={since} and --from={since}."
        if np.isfinite(p_value):
            findings.append(log_checks.Finding("change", is_warning, text))
    return findings
