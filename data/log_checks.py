"""Checks of a log.

Errors that make every estimate meaningless raise a `UsageError` with the row and the value; weaknesses become a
`Finding`, a sentence to print.

`check` tests the assumptions behind conclusions from a log: correct propensities, columns that were recorded before the
action, and a single set of actions. With correct propensities p, the expectation of 1{A = a} / p * g is at most that of
g, for each action a and each g >= 0 that is known before the action. If g was recorded after the action, such as
whether there was a conversion, it can be larger. For a feature g of actions, the expectation of g(A) / p is at most
that of the sum of g over the offered actions. The expected weight of a policy is 1 if the log supports it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data import table_file, table_report
from data.errors import UsageError, counted, first
from data.schema import as_flag, described
from data.text import design, num_features

if TYPE_CHECKING:
    import pandas as pd

    from data.interaction_log import InteractionLog

_COUNT = (0, np.iinfo(np.int32).max)
# Sums over clients of squared weights times squared rewards are finite even far beyond these limits.
_WITHIN = {
    "reward": (-1e18, 1e18),
    "propensity": (1e-18, 1),
    "probability": (0, 1),
    "round": _COUNT,
    "period": _COUNT,
    "model": _COUNT,
    "row": _COUNT,
    "time": (-9e18, 9e18),  # Within int64, as dates are.
}
SUM_ROUNDING = 1e-3

_STANDARD_ERRORS = 4.0
_ROUNDING = 0.005  # A propensity may be written with few digits.
_FEW_EFFECTIVE = 0.01  # Share of the rows. Below it, or below 100, few rows determine the estimate.
_FEWEST_EFFECTIVE = 100
_LARGE_SHARE = 0.1  # Share of all weight on a single client or row.
_NAMED = 5
SELECTED = "selected rows"
_SUMS = "Wrong propensities often do not sum to 1 over a row's actions; --propensity_columns checks this."

# Names of findings that allow no conclusion.
COLUMNS, PROPENSITIES, ACTION_SETS = "columns from after the action", "weights", "sets of actions"
LEVEL = 0.05  # Maximum probability that a correct log fails.
_FEWEST_ROWS, _FEWEST_CLIENTS = 20, 10  # Actions with fewer rows or clients are not tested.
_MOST_TESTS, _MOST_NUMBERS = 2000, 20_000_000
_DIGITS = range(1, 7)  # Decimals that propensities may be rounded to; with one, such as 0.5, they count as exact.
_SETS = (
    "A policy over all actions, such as the uniform one, is not defined on such a log: add --offered_column={column}. "
    "A policy whose probability of the logged action is in a column needs no sets: --policy=column:NAME."
)
_AFTER = (
    "Either the columns were filled in after the action, like the time of a conversion; or they describe the action, "
    "like its probability under a policy; or the propensities are wrong. Leave such columns out with --ignore_columns."
)


class Finding(NamedTuple):
    """Result of a check.

    Attributes:
      name: Name of the check, such as `overlap`.
      is_warning: Whether the finding makes estimates less reliable.
      text: One or more sentences.
    """

    name: str
    is_warning: bool
    text: str


def numbers(table: table_file.Table, column: "pd.Series", flag: str, role: str) -> np.ndarray:
    """Returns the numbers in a column of a log, float64 [rows].

    Args:
      table: Table of the log.
      column: The column.
      flag: The flag that names the column or the log, for messages.
      role: `reward`, `propensity`, `probability`, `round`, `period`, `model`, `row` or `time`.

    Raises:
      UsageError: If a number is missing or invalid for its role; the message names the place.
    """
    return table.numbers(column, flag, role, within=_WITHIN[role], is_whole=_WITHIN[role] == _COUNT)


def check_sums(probabilities: np.ndarray, flag: str, place: Callable[[int], str]) -> None:
    """Refuses probabilities of all actions, float64 [rows, actions], that do not sum to 1.

    Args:
      probabilities: The probabilities.
      flag: The flag that names them, for the message.
      place: Returns the place of a row, counted from 0, in its file.

    Raises:
      UsageError: If the sum of a row is not 1.
    """
    is_off = np.abs(probabilities.sum(axis=1) - 1) > SUM_ROUNDING
    if is_off.any():
        row = int(is_off.argmax())
        raise UsageError(f"{flag}: the probabilities in {place(row)} sum to {probabilities[row].sum():g}, not to 1.")


def propensities_of_actions(
    every: np.ndarray, chosen: np.ndarray, by_action: Mapping[str, str], logged: np.ndarray | None
) -> Finding:
    """Reports whether the propensities of all actions sum to 1 and agree with those that were logged.

    Args:
      every: float64 [rows, actions].
      chosen: float64 [rows], those of the logged actions.
      by_action: Column of each action.
      logged: float64 [rows], values of `--propensity_column`; None without it.
    """
    unit, sums = rounding_unit(every), every.sum(axis=1)
    off = int((np.abs(sums - 1) > SUM_ROUNDING + len(by_action) * unit / 2).sum())
    others = 0 if logged is None else int((np.abs(chosen - logged) > 1e-5 + unit).sum())
    text = (
        f"The probabilities of all actions ({described(by_action)}) sum to {sums.min():.4g} to {sums.max():.4g} in a "
    )
    text += f"row; {off:,} of {len(sums):,} rows do not sum to 1." if off else "row; all rows sum to 1, up to rounding."
    if logged is not None:
        text += f" In {others:,} rows the propensity is not the chosen action's probability."
    return Finding("propensity columns", off + others > 0, text)


def check_random(propensities: np.ndarray, path: str) -> None:
    """Refuses a deterministic or empty log, which supports no estimate.

    Raises:
      UsageError: If all propensities are 1, or there are none.
    """
    if not len(propensities):
        raise UsageError(f"{path} holds an empty log, because no client has acted or no reward was observed.")
    if (propensities >= 1).all():
        raise UsageError(
            f"All propensities of {path} are 1: its policy is deterministic, such as greedy, LinUCB, or Thompson "
            "sampling without probabilities. Such a log has no information about other actions, and weights cannot "
            "correct that: log a randomized policy and its probabilities."
        )


def check_action(name: str, action_names: Sequence[str], flag: str) -> int:
    """Position of an action.

    Raises:
      UsageError: If the log has no action of that name.
    """
    if name not in action_names:
        listed = first(list(map(repr, action_names)), _NAMED)
        raise UsageError(
            f"{flag} names the action {name!r}, which is not in the log: its {len(action_names)} actions are "
            f"{listed}. --action_names adds actions that no row has."
        )
    return list(action_names).index(name)


def mean_inverse_propensity(log: "InteractionLog") -> Finding:
    """Compares the mean of 1 / propensity with the mean number of offered actions, its expectation under full support.

    The standard error is over clients, because the rows of a client are dependent.
    """
    inverse, sizes = 1 / log.propensities, log.set_sizes
    mean, count, num_clients = float(inverse.mean()), float(sizes.mean()), len(log.client_ids)
    residuals = np.bincount(log.clients, inverse - sizes - (mean - count), num_clients)
    error = float(np.sqrt((residuals**2).sum() * num_clients / max(num_clients - 1, 1)) / len(log))
    is_off = abs(mean - count) > _STANDARD_ERRORS * error + _ROUNDING * count
    text = f"The mean of 1 / propensity is {mean:.3g} (standard error over clients {error:.2g}). "
    what = "mean size of a row's set" if log.has_sets else "number of actions"
    text += f"If every offered action was possible, this mean should be near the {what}, {round(count, 2):g}."
    if is_off:
        causes = "propensities that are too small"
        if mean < count:
            causes = "an action that was impossible or very rare in some contexts, an action without a row in the log, "
            causes += "or wrong propensities: too large"
        text += f" Possible causes: {causes}, or propensities of actions that were not chosen. {_SUMS}"
    return Finding("propensities", is_off, text)


def reading(log: "InteractionLog") -> list[Finding]:
    """Reports how a table was read: which rows were dropped or selected, percent signs, and unusual names."""
    counts = log.report.get("dropped_rows") or {}
    reasons = [f"{count:,} without {what.removeprefix('without_')}" for what, count in counts.items() if count]
    findings = [Finding("dropped rows", True, f"Rows were left out: {' and '.join(reasons)}.")] if reasons else []
    findings += [Finding(SELECTED, False, note) for note in log.report.get("notes", ())]
    return findings + [Finding("names", True, text) for text in log.report.get("warnings", ())] + public(log)


def public(log: "InteractionLog") -> list[Finding]:
    """Findings that reveal nothing about clients: unusual names of actions, and percent signs."""
    warnings = table_report.name_warnings(log.action_names, "--action_column", "action")
    signs = [f"In {table_report.of_percents(name)}." for name in log.report.get("percents", ())]
    return [Finding("names", True, text) for text in warnings] + [Finding("signs", False, text) for text in signs]


def duplicates(log: "InteractionLog") -> Finding:
    """Counts duplicated rows."""
    count = log.report.get("duplicated_rows")
    text = "No row is duplicated." if count == 0 else "Duplicated rows were not checked."
    if count:
        text = (
            f"Duplicates: {counted(count, 'row')} equal to an earlier one in every column. Drop those that repeat an "
            "interaction, which would count twice and make intervals too short. Keep distinct ones."
        )
    return Finding("duplicates", bool(count), text)


def support(log: "InteractionLog", target: np.ndarray) -> Finding:
    """Lists actions that a target policy chooses and that are not in the log.

    Args:
      log: The log.
      target: float [rows, slots], the policy's probabilities.
    """
    num_actions, shares = len(log.action_names), target.mean(axis=0)
    is_logged = np.bincount(log.logged_actions, minlength=num_actions) > 0
    if log.has_sets:
        is_offered = log.slot_actions >= 0
        shares = np.bincount(log.slot_actions[is_offered], target[is_offered], num_actions) / len(log)
    chosen = np.where(is_logged, 0, shares)
    missing = np.argsort(-chosen, kind="stable")[: np.count_nonzero(chosen)]
    if not len(missing):
        return Finding("support", False, "The log has every action that the policy chooses.")
    names = first([repr(log.action_names[action]) for action in missing], _NAMED)
    text = f"The log does not contain {names}, which the policy chooses in {chosen.sum():.2%} of interactions: "
    text += "weighted estimates leave out the rewards of such actions, which only a model can predict."
    return Finding("support", True, text)


def overlap(log: "InteractionLog", weights: np.ndarray) -> list[Finding]:
    """Reports the effective sample size, the largest weight, and weights by client.

    Args:
      log: The log.
      weights: float64 [rows], the target's probability of the logged action divided by its propensity.
    """
    total = float(weights.sum())
    if not total:
        return [Finding("overlap", True, "The policy never chooses a logged action, so nothing can be estimated.")]
    size, largest = effective_sample_size(weights), float(weights.max())
    by_client = np.bincount(log.clients, weights, len(log.client_ids))
    share = float(by_client.max() / total)
    is_few = size < max(_FEWEST_EFFECTIVE, _FEW_EFFECTIVE * len(log))
    is_uneven = share > _LARGE_SHARE and len(log.client_ids) > 1 / _LARGE_SHARE
    rest = ": few rows determine the estimate." if is_few else "."
    size_text = f"The effective sample size, (sum w)^2 / sum w^2, is {_shown(size)} of {len(log):,} rows{rest}"
    mean_text = f"The mean weight is {weights.mean():.3g}. Its expectation is 1 if the log supports the policy."
    largest_text = f"The largest weight is {largest:.3g}, which is {largest / total:.1%} of all weight."
    client_text = (
        f"The client with the most weight has {share:.1%} of it. The effective number of clients is "
        f"{_shown(effective_sample_size(by_client))} of {len(log.client_ids):,}."
    )
    return [
        Finding("overlap", is_few, size_text),
        Finding("mean weight", False, mean_text),
        Finding("largest weight", largest / total > _LARGE_SHARE, largest_text),
        Finding("weights by client", is_uneven, client_text),
    ]


def _shown(number: float) -> str:
    """A number with three significant digits; from 1000 on, a whole number."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def effective_sample_size(weights: np.ndarray) -> float:
    """Effective sample size (sum w)^2 / sum w^2 (Kish 1965) of non-negative weights; 0 where all are 0."""
    squares = float(np.square(weights, dtype=np.float64).sum())
    return float(weights.sum(dtype=np.float64)) ** 2 / squares if squares else 0.0


