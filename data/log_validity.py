"""Tests of what conclusions from a log rest on: propensities, columns from before the action, one set of actions.

With correct propensities p, the mean of 1{A = a} / p * g is at most the mean of g, for each action a and each g >= 0
that is known before the action. For some action it is larger if g comes after the action, such as whether there was a
conversion. The mean weight of a policy is 1 if the log has all of its actions.
"""

import re
from typing import TYPE_CHECKING

import numpy as np

from data import logged_clients
from data.log_checks import Finding

if TYPE_CHECKING:
    from data.interaction_log import InteractionLog

# Names of findings that allow no conclusion.
COLUMNS, PROPENSITIES, ACTION_SETS = "columns from after the action", "weights", "sets of actions"
LEVEL = 0.05  # Probability that a correct log fails, at most.
_FEWEST_ROWS, _FEWEST_CLIENTS = 20, 10  # With an action that is tested.
_MOST_TESTS, _MOST_NUMBERS = 2000, 20_000_000
_DIGITS = range(1, 7)  # Decimals that propensities may be rounded to; with one, such as 0.5, they are exact.
_NAMED = 5
_SETS = (
    "A policy over all actions, such as the uniform one, is not defined on such a log. Name a column with the policy's "
    "probability of the logged action: --policy=column:NAME."
)
_AFTER = (
    "Either they were filled in after the action, as the time of a conversion is; or they describe it, as its "
    "probability under a policy does; or the propensities are wrong. Leave such columns out with --ignore_columns."
)


def check(log: "InteractionLog", weights: np.ndarray | None = None) -> Finding:
    """Result of the tests, by Holm's method over all of them, with clients as units.

    Args:
      log: The log.
      weights: float64 [rows], importance weights of a policy; None for none.
    """
    if column := log.report.get("action_sets"):
        text = f"Each row has its own set of available actions, in column {column!r}. {_SETS}"
        return Finding(ACTION_SETS, True, text)
    if (checked := log.report.get("propensity_columns")) and checked[1]:
        return Finding(PROPENSITIES, True, f"The propensities are wrong. {checked[2]}")
    values, names, count = _features(log)
    pvalues = [_pvalues(log, (log.actions == a) / log.propensities, values) for a in range(len(log.action_names))]
    num_tests = sum(map(len, pvalues))
    pvalues += [] if weights is None else [_pvalues(log, weights, values[:, :1], is_policys=True)]
    family = np.concatenate(pvalues)
    if not len(family):
        return Finding("balance", False, "No action has enough rows and clients to test the propensities.")
    # Holm's step-down. statsmodels' multipletests collects garbage at each call, which takes seconds beside TensorFlow.
    order = np.argsort(family)
    is_small = family[order] <= LEVEL / np.arange(len(family), 0, -1)
    fails = np.zeros(len(family), bool)
    fails[order[np.minimum.accumulate(is_small)]] = True
    failed = np.flatnonzero(fails[:num_tests].reshape(-1, len(names)).any(axis=0))
    how = f"{len(family):,} tests, Holm at level {LEVEL:g}"
    how += f"; the {len(names) - 1} of {count} features that vary most" * (len(names) - 1 < count)
    columns = list(dict.fromkeys(names[place] for place in failed if place))
    shown = ", ".join(map(repr, columns[:_NAMED])) + f" and {len(columns) - _NAMED} more" * (len(columns) > _NAMED)
    causes = "wrong propensities" + f", or columns from after the action: {shown}" * bool(columns) + "."
    if weights is not None and fails[num_tests:].any():
        text = f"The policy's weights, its probabilities divided by propensities, average {weights.mean():.3g}, not 1 "
        text += f"({how}). Possible causes: rows where an action of the policy was not available or very rare; "
        return Finding(PROPENSITIES, True, text + causes)
    if 0 in failed or (len(columns) > 1 and 2 * len(columns) > len(set(names[1:]))):
        text = f"Weighted by 1 / propensity, an action's rows count for more than all rows ({how}). Possible causes: "
        return Finding(PROPENSITIES, True, text + causes)
    if columns:
        return Finding(COLUMNS, True, f"The features of {shown} depend on the chosen action ({how}). {_AFTER}")
    return Finding("balance", False, f"Weighted by 1 / propensity, no action's rows differ from all rows ({how}).")


