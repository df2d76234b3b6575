"""One's own log of a bandit, from a CSV or Parquet table: a row an interaction, its context typed as a table's."""

import numpy as np

from data import interaction_log, log_checks, statistics, tables
from data.errors import UsageError
from data.schema import POLICY, Schema, listed

# Sums over clients of products of squared weights, and of squared rewards, stay finite far beyond these.
_WITHIN = {
    "reward": (-1e18, 1e18),
    "propensity": (1e-18, 1),
    "round": (0, np.iinfo(np.int32).max),
    "period": (0, np.iinfo(np.int32).max),
}
_SUM_ROUNDING = 1e-3


def read(
    path: str, wanted: Schema, *, known: statistics.OfTable | None = None, with_contexts: bool = True
) -> interaction_log.InteractionLog:
    """Reads a log, see `tables.read`; `columns.encode` says how columns become contexts.

    Rows without a client or an action are dropped, and counted in the report. Clients and actions are in the order of
    their names, or of numbers.

    Args:
      path: The file.
      wanted: The roles of its columns.
      known: Statistics from elsewhere, for contexts as another run's model takes them; None to learn them here.
      with_contexts: Whether contexts are read: some estimators need none.

    Raises:
      UsageError: If the file or a column is missing, or not what it has to be; if a reward is missing, a propensity not
        in (0, 1], or all of them 1; or if there is one client only. It names the row and the value.
    """
    rows = tables.read(path, wanted, known=known)
    numbers = {}
    for role, within in _WITHIN.items():
        flag, name = f"--{role}_column", getattr(wanted, f"{role}_column")
        if name:
            numbers[role] = rows.numbers(name, flag, role, within=within)
            if role in ("round", "period") and (numbers[role] % 1 != 0).any():
                raise UsageError(f"{flag}={name} must hold whole numbers from 0.")
    log_checks.check_random(numbers["propensity"], path)
    features = rows.features(known=known, has_any=with_contexts)
    contexts = features.values if features.names else None
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
        },
        feature_names=tuple(features.names),
        report={
            **features.report,
            "learned_statistics": contexts is not None and known is None,
            "duplicated_rows": _duplicated(rows.table.frame),
        },
    )


def _probabilities(rows: tables.Rows) -> np.ndarray | None:
    """Returns float64 [rows] or [rows, actions], a target policy's."""
    names = listed(rows.schema.probability_columns)
    if not names:
        return None
    if len(names) not in (1, len(rows.label_names)):
        raise UsageError(
            f"{POLICY} names {len(names)} columns: give one, or one of each of the {len(rows.label_names)} actions."
        )
    found = np.stack([rows.numbers(name, POLICY, "probability", within=(0, 1)) for name in names], axis=1)
    if len(names) == 1:
        return found[:, 0]
    is_off = np.abs(found.sum(axis=1) - 1) > _SUM_ROUNDING
    if is_off.any():
        row = int(is_off.argmax())
        place = f"{rows.table.place(rows.frame.index[row])} of {rows.table.path}"
        raise UsageError(f"{POLICY}: the probabilities in {place} sum to {found[row].sum():g}, not to 1.")
    return found


def _duplicated(frame) -> int | None:
    """Returns how many rows equal an earlier one; None where cells are lists, which cannot be compared."""
    try:
        return int(frame.duplicated().sum())
    except TypeError:
        return None