def check(log: "InteractionLog", weights: np.ndarray | None = None) -> Finding:
    """Result of all tests together, adjusted by Holm's method. The tests treat clients as independent, not rows.

    Args:
      log: The log.
      weights: float64 [rows], importance weights of a policy; None for none.
    """
    if column := log.report.get("action_sets"):
        text = f"Each row has its own set of available actions, in column {column!r}. "
        text += _SETS.format(column=as_flag([column]))
        return Finding(ACTION_SETS, True, text)
    if (checked := log.report.get("propensity_columns")) and checked[1]:
        return Finding(PROPENSITIES, True, f"The propensities are wrong. {checked[2]}")
    values, names, count = _features(log)
    logged, offered, pvalues = log.logged_actions, log.slot_actions, []
    for action in np.flatnonzero(np.bincount(logged) >= _FEWEST_ROWS):
        # In rows that do not offer the action, both sides of the comparison are 0.
        features = values * (offered == action).any(axis=1, keepdims=True) if log.has_sets else values
        pvalues.append(_pvalues(log, (logged == action) / log.propensities, features))
    num_tests = sum(map(len, pvalues))
    of_actions, action_columns = _of_actions(log)
    pvalues += [of_actions] + ([] if weights is None else [_pvalues(log, weights, values[:, :1], is_policys=True)])
    family = np.concatenate(pvalues)
    if not len(family):
        return Finding("balance", False, "No action has enough rows and clients to test the propensities.")
    # Holm's step-down. statsmodels' multipletests runs the garbage collector, which takes seconds with TensorFlow.
    order = np.argsort(family)
    is_small = family[order] <= LEVEL / np.arange(len(family), 0, -1)
    fails = np.zeros(len(family), bool)
    fails[order[np.minimum.accumulate(is_small)]] = True
    failed = np.flatnonzero(fails[:num_tests].reshape(-1, len(names)).any(axis=0))
    num_tests += len(of_actions)
    how = f"{len(family):,} tests, Holm at level {LEVEL:g}"
    how += f"; the {len(names) - 1} of {count} features that vary most" * (len(names) - 1 < count)
    columns = [names[place] for place in failed if place]
    columns += [action_columns[place] for place in np.flatnonzero(fails[num_tests - len(of_actions) : num_tests])]
    columns = list(dict.fromkeys(columns))
    shown = first(list(map(repr, columns)), _NAMED)
    causes = "wrong propensities" + f", or columns that were recorded after the action: {shown}" * bool(columns) + "."
    if weights is not None and fails[num_tests:].any():
        text = f"The policy's weights, its probabilities divided by propensities, average {weights.mean():.3g}, not 1 "
        text += f"({how}). Possible causes: rows where an action of the policy was not available or very rare; "
        return Finding(PROPENSITIES, True, text + causes)
    if 0 in failed or (len(columns) > 1 and 2 * len(columns) > len({*names[1:], *action_columns})):
        text = f"Weighted by 1 / propensity, the rows of an action weigh more than all rows ({how}). Possible causes: "
        return Finding(PROPENSITIES, True, text + causes)
    if columns:
        return Finding(COLUMNS, True, f"The features of {shown} depend on the chosen action ({how}). {_AFTER}")
    return Finding("balance", False, f"Weighted by 1 / propensity, no action's rows differ from all rows ({how}).")


