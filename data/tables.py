"""Reads tables and logs: assigns rows to clients and labels according to a schema, and encodes columns as features."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from data import columns, keys, log_time, partition, statistics, table_file, text
from data.errors import UsageError
from data.schema import Roles, Schema, as_flag, check_no_log, listed, resolve

_JOINT = " | "  # Separates the values of several client columns.
_MANY = 50
_FIRST_ROWS = 20


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a table or log that are complete: they have a client and, if there is such a column, a label or action.

    Attributes:
      table: The table that contains the rows.
      schema: The schema from the flags.
      roles: The columns by role.
      frame: The rows, with their index in the table.
      client_ids: Names of the clients, in numeric order if all of them are numbers.
      clients: int32 [rows], positions in `client_ids`.
      label_names: Names of the labels or actions, in the same kind of order; or the reward columns.
      labels: int32 [rows], positions in `label_names`; None for a table of rewards.
      dropped: Number of dropped rows, by reason.
      synthetic: How the rows were partitioned into synthetic clients; empty if the table names the clients.
      times: Times of the rows, in ascending order; None without a time column.
      notes: Sentences on rows and rewards that `log_time.select` left out or changed.
    """

    table: table_file.Table
    schema: Schema
    roles: Roles
    frame: pd.DataFrame
    client_ids: list[str]
    clients: np.ndarray
    label_names: list[str]
    labels: np.ndarray | None
    dropped: Mapping[str, int]
    synthetic: str = ""
    times: log_time.Times | None = None
    notes: Sequence[str] = ()

    @property
    def split(self) -> partition.Split:
        """Training and held-out rows, as `Schema.hold_out` defines them."""
        return log_time.hold_out(self.schema.hold_out, self.times, self.clients, len(self.client_ids))

    def features(
        self, is_train: np.ndarray | None = None, known: statistics.OfTable | None = None, *, has_any: bool = True
    ) -> columns.Encoded:
        """Encodes the feature columns; see `columns.encode`.

        Args:
          is_train: bool [rows], the rows from which means, deviations and categories are learned; None for all rows.
          known: Statistics from a file, to be used instead.
          has_any: Whether there are any features; if not, no columns are read.

        Raises:
          UsageError: If a column cannot be encoded.
        """
        return columns.encode(
            self.frame[self.roles.features if has_any else []],
            is_train,
            known.columns if known else None,
            categories=self.schema.categories,
            named=self.roles.named,
            show=self.table.cells,
        )


def words(texts: pd.DataFrame) -> text.Words:
    """Splits some text columns into the words of each row.

    Raises:
      UsageError: If a column holds lists.
    """
    columns.refuse_lists(texts)
    counted, cells = text.Words(), [columns.as_text(texts[name]).fillna("") for name in texts.columns]
    for row in zip(*cells, strict=True):
        counted.append(text.words(" ".join(row)))
    return counted


def read(
    path: str, schema: Schema, *, known: statistics.OfTable | None = None, seed: int = 0, concentration: float = 1.0
) -> Rows:
    """Reads the rows of a table or log.

    Rows without a client, or without a label or action, are dropped. So are rows whose label is not in `known`.

    Args:
      path: The file, see `table_file.read`.
      schema: The roles of its columns.
      known: Statistics from a file, which determine the labels; None to use the labels in the table.
      seed: Random seed of synthetic clients.
      concentration: Dirichlet parameter of each synthetic client's distribution over the values of `partition_column`.

    Raises:
      UsageError: If the file or a column is missing or invalid; if there is only one client; or if a log is read as a
        table.
    """
    schema.check()
    table = table_file.read(path, schema)
    roles = resolve(schema, list(table.frame.columns), path)
    if not schema.is_log:
        check_no_log(roles.suspected, path, roles.label)
    if known and not schema.is_log:
        _check_known(known, schema, roles, path)
    known_labels = list(known.labels) if known and schema.label_column else None
    frame, dropped = _complete(table.frame, schema, roles, path, known_labels)
    frame, times, notes = log_time.select(frame, table, schema)
    label_names, labels = roles.rewards, None
    if roles.label:
        label_names = _label_names(frame[roles.label], schema, known_labels)
        labels = columns.codes(frame[roles.label], label_names)
    synthetic = ""
    if not schema.num_synthetic_clients:
        client_ids, clients = _owners(frame, roles.clients, schema)
    else:
        synthetic = "rows partitioned at random"
        client_ids, clients = partition.split_equally(len(frame), schema.num_synthetic_clients, seed)
        if schema.partition_column:
            draw, values = keys.generator(seed, keys.Purpose.PARTITION), frame[schema.partition_column].cat.codes
            clients = partition.dirichlet_label_skew(values.to_numpy(), len(client_ids), concentration, draw)
            synthetic = f"each has a mix of {schema.partition_column}, sampled from Dirichlet({concentration:g})"
    return Rows(table, schema, roles, frame, client_ids, clients, label_names, labels, dropped, synthetic, times, notes)


