"""Reads the sets of actions that rows of a table or log offer, from columns of ids or from a file in long form.

If actions have features, from `--action_table` or from columns of a file in long form, they are entries of a catalogue,
and a row's chosen action is a slot of its set. Otherwise, sets only restrict which of the named actions are available.
See `action_sets.ActionSets`.
"""

import dataclasses
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from data import columns, table_file
from data.errors import UsageError
from data.schema import Roles, Schema, listed

_FLOAT32 = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))
_MARKS = "|;,"  # Possible separators of ids. The first of them that is in a column separates its ids.
_AROUND = " []{}()\"'"


class Catalogue(NamedTuple):
    """A table of actions.

    Attributes:
      table: The table.
      ids: Ids of the actions, in the order of the rows.
      features: Columns of features, with the index of the table.
    """

    table: table_file.Table
    ids: list[str]
    features: pd.DataFrame


class Offers(NamedTuple):
    """The actions that rows offer.

    Attributes:
      names: Names of the actions; without ids, positions in a set, from 1.
      entries: int32 [rows, slots], as in `action_sets.ActionSets`.
      actions: int32 [entries], position in `names` of each entry of the catalogue.
      features: Columns of features, one row per entry of the catalogue; no columns if actions have no features.
      chosen: int32 [rows], the slot of the label or of the logged action; None if all rewards are known.
      rewards: float32 [rows, slots], the reward of each offered action, 0 elsewhere; None if they are not known.
      table: The table that contains the features, for messages.
    """

    names: list[str]
    entries: np.ndarray
    actions: np.ndarray
    features: pd.DataFrame
    chosen: np.ndarray | None
    rewards: np.ndarray | None
    table: table_file.Table


def read_catalogue(schema: Schema) -> Catalogue | None:
    """Reads `--action_table`; None if there is none.

    Raises:
      UsageError: If the table or its column of ids is missing or invalid, or if an id is missing or occurs twice.
    """
    if not schema.action_table:
        return None
    flag, name = "--action_table", schema.action_id_column
    table = table_file.read(schema.action_table, dataclasses.replace(schema, file_flag=flag))
    if not name:  # The file is read again, with ids as text.
        return read_catalogue(dataclasses.replace(schema, action_id_column=table.frame.columns[0]))
    if name not in table.frame:
        raise UsageError(f"--action_id_column: there is no column {name!r} in {table.path}.")
    ids = columns.named(table.frame[name])
    refuse(ids.isna(), table.frame[name], table, flag, "is not an id: every action needs one")
    refuse(ids.duplicated(), ids, table, flag, "is the id of an earlier row: give each action a single row")
    return Catalogue(
        table, list(ids), table.frame.drop(columns=[name, *listed(schema.ignore_columns)], errors="ignore")
    )


def refuse(is_wrong: Any, cells: pd.Series, table: table_file.Table, flag: str, problem: str) -> None:
    """Refuses cells of a table.

    Args:
      is_wrong: bool [cells].
      cells: The cells, with their index in the table.
      table: The table.
      flag: The flag that names their column, for the message.
      problem: What is wrong with them, for the message.

    Raises:
      UsageError: If any is wrong. The message has their content and place.
    """
    if (is_wrong := np.asarray(is_wrong)).any():
        raise UsageError(f"{flag}: {table.cells(cells[is_wrong])} of {table.path} {problem}.")


def elements(cell: Any, mark: str | None = None) -> list[Any]:
    """Returns the elements of a list, or of a text with separators; empty for other cells.

    Args:
      cell: The cell.
      mark: The separator; None for the first possible one in the cell.
    """
    if not isinstance(cell, str):
        return list(cell) if pd.api.types.is_list_like(cell) else []
    mark = mark or next((sign for sign in _MARKS if sign in cell), None)
    around = _AROUND if cell.startswith(tuple(_AROUND)) else " "
    return [part.strip(around) for part in cell.split(mark)]