def rounding_unit(probabilities: np.ndarray) -> float:
    """Unit of the last decimal of rounded probabilities, such as 0.01; 0 for exact ones."""
    exact = [digits for digits in _DIGITS if np.allclose(probabilities, probabilities.round(digits), 0, 1e-9)]
    return 10.0 ** -exact[0] if exact and exact[0] > 1 else 0.0


def _features(log: "InteractionLog") -> tuple[np.ndarray, list[str], int]:
    """A constant 1 and features, float64 [rows, 1 + m]; the column of each; and the total number of features."""
    contexts = log.plain_contexts
    if contexts is None or not (width := num_features(contexts, log.feature_names)):
        return np.ones((len(log), 1)), [""], 0
    names = log.feature_names or [f"feature {place}" for place in range(width)]
    most = _MOST_TESTS // len(log.action_names)
    from_zero, varying = _varying(design(contexts, width), names, most, np.ones(len(log)))
    columns = [column["name"] for column in log.report.get("columns", ()) if column["use"] == "feature"]
    from_zero = np.hstack([np.ones((len(log), 1)), from_zero])
    return from_zero, ["", *(_column(name, columns) for name in varying)], width


class _Pairs(NamedTuple):
    """Pairs of a row and an action that it offers: the client and the logged propensity of each, [pairs]."""

    clients: np.ndarray
    propensities: np.ndarray


