"""Any table with an example a row: bring your own data."""

import csv
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from data import clients, columns, keys, statistics, table_file
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


class _Roles(NamedTuple):
    """What the columns are for. Without a client column clients are made; either the label or rewards are there."""

    client: str | None
    label: str | None
    rewards: list[str]
    features: list[str]


class _Split(NamedTuple):
    """Which rows are held out, and the numbers of the clients on either side."""

    is_held_out: np.ndarray
    train: list[int]
    held_out: list[int]
    how: str


def load(
    path: str,
    client_column: str,
    label_column: str | None = None,
    reward_columns: str | None = None,
    feature_columns: str | None = None,
    known: statistics.OfTable | None = None,
    seed: int = 0,
    held_out_fraction: float = 0.2,
) -> Table:
    """Reads a table; see `columns.encode` for how columns become features.

    Rows without a client or a label are dropped, and those of a label that is not known. Clients and labels are in the
    order of their names, or of numbers.

    Args:
      path: A .csv (UTF-8, commas, a header line; also gzipped) or .parquet file.
      client_column: Column that says whose row it is; or `rows:N`, which deals the rows to N clients at random.
      label_column: Column of the class, one action each. Either this or `reward_columns` must be given.
      reward_columns: Columns of the reward of each action, separated by commas; `all` for all but the client's and
        the features'.
      feature_columns: Columns separated by commas; None for all that are left. If rewards leave none, the only feature
        is the constant 1, for a bandit without context.
      known: Statistics from elsewhere; None to learn them from training rows.
      seed: Seed of the made clients and of the split.
      held_out_fraction: Part of the clients, or of each one's rows, that is held out; at least one.

    Raises:
      UsageError: If the file or a column is missing, or not what it has to be.
    """
    if not 0 < held_out_fraction < 1:
        raise ValueError(f"held_out_fraction must lie between 0 and 1, not {held_out_fraction}.")
    if bool(label_column) == bool(reward_columns):
        flags = "both are given" if label_column else "neither is given"
        raise UsageError(f"Give either --label_column or --reward_columns: {flags}.")
    num_made = _num_made_clients(client_column)
    frame, nameless = table_file.read(path, [name for name in (client_column, label_column) if name])
    roles = _roles(list(frame.columns), path, client_column, label_column, reward_columns, feature_columns)
    if known is not None:
        _check_known(known, roles, path)
    frame, dropped = _drop_rows(frame, roles, path, known)

    if roles.label:
        action_names = list(known.labels) if known else _classes(frame[roles.label])
        labels = columns.codes(frame[roles.label], action_names)
    else:
        action_names, labels = roles.rewards, _rewards(frame[roles.rewards], path)
    if roles.client:
        client_names, client_of_row = _owners(frame[roles.client])
    else:
        client_names, client_of_row = _deal(len(frame), num_made, seed)
    split = _split(client_of_row, len(client_names), held_out_fraction, seed)
    learned = known.columns if known else columns.learn(frame[roles.features], ~split.is_held_out)
    encoded = columns.encode(frame[roles.features], learned)
    if not encoded.names and roles.label:
        raise UsageError(
            f"{path} leaves no feature: it needs a column with values beside the client's and the label's, or "
            "--feature_columns must name one."
        )
    if not encoded.names:
        encoded = encoded._replace(values=np.ones((len(frame), 1), np.float32), names=["constant"])

    checksum = clients.file_checksum(path)
    examples = clients.Examples(encoded.values, labels)

    def part(rows: np.ndarray, members: list[int]) -> clients.ClientData:
        member_of_row = np.searchsorted(members, client_of_row[rows])
        names = [client_names[client] for client in members]
        return clients.ArrayClients(examples.take(rows), member_of_row, names, checksum)

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
            "rows": len(frame),
            "training_rows": len(train_rows),
            "held_out_rows": len(held_out_rows),
            "dropped_rows": dropped,
            "clients": len(client_names),
            "held_out": split.how,
            "imputed": encoded.imputed,
            "missing_as_category": encoded.missing_as_category,
            "columns_left_out": nameless + encoded.left_out,
        },
        statistics=known,
        checksum=checksum,
    )


