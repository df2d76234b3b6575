"""The user's log of a bandit, from a CSV or Parquet table with one interaction per row."""

import numpy as np

from data import interaction_log, log_checks, statistics, tables
from data.errors import UsageError
from data.schema import POLICY, Schema, listed

_ROLES = ("reward", "propensity", "round", "period")


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
    log_checks.check_random(numbers["propensity"], path)
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
            "probabilities": _probabilities(rows),
            "times": rows.times and rows.times.values,
        },
        feature_names=tuple(features.names),
        statistics={} if contexts is None else learned.as_json(),
        report={
            **features.report,
            "learned_statistics": contexts is not None and known is None,
            "duplicated_rows": _duplicated(rows.table.frame.loc[rows.frame.index]),
            **({"time_zone": rows.times.zone, "reward_window": rows.times.window} if rows.times else {}),
        },
    )


def _probabilities(rows: tables.Rows) -> np.ndarray | None:
    """Probabilities of a target policy, float64 [rows] or [rows, actions]."""
    names = listed(rows.schema.probability_columns)
    if not names:
        return None
    if len(names) not in (1, len(rows.label_names)):
        raise UsageError(
            f"{POLICY} names {len(names)} columns: give one, or one of each of the {len(rows.label_names)} actions."
        )
    columns = [log_checks.numbers(rows.table, rows.frame[name], POLICY, "probability") for name in names]
    if len(columns) > 1:
        table, index = rows.table, rows.frame.index
        log_checks.check_sums(
            np.stack(columns, axis=1), POLICY, lambda row: f"{table.place(index[row])} of {table.path}"
        )
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _duplicated(frame) -> int | None:
    """Number of rows that equal an earlier one; None where cells are lists, which cannot be compared."""
    try:
        return int(frame.duplicated().sum())
    except TypeError:
        return None
