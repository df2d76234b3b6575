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

IN_TABLE = " in --action_table"  # Suffix of a feature of that table whose name is also a column of the file.
_FLOAT32 = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))
_MARKS = "|;,"  # Possible separators of ids. The first of these that occurs in a column is its separator.
_BRACKETS = ("[]", "()", "{}")


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
    flag = "--action_table"
    table = table_file.read(schema.action_table, dataclasses.replace(schema, file_flag=flag))
    name = schema.action_id_column or table.frame.columns[0]
    if name not in table.frame:
        raise UsageError(f"--action_id_column: there is no column {name!r} in {table.path}.")
    ids = columns.named(table.frame[name])
    refuse(ids.isna(), table.frame[name], table, flag, "is not an id: every action needs one")
    refuse(ids.duplicated(), ids, table, flag, "is the id of an earlier row: give each action a single row")
    features = table.frame.drop(columns=[name, *listed(schema.ignore_columns)], errors="ignore")
    return Catalogue(table, list(ids), features)


def refuse(is_wrong: Any, cells: pd.Series, table: table_file.Table, flag: str, problem: str) -> None:
    """Refuses cells of a table.

    Args:
      is_wrong: bool [cells].
      cells: The cells, with their index in the table.
      table: The table.
      flag: The flag that names their column, for the message.
      problem: What is wrong with them, for the message.

    Raises:
      UsageError: If any cell is wrong. The message gives the content and place of the wrong cells.
    """
    if (is_wrong := np.asarray(is_wrong)).any():
        raise UsageError(f"{flag}: {table.cells(cells[is_wrong])} of {table.path} {problem}.")


def elements(cell: Any, mark: str | None = None) -> list[Any]:
    """Returns the elements of a list, or of a text with separators; an empty list for other cells.

    Quotes around elements are dropped. So are brackets around the whole cell, unless the separator is `|` or `;`.

    Args:
      cell: The cell.
      mark: The separator; None for the first of `|`, `;` and `,` that is in the cell, or blanks if none is.
    """
    if not isinstance(cell, str):
        return list(cell) if pd.api.types.is_list_like(cell) else []
    mark = mark or next((sign for sign in _MARKS if sign in cell), None)
    if mark not in ("|", ";") and cell[:1] + cell[-1:] in _BRACKETS:
        cell = cell[1:-1]
    parts = [part.strip() for part in cell.split(mark)]
    return [part[1:-1] if len(part) > 1 and part[0] == part[-1] and part[0] in "'\"" else part for part in parts]