def divided(roles: Roles, frame: pd.DataFrame, schema: Schema, known: Collection[str]) -> Roles:
    """Roles in a file in long form, where columns that are constant within every decision are features of decisions.

    Args:
      roles: The columns by role.
      frame: Rows of the file.
      schema: The schema from the flags.
      known: Columns that are features of actions in any case.

    Raises:
      UsageError: If texts differ within a decision, or a column holds lists.
    """
    decision = frame.groupby([*roles.clients, schema.decision_column], sort=False, dropna=False).ngroup().to_numpy()
    first, varying = np.unique(decision, return_index=True)[1], set(known)
    for name in [*roles.features, *roles.texts]:
        table_file.refuse_lists(frame[name])
        values = pd.factorize(frame[name])[0]
        if (values != values[first[decision]]).any():
            varying.add(name)
    if texts := varying & set(roles.texts):
        raise UsageError(f"--text_columns: {min(texts)!r} differs within decisions, but texts must describe decisions.")
    of_decisions = [name for name in roles.features if name not in varying]
    of_actions = [name for name in roles.features if name in varying]
    return dataclasses.replace(roles, features=of_decisions, action_features=of_actions)


@dataclasses.dataclass(frozen=True)
class Source:
    """A file whose rows offer actions. Invalid cells raise a `UsageError` with their content and place.

    Attributes:
      table: The file.
      schema: The schema from the flags.
      roles: The columns by role.
      catalogue: The table of actions; None if there is none.
    """

    table: table_file.Table
    schema: Schema
    roles: Roles
    catalogue: Catalogue | None

    def listed(self, frame: pd.DataFrame) -> pd.Series | None:
        """Offered ids, as categories, with the index of the row that offers them; None without `--offered_column`.

        Sets and ids must not be empty.

        Args:
          frame: Rows of the file, with its index.
        """
        if not self.schema.offered_column:
            return None
        cells, flag, mark = frame[self.schema.offered_column], "--offered_column", None
        if not table_file.holds_lists(cells):
            cells = table_file.as_text(cells, missing=("",))
            mark = next((sign for sign in _MARKS if cells.str.contains(sign, regex=False).any()), "\n")
        sets = cells.map(lambda cell: elements(cell, mark))
        refuse(sets.map(len) == 0, cells, self.table, flag, "is an empty set: every row must offer an action")
        ids = columns.named(sets.explode().infer_objects())
        refuse(ids.isna(), cells[ids.index], self.table, flag, "has an empty id")
        return ids

    def of_rows(self, frame: pd.DataFrame, names: list[str], ids: pd.Series | None) -> Offers:
        """Offers of a file with one row per decision, each of which must offer its label or logged action.

        Args:
          frame: Rows of the file, with its index.
          names: Names of all actions.
          ids: Result of `listed`; if None, every row offers the whole catalogue.
        """
        labels, flag = frame[self.roles.label], "--action_column" if self.schema.is_log else "--label_column"
        if ids is None and self.catalogue:
            every, chosen = np.arange(len(names), dtype=np.int32), columns.codes(labels, names)
            refuse(chosen < 0, labels, self.table, flag, "is not an id in --action_table")
            sets = np.broadcast_to(every, (len(frame), len(names)))  # Without a copy for each row.
            self._check_sizes(np.full(len(frame), len(names)), labels)
            return Offers(names, sets, every, self.catalogue.features, chosen, None, self.catalogue.table)
        rows = frame.index.get_indexer(ids.index)
        is_chosen = ids.to_numpy(object) == labels.to_numpy(object)[rows]
        has_none = np.bincount(rows, is_chosen, len(frame)) == 0
        refuse(has_none, labels, self.table, flag, "is not in the --offered_column of its row")
        offered = pd.DataFrame({"row": rows, "id": ids, "is_chosen": is_chosen}, ids.index)
        return self._offers(offered, pd.DataFrame(index=ids.index), names)

    def decisions(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
        """One row per decision of a file in long form: in a log, that of the chosen action, and otherwise the first.

        Decisions are in the order in which they begin. Each has exactly one chosen action in a log.

        Args:
          frame: Rows of the file, with its index.

        Returns:
          These rows; and for each row of the file, the index of its decision's row.
        """
        keys, names = [*self.roles.clients, self.schema.decision_column], frame[self.schema.decision_column]
        decision = frame.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
        place = np.unique(decision, return_index=True)[1]
        if self.schema.chosen_column:
            is_chosen, flag = self._is_chosen(frame), "--chosen_column"
            counts, must = np.bincount(decision, is_chosen)[decision], ": mark exactly one row of a decision with 1"
            refuse(counts == 0, names, self.table, flag, f"is a decision without a chosen action{must}")
            refuse(
                (counts > 1) & is_chosen, names, self.table, flag, f"is a decision with several chosen actions{must}"
            )
            place[decision[is_chosen]] = np.flatnonzero(is_chosen)
        return frame.iloc[place], frame.index.to_numpy()[place][decision]

    def of_long(self, frame: pd.DataFrame, rows: np.ndarray) -> Offers:
        """Offers of a file in long form, whose actions must have ids or features.

        Args:
          frame: Rows of the file, with its index.
          rows: int [rows of the file], the position of each row's decision.
        """
        offered, flag = pd.DataFrame({"row": rows}, frame.index), "--action_column"
        names = self.catalogue.ids if self.catalogue else []
        if name := self.schema.action_column:
            offered["id"] = columns.named(frame[name])
            refuse(offered["id"].isna(), frame[name], self.table, flag, "is not an id: every row needs its action")
            names = names or columns.ordered(offered["id"])
        elif not self.roles.action_features:
            raise UsageError(f"Actions of {self.table.path} have no features: name their ids with {flag}.")
        if self.schema.chosen_column:
            offered["is_chosen"] = self._is_chosen(frame)
        else:
            column = frame[self.schema.reward_column]
            offered["reward"] = self.table.numbers(column, "--reward_column", "reward", _FLOAT32)
        return self._offers(offered, frame[self.roles.action_features], names)

    def _offers(self, offered: pd.DataFrame, features: pd.DataFrame, names: list[str]) -> Offers:
        """Offers of rows, in which ids must be known, and none may occur twice.

        Args:
          offered: One row for each offered action, with the index of the file: the `row` that offers it, its `id` if it
            has one, and either whether it `is_chosen`, or its `reward`.
          features: Columns of features in the file, with the same rows.
          names: Names of all actions; empty without ids.
        """
        rows, slots = offered["row"].to_numpy(), offered.groupby("row").cumcount().to_numpy(np.int32)
        actions, entries, shown = slots, np.arange(len(rows)), pd.Series(slots + 1, offered.index)
        if names:
            flag = "--offered_column" if self.schema.offered_column else "--action_column"
            actions, shown = columns.codes(offered["id"], names), offered["id"]
            source = "--action_table" if self.catalogue else "--public_statistics"
            refuse(actions < 0, shown, self.table, flag, f"is not an action of {source}")
            is_twice = offered.duplicated(["row", "id"])
            refuse(is_twice, shown, self.table, flag, "occurs twice in its set: offer each action once")
            keys = [actions, *(column for _, column in features.items())]
            entries = offered.groupby(keys, dropna=False, observed=True).ngroup().to_numpy()
        first = np.unique(entries, return_index=True)[1]
        features, of_entries, table = features.iloc[first], actions[first], self.table
        if self.catalogue:
            others = self.catalogue.features.iloc[of_entries]
            if not self.roles.action_features:
                features, table = others, self.catalogue.table
            else:
                features = features.join(others.set_index(features.index), rsuffix=" in --action_table")
        if len(features.columns):
            self._check_sizes(slots + 1, shown)
            width = self.schema.largest_set or slots.max() + 1
            is_empty = features.isna().all(axis=1).to_numpy()[entries]
            refuse(is_empty, shown, self.table, "Sets of actions", "is offered, but all of its features are missing")
        else:
            slots, entries, of_entries, width = actions, actions, np.arange(len(names)), len(names)
        if width < 2:
            raise UsageError(f"Every row of {self.table.path} offers a single action, but a bandit needs a choice.")
        sets, chosen, rewards = np.full((rows.max() + 1, width), -1, np.int32), None, None
        sets[rows, slots] = entries
        if "reward" in offered:
            rewards = np.zeros(sets.shape, np.float32)
            rewards[rows, slots] = offered["reward"]
        else:
            chosen = np.zeros(len(sets), np.int32)
            chosen[rows[offered["is_chosen"]]] = slots[offered["is_chosen"]]
        names = names or [str(slot + 1) for slot in range(width)]
        return Offers(names, sets, of_entries.astype(np.int32), features, chosen, rewards, table)

    def _check_sizes(self, sizes: np.ndarray, cells: pd.Series) -> None:
        most = self.schema.largest_set or np.inf
        refuse(sizes > most, cells, self.table, "--largest_set", f"is in a row that offers more than {most} actions")

    def _is_chosen(self, frame: pd.DataFrame) -> np.ndarray:
        column = frame[self.schema.chosen_column]
        return self.table.numbers(column, "--chosen_column", "choice", (0, 1), is_whole=True) == 1
