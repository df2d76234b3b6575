"""One's own log of a bandit, from a CSV or Parquet table: a row an interaction, its context typed as a table's."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from data import (
    columns,
    csv_file,
    interaction_log,
    log_checks,
    statistics,
    table_file,
    table_numbers,
    table_report,
    table_roles,
)
from data.errors import UsageError
from data.table_file import listed

if TYPE_CHECKING:
    import pandas as pd

_JOINT = " | "  # Between the values of several client columns.
_POLICY = "--policy=column"  # Names the columns of a target policy.


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The columns that flags name; several are separated by commas, and one that holds a comma is quoted.

    Attributes:
      client_column: Whose row it is; of several, each combination of values is a client.
      action_column: The action that was played.
      reward_column: What it earned.
      propensity_column: The probability with which it was played there.
      round_column: The round, a whole number; None for none.
      period_column: The deployment period, likewise.
      position_column: A feature that is a category, such as the place on a page; None for none.
      probability_columns: What a target policy would play the logged action with, or, of as many columns as there are
        actions in the order of `InteractionLog.action_names`, each of them; None for none.
      feature_columns: Columns of the context; None for all that have no other use.
      ignore_columns: Columns that are left out.
      category_columns: Features that are categories, whatever they hold.
      action_names: Actions that could be played too, though none of the rows shows them.
    """

    client_column: str
    action_column: str
    reward_column: str
    propensity_column: str
    round_column: str | None = None
    period_column: str | None = None
    position_column: str | None = None
    probability_columns: str | None = None
    feature_columns: str | None = None
    ignore_columns: str | None = None
    category_columns: str | None = None
    action_names: str | None = None

    @property
    def categories(self) -> list[str]:
        """Features that are categories, whatever they hold."""
        return [*([self.position_column] if self.position_column else []), *listed(self.category_columns)]

    @property
    def text_columns(self) -> list[str]:
        """Columns whose values are names, where 007 is no number; and those that nobody reads."""
        return [*listed(self.client_column), self.action_column, *self.categories, *listed(self.ignore_columns)]


def read(
    path: str,
    wanted: Wanted,
    *,
    missing_values: str | None = None,
    known: statistics.OfTable | None = None,
    with_contexts: bool = True,
) -> interaction_log.InteractionLog:
    """Reads a log; see `columns.encode` for how columns become contexts.

    Rows without a client or an action are dropped, and counted in the report. Clients and actions are in the order of
    their names, or of numbers.

    Args:
      path: The file, see `table_file.read`.
      wanted: What its columns are for.
      missing_values: Texts, separated by commas, that are missing values besides the usual ones.
      known: Statistics from elsewhere, for contexts as another run's model takes them; None to learn them here.
      with_contexts: Whether contexts are read: some estimators need none.

    Raises:
      UsageError: If the file or a column is missing, or not what it has to be; if a reward is missing, a propensity not
        in (0, 1], or all of them 1; or if there is one client only. It names the row and the value.
    """
    with _called_log():
        table = table_file.read(path, wanted.text_columns, missing_values)
    roles = _roles(list(table.frame.columns), path, wanted)
    frame, dropped = _with_names(table.frame, wanted, path)
    numbers = {
        flag: table_numbers.finite(frame[name], f"--{flag}", what, table)
        for flag, name, what in (
            ("reward_column", wanted.reward_column, "reward"),
            ("propensity_column", wanted.propensity_column, "propensity"),
            ("round_column", wanted.round_column, "round"),
            ("period_column", wanted.period_column, "period"),
        )
        if name
    }
    log_checks.check_rewards(numbers["reward_column"], frame.index, wanted.reward_column, table)
    log_checks.check_propensities(numbers["propensity_column"], frame.index, wanted.propensity_column, table)
    clients, client_ids = _owners(frame, wanted)
    actions, action_names = _actions(frame[wanted.action_column], wanted)
    contexts, feature_names, report = _contexts(frame[roles if with_contexts else []], wanted, table, known)
    return interaction_log.ordered(
        client_ids,
        clients,
        contexts,
        action_names,
        {
            "actions": actions,
            "rewards": numbers["reward_column"],
            "propensities": numbers["propensity_column"],
            "rounds": _whole(numbers.get("round_column"), "--round_column", wanted.round_column),
            "periods": _whole(numbers.get("period_column"), "--period_column", wanted.period_column),
            "probabilities": _probabilities(frame, wanted, table, len(action_names)),
        },
        feature_names=feature_names,
        report={
            "rows": len(frame),
            "dropped_rows": dropped,
            "learned_statistics": contexts is not None and known is None,
            "duplicated_rows": int(table.frame.duplicated().sum()) if _is_hashable(table.frame) else None,
            "form": dict(table.form),
            "missing_values": dict(table.missing),
            **report,
        },
    )


@contextlib.contextmanager
def _called_log() -> Iterator[None]:
    """Has messages about a table name the flag of a log."""
    try:
        yield
    except UsageError as error:
        raise UsageError(str(error).replace("--data_file", "--log")) from error


def _roles(names: Sequence[str], path: str, wanted: Wanted) -> list[str]:
    """Returns the columns of the context."""
    features = listed(wanted.feature_columns)
    position = [wanted.position_column] if wanted.position_column else []
    uses = table_roles.assign(
        names,
        path,
        {
            "--client_column": listed(wanted.client_column),
            "--action_column": [wanted.action_column],
            "--reward_column": [wanted.reward_column],
            "--propensity_column": [wanted.propensity_column],
            "--round_column": [wanted.round_column] if wanted.round_column else [],
            "--period_column": [wanted.period_column] if wanted.period_column else [],
            "--position_column": position,
            _POLICY: listed(wanted.probability_columns),
            "--feature_columns": [name for name in features if name not in position],
            "--ignore_columns": listed(wanted.ignore_columns),
        },
    )
    left = position + (features or [name for name in names if name not in uses])
    context = [name for name in names if name in left]
    table_roles.check_categories(listed(wanted.category_columns), context, names, path)
    return context


