"""Time in tables and logs: selection and order of rows, late and missing rewards, and a split at a point in time.

Two rules depend on all rows: a log ends at its latest time unless `--log_until` is given, and the time that separates
training from evaluation is a quantile of all times. All other rules look at single rows.
"""

import contextlib
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from data import columns, partition, table_file
from data.errors import UsageError, counted
from data.schema import UNOBSERVED, Schema

if TYPE_CHECKING:
    from data.interaction_log import InteractionLog

ASSUMPTION = f"Rows without a reward are {UNOBSERVED['drop']}."
_LATEST = "the latest time in the log, which decides which rows have a complete --reward_window"
_CUT = "the time that separates training from evaluation"
_COLUMNS, _POINTS = ("time_column", "reward_time_column"), ("from_time", "until_time", "log_until")
_ISO = re.compile(r"\d{4}-\d{2}")
_ZONE = re.compile(r"[:T]\d.*(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)$", re.IGNORECASE)


class Times(NamedTuple):
    """The times of rows.

    Attributes:
      values: float64 [rows]: microseconds since 1970 if they are dates, else the column's numbers.
      zone: `Z` for dates with time zones, converted to UTC; empty for dates without time zones; None for numbers.
      window: The reward window, in the same unit; 0 for none.
    """

    values: np.ndarray
    zone: str | None
    window: float = 0.0

    def shown(self, value: float) -> str:
        """A time as text, in the form that `--from` and `--until` accept."""
        if self.zone is None:
            return f"{value:.15g}"
        text = str(np.datetime64(round(value), "us")).removesuffix(".000000")
        return f"{text}Z" if self.zone else text.removesuffix("T00:00:00")

    def cut(self, share: float) -> float:
        """Earliest time among the latest rows, where `share` is the fraction of all rows that count as latest."""
        return float(np.sort(self.values)[-max(1, round(share * len(self.values)))])


def of_log(log: "InteractionLog") -> Times | None:
    """Times of a log, in the order of its rows; None if it has none."""
    zone, window = log.report.get("time_zone"), log.report.get("reward_window", 0.0)
    return None if log.times is None else Times(log.times, zone, window)