def rounding_unit(probabilities: np.ndarray) -> float:
    """Unit of the last decimal of rounded probabilities, such as 0.01; 0 for exact ones."""
    exact = [digits for digits in _DIGITS if np.allclose(probabilities, probabilities.round(digits), 0, 1e-9)]
    return 10.0 ** -exact[0] if exact and exact[0] > 1 else 0.0


def _features(log: "InteractionLog") -> tuple[np.ndarray, list[str], int]:
    """Constant 1 and features from 0 on, float64 [rows, 1 + m]; the column of each; the number of all features.

    Of many features, those that vary most. The end of a feature's range that is nearer to its mean becomes 0.
    """
    if log.contexts is None:
        return np.ones((len(log), 1)), [""], 0
    from scipy import sparse

    width = logged_clients.num_features(log.contexts, log.feature_names)
    matrix = sparse.csc_matrix(logged_clients.design(log.contexts, width))
    means = matrix.mean(axis=0).A1
    variances = (matrix.power(2).mean(axis=0).A1 - means**2)[:width]
    most = max(1, min(_MOST_TESTS // len(log.action_names), _MOST_NUMBERS // len(log)))
    varying = [place for place in np.argsort(-variances, kind="stable")[:most] if variances[place] > 1e-9]
    chosen = matrix[:, varying].toarray()
    low, high = chosen.min(axis=0), chosen.max(axis=0)
    from_zero = np.where(2 * means[varying] <= low + high, chosen - low, high - chosen)
    columns = [column["name"] for column in log.report.get("columns", ()) if column["use"] == "feature"]
    names = log.feature_names or [f"feature {place}" for place in range(width)]
    from_zero = np.hstack([np.ones((len(log), 1)), from_zero])
    return from_zero, ["", *(_column(names[each], columns) for each in varying)], width


def _column(feature: str, columns: list[str]) -> str:
    """Column that a feature is of, such as `color` of `color=red`."""
    starts = [name for name in columns if re.match(rf"{re.escape(name)}( |=|$)", feature)]
    return max(starts, key=len, default=feature)


def _pvalues(log: "InteractionLog", weights: np.ndarray, values: np.ndarray, *, is_policys: bool = False) -> np.ndarray:
    """P-value of a weighted sum of each value above its sum, float64 [values]; empty with too few rows or clients.

    For a policy's weights it is two-sided, with any number of rows.

    Conservative where the normal approximation fails. The variance is that of clients' sums, but at least that of
    independent rows, which sum of w (w - 1) g^2 estimates. Where the weighted sum of g^2 is smaller than expected, both
    are raised accordingly. Degrees of freedom are the effective number of clients less 1. Rounded propensities may be
    off by half a unit of their last decimal.
    """
    from scipy import sparse, stats

    rows = np.flatnonzero(weights)
    if not is_policys and (len(rows) < _FEWEST_ROWS or len(np.unique(log.clients[rows])) < _FEWEST_CLIENTS):
        return np.zeros(0)
    own, part, squares = weights[rows], values[rows], np.square(values[rows])
    by_client = sparse.csr_matrix((np.ones(len(log)), (log.clients, np.arange(len(log)))))
    residuals = by_client[:, rows] @ (own[:, np.newaxis] * part) - by_client @ values
    allowed = (own * (1e-9 + np.minimum(rounding_unit(log.propensities) / 2 / log.propensities[rows], 1))) @ part
    of_clients, fourth = np.square(residuals).sum(0), (residuals**4).sum(0)
    ratio = np.square(values).sum(0) / np.maximum(own @ squares, 1e-300)
    variance = np.maximum(of_clients * np.maximum(1, ratio), (own * (own - 1)) @ squares * ratio)
    effective = np.divide(of_clients**2, fourth, out=np.ones(len(fourth)), where=fourth > 0)
    excess = np.abs(residuals.sum(0)) if is_policys else residuals.sum(0)
    off = np.maximum(0, excess - allowed)
    score = np.divide(off, np.sqrt(variance), out=np.zeros(len(off)), where=(off > 0) & (variance > 0))
    return (1 + is_policys) * stats.t.sf(score, np.maximum(effective - 1, 1))
