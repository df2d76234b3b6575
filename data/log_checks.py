"""Checks of a log.

Errors that make every estimate meaningless raise a `UsageError` with the row and the value; weaknesses become a
`Finding`, a sentence to print.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data import table_file, table_report
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from data.interaction_log import InteractionLog

_COUNT = (0, np.iinfo(np.int32).max)
# Sums over clients of products of squared weights, and of squared rewards, stay finite far beyond these.
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
_FEW_EFFECTIVE = 0.01  # Of the rows; below that, or below 100, an estimate rests on a handful.
_FEWEST_EFFECTIVE = 100
_LARGE_SHARE = 0.1  # Of all weight, on a single client.
_NAMED = 5
SELECTED = "selected rows"
_SUMS = "Wrong ones often do not sum to 1 over the actions of a row, which --propensity_columns checks."


class Finding(NamedTuple):
    """Result of a check.

    Attributes:
      name: What was checked, such as `overlap`.
      is_warning: Whether it impairs estimates.
      text: A sentence, or several.
    """

    name: str
    is_warning: bool
    text: str


def numbers(table: table_file.Table, column: "pd.Series", flag: str, role: str) -> np.ndarray:
    """Numbers of a column of a log, float64 [rows].

    Args:
      table: The log, as `Table.numbers` takes it.
      column: The column.
      flag: The flag that names the column or the log, for messages.
      role: `reward`, `propensity`, `probability`, `round`, `period`, `model`, `row` or `time`.

    Raises:
      UsageError: If a number is missing, or is not one of its role; it names the place.
    """
    return table.numbers(column, flag, role, within=_WITHIN[role], is_whole=_WITHIN[role] == _COUNT)


def check_sums(probabilities: np.ndarray, flag: str, place: Callable[[int], str]) -> None:
    """Refuses probabilities of all actions, float64 [rows, actions], that do not sum to 1.

    Args:
      probabilities: The probabilities.
      flag: The flag that names them, for the message.
      place: Returns the place of a row, counted from 0, in its file.

    Raises:
      UsageError: If a row sums to something else.
    """
    is_off = np.abs(probabilities.sum(axis=1) - 1) > SUM_ROUNDING
    if is_off.any():
        row = int(is_off.argmax())
        raise UsageError(f"{flag}: the probabilities in {place(row)} sum to {probabilities[row].sum():g}, not to 1.")


def check_random(propensities: np.ndarray, path: str) -> None:
    """Refuses a deterministic or empty log, which supports no estimate.

    Raises:
      UsageError: If all propensities are 1, or there are none.
    """
    if not len(propensities):
        raise UsageError(f"{path} holds a log without a row: no client has acted, or no reward was observed.")
    if (propensities >= 1).all():
        raise UsageError(
            f"All propensities of {path} are 1: its policy is deterministic, such as greedy, UCB, or Thompson sampling "
            "without probabilities. Such a log has no information on other actions, and no weight can correct that: "
            "log a randomized policy with its probabilities."
        )


def check_action(name: str, action_names: Sequence[str], flag: str) -> int:
    """Position of an action.

    Raises:
      UsageError: If the log has none of that name.
    """
    if name not in action_names:
        listed = ", ".join(map(repr, action_names[:_NAMED])) + (" ..." if len(action_names) > _NAMED else "")
        raise UsageError(
            f"{flag} names the action {name!r}, which the log lacks: its {len(action_names)} actions are {listed}. "
            "--action_names adds actions without a row."
        )
    return list(action_names).index(name)


def mean_inverse_propensity(log: "InteractionLog") -> Finding:
    """Compares the mean of 1 / propensity with the number of actions, which it equals under full support.

    Its standard error is over clients, whose rows depend on each other.
    """
    inverse = 1 / log.propensities
    mean, count, num_clients = float(inverse.mean()), len(log.action_names), len(log.client_ids)
    residuals = np.bincount(log.clients, inverse - mean, num_clients)
    error = float(np.sqrt((residuals**2).sum() * num_clients / max(num_clients - 1, 1)) / len(log))
    is_off = abs(mean - count) > _STANDARD_ERRORS * error + _ROUNDING * count
    text = f"The mean of 1 / propensity is {mean:.3g} (standard error over clients {error:.2g}). "
    text += f"If every action was possible in every row, its expectation is the number of actions, {count}."
    if is_off and mean < count:
        text += " Possible causes: an action that was impossible or very rare in some contexts, an action without a row"
        text += " in the log, or wrong propensities: too large, or those of other actions than the chosen ones. "
        text += _SUMS
    elif is_off:
        text += " Possible causes: propensities that are too small, or those of other actions than the chosen ones. "
        text += _SUMS
    return Finding("propensities", is_off, text)


def reading(log: "InteractionLog") -> list[Finding]:
    """Reports how a table was read: rows that were left out, signs of numbers, and odd names."""
    counts = log.report.get("dropped_rows") or {}
    reasons = [f"{count:,} without {what.removeprefix('without_')}" for what, count in counts.items() if count]
    findings = [Finding("dropped rows", True, f"Rows were left out: {' and '.join(reasons)}.")] if reasons else []
    findings += [Finding(SELECTED, False, note) for note in log.report.get("notes", ())]
    return findings + [Finding("names", True, text) for text in log.report.get("warnings", ())] + public(log)


def public(log: "InteractionLog") -> list[Finding]:
    """Findings that reveal no client: odd names of actions, and signs of numbers."""
    warnings = table_report.name_warnings(log.action_names, "--action_column", "action")
    signs = [f"In {table_report.of_sign(*column)}." for column in (log.report.get("signs") or {}).items()]
    return [Finding("names", True, text) for text in warnings] + [Finding("signs", False, text) for text in signs]


def duplicates(log: "InteractionLog") -> Finding:
    """Counts duplicated rows."""
    count = log.report.get("duplicated_rows")
    text = "No row is duplicated." if count == 0 else "Duplicated rows were not checked."
    if count:
        text = (
            f"{count:,} row(s) equal an earlier one in every column. Drop them if they are the same interactions, "
            "which would count twice and make intervals too short. Keep distinct interactions that look the same."
        )
    return Finding("duplicates", bool(count), text)


def support(log: "InteractionLog", target: np.ndarray) -> Finding:
    """Lists actions of a target policy that the log lacks.

    Args:
      log: The log.
      target: float [rows, actions], the policy's probabilities.
    """
    is_logged = np.bincount(log.actions, minlength=len(log.action_names)) > 0
    chosen = np.where(is_logged, 0, target.mean(axis=0))
    missing = np.argsort(-chosen, kind="stable")[: np.count_nonzero(chosen)]
    if not len(missing):
        return Finding("support", False, "The log has every action that the policy chooses.")
    names = ", ".join(repr(log.action_names[action]) for action in missing[:_NAMED])
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    text = f"The log lacks {names}{more}, which the policy chooses in {chosen.sum():.2%} of interactions: "
    text += "weighted estimates miss their rewards, and only a model can predict them."
    return Finding("support", True, text)


def overlap(log: "InteractionLog", weights: np.ndarray) -> list[Finding]:
    """Reports the effective sample size, the largest weight, and weights by client.

    Args:
      log: The log.
      weights: float64 [rows], the target's probability of the logged action over its propensity.
    """
    total = float(weights.sum())
    if not total:
        return [Finding("overlap", True, "The policy chooses none of the logged actions: nothing can be estimated.")]
    size, largest = effective_sample_size(weights), float(weights.max())
    by_client = np.bincount(log.clients, weights, len(log.client_ids))
    share = float(by_client.max() / total)
    is_few = size < max(_FEWEST_EFFECTIVE, _FEW_EFFECTIVE * len(log))
    is_uneven = share > _LARGE_SHARE and len(log.client_ids) > 1 / _LARGE_SHARE
    rest = ": few rows determine the estimate." if is_few else "."
    size_text = f"The effective sample size, (sum w)^2 / sum w^2, is {_shown(size)} of {len(log):,} rows{rest}"
    mean_text = f"The mean weight is {weights.mean():.3g}. Its expectation is 1 if the log supports the policy."
    largest_text = f"The largest weight is {largest:.3g}, {largest / total:.1%} of all."
    client_text = (
        f"The largest share of all weight on one client is {share:.1%}. The effective number of clients is "
        f"{_shown(effective_sample_size(by_client))} of {len(log.client_ids):,}."
    )
    return [
        Finding("overlap", is_few, size_text),
        Finding("mean weight", False, mean_text),
        Finding("largest weight", largest / total > _LARGE_SHARE, largest_text),
        Finding("weights by client", is_uneven, client_text),
    ]


def _shown(number: float) -> str:
    """A number with three digits, or whole."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def effective_sample_size(weights: np.ndarray) -> float:
    """Effective sample size (sum w)^2 / sum w^2 (Kish 1965) of non-negative weights; 0 where all are 0."""
    squares = float(np.square(weights, dtype=np.float64).sum())
    return float(weights.sum(dtype=np.float64)) ** 2 / squares if squares else 0.0
