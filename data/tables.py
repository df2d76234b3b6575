"""Reads tables and logs: assigns rows to clients and labels according to a schema, and encodes columns as features."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from data import columns, keys, log_time, offers, partition, statistics, table_file, text
from data.action_sets import of_entries
from data.errors import UsageError, counted
from data.schema import Roles, Schema, as_flag, listed, resolve

_JOINT = " | "  # Separates the values of several client columns.


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a table or log that are complete: they have a client and, if there is such a column, a label or action.

    Attributes:
      table: The table that contains the rows.
      schema: The schema from the flags.
      roles: The columns by role.
      frame: The rows, with their index in the table.
      client_ids: Names of the clients, in alphabetical order, or in numeric order if all of them are numbers.
      clients: int32 [rows], positions in `client_ids`.
      label_names: Names of the labels or actions, ordered in the same way; or the reward columns. Actions of a
        catalogue are in its order.
      labels: int32 [rows], positions in `label_names`, or slots if actions have features; None for a table of rewards.
      dropped_rows: Number of dropped rows, by reason.
      synthetic_clients: How the rows were partitioned into synthetic clients; empty if the table names the clients.
      times: Times of the rows, in ascending order; None without a time column.
      notes: Sentences on the order of rows, omitted rows and changed rewards, from `log_time.select`.
      offered: The actions that rows offer; None if all rows offer all actions, without features.
    """

    table: table_file.Table
    schema: Schema
    roles: Roles
    frame: pd.DataFrame
    client_ids: list[str]
    clients: np.ndarray
    label_names: list[str]
    labels: np.ndarray | None
    dropped_rows: Mapping[str, int]
    synthetic_clients: str
    times: log_time.Times | None
    notes: Sequence[str]
    offered: offers.Offers | None = None

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
          has_any: Whether to encode the columns; if not, the result has no features.

        Raises:
          UsageError: If a column cannot be encoded.
        """
        frame, of_columns = self.frame[self.roles.features if has_any else []], known.columns if known else None
        categories, named, show = self.schema.categories, self.roles.named, self.table.cells
        return columns.encode(frame, is_train, of_columns, categories=categories, named=named, show=show)

    def contexts(self, values: Any) -> Any:
        """Contexts, with the actions that each row offers unless `offered` is None."""
        return of_entries(values, self.offered.entries) if self.offered else values

    def of_actions(
        self, is_train: np.ndarray | None = None, known: statistics.OfTable | None = None
    ) -> columns.Encoded:
        """Encodes the features of actions, [entries, features]; the result is empty if `offered` is None.

        Args:
          is_train: bool [rows], the rows whose offered actions determine the statistics; None for all rows.
          known: Statistics from a file, to be used instead.

        Raises:
          UsageError: If a column cannot be encoded, or if columns differ from `known`.
        """
        if self.offered is None:
            return columns.encode(pd.DataFrame())
        frame, entries = self.offered.features, self.offered.entries
        if known and set(known.actions) != set(frame):
            raise UsageError(
                f"The statistics are of the action features {list(known.actions)}, but the actions have {list(frame)}."
            )
        is_learned = np.isin(np.arange(len(frame)), entries if is_train is None else entries[is_train])
        categories, of_columns = self.schema.categories, known.actions if known else None
        return columns.encode(frame, is_learned, of_columns, categories=categories, show=self.offered.table.cells)


def words(texts: pd.DataFrame) -> text.Words:
    """Splits some text columns into the words of each row.

    Raises:
      UsageError: If a column holds lists.
    """
    counts, cells = text.Words(), [table_file.as_text(texts[name]).fillna("") for name in texts.columns]
    for row in zip(*cells, strict=True):
        counts.append(text.words(" ".join(row)))
    return counts


def read(
    path: str, schema: Schema, *, known: statistics.OfTable | None = None, seed: int = 0, concentration: float = 1.0
) -> Rows:
    """Reads the rows of a table or log.

    Rows without a client, a label or action, or a value of `partition_column` are dropped, and so are rows whose label
    is not in `known`. In long form, incomplete rows are refused instead.

    Args:
      path: The file, see `table_file.read`.
      schema: The roles of its columns.
      known: Statistics from a file, which determine the labels; None to use the labels in the table.
      seed: Random seed of synthetic clients.
      concentration: Dirichlet parameter of each synthetic client's distribution over the values of `partition_column`.

    Raises:
      UsageError: If the file or a column is missing or invalid; if there is only one client, or only one label or
        action; or if a log is read as a table.
    """
    schema.check()
    table = table_file.read(path, schema)
    catalogue, each_action = offers.read_catalogue(schema), None
    roles = resolve(schema, list(table.frame.columns), path, list(catalogue.table.frame) if catalogue else ())
    known_labels = list(known.labels) if known and known.labels and schema.label_column else None
    frame, dropped = _complete(table, schema, roles, path, known_labels)
    source = offers.Source(table, schema, roles, catalogue)
    if schema.decision_column:
        of_actions = set(known.actions) - set(known.columns) if known else ()
        roles, frame, each_action = source.decisions(frame, of_actions)
    if known and not schema.is_log:
        _check_known(known, schema, roles, path)
    frame, times, notes = log_time.select(frame, table, schema)
    names, labels, offered = roles.rewards, None, None
    if schema.offered_column or (catalogue and roles.rewards):
        each_action = source.listed(frame)
    if roles.label and not catalogue:
        names = _label_names(frame[roles.label], schema, known_labels, each_action)
        labels = columns.codes(frame[roles.label], names)
    if catalogue:
        table = dataclasses.replace(table, checksum=f"{table.checksum}-{catalogue.table.checksum}")
    if schema.has_sets:
        offered = source._replace(roles=roles).offers(frame, names, each_action)
        names, labels = offered.names, offered.chosen
    client_ids, clients, synthetic = _clients(frame, roles, schema, seed, concentration)
    return Rows(
        table, schema, roles, frame, client_ids, clients, names, labels, dropped, synthetic, times, notes, offered
    )


def action_sets(frame: pd.DataFrame, action: str) -> str | None:
    """Finds a column that seems to list the available actions of each row, such as `a|b|c`; None if there is none.

    The lists must vary and contain the action of their row. Most of their elements must be actions of the log, and few
    cells may be empty.
    """
    actions = frame[action].astype(str)
    for name in frame.columns.drop(action):
        cells = frame[name].dropna()
        pairs = zip(actions[cells.index], cells, strict=True)
        if len(cells) < table_file.MOSTLY * len(frame) or not all(chosen in _elements(cell) for chosen, cell in pairs):
            continue
        sets = list(map(_elements, cells))
        is_action = np.isin([element for each in sets for element in each], actions.unique())
        are_lists = np.mean([len(each) > 1 for each in sets]) > 0.5 and len(set(map(frozenset, sets))) > 1
        if are_lists and is_action.mean() > 0.5:
            return str(name)
    return None


def _elements(cell: Any) -> list[str]:
    return list(map(str, offers.elements(cell)))


def _check_known(known: statistics.OfTable, schema: Schema, roles: Roles, path: str) -> None:
    """Refuses statistics whose columns, labels or vocabulary do not match the table's roles."""
    flag, differing = "--public_statistics", set(known.columns).symmetric_difference(roles.features)
    kinds = {name: known.columns.get(name) for name in schema.categories}
    numbers = [name for name, kind in kinds.items() if not isinstance(kind, statistics.Categories)]
    wants_labels = roles.label and not schema.action_table
    for what, has, wants in (("labels", known.labels, wants_labels), ("vocabulary", known.vocabulary, roles.texts)):
        if bool(has) != bool(wants):
            raise UsageError(
                f"{flag} has {what if has else f'no {what}'}, unlike {path} with these flags: use matching statistics."
            )
    if differing:
        names = ", ".join(sorted(differing))
        raise UsageError(
            f"{flag} and the features of {path} differ in {names}: name the same features in --feature_columns."
        )
    if numbers:
        raise UsageError(f"--category_columns names column {numbers[0]!r}, but {flag} has no categories for it.")


