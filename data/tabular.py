"""Any table with an example a row: bring your own data."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data import (
    clients,
    columns,
    csv_file,
    keys,
    statistics,
    table_file,
    table_labels,
    table_log,
    table_numbers,
    table_report,
    table_roles,
)
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_MIN_CLIENTS = 5  # With fewer, whole clients are too much to hold out.


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as a federated data set.

    Attributes:
      train: Training clients. Features are float32 [examples, features]; labels int32 [examples], indices into
        `action_names`, or float32 [examples, actions], the reward of each action.
      held_out: Other clients; or other rows of the same clients, where there are fewer than 5.
      feature_names: Such as `age`, `age is missing` and `color=red`.
      action_names: The labels as the table has them, or the names of the reward columns.
      label_counts: Training rows of each label; empty if the table has rewards.
      report: What was read, dropped, imputed and held out, in JSON's types.
      statistics: What was learned from training rows, or given instead.
      checksum: Digest of the file.
    """

    train: clients.ClientData
    held_out: clients.ClientData
    feature_names: tuple[str, ...]
    action_names: tuple[str, ...]
    label_counts: tuple[int, ...]
    report: Mapping[str, Any]
    statistics: statistics.OfTable
    checksum: str


class _Split(NamedTuple):
    """Which rows are held out, and the numbers of the clients on either side."""

    is_held_out: np.ndarray
    train: list[int]
    held_out: list[int]
    how: str


def load(
    path: str,
    wanted: table_roles.Wanted,
    *,
    missing_values: str | None = None,
    known: statistics.OfTable | None = None,
    seed: int = 0,
    held_out_fraction: float = 0.2,
) -> Table:
    """Reads a table; see `columns.encode` for how columns become features.

    Rows without a client or a label are dropped, and those of a label that is not known. Clients and labels are in the
    order of their names, or of numbers. If rewards leave no feature, the only one is the constant 1, for a bandit
    without context.

    Args:
      path: The file, see `table_file.read`.
      wanted: What its columns are for.
      missing_values: Texts, separated by commas, that are missing values besides the usual ones.
      known: Statistics from elsewhere; None to learn them from training rows.
      seed: Seed of the made clients and of the split.
      held_out_fraction: Part of the clients, or of each one's rows, that is held out; at least one.

    Raises:
      UsageError: If the file or a column is missing, or not what it has to be; or if it is the log of a bandit.
    """
    if not 0 < held_out_fraction < 1:
        raise ValueError(f"held_out_fraction must lie between 0 and 1, not {held_out_fraction}.")
    table_roles.check(wanted)
    table = table_file.read(path, wanted.text_columns, missing_values)
    roles = table_roles.of(list(table.frame.columns), path, wanted)
    table_log.check(table.frame[roles.suspected], roles.guessed, path, roles.label)
    refused = table.refused_of([*roles.features, *roles.rewards])
    refused |= columns.row_numbers(table.frame[roles.guessed_numbers])
    if known is not None:
        csv_file.check_accepted(refused)
        _check_known(known, roles, path)
    frame, dropped = _drop_rows(table.frame, roles, path, known)

    warnings: list[str] = []
    if roles.label:
        action_names = list(known.labels) if known else _classes(frame[roles.label])
        warnings += [] if known else table_labels.warnings(frame[roles.label], action_names)
        labels = columns.codes(frame[roles.label], action_names)
    else:
        action_names, labels = roles.rewards, _rewards(frame[roles.rewards], table)
    if roles.client:
        client_names, client_of_row = _owners(frame[roles.client])
    else:
        client_names, client_of_row = _deal(len(frame), wanted.num_made_clients, seed)
    split = _split(client_of_row, len(client_names), held_out_fraction, seed)
    features = frame[roles.features]
    if known:
        learned = known.columns
    else:
        learned = columns.learn(
            features,
            ~split.is_held_out,
            categories=roles.categories,
            named=roles.named,
            told=table.cells,
            refused=refused,
        )
    encoded = columns.encode(features, learned, told=table.cells)
    if not encoded.names and roles.label:
        raise UsageError(
            f"{path} leaves no feature: it needs a column with values beside the client's and the label's, or "
            "--feature_columns must name one."
        )
    if not encoded.names:
        encoded = encoded._replace(values=np.ones((len(frame), 1), np.float32), names=["constant"])
        warnings.append("no feature is left: all rows look alike, and the best is one action for all of them.")

    examples = clients.Examples(encoded.values, labels)

    def part(rows: np.ndarray, members: list[int]) -> clients.ClientData:
        member_of_row = np.searchsorted(members, client_of_row[rows])
        names = [client_names[client] for client in members]
        return clients.ArrayClients(examples.take(rows), member_of_row, names, table.checksum)

    train_rows, held_out_rows = np.flatnonzero(~split.is_held_out), np.flatnonzero(split.is_held_out)
    if known is None:
        counts = np.bincount(labels[train_rows], minlength=len(action_names)).tolist() if roles.label else []
        known = statistics.OfTable(learned, dict(zip(action_names, counts, strict=False)))
    return Table(
        train=part(train_rows, split.train),
        held_out=part(held_out_rows, split.held_out),
        feature_names=tuple(encoded.names),
        action_names=tuple(action_names),
        label_counts=tuple(known.labels.values()),
        report={
            # Of what is learned from, however the table was read: the checksum is of its file or frame.
            "content": clients.array_checksum(encoded.values, labels, client_of_row),
            "rows": len(frame),
            "training_rows": len(train_rows),
            "held_out_rows": len(held_out_rows),
            "dropped_rows": dropped,
            "clients": len(client_names),
            "held_out": split.how,
            "imputed": encoded.imputed,
            "missing_as_category": encoded.missing_as_category,
            "columns_left_out": [*table.nameless, *encoded.left_out],
            "form": dict(table.form),
            "missing_values": dict(table.missing),
            "signs": dict(table.signs),
            "warnings": warnings + table_report.warnings(learned, roles.named),
            "columns": table_report.of_columns(table, roles, len(client_names), len(action_names), learned, encoded),
        },
        statistics=known,
        checksum=table.checksum,
    )