def select(
    frame: pd.DataFrame, table: table_file.Table, schema: Schema
) -> tuple[pd.DataFrame, Times | None, list[str]]:
    """Selects the rows from `--from` to before `--until`, sorts them by time, and decides which rewards count.

    Args:
      frame: Rows of a table, with its index.
      table: The table.
      schema: The roles of its columns.

    Returns:
      The rows, sorted by time, in which rewards that do not count are 0; their times, None without a time column; and
      sentences on the order of the rows, on rows that were left out, and on rewards that count as 0.

    Raises:
      UsageError: If a time cannot be read, if flags do not fit the times, if a reward precedes its action or, unless
        `unobserved_rewards` allows it, is missing, or if no row is left.
    """
    is_kept, is_late = np.ones(len(frame), bool), np.zeros(len(frame), bool)
    times, notes = Times(np.zeros(len(frame)), None), []
    read: dict[str, np.ndarray] = {}
    if schema.time_column:
        read, zone = _read(frame, table, schema)
        times = Times(read["time_column"], zone, _window(schema.reward_window, zone))
        start, end = read.get("from_time", [-math.inf])[0], read.get("until_time", [math.inf])[0]
        if start >= end:
            raise UsageError(f"--from={schema.from_time} must be before --until={schema.until_time}.")
        is_kept = (times.values >= start) & (times.values < end)
        outside = f"; left out: {counted(int(np.sum(~is_kept)), 'row')} outside of --from and --until" * (
            not is_kept.all()
        )
        span = f"{times.shown(times.values.min())} to {times.shown(times.values.max())}"
        notes.append(f"Rows are in the order of column {schema.time_column!r}, {span}{outside}.")
    if schema.is_log:
        reward = frame[schema.reward_column]
        is_missing = table_file.as_text(reward).isna().to_numpy()
        if schema.time_column and schema.reward_time_column:
            delay, is_paid = read["reward_time_column"] - times.values, ~is_missing
            is_paid[is_paid] = table.numbers(reward[is_paid], "--reward_column", "reward") != 0
            if (is_wrong := (delay < 0) | (np.isnan(delay) & is_paid)).any():
                where = f"{table.cells(frame[schema.reward_time_column][is_wrong])} of {table.path}"
                raise UsageError(f"--reward_time_column: {where} must be a time not before the row's --time_column.")
            is_late = ~(delay <= times.window) & (is_paid | is_missing) & (schema.reward_window is not None)
        if schema.time_column and schema.reward_window:
            latest = np.nanmax(np.append(times.values, read.get("reward_time_column", ())))
            end = float(read.get("log_until", [latest])[0])
            is_recent = is_kept & (times.values + times.window > end)
            is_kept = is_kept & ~is_recent
            recent = f"{counted(is_recent.sum(), 'row')} after {times.shown(end - times.window)}"
            notes.append(
                f"Left out: {recent}, because the log ends at {times.shown(end)} (--log_until), before their reward "
                "window does."
            )
            late = int(np.sum(is_kept & is_late))
            window = f"without a reward within {schema.reward_window}"
            notes += [f"Counted as 0: {counted(late, 'row')} {window}."] * (late > 0)
        is_unobserved = is_kept & is_missing & ~is_late
        many = f"{counted(is_unobserved.sum(), 'row')} without a reward"
        if is_unobserved.any() and schema.unobserved_rewards == "refuse":
            raise UsageError(
                f"--reward_column={reward.name} has {many}, first {table.place(frame.index[is_unobserved][0])} of "
                f"{table.path}. If rewards were not observed: with --unobserved_rewards=drop such rows are "
                f"{UNOBSERVED['drop']}; with --unobserved_rewards=zero they are {UNOBSERVED['zero']}."
            )
        notes += [f"{many}: {UNOBSERVED[schema.unobserved_rewards]}."] * (schema.unobserved_rewards != "refuse")
        is_kept = is_kept & ~(is_unobserved & (schema.unobserved_rewards == "drop"))
        if (is_zero := is_kept & (is_unobserved | is_late)).any():
            frame = frame.assign(**{schema.reward_column: reward.astype(object).mask(is_zero, 0)})
    if not is_kept.any():
        raise UsageError(
            f"No row of {table.path} is left after --from, --until, --reward_window and --unobserved_rewards. "
            f"{' '.join(notes)}"
        )
    order = np.argsort(times.values, kind="stable")
    order = order[is_kept[order]]
    times = times._replace(values=times.values[order])
    return frame.iloc[order], times if schema.time_column else None, notes


def _read(frame: pd.DataFrame, table: table_file.Table, schema: Schema) -> tuple[dict[str, np.ndarray], str | None]:
    """Returns the times in columns, [rows], and in flags, [1], by the setting that names them; and `Times.zone`.

    The times in flags are numbers or ISO dates, in UTC if the columns have time zones.
    """
    cells = {name: frame[getattr(schema, name)] for name in _COLUMNS if getattr(schema, name)}
    parts = [table_file.as_text(column) for column in cells.values()]
    written = pd.concat(parts).rename(schema.time_column)
    try:
        moments = columns.of_texts(written, 0.5)
    except UsageError as error:
        raise UsageError(f"--time_column: {str(error).partition(', give')[0]}.") from error
    values = np.rint(moments[0].days * 86400e6) if moments else table_file.numbers(written)
    read = dict(zip(cells, np.split(values, len(cells)), strict=True))
    for (name, column), part in zip(cells.items(), parts, strict=True):
        if (is_wrong := ~np.isfinite(read[name]) & (part.notna() | (name == "time_column"))).any():
            where = f"{table.cells(column[is_wrong])} of {table.path}"
            needed = "all times must be numbers, or all dates such as 2023-01-31 12:00"
            raise UsageError(f"--{name}: {where} cannot be read as a time: {needed}.")
    zone = "Z" * bool(_ZONE.search(written.iloc[0])) if moments else None
    flags = {name: getattr(schema, name) for name in _POINTS if getattr(schema, name)}
    return read | {name: np.array([_point(name, text, zone)]) for name, text in flags.items()}, zone