def action_sets(frame: pd.DataFrame, action: str) -> str | None:
    """Finds a column that seems to list the available actions of each row, such as `a|b|c`; None if there is none.

    The lists must vary and contain the action of their row. Most of their elements must be actions of the log, and few
    cells may be empty.
    """
    actions = set(frame[action].astype(str))
    for name in frame.columns.drop(action):
        listed = frame[frame[name].notna()]
        if len(listed) < table_file.MOSTLY * len(frame):
            continue
        for part in (listed.iloc[:_FIRST_ROWS], listed):  # The first rows rule out most columns.
            sets = [_elements(cell) for cell in part[name]]
            if not all(map(list.__contains__, sets, part[action].astype(str))):
                break
        else:
            is_action = [element in actions for each in sets for element in each]
            varies = len(set(map(frozenset, sets))) > 1 and np.mean([len(each) > 1 for each in sets]) > 0.5
            if varies and np.mean(is_action) > 0.5:
                return str(name)
    return None


def _elements(cell: object) -> list[str]:
    """Returns the elements of a list, or of a text with separators; empty for other cells."""
    if not isinstance(cell, str):
        return list(map(str, cell)) if isinstance(cell, list | tuple | np.ndarray) else []
    separator = next((mark for mark in "|;," if mark in cell), None)
    return [part.strip(" []{}()\"'") for part in cell.split(separator)]


def _check_known(known: statistics.OfTable, schema: Schema, roles: Roles, path: str) -> None:
    """Checks that statistics do not belong to a different table."""
    flag = "--public_statistics"
    for what, has, wants in (
        ("labels", bool(known.labels), bool(roles.label)),
        ("vocabulary", bool(known.vocabulary), bool(roles.texts)),
    ):
        if has != wants:
            raise UsageError(f"{flag} has {what if has else f'no {what}'}, unlike {path} as it is read.")
    if differing := set(known.columns).symmetric_difference(roles.features):
        raise UsageError(
            f"{flag} and the features of {path} differ in {', '.join(sorted(differing))}. Both must have the same "
            "columns: name those of the table with --feature_columns."
        )
    for name in schema.categories:
        if not isinstance(known.columns[name], statistics.Categories):
            raise UsageError(f"--category_columns names column {name!r}, of which {flag} has no categories.")


def _complete(
    frame: pd.DataFrame, schema: Schema, roles: Roles, path: str, known_labels: list[str] | None
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Rows with a client and a (known) label, both as categories, and the number of rows dropped for each reason."""
    dropped = {}
    label, flag = ("action", "--action_column") if schema.is_log else ("label", "--label_column")
    named: list[tuple[str, Sequence[str | None]]] = [("client", roles.clients), (label, [roles.label])]
    for what, names in (*named, (f"value of {schema.partition_column}", [schema.partition_column])):
        if present := [name for name in names if name]:
            frame = frame.assign(**{name: columns.named(frame[name]) for name in present})
            is_complete = frame[present].notna().all(axis=1)
            dropped[f"without_{what}"] = int((~is_complete).sum())
            frame = frame[is_complete]
    if known_labels is not None:
        is_known = frame[roles.label].isin(known_labels)
        dropped["of_another_label"] = int((~is_known).sum())
        frame = frame[is_known]
    if frame.empty:
        of_these = ", with a label of --public_statistics" if known_labels is not None else ""
        raise UsageError(f"No row of {path} has what --client_column and {flag} name{of_these}.")
    return frame, dropped


def _owners(frame: pd.DataFrame, names: list[str], schema: Schema) -> tuple[list[str], np.ndarray]:
    """Returns the names of the clients, and the client of each row."""
    grouped = frame.groupby(names, observed=True, sort=True)
    clients = grouped.ngroup().to_numpy(np.int32)
    client_ids = [_JOINT.join(key) for key in grouped.size().index.to_frame().itertuples(index=False)]
    if len(client_ids) < 2:
        how = "or several"
        if not schema.is_log:
            how = "or partition the rows over N clients by --client_column=rows:N"
        raise UsageError(
            f"--client_column={schema.client_column} has one value only, {client_ids[0]!r}: name a column that "
            f"distinguishes clients, {how}."
        )
    return client_ids, clients


def _label_names(labels: pd.Series, schema: Schema, known: list[str] | None) -> list[str]:
    """Names of all labels or actions, including those that a flag adds.

    Refuses too few or too many labels, and labels that are mostly decimal numbers, dates, or distinct in nearly every
    row.
    """
    flag = f"{'--action_column' if schema.is_log else '--label_column'}={as_flag([labels.name])}"
    present = list(labels.cat.remove_unused_categories().cat.categories)
    names = known or columns.ordered(pd.Series([*present, *listed(schema.action_names)], dtype=object))
    if len(names) < 2:
        how = "; --action_names=A,B names those that were never chosen" if schema.is_log else ""
        raise UsageError(f"{flag} has one value only, {names[0]!r}: a bandit needs two actions or more{how}.")
    if len(names) > statistics.MAX_CATEGORIES:
        raise UsageError(
            f"{flag} has {len(names)} distinct values, more than {statistics.MAX_CATEGORIES}: name a column of classes."
        )
    if not schema.is_log and not known and len(names) > _MANY:
        written = pd.Series(names, name="label")
        numbers = table_file.numbers(written)
        numbers = numbers[np.isfinite(numbers)]
        is_measured = (numbers % 1 != 0).sum() > len(names) / 2
        is_measured |= len(numbers) > table_file.MOSTLY * len(names) and len(names) > len(labels) / 2
        if is_measured or columns.of_texts(written, table_file.MOSTLY):
            raise UsageError(
                f"{flag} has {len(names)} distinct values in {len(labels)} rows, which are "
                f"{'numbers' if is_measured else 'dates'}, not classes: name a column of classes."
            )
    return names