def _check_known(known: statistics.OfTable, roles: table_roles.Roles, path: str) -> None:
    """Raises `UsageError` if statistics are of another table."""
    flag = "--public_statistics"
    if bool(known.labels) != bool(roles.label):
        has, wants = ("labels", "rewards") if known.labels else ("no labels", "labels")
        raise UsageError(f"{flag} has {has}, but {path} is read as a table of {wants}.")
    for what, missing in (
        ("nothing of", [name for name in roles.features if name not in known.columns]),
        ("more columns than", [name for name in known.columns if name not in roles.features]),
    ):
        if missing:
            raise UsageError(
                f"{flag} has {what} the features of {path}: {', '.join(missing)}. Both must have the same columns; "
                "--feature_columns names those of the table."
            )
    for name in roles.categories:
        if not isinstance(known.columns[name], statistics.Categories):
            raise UsageError(f"--category_columns names column {name!r}, of which {flag} has no categories.")


def _drop_rows(
    frame: "pd.DataFrame", roles: table_roles.Roles, path: str, known: statistics.OfTable | None
) -> "tuple[pd.DataFrame, dict[str, int]]":
    """Returns the rows with a client and a (known) label, both as text, and how many rows lack which."""
    dropped = {}
    for what, column in (("client", roles.client), ("label", roles.label)):
        if column:
            frame = frame.assign(**{column: columns.names(frame[column])})
            dropped[f"without_{what}"] = int(frame[column].isna().sum())
            frame = frame[frame[column].notna()]
    if roles.label and known:
        is_known = frame[roles.label].isin(list(known.labels))
        dropped["of_another_label"] = int((~is_known).sum())
        frame = frame[is_known]
    if frame.empty:
        of_these = ", with a label of --public_statistics" if roles.label and known else ""
        raise UsageError(f"No row of {path} has what --client_column and --label_column name{of_these}.")
    return frame, dropped


def _classes(labels: "pd.Series") -> list[str]:
    """Returns the classes."""
    names = table_labels.classes(labels)
    if len(names) < 2:
        raise UsageError(f"--label_column={labels.name} has one class only, {names[0]!r}: a bandit needs two or more.")
    return names


def _rewards(frame: "pd.DataFrame", table: table_file.Table) -> np.ndarray:
    """Returns float32 [rows, actions]."""
    each = [
        table_numbers.finite(frame[name], "--reward_columns", "reward", table, np.float32, " for every action")
        for name in frame.columns
    ]
    return np.stack(each, axis=1)


def _owners(owners: "pd.Series") -> tuple[list[str], np.ndarray]:
    """Returns the clients' names, and the client of each row."""
    names = columns.ordered(owners)
    if len(names) < 2:
        raise UsageError(
            f"--client_column={owners.name} has one value only, {names[0]!r}: name a column that tells clients apart, "
            "or deal the rows to N clients by --client_column=rows:N."
        )
    return names, columns.codes(owners, names)


def _deal(num_rows: int, num_clients: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Returns made clients of equal size, the first ones a row larger where it does not divide."""
    if num_clients > num_rows:
        raise UsageError(f"--client_column=rows:{num_clients} is more than the {num_rows} rows: give at most that.")
    client_of_row = np.zeros(num_rows, np.int32)
    draw = keys.generator(seed, keys.Purpose.PARTITION)
    client_of_row[draw.permutation(num_rows)] = np.arange(num_rows) % num_clients
    width = len(str(num_clients - 1))
    return [f"client_{index:0{width}d}" for index in range(num_clients)], client_of_row


def _split(client_of_row: np.ndarray, num_clients: int, fraction: float, seed: int) -> _Split:
    """Holds out whole clients; where there are few, rows of each."""
    everyone = list(range(num_clients))
    if num_clients >= _MIN_CLIENTS:
        count = min(max(1, round(fraction * num_clients)), num_clients - 1)
        order = keys.generator(seed, keys.Purpose.HELD_OUT, 0).permutation(num_clients)
        train, held_out = sorted(order[count:].tolist()), sorted(order[:count].tolist())
        return _Split(np.isin(client_of_row, held_out), train, held_out, f"{count} of {num_clients} clients")
    is_held_out = np.zeros(len(client_of_row), bool)
    for client in everyone:
        rows = np.flatnonzero(client_of_row == client)
        count = min(max(1, round(fraction * len(rows))), len(rows) - 1)
        draw = keys.generator(seed, keys.Purpose.HELD_OUT, client)
        is_held_out[draw.choice(rows, count, replace=False)] = True
    if not is_held_out.any():
        raise UsageError("--client_column gives each client one row, and so few clients that none can be held out.")
    how = f"{fraction:.0%} of each client's rows, because there are fewer than {_MIN_CLIENTS} clients"
    return _Split(is_held_out, everyone, everyone, how)