def _point(name: str, text: str, zone: str | None) -> float:
    """A flag's number, or the microseconds since 1970 of its ISO date."""
    with contextlib.suppress(ValueError):
        point = table_file.numbers(pd.Series([text]))[0] if zone is None else pd.Timestamp(text)
        if zone is None and np.isfinite(point):
            return float(point)
        if zone is not None and _ISO.match(text) and (zone or not point.tzinfo):
            return float(np.rint(point.timestamp() * 1e6))
    wanted = "a number" if zone is None else f"a date such as 2023-01-31T12:00{zone or ' without a time zone'}"
    raise UsageError(f"--{name.removesuffix('_time')}={text} must be {wanted}, like the times of --time_column.")


def _window(text: str | None, zone: str | None) -> float:
    """Length of the reward window in the unit of the times; 0 without a window."""
    value = 0.0 if text is None else math.nan
    with contextlib.suppress(ValueError):
        number = table_file.numbers(pd.Series([text]))[0]
        if text and np.isfinite(number) == (zone is None):
            value = number if zone is None else pd.Timedelta(text) / pd.Timedelta("1us")
    if not 0 <= value < math.inf:
        wanted = "a number, like the times" if zone is None else "a duration with its unit, such as 7d"
        raise UsageError(f"--reward_window={text} must be {wanted}.")
    return value


def check_has_columns(options: Any, path: str) -> None:
    """Refuses settings that only apply to tables, for a log in this project's format.

    Raises:
      UsageError: If such a setting is not at its default.
    """
    for name, default in (("time_column", None), ("unobserved_rewards", "refuse"), ("hold_out", "clients")):
        if getattr(options, name, default) != default:
            raise UsageError(
                f"--{name} is only for tables, but {path} is a log in this program's format: leave out the flag."
            )


def learned(options: Any) -> tuple[str, ...]:
    """Descriptions of the values that a task with these options computes from the times of all clients."""
    is_latest = bool(options.reward_window and options.is_log and not options.log_until)
    return (*[_LATEST] * is_latest, *[_CUT] * (options.hold_out == "time"))


def hold_out(part: str, times: Times | None, clients: np.ndarray, num_clients: int) -> partition.Split:
    """Splits rows into training and held-out ones.

    Args:
      part: What to hold out, a key of `schema.HOLD_OUT`. With `time`, rows within the reward window before the
        held-out rows are in neither part.
      times: Times of the rows; needed only for `time`.
      clients: int [rows], client of each row.
      num_clients: Number of clients.

    Raises:
      UsageError: If clients with one row each are too few to hold some out; or, with `time`, if there are no times, or
        if fewer than two clients have training rows.
    """
    if part == "clients":
        return partition.hold_out(clients, num_clients, seed=0)
    if times is None:
        raise UsageError("--hold_out=time needs --time_column: the column of each row's time.")
    cut = times.cut(0.2)
    is_held_out = times.values >= cut
    is_train = ~is_held_out & (times.values + times.window <= cut)
    train, held_out = (np.unique(clients[rows]).tolist() for rows in (is_train, is_held_out))
    if len(train) < 2:
        few = f"{counted(len(train), 'client')} with rows to train on before {times.shown(cut)}"
        raise UsageError(f"--hold_out=time: {few}, but training needs two.")
    gap, seen = int(np.sum(~is_train & ~is_held_out)), len(set(train) & set(held_out))
    how = f"the rows from {times.shown(cut)} on, the latest fifth, of {counted(len(held_out), 'client')}, {seen:,} of "
    how += "them seen in training" + f"; left out: {counted(gap, 'row')} whose --reward_window ends later" * bool(gap)
    return partition.Split(is_held_out, is_train, train, held_out, how)