def _of_actions(log: "InteractionLog") -> tuple[np.ndarray, list[str]]:
    """P-values of tests of the features of actions, and the column of each; empty if actions have no features."""
    if log.catalogue is None:
        return np.zeros(0), []
    rows, slots = np.nonzero(log.contexts.entries >= 0)
    entries = log.contexts.entries[rows, slots]
    names = log.report.get("action_features") or [
        f"action's feature {place}" for place in range(log.catalogue.shape[1])
    ]
    values, varying = _varying(log.catalogue, names, _MOST_TESTS, np.bincount(entries, minlength=len(log.catalogue)))
    weights = (slots == log.actions[rows]) / log.propensities[rows]
    pairs = _Pairs(log.clients[rows], log.propensities[rows])
    pvalues = _pvalues(pairs, weights, values[entries])
    columns = [column["name"] for column in log.report.get("columns", ()) if column["use"] == "of action"]
    return pvalues, [_column(name, columns) for name in varying]


def _varying(matrix: Any, names: Sequence[str], most: int, counts: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """The features that vary most, float64 [rows, features], and their names.

    Each is shifted, and flipped if needed, so that the end of its range that is nearer to its mean becomes 0.

    Args:
      matrix: [rows, features], an array or a sparse matrix, which may have further columns.
      names: Names of the features.
      most: Maximum number of features.
      counts: [rows], how often each row occurs. The larger their sum, the fewer features are returned.
    """
    from scipy import sparse

    matrix = sparse.csc_matrix(matrix)[:, : len(names)]
    means, squares = (powers.T @ counts / counts.sum() for powers in (matrix, matrix.power(2)))
    variances = squares - means**2
    most = max(1, min(most, _MOST_NUMBERS // int(counts.sum())))
    varying = [place for place in np.argsort(-variances, kind="stable")[:most] if variances[place] > 1e-9]
    chosen = matrix[:, varying].toarray()
    low, high = chosen.min(axis=0), chosen.max(axis=0)
    from_zero = np.where(2 * means[varying] <= low + high, chosen - low, high - chosen)
    return from_zero, [names[place] for place in varying]


def _column(feature: str, columns: list[str]) -> str:
    """Column that a feature belongs to, such as `color` for `color=red`."""
    starts = [name for name in columns if re.match(rf"{re.escape(name)}( |=|$)", feature)]
    return max(starts, key=len, default=feature)


def _pvalues(
    log: "InteractionLog | _Pairs", weights: np.ndarray, values: np.ndarray, *, is_policys: bool = False
) -> np.ndarray:
    """P-values of tests of whether each value's weighted sum exceeds its plain sum, float64 [values].

    They are empty with too few rows or clients. For a policy's weights, the tests are two-sided, and any number
    of rows is enough.

    The tests are conservative where the normal approximation fails. The variance is that of the clients' sums, but at
    least that of independent rows, the sum of w (w - 1) g^2. The latter is scaled by the ratio of the plain sum of g^2
    to the weighted one, and so is the former if the ratio is above 1. The degrees of freedom are the effective number
    of clients minus 1. Rounded propensities may be off by half a unit of their last decimal.
    """
    from scipy import sparse, stats

    rows = np.flatnonzero(weights)
    if not is_policys and (len(rows) < _FEWEST_ROWS or len(np.unique(log.clients[rows])) < _FEWEST_CLIENTS):
        return np.zeros(0)
    w, part, squares = weights[rows], values[rows], np.square(values[rows])
    by_client = sparse.csr_matrix((np.ones(len(values)), (log.clients, np.arange(len(values)))))
    residuals = by_client[:, rows] @ (w[:, np.newaxis] * part) - by_client @ values
    allowed = (w * (1e-9 + np.minimum(rounding_unit(log.propensities) / 2 / log.propensities[rows], 1))) @ part
    of_clients, fourth = np.square(residuals).sum(0), (residuals**4).sum(0)
    ratio = np.square(values).sum(0) / np.maximum(w @ squares, 1e-300)
    variance = np.maximum(of_clients * np.maximum(1, ratio), (w * (w - 1)) @ squares * ratio)
    effective = np.divide(of_clients**2, fourth, out=np.ones(len(fourth)), where=fourth > 0)
    excess = np.abs(residuals.sum(0)) if is_policys else residuals.sum(0)
    off = np.maximum(0, excess - allowed)
    score = np.divide(off, np.sqrt(variance), out=np.zeros(len(off)), where=(off > 0) & (variance > 0))
    return (1 + is_policys) * stats.t.sf(score, np.maximum(effective - 1, 1))
