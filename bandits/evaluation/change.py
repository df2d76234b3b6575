"""Test whether a policy's value, or the log's, differs between the last third of a log and the rows before it."""

import numpy as np

from bandits.evaluation import estimators, totals
from bandits.evaluation.estimators import Terms
from data import log_time
from data.log_checks import Finding
from data.reward_bounds import UNIT, RewardBounds
from optimization.study.intervals import Interval

LAST = 1 / 3  # Fixed, not chosen by a look at the log.
_LEVEL = 0.05
_OF_LOG = "the log's mean reward"
# Columns are pairs of numerator and denominator: of the policy and of the log, before the cut; then after it.
_RATIOS = tuple(totals.Ratio(2 * number, 2 * number + 1) for number in range(4))
_DIFFERENCES = np.array([[1, -1, 0, 0], [0, 1, 0, 0]]), np.array([[0, 0, 1, -1], [0, 0, 0, 1]])  # In the two parts.


def tested(
    rows: Terms, is_last: np.ndarray, estimator: estimators.Estimator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values before and after a cut, their changes with intervals, and Holm's p-values.

    The two quantities are the policy's difference from the log and the log's mean reward. A change's error is computed
    from each client's residuals of both parts together, since a client may have rows in both. Student's t has as many
    degrees of freedom as there are effective clients (Kish) by these residuals, less one: fewer where few clients
    determine the change.

    Args:
      rows: Terms of the log's rows.
      is_last: bool [rows], the part after the cut.
      estimator: Estimator of the policy's value.

    Returns:
      For each quantity, float64 [2 parts], its values; float64 [3], its change with a 95% interval; and its p-value,
      NaN where no error can be computed.
    """
    from scipy import stats

    pairs = [*estimator.parts(rows), *estimators.LOGGED.parts(rows)]
    by_client = totals.of_clients(rows.clients, [one * part for part in (~is_last, is_last) for one in pairs])
    together, count = by_client.sum(axis=0), len(by_client)
    values = np.array([totals.value(together, ratio) for ratio in _RATIOS])
    before, after = (contrast @ values for contrast in _DIFFERENCES)
    residuals = by_client @ totals.gradients(together, _RATIOS).T @ (_DIFFERENCES[1] - _DIFFERENCES[0]).T
    squares = (residuals**2).sum(axis=0)
    squares[squares <= 1e-26 * np.square(values).max()] = np.nan  # All clients agree, but for rounding.
    freedom = squares**2 / (residuals**4).sum(axis=0) - 1
    errors = np.sqrt(squares * count / (count - 1)) if count > 1 else squares * np.nan
    gap = after - before
    p_values = 2 * stats.t.sf(np.abs(gap / errors), freedom)
    is_known = np.isfinite(p_values)
    p_values = np.minimum(1, np.maximum(p_values, is_known.sum() * np.min(p_values, initial=1, where=is_known)))
    half = errors * stats.t.ppf(1 - _LEVEL / 2, freedom)
    return np.stack([before, after], axis=1), np.stack([gap, gap - half, gap + half], axis=1), p_values


def findings(
    rows: Terms, times: log_time.Times | None, estimator: estimators.Estimator, policy: str, unit: RewardBounds = UNIT
) -> list[Finding]:
    """Sentences on changes, as warnings if they are significant; none without times, or if all are equal.

    Args:
      rows: Terms of the log's rows.
      times: Times of the rows.
      estimator: Estimator of the policy's value.
      policy: The policy, in words.
      unit: The user's unit of rewards; those of `rows` are mapped to [0, 1] from it.
    """
    if times is None or (cut := times.cut(LAST)) == times.values.min():
        return []
    found, since = [], times.shown(cut)
    results = zip(*tested(rows, times.values >= cut, estimator), strict=True)
    for what, (values, change, p_value) in zip(
        (f"the difference of {policy} from the log", _OF_LOG), results, strict=True
    ):
        is_warning = bool(p_value < _LEVEL)
        values, change = values * unit.span + unit.low * (what == _OF_LOG), change * unit.span
        interval = Interval(change[0], change[1], change[2], len(rows.clients))
        before, after = map(interval.number, values)
        text = f"{'Significant' if is_warning else 'No significant'} change of {what}: {before} before {since}, "
        text += f"{after} from then on (last third of the rows), {interval.text(signed=True, label='95% CI ')}, "
        text += f"Holm-adjusted p = {p_value:.2g}."
        if is_warning:
            text += f" Estimates average over both: evaluate them alone, with --until={since} and --from={since}."
        found += [Finding("change", is_warning, text)] * bool(np.isfinite(p_value))
    return found