def _complete(
    table: table_file.Table, schema: Schema, roles: Roles, path: str, known_labels: list[str] | None
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Rows with a client and a (known) label, both as categories, and the number of rows dropped for each reason."""
    frame, dropped = table.frame, {}
    label = "action" if schema.is_log else "label"
    named: dict[str, Sequence[str | None]] = {"client": roles.clients, label: [roles.label]}
    named[f"value of {schema.partition_column}"] = [schema.partition_column]
    named["decision"] = [schema.decision_column]
    for what, names in named.items():
        if present := [name for name in names if name]:
            frame = frame.assign(**{name: columns.named(frame[name]) for name in present})
            is_complete = frame[present].notna().all(axis=1)
            if schema.decision_column:  # Without one of its rows, a decision would offer fewer actions.
                problem = f"is a row without {what}: complete it, or leave out all rows of its decision"
                offers.refuse(~is_complete, frame[present[0]], table, "--decision_column", problem)
            dropped[f"without_{what}"], frame = int((~is_complete).sum()), frame[is_complete]
    if known_labels is not None:
        is_known = frame[roles.label].isin(known_labels)
        dropped["of_another_label"], frame = int((~is_known).sum()), frame[is_known]
    if frame.empty:
        of_these = ", with a label of --public_statistics" if known_labels is not None else ""
        raise UsageError(f"No row of {path} has values in --client_column and --{label}_column{of_these}.")
    return frame, dropped


def _clients(
    frame: pd.DataFrame, roles: Roles, schema: Schema, seed: int, concentration: float
) -> tuple[list[str], np.ndarray, str]:
    """Returns the names of the clients, int32 [rows] positions in them, and how rows were partitioned."""
    if schema.num_synthetic_clients:
        client_ids, clients = partition.split_equally(len(frame), schema.num_synthetic_clients, seed)
        if not schema.partition_column:
            return client_ids, clients, "rows partitioned at random"
        draw, values = keys.generator(seed, keys.Purpose.PARTITION), frame[schema.partition_column].cat.codes
        clients = partition.dirichlet_label_skew(values.to_numpy(), len(client_ids), concentration, draw)
        how = f"each has a mix of {schema.partition_column}, sampled from Dirichlet({concentration:g})"
        return client_ids, clients, how
    grouped = frame.groupby(roles.clients, observed=True, sort=True)
    client_ids = [_JOINT.join(key) for key in grouped.size().index.to_frame().itertuples(index=False)]
    if len(client_ids) < 2:
        how = "or several" if schema.is_log else "or partition the rows over N clients with --client_column=rows:N"
        raise UsageError(
            f"--client_column={schema.client_column} has a single value, {client_ids[0]!r}: name a column that "
            f"distinguishes clients, {how}."
        )
    return client_ids, grouped.ngroup().to_numpy(np.int32), ""


def _label_names(labels: pd.Series, schema: Schema, known: list[str] | None, offered: pd.DataFrame | None) -> list[str]:
    """Names of all labels or actions, including those that a flag adds or that are only offered.

    Refuses too few or too many labels, labels that are mostly decimal numbers or dates, and numbers that differ in most
    rows.
    """
    flag = f"{'--action_column' if schema.is_log else '--label_column'}={as_flag([labels.name])}"
    present = list(labels.cat.remove_unused_categories().cat.categories)
    present += [] if offered is None else list(offered["id"].cat.categories)
    names = known or columns.ordered(pd.Series([*present, *listed(schema.action_names)], dtype=object))
    if len(names) < 2:
        how = "; --action_names=A,B adds actions that were never chosen" if schema.is_log else ""
        raise UsageError(f"{flag} has a single value, {names[0]!r}, but a bandit needs two actions or more{how}.")
    what = f"more than {statistics.MAX_CATEGORIES}" if len(names) > statistics.MAX_CATEGORIES else ""
    if not (what or schema.is_log or known) and len(names) > columns.MANY:
        written = pd.Series(names, name="label")
        numbers = table_file.numbers(written)
        is_number, is_fraction = np.isfinite(numbers), np.isfinite(numbers) & (numbers != np.rint(numbers))
        if is_fraction.mean() > 0.5 or (is_number.mean() > table_file.MOSTLY and len(names) > len(labels) / 2):
            what = "which are numbers, not classes"
        elif columns.of_texts(written, table_file.MOSTLY):
            what = "which are dates, not classes"
    if what:
        rows = counted(len(labels), "row")
        raise UsageError(f"{flag} has {len(names)} distinct values in {rows}, {what}: name a column of classes.")
    return names
