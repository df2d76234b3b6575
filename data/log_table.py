"""Reads a log from the user's table, with one row per interaction, or per interaction and action."""

import dataclasses

import numpy as np
import pandas as pd

from data import interaction_log, log_checks, schema, statistics, table_report, tables
from data.schema import POLICY, Schema, action_entries


def read(
    path: str, wanted: Schema, *, known: statistics.OfTable | None = None, with_contexts: bool = True
) -> interaction_log.InteractionLog:
    """Reads a log from a table, see `tables.read`; `columns.encode` turns columns into contexts.

    Rows without a client or an action are dropped, and counted in the report; in long form, they are refused. Clients
    and actions are sorted by name, or numerically if the names are numbers; the actions of `Sets.action_table` keep
    that table's order.

    Args:
      path: The file.
      wanted: The roles of its columns.
      known: Statistics of another run, to encode contexts for its model; None to learn them from this table.
      with_contexts: Whether to read contexts; some estimators do not need them.

    Raises:
      UsageError: If the file or a column is missing or invalid; if a reward is missing and `unobserved_rewards` is
        `refuse`, a propensity is not in (0, 1], or all propensities are 1; or if there is only one client or action.
    """
    rows = tables.read(path, wanted, known=known)
    numbers = {}
    for role in ("reward", "propensity", "round", "period"):
        if name := getattr(wanted, f"{role}_column"):
            numbers[role] = log_checks.numbers(rows.table, rows.frame[name], f"--{role}_column", role)
    checked, flag = None, "--propensity_columns"
    if wanted.propensity_columns:
        every, by_action = _of_actions(rows, wanted.propensity_columns, flag)
        chosen = every[np.arange(len(every)), rows.labels]
        checked = log_checks.propensities_of_actions(every, chosen, by_action, numbers.get("propensity"))
        if not wanted.propensity_column:
            column = pd.Series(chosen, rows.frame.index, name="of the chosen action")
            numbers["propensity"] = log_checks.numbers(rows.table, column, flag, "propensity")
    log_checks.check_random(numbers["propensity"], path)
    policy, policy_columns = _policy(rows)
    sets = None if rows.offered else tables.action_sets(rows.frame, wanted.action_column or "")
    if sets in rows.roles.features and known is None:
        left = [name for name in rows.roles.features if name != sets]
        rows = dataclasses.replace(rows, roles=dataclasses.replace(rows.roles, features=left))
    is_train = rows.split.is_train if wanted.hold_out == "time" else None
    features = rows.features(is_train, known, has_any=with_contexts)
    contexts = rows.contexts(features.values) if features.names or rows.offered else None
    actions = rows.of_actions(is_train, known)
    counts = np.bincount(np.asarray(rows.labels), minlength=len(rows.label_names)).tolist()
    by_name: dict[str, int] = {} if actions.names else dict(zip(rows.label_names, counts, strict=False))
    learned = statistics.OfTable(features.learned, by_name, actions=actions.learned)
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
        catalogue=actions.values if actions.names else None,
        catalogue_actions=rows.offered.actions if rows.offered and actions.names else None,
        statistics={} if contexts is None else learned.as_json(),
        report={
            **table_report.of(rows, features, actions),
            "learned_statistics": contexts is not None and known is None,
            "duplicated_rows": _duplicated(rows.table.frame.loc[rows.frame.index]),
            **({"time_zone": rows.times.zone, "reward_window": rows.times.window} if rows.times else {}),
            "policy_columns": policy_columns,
            "action_sets": sets,
            "action_features": list(actions.names),
            "propensity_columns": checked,
        },
    )


def _policy(rows: tables.Rows) -> tuple[np.ndarray | None, dict[str, str]]:
    """A target policy's probabilities, float64 [rows] or [rows, actions], and the column of each action."""
    pairs = action_entries(rows.schema.probability_columns, list(rows.table.frame.columns))
    if not pairs:
        return None, {}
    if len(pairs) == 1 and not pairs[0][0]:
        return log_checks.numbers(rows.table, rows.frame[pairs[0][1]], POLICY, "probability"), {}
    probabilities, by_action = _of_actions(rows, rows.schema.probability_columns or "", POLICY)
    table, index = rows.table, rows.frame.index
    log_checks.check_sums(probabilities, POLICY, lambda row: f"{table.place(index[row])} of {table.path}")
    return probabilities, by_action


def _of_actions(rows: tables.Rows, text: str, flag: str) -> tuple[np.ndarray, dict[str, str]]:
    """Probabilities of all actions, float64 [rows, actions], or of slots; and the column of each action."""
    by_action = schema.matched(text, list(rows.table.frame.columns), rows.label_names, flag)
    each = [log_checks.numbers(rows.table, rows.frame[name], flag, "probability") for name in by_action.values()]
    every = np.stack(each, axis=1)
    if rows.offered and len(rows.offered.features.columns):
        sets = rows.offered.entries
        every = np.where(sets >= 0, np.take_along_axis(every, rows.offered.actions[sets], axis=1), 0)
    return every, by_action


def _duplicated(frame: pd.DataFrame) -> int | None:
    """Number of rows that equal an earlier one; None if there are cells with lists, which cannot be compared."""
    try:
        return int(frame.duplicated().sum())
    except TypeError:
        return None