def _with_names(frame: "pd.DataFrame", wanted: Wanted, path: str) -> "tuple[pd.DataFrame, dict[str, int]]":
    """Returns the rows with a client and an action, both as categories of text, and how many lack which."""
    dropped = {}
    for what, names in (("client", listed(wanted.client_column)), ("action", [wanted.action_column])):
        frame = frame.assign(**{name: _named(frame[name]) for name in names})
        lacks = frame[names].isna().any(axis=1)
        dropped[f"without_{what}"] = int(lacks.sum())
        if lacks.any():
            frame = frame[~lacks]
    if frame.empty:
        raise UsageError(f"No row of {path} has what --client_column and --action_column name.")
    return frame, dropped


def _named(column: "pd.Series") -> "pd.Series":
    """Returns a column of names as categories: what `columns.names` makes of each distinct value."""
    import pandas as pd

    codes, distinct = pd.factorize(column)
    written = columns.names(pd.Series(distinct, name=column.name))
    names = columns.ordered(written)
    coded = np.append(columns.codes(written, names), -1).astype(np.int32)  # The last is that of a gap.
    return pd.Series(pd.Categorical.from_codes(coded[codes], names), index=column.index, name=column.name)


def _owners(frame: "pd.DataFrame", wanted: Wanted) -> tuple[np.ndarray, list[str]]:
    """Returns int [rows], whose each is, and the clients' names."""
    names = listed(wanted.client_column)
    code, found = frame[names[0]].cat.codes.to_numpy(np.int64), list(frame[names[0]].cat.categories)
    for name in names[1:]:
        others = list(frame[name].cat.categories)
        pairs, code = np.unique(code * len(others) + frame[name].cat.codes.to_numpy(np.int64), return_inverse=True)
        found = [f"{found[pair // len(others)]}{_JOINT}{others[pair % len(others)]}" for pair in pairs]
    seen = np.unique(code)
    if len(seen) < 2:
        raise UsageError(
            f"--client_column={wanted.client_column} has one value only, {found[seen[0]]!r}: intervals are over "
            "clients; name a column that tells them apart, or several."
        )
    return code, found


def _actions(column: "pd.Series", wanted: Wanted) -> tuple[np.ndarray, list[str]]:
    """Returns int [rows], what was played, and the names of all actions, of the log's and those that a flag adds."""
    import pandas as pd

    played = [column.cat.categories[code] for code in np.unique(column.cat.codes)]
    every = columns.ordered(pd.Series([*played, *listed(wanted.action_names)], dtype=object))
    if len(every) < 2:
        raise UsageError(
            f"--action_column={wanted.action_column} has one value only, {every[0]!r}: a bandit needs two actions; "
            "--action_names=A,B names those that were never played."
        )
    if len(every) > statistics.MAX_CATEGORIES:
        raise UsageError(
            f"--action_column={wanted.action_column} has {len(every)} distinct values, more than "
            f"{statistics.MAX_CATEGORIES}: name a column of actions."
        )
    place = {name: position for position, name in enumerate(every)}
    own = np.array([place.get(name, -1) for name in column.cat.categories], np.int32)
    return own[column.cat.codes], every


def _contexts(
    frame: "pd.DataFrame", wanted: Wanted, table: table_file.Table, known: statistics.OfTable | None
) -> tuple[np.ndarray | None, tuple[str, ...], dict[str, Any]]:
    """Returns float32 [rows, features], their names, and what became of the columns."""
    named = [*listed(wanted.feature_columns), *wanted.categories]
    refused = table.refused_of(list(frame.columns))
    refused |= columns.row_numbers(frame[[name for name in frame.columns if name not in named]])
    if known:
        csv_file.check_accepted(refused)
        learned = {name: known.columns.get(name) for name in frame.columns}
    else:
        everyone = np.ones(len(frame), bool)
        learned = dict(
            columns.learn(frame, everyone, categories=wanted.categories, named=named, told=table.cells, refused=refused)
        )
    encoded = columns.encode(frame, learned, told=table.cells)
    report = {
        "imputed": encoded.imputed,
        "missing_as_category": encoded.missing_as_category,
        "columns_left_out": [*table.nameless, *encoded.left_out],
        "warnings": table_report.warnings(learned, named),
    }
    return (encoded.values if encoded.names else None), tuple(encoded.names), report


def _probabilities(
    frame: "pd.DataFrame", wanted: Wanted, table: table_file.Table, num_actions: int
) -> np.ndarray | None:
    """Returns float64 [rows] or [rows, actions], what a target policy would play."""
    names = listed(wanted.probability_columns)
    if not names:
        return None
    if len(names) not in (1, num_actions):
        raise UsageError(
            f"{_POLICY} names {len(names)} columns: give one, or one of each of the {num_actions} actions."
        )
    found = np.stack([table_numbers.finite(frame[name], _POLICY, "probability", table) for name in names], axis=1)
    log_checks.check_probabilities(found, frame.index, names, table)
    return found[:, 0] if len(names) == 1 else found


def _whole(numbers: np.ndarray | None, flag: str, name: str | None) -> np.ndarray | None:
    if numbers is not None and ((numbers % 1 != 0) | (numbers < 0) | (numbers > np.iinfo(np.int32).max)).any():
        raise UsageError(f"{flag}={name} must hold whole numbers from 0.")
    return numbers


def _is_hashable(frame: "pd.DataFrame") -> bool:
    return not any(frame[name].map(type).isin([list, dict, np.ndarray]).any() for name in frame.select_dtypes("object"))