class Source(NamedTuple):
    """A file whose rows offer actions. Invalid cells raise a `UsageError` with their content and place.

    Attributes:
      table: The file.
      schema: The schema from the flags.
      roles: The columns by role.
      catalogue: The `Catalogue`; None if there is none.
    """

    table: table_file.Table
    schema: Schema
    roles: Roles
    catalogue: Any

    def listed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Offered actions of a file with one row per decision, from `--offered_column` or the columns of rewards.

        Each row must offer its label or logged action.

        Args:
          frame: Rows of the file, with its index.

        Returns:
          One row for each offered action: its `id`; the `decision` that offers it, an index of `frame` that is also
          the index of this row; and whether it `is_chosen` or, if each action has a column of rewards, its `reward`.
        """
        if self.roles.rewards:
            return self._rewarded(frame)
        ids, labels = self.ids(frame), frame[self.roles.label]
        is_chosen = ids.astype(object) == labels.astype(object)[ids.index]
        is_wrong = ~is_chosen.groupby(level=0).any()[frame.index]
        problem = "is not in the --offered_column of its row, which must offer it"
        refuse(is_wrong, labels, self.table, f"Column {labels.name!r}", problem)
        return pd.DataFrame({"decision": ids.index, "id": ids, "is_chosen": is_chosen})

    def _rewarded(self, frame: pd.DataFrame) -> pd.DataFrame:
        flag, names = "--reward_columns", pd.Index(self.roles.rewards)
        every = pd.Series(list(names) * len(frame), frame.index.repeat(len(names)))
        ids = self.ids(frame) if self.schema.offered_column else every
        places, rewards = names.get_indexer(ids.astype(object)), np.zeros(len(ids))
        refuse(places < 0, ids, self.table, "--offered_column", f"is not in {flag}")
        for place, name in enumerate(names):  # Actions that a row does not offer may lack a reward.
            offered = places == place
            rewards[offered] = self.table.numbers(frame.loc[ids.index[offered], name], flag, "reward", _FLOAT32)
        return pd.DataFrame({"decision": ids.index, "id": columns.named(ids), "reward": rewards}, ids.index)

    def ids(self, frame: pd.DataFrame, known: Collection[str] = ()) -> pd.Series:
        """Ids that rows offer, with the index of these rows; the whole catalogue without `--offered_column`.

        Args:
          frame: Rows of the file, with its index.
          known: Ids that are not split, even if they contain a separator; by default, those of the catalogue or labels.
        """
        if not self.schema.offered_column and self.catalogue:
            return pd.Series(self.catalogue.ids * len(frame), frame.index.repeat(len(self.catalogue.ids)))
        cells, flag, mark = frame[self.schema.offered_column], "--offered_column", None
        if not table_file.holds_lists(cells):
            cells = table_file.as_text(cells, missing=("",))
            known = known or (
                self.catalogue.ids if self.catalogue else frame.get(self.roles.label, pd.Series()).unique()
            )
            several = cells[~cells.isin(known)]
            mark = next((sign for sign in _MARKS if several.str.contains(sign, regex=False).any()), "\n")
        whole = set(known)
        sets = cells.map(lambda cell: [cell] if mark and cell in whole else elements(cell, mark))
        refuse(sets.map(len) == 0, cells, self.table, flag, "is an empty set: every row must offer an action")
        ids = columns.named(sets.explode().infer_objects())
        refuse(ids.isna(), cells[ids.index], self.table, flag, "has an empty id: leave out separators without one")
        return ids

    def decisions(self, frame: pd.DataFrame, known: Collection[str]) -> tuple[Roles, pd.DataFrame, pd.DataFrame]:
        """Decisions of a file in long form. A decision's rows need not be adjacent; one of them is chosen in a log.

        Columns that are constant in each decision are features of decisions, and the others are features of actions.

        Args:
          frame: Rows of the file, with its index.
          known: Columns that are features of actions even if they are constant in each decision.

        Returns:
          Roles, decisions and offered actions. Decisions have one row each, in the order in which they begin: that of
          the chosen action in a log, otherwise the first one. Offered actions have one row for each row of the file:
          the index of its `decision`, its `id` if it has one, and either whether it `is_chosen`, or its `reward`.
        """
        names, flag, varying = frame[self.schema.decision_column], "--chosen_column", set(known)
        decision = frame.groupby([*self.roles.clients, names.name], sort=False, observed=True).ngroup().to_numpy()
        first = np.unique(decision, return_index=True)[1]
        for name in [*self.roles.features, *self.roles.texts]:
            table_file.refuse_lists(frame[name])
            values = pd.factorize(frame[name])[0]
            if (values != values[first[decision]]).any():
                varying.add(name)
        if texts := varying & set(self.roles.texts):
            raise UsageError(f"--text_columns: {min(texts)!r} differs within decisions: such texts cannot be read.")
        offered = pd.DataFrame(index=frame.index)
        if cells := self.schema.action_column:
            offered["id"] = columns.named(frame[cells])
            refuse(offered["id"].isna(), frame[cells], self.table, "--action_column", "is not an id of an action")
        elif not varying:
            raise UsageError(f"Actions of {self.table.path} have no features: name their ids with --action_column.")
        if cells := self.schema.chosen_column:
            is_chosen = self.table.numbers(frame[cells], flag, "choice", (0, 1), is_whole=True) == 1
            counts, must = np.bincount(decision, is_chosen)[decision], "exactly one of its rows must have 1"
            refuse(counts == 0, names, self.table, flag, f"is a decision without a chosen action: {must}")
            refuse((counts > 1) & is_chosen, names, self.table, flag, f"is a decision with two chosen actions: {must}")
            first[decision[is_chosen]], offered["is_chosen"] = np.flatnonzero(is_chosen), is_chosen
        else:
            rewards = frame[self.schema.reward_column]
            offered["reward"] = self.table.numbers(rewards, "--reward_column", "reward", _FLOAT32)
        offered["decision"] = frame.index.to_numpy()[first][decision]
        of_decisions = [name for name in self.roles.features if name not in varying]
        of_actions = [name for name in self.roles.features if name in varying]
        roles = dataclasses.replace(self.roles, features=of_decisions, action_features=of_actions)
        return roles, frame.iloc[first], offered

    def offers(self, frame: pd.DataFrame, names: list[str], offered: pd.DataFrame | None) -> Offers:
        """The actions that rows offer. Each id must be known, and a row must not offer it twice.

        Args:
          frame: One row per decision, with the index of the file.
          names: Names of all actions if there is no catalogue; empty to take the ids in `offered`.
          offered: Offered actions, from `listed` or `decisions`, which may include decisions that are not in `frame`;
            None if every row offers the whole catalogue.
        """
        names = self.catalogue.ids if self.catalogue else names
        if offered is None:
            every, labels = np.arange(len(names), dtype=np.int32), frame[self.roles.label]
            codes = columns.codes(labels, names)
            refuse(codes < 0, labels, self.table, f"Column {labels.name!r}", "is not an id in --action_table")
            if len(names) > (self.schema.largest_set or np.inf):
                raise UsageError(f"--largest_set is below {len(names)}, the number of actions in --action_table.")
            sets = np.broadcast_to(every, (len(frame), len(names)))  # Without a copy for each row.
            return Offers(names, sets, every, self.catalogue.features, codes, None, self.catalogue.table)  # type: ignore
        rows = frame.index.get_indexer(offered["decision"])
        offered, rows = offered[rows >= 0], rows[rows >= 0]
        slots = pd.Series(rows).groupby(rows).cumcount().to_numpy(np.int32)
        features, table = self.table.frame.loc[offered.index, self.roles.action_features], self.table
        actions, entries, shown = slots, np.arange(len(rows)), pd.Series(slots + 1, offered.index)
        if "id" in offered:
            shown, flag = offered["id"], "--offered_column" if self.schema.offered_column else "--action_column"
            flag = "--reward_columns" if self.roles.rewards and not self.schema.offered_column else flag
            names = names or columns.ordered(shown)
            source = (
                "--action_table: add its row, or write the id as the table does"
                if self.catalogue
                else "the data or statistics that name the actions"
            )
            actions = columns.codes(shown, names)
            refuse(actions < 0, shown, self.table, flag, f"is not an action of {source}")
            is_twice = offered.duplicated(["decision", "id"])
            refuse(is_twice, shown, self.table, flag, "occurs twice in its set: offer each action once")
            keys = [actions, *(column for _, column in features.items())]
            entries = offered.groupby(keys, dropna=False, observed=True).ngroup().to_numpy()
        first = np.unique(entries, return_index=True)[1]
        features, of_entries = features.iloc[first], actions[first]
        if self.catalogue:
            others = self.catalogue.features.iloc[of_entries]
            if self.roles.action_features:
                features = features.join(others.set_index(features.index), rsuffix=IN_TABLE)
            else:
                features, table = others, self.catalogue.table
        width = self.schema.largest_set or slots.max() + 1
        if len(features.columns):
            problem = f"is offered after {width} others in its row: declare the size of the largest set"
            refuse(slots >= width, shown, self.table, "--largest_set", problem)
            is_empty, where = features.isna().all(axis=1).to_numpy()[entries], "Features of actions"
            where = "--action_table" if table is not self.table else where
            refuse(is_empty, shown, self.table, where, "is offered, but all its features are missing: fill them in")
        else:
            slots, entries, of_entries, width = actions, actions, np.arange(len(names), dtype=np.int32), len(names)
        sets, names = np.full((len(frame), width), -1, np.int32), names or [str(slot + 1) for slot in range(width)]
        sets[rows, slots] = entries
        if "reward" in offered:
            rewards = np.zeros(sets.shape, np.float32)
            rewards[rows, slots] = offered["reward"]
            return Offers(names, sets, of_entries, features, None, rewards, table)
        is_chosen, chosen = offered["is_chosen"].to_numpy(bool), np.zeros(len(sets), np.int32)
        chosen[rows[is_chosen]] = slots[is_chosen]
        return Offers(names, sets, of_entries, features, chosen, None, table)