def _num_made_clients(client_column: str) -> int:
    """Returns N of `rows:N`, or 0 for the name of a column."""
    if not client_column.startswith("rows:"):
        return 0
    number = client_column.removeprefix("rows:")
    if not number.isdecimal() or int(number) < 2:
        raise UsageError(f"--client_column={client_column} must be rows:N with N at least 2, or name a column.")
    return int(number)


def _roles(
    names: list[str],
    path: str,
    client_column: str,
    label_column: str | None,
    reward_columns: str | None,
    feature_columns: str | None,
) -> _Roles:
    """Returns the columns' roles, at most one each."""
    client = None if _num_made_clients(client_column) else client_column
    features, rewards = _listed(feature_columns), _listed(reward_columns)
    if reward_columns == "all":
        rewards = [name for name in names if name != client and name not in features]
    uses: dict[str, str] = {}
    for flag, chosen in (
        ("--client_column", [client] if client else []),
        ("--label_column", [label_column] if label_column else []),
        ("--reward_columns", rewards),
        ("--feature_columns", features),
    ):
        for name in chosen:
            if name not in names:
                raise UsageError(f"{flag}: there is no column {name!r} in {path}; its columns are {', '.join(names)}.")
            if name in uses:
                other = "twice" if uses[name] == flag else f"that {uses[name]} names already"
                raise UsageError(f"{flag} names column {name!r} {other}: a column has one use.")
            uses[name] = flag
    if reward_columns and len(rewards) < 2:
        raise UsageError(f"--reward_columns={reward_columns}: a bandit needs at least two actions, a column each.")
    return _Roles(client, label_column, rewards, features or [name for name in names if name not in uses])


def _listed(flag: str | None) -> list[str]:
    """Returns the names in a flag; one with a comma is quoted."""
    return [name.strip() for name in next(csv.reader([flag], skipinitialspace=True))] if flag else []


def _check_known(known: statistics.OfTable, roles: _Roles, path: str) -> None:
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


def _drop_rows(
    frame: "pd.DataFrame", roles: _Roles, path: str, known: statistics.OfTable | None
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
    names = columns.ordered(labels)
    if len(names) < 2:
        raise UsageError(f"--label_column={labels.name} has one class only, {names[0]!r}: a bandit needs two or more.")
    if len(names) > statistics.MAX_CATEGORIES:
        raise UsageError(
            f"--label_column={labels.name} has {len(names)} distinct values, more than {statistics.MAX_CATEGORIES}: "
            "name a column of classes."
        )
    return names


def _rewards(frame: "pd.DataFrame", path: str) -> np.ndarray:
    """Returns float32 [rows, actions]."""
    import pandas as pd

    rewards = np.zeros(frame.shape, np.float32)
    for action, name in enumerate(frame.columns):
        numbers = frame[name]
        if not pd.api.types.is_numeric_dtype(numbers.dtype):
            written = columns.text(numbers)
            numbers = pd.to_numeric(written, errors="coerce")
            wrong = written[numbers.isna() & written.notna()]
            if len(wrong):
                where = table_file.place(path, wrong.index[0])
                raise UsageError(
                    f"--reward_columns: {wrong.iloc[0]!r} in column {name!r} ({where} of {path}) is no number; "
                    "a reward must be one."
                )
        with np.errstate(over="ignore"):
            rewards[:, action] = numbers.to_numpy(np.float64, na_value=np.nan)
        wrong = numbers[~np.isfinite(rewards[:, action])]
        if len(wrong):
            value = "a missing value" if pd.isna(wrong.iloc[0]) else wrong.iloc[0]
            where = table_file.place(path, wrong.index[0])
            raise UsageError(
                f"--reward_columns: {value} in column {name!r} ({where} of {path}) is not finite; "
                "every row must have a reward for every action."
            )
    return rewards


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
