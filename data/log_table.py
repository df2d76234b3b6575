"""The user's log of a bandit, from a CSV or Parquet table with one interaction per row."""

import dataclasses
from typing import Any

import numpy as np

from data import interaction_log, log_checks, log_validity, schema, statistics, table_report, tables
from data.errors import UsageError
from data.schema import POLICY, Schema, action_entries

_ROLES = ("reward", "propensity", "round", "period")
_ROUNDING, _LEAST = 1e-5, 1e-18


def read(
    path: str, wanted: Schema, *, known: statistics.OfTable | None = None, with_contexts: bool = True
) -> interaction_log.InteractionLog:
    """Reads a log, see `tables.read`; `columns.encode` makes contexts of columns.

    Rows without a client or an action are dropped, and counted in the report. Clients and actions are in the order of
    their names, or of numbers.

    Args:
      path: The file.
      wanted: The roles of its columns.
      known: Statistics from elsewhere, for contexts as another run's model takes them; None to learn them here.
      with_contexts: Whether contexts are read: some estimators need none.

    Raises:
      UsageError: If the file or a column is missing or invalid; if a reward is missing, a propensity not
        in (0, 1], or all of them 1; or if there is one client only. It names the row and the value.
    """
    rows = tables.read(path, wanted, known=known)
    numbers = {}
    for role in _ROLES:
        if name := getattr(wanted, f"{role}_column"):
            numbers[role] = log_checks.numbers(rows.table, rows.frame[name], f"--{role}_column", role)
    numbers["propensity"], checked = _propensities(rows, numbers.get("propensity"))
    log_checks.check_random(numbers["propensity"], path)
    policy, policy_columns = _policy(rows)
    sets = tables.action_sets(rows.frame, wanted.action_column or "")
    if sets in rows.roles.features and known is None:
        left = [name for name in rows.roles.features if name != sets]
        rows = dataclasses.replace(rows, roles=dataclasses.replace(rows.roles, features=left))
    features = rows.features(rows.split.is_train if wanted.hold_out == "time" else None, known, has_any=with_contexts)
    contexts = features.values if features.names else None
    counts = np.bincount(np.asarray(rows.labels), minlength=len(rows.label_names)).tolist()
    learned = statistics.OfTable(features.learned, dict(zip(rows.label_names, counts, strict=True)))
    return interaction_log.ordered(
        rows.client_ids,
        rows.clients,
        contexts,
        rows.label_names,
        {
            "actions": rows.labels,
            "rewards": numbers["reward"],
            "propensities": numbers["propensity"],
            "rounds": numbers.get("round"),
            "periods": numbers.get("period"),
            "probabilities": policy,
            "times": rows.times and rows.times.values,
        },
        feature_names=tuple(features.names),
        statistics={} if contexts is None else learned.as_json(),
        report={
            **table_report.of(rows, features),
            "learned_statistics": contexts is not None and known is None,
            "duplicated_rows": _duplicated(rows.table.frame.loc[rows.frame.index]),
            **({"time_zone": rows.times.zone, "reward_window": rows.times.window} if rows.times else {}),
            "policy_columns": policy_columns,
            "action_sets": sets,
            "propensity_columns": checked,
        },
    )


def _policy(rows: tables.Rows) -> tuple[np.ndarray | None, dict[str, str]]:
    """A target policy's probabilities, float64 [rows] or [rows, actions], and the column of each action."""
    pairs = action_entries(rows.schema.probability_columns, list(rows.table.frame.columns))
    if not pairs or (len(pairs) == 1 and not pairs[0][0]):
        name = pairs[0][1] if pairs else None
        return (log_checks.numbers(rows.table, rows.frame[name], POLICY, "probability") if name else None), {}
    probabilities, by_action = _of_actions(rows, rows.schema.probability_columns or "", POLICY)
    table, index = rows.table, rows.frame.index
    log_checks.check_sums(probabilities, POLICY, lambda row: f"{table.place(index[row])} of {table.path}")
    return probabilities, by_action


def _of_actions(rows: tables.Rows, text: str, flag: str) -> tuple[np.ndarray, dict[str, str]]:
    """Probabilities of all actions, float64 [rows, actions], and the column of each."""
    by_action = schema.matched(text, list(rows.table.frame.columns), rows.label_names, flag)
    columns = by_action.values()
    each = [log_checks.numbers(rows.table, rows.frame[name], flag, "probability") for name in columns]
    return np.stack(each, axis=1), by_action


def _propensities(rows: tables.Rows, logged: np.ndarray | None) -> tuple[Any, log_checks.Finding | None]:
    """Propensities of the logged actions, float64 [rows], and a check of all actions' if there is a column for each.

    Args:
      rows: The log's rows.
      logged: Those of `--propensity_column`; None without it.
    """
    flag = "--propensity_columns"
    if not rows.schema.propensity_columns:
        return logged, None
    every, by_action = _of_actions(rows, rows.schema.propensity_columns, flag)
    chosen, sums = every[np.arange(len(every)), rows.labels], every.sum(axis=1)
    if logged is None and chosen.min() < _LEAST:
        place = rows.table.place(rows.frame.index[int(chosen.argmin())])
        raise UsageError(f"{flag}: the action that was chosen in {place} has the probability {chosen.min():g}.")
    unit = log_validity.rounding_unit(every)
    off = int((np.abs(sums - 1) > log_checks.SUM_ROUNDING + len(by_action) * unit / 2).sum())
    others = 0 if logged is None else int((np.abs(chosen - logged) > _ROUNDING + unit).sum())
    text = f"The probabilities of all actions ({schema.described(by_action)}) sum to {sums.min():.4g} to "
    text += f"{sums.max():.4g} in a row; "
    text += f"{off:,} of {len(sums):,} rows do not sum to 1." if off else "all rows sum to 1, but for rounding."
    if logged is not None:
        text += f" In {others:,} rows the propensity is not the chosen action's probability."
    return chosen if logged is None else logged, log_checks.Finding("propensity columns", off + others > 0, text)


def _duplicated(frame) -> int | None:
    """Number of rows that equal an earlier one; None where cells are lists, which cannot be compared."""
    try:
        return int(frame.duplicated().sum())
    except TypeError:
        return None
