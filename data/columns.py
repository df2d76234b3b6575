"""Detects the types of columns (`parse`) and encodes columns as features (`encode`).

A column is numeric if at least 90% of its cells are numbers, and a column of dates if at least 90% are dates; the other
cells then cause an error. Numbers are standardized, dates become days, hours and weekdays, and everything else is
one-hot encoded. All statistics (means, deviations, categories, missing values) are learned from training rows or read
from a file. They are applied in NumPy and pandas, since scikit-learn's scaler overflows on large numbers and has no
statistics of dates.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from data import memory, statistics, table_file
from data.errors import UsageError, counted, first
from data.schema import as_flag
from data.table_file import MOSTLY, as_text

MISSING_CATEGORY = "<missing>"
# A column of 200 equally frequent categories has 48 distinct ones in 50 rows in only 1 of 20 tables.
_FEW_ROWS, _NEARLY_ALL = 50, 0.95
MANY = 50  # A column with more distinct texts, most of which are numbers or dates, must not have other texts.
_FEWEST_MEASURED = 20  # A single word among at least this many distinct numbers is not a category.
MAX_FEATURES = 100_000
_COPIES = 3  # Copies of the encoded features: the table, and its two parts while the rows are split.
_NAMED, _LONGEST_WORD = 10, 80  # Number of names in a message, and characters of each.
# Numbers that may contain commas and have signs around them, such as 1,5 and $1,200.
_SIGN = "[$€£¥₹₩₽₺₪฿₫₱₦%]?"
_DIGITS = r"(?:\d+\.?\d*|\.\d+|[\d.]*,\d+|\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?:[eE][+-]?\d{1,4})?"
_LOOSE = rf"[+-]?{_SIGN}\s*[+-]?{_DIGITS}\s*{_SIGN}"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_COMPACT = r"^((?:19|20)\d\d)(0[1-9]|1[012])([012]\d|3[01])T?([01]\d|2[0-3])([0-5]\d)([0-5]\d)"  # 20230131T235959
_CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]\.?m\.?)?"
_TIME = rf"(?P<day>.+?)(?:[T, ] *(?P<time>{_CLOCK}) ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?(?:\d\d)?)?)?$"
_DECORATION = r"(?i)^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}[., ]+|(?<=\d)(?:st|nd|rd|th)\b"
_VERSION = r"(?=.{0,7}$)\d+\.\d+\.\d+"  # 1.2.10
_FORMATS = {
    "the day first": ("%d-%m-%Y", "%d-%m-%y", "%d-%b-%Y", "%d-%B-%Y", "%d-%b-%y"),
    "the month first": ("%m-%d-%Y", "%m-%d-%y", "%b-%d-%Y", "%B-%d-%Y"),
    "the year first": ("%Y-%m-%d", "%y-%m-%d"),
}
_DROPPED = {"kind": "dropped", "why": "no value in training rows"}
Show: TypeAlias = Callable[[pd.Series], str]  # Returns the content and place of cells, for messages.
Learned: TypeAlias = Mapping[str, statistics.OfColumn | None]
_by_row: Show = table_file.Table("", pd.DataFrame()).cells


class Moments(NamedTuple):
    """Dates of a column, [rows] each.

    Attributes:
      days: float64, days since the start of 1970: in UTC if there is a time zone, else as written; NaN where a date is
        missing.
      hours: float64 in [0, 24), as written; NaN where a date is missing.
      weekdays: int64, indices into `WEEKDAYS`, as written; -1 where a date is missing.
    """

    days: np.ndarray
    hours: np.ndarray
    weekdays: np.ndarray


Parsed: TypeAlias = np.ndarray | Moments | pd.Series  # Numbers, dates, or text.


class Encoded(NamedTuple):
    """Columns as features.

    Attributes:
      values: float32 [rows, features].
      names: Names of the features, such as `age`, `age is missing` and `color=red`.
      learned: Statistics of each column; None for a column without values in training rows, which has no feature.
      kinds: Description of each column: its `kind`, such as `number`; details of it; and the number of `imputed`
        numbers or dates, or of `missing` and `unknown` categories.
    """

    values: np.ndarray
    names: list[str]
    learned: Learned
    kinds: dict[str, dict[str, Any]]


def encode(
    frame: pd.DataFrame,
    is_train: np.ndarray | None = None,
    known: Learned | None = None,
    *,
    categories: Collection[str] = (),
    named: Collection[str] = (),
    show: Show = _by_row,
) -> Encoded:
    """Encodes the columns as features.

    A missing or infinite number is replaced by the mean. If the statistics of a column include missing values, the
    column gets a second feature, which is 1 where a number is missing. A date becomes the number of days since 1970,
    which is treated like a number; the sine and cosine of the hour, if there are times; and the weekday as one of seven
    categories. The hour and weekday are as written; days are in UTC if there are time zones. A missing category is a
    category of its own if training rows have one. Otherwise its features are all 0, like those of an unknown category,
    and the hour and weekday of a missing date.

    Args:
      frame: The columns.
      is_train: bool [rows], the rows from which statistics are learned; None for all rows.
      known: Statistics from a file; None to learn them.
      categories: Columns to treat as categories.
      named: Columns that the user names explicitly; identifiers among them are treated as categories.
      show: Returns the content and place of cells, for messages.

    Raises:
      UsageError: If there are too many features; if some cells of a numeric or date column have a different type, or
        do not match the known statistics; or if a column holds text that is distinct in nearly all rows, or has more
        than 1000 categories. The message names all such columns and says how to fix each.
    """
    is_train = np.ones(len(frame), bool) if is_train is None else is_train
    parsed: dict[str, Any] = {}
    learned: dict[str, statistics.OfColumn | None] = {}
    refused: list[str] = []
    for name in frame.columns:
        try:
            if known is not None:
                learned[name] = known.get(name)
                parsed[name] = _parsed_like(learned[name], frame[name], show)
            else:
                parsed[name] = as_text(frame[name]) if name in categories else parse(frame[name], show)
                learned[name] = _learned(parsed[name], is_train, is_wanted=name in named or name in categories)
        except UsageError as error:
            refused.append(str(error))
    if refused:
        raise UsageError("\n".join(refused))
    _check_size(len(frame), learned)
    parts = {name: _features(name, column, parsed[name]) for name, column in learned.items() if column}
    blocks = [np.zeros((len(frame), 0)), *(block for block, _, _ in parts.values())]
    names = [name for _, names_of_column, _ in parts.values() for name in names_of_column]
    kinds = {name: parts[name][2] if name in parts else _DROPPED for name in learned}
    return Encoded(np.concatenate(blocks, axis=1).astype(np.float32), names, learned, kinds)


def _features(name: str, column: statistics.OfColumn, cells: Any) -> tuple[np.ndarray, list[str], dict[str, Any]]:
    """Features of a column, [rows, features], their names, and the column's description."""
    if isinstance(column, statistics.Categories):
        is_missing, names = cells.isna(), list(column.categories)
        places = codes(cells.fillna(MISSING_CATEGORY), names)
        counts = {"missing": int(is_missing.sum()), "unknown": int((places[~is_missing] < 0).sum())}
        kind = {"kind": "category", "categories": len(names) - (MISSING_CATEGORY in names)} | counts
        return np.eye(len(names) + 1)[places, :-1], [f"{name}={each}" for each in names], kind
    numbers = cells.days if isinstance(cells, Moments) else cells
    kind = {"kind": "number", "imputed": int(np.isnan(numbers).sum())}
    values = (column.days if isinstance(column, statistics.Dates) else column).standardized(numbers)
    names = [name, f"{name} is missing"][: values.shape[1]]
    if isinstance(column, statistics.Dates):
        kind |= {"kind": "date", "hours": column.has_times}
        angles, is_there = np.nan_to_num(cells.hours) / 24 * 2 * np.pi, ~np.isnan(numbers)
        circle = [np.sin(angles) * is_there, np.cos(angles) * is_there] * column.has_times
        week = [cells.weekdays == day for day in range(len(WEEKDAYS))]
        values = np.column_stack([values, *circle, *week])
        names += [f"{name} hour sine", f"{name} hour cosine"] * column.has_times + [f"{name}={day}" for day in WEEKDAYS]
    return values, names, kind


def _check_size(rows: int, learned: Learned) -> None:
    """Checks that a model and the memory can hold all features, which are stored densely."""
    widths = {name: len(getattr(column, "categories", "1")) for name, column in learned.items() if column}
    width, widest = sum(widths.values()), sorted(widths, key=lambda name: -widths[name])
    shown = first([f"{name!r} ({counted(widths[name], 'feature')})" for name in widest], _NAMED)
    remedy = f"merge categories, or leave out columns with --ignore_columns, such as {shown}"
    if width > MAX_FEATURES:
        raise UsageError(f"The columns give {width:,} features, more than {MAX_FEATURES:,}: {remedy}.")
    what = f"The table with {counted(width, 'feature')} in each of {counted(rows, 'row')}"
    memory.check_memory(_COPIES * 4 * rows * width, what, f"take a sample of the clients, or {remedy}")


def named(column: pd.Series) -> pd.Series:
    """Converts a column of names, such as clients or actions, to categories in the order of `ordered`.

    Only empty cells count as missing, since `NA` may be Namibia.

    Raises:
      UsageError: If the names are numbers so large that rounding may have merged some; or if cells hold several values.
    """
    table_file.refuse_lists(column)
    codes_of_row, distinct = pd.factorize(column)
    exact_up_to = 2**24 if column.dtype == np.float32 else 2**53
    floats = [number for number in distinct if isinstance(number, float | np.floating) and number % 1 == 0]
    if rounded := [number for number in floats if abs(float(number)) >= exact_up_to]:
        raise UsageError(
            f"Column {column.name!r} holds floating-point numbers such as {rounded[0]:.0f}, which are rounded beyond "
            f'{exact_up_to:,}: read it as text (dtype=str), or as whole numbers (dtype_backend="numpy_nullable").'
        )
    written = as_text(pd.Series(distinct, name=column.name), missing=("",))
    names = ordered(written)
    coded = np.append(codes(written, names), -1)[codes_of_row]  # The last code is for a missing cell.
    return pd.Series(pd.Categorical.from_codes(coded, names), index=column.index, name=column.name)


def ordered(written: pd.Series) -> list[str]:
    """Distinct texts, in numeric order if all of them are numbers, and otherwise in alphabetical order."""
    distinct = written.dropna().drop_duplicates()
    numbers = table_file.numbers(distinct)
    return [name for _, name in sorted(zip(np.where(np.isnan(numbers).any(), 0, numbers), distinct, strict=True))]


def codes(written: pd.Series, categories: Sequence[str]) -> np.ndarray:
    """Indices into the categories, int32; -1 for any other text."""
    return pd.Categorical(written, categories=list(categories)).codes.astype(np.int32)


def parse(column: pd.Series, show: Show = _by_row) -> Parsed:
    """Reads a column as numbers, dates or categories.

    The dtype of the column decides (Boolean, category, time, number). For text, the first rule that matches applies:

    1. If all cells are whole numbers and some begin with a zero, such as 007, they are categories.
    2. If at least 90% of the cells are numbers, the column is numeric; `?` and `None` are missing values.
    3. If at least 90% of the cells are dates, it is a column of dates.
    4. Everything else is a category.

    More than half of the cells are enough if the column has more than 50 distinct texts; if it has a single word among
    at least 20 distinct numbers; or if dates have the form 20230131T235959. Cells of another type than their column are
    refused, and so are numbers with commas, or with signs such as $.

    Args:
      column: Cells of the column.
      show: Returns the content and place of cells, for messages.

    Returns:
      Numbers as float64 [rows], NaN where one is missing or infinite; or dates; or text.

    Raises:
      UsageError: If some cells of a numeric or date column have a different type, or if numbers are ambiguous.
    """
    types, is_category = pd.api.types, isinstance(column.dtype, pd.CategoricalDtype)
    if types.is_datetime64_any_dtype(column.dtype):
        return of_datetimes(column)
    if types.is_timedelta64_dtype(column.dtype):
        column = column.dt.total_seconds() / 86400
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        typed = column.to_numpy(np.float64, na_value=np.nan)
        if not ((typed > 19e12) & (typed < 21e12)).any():  # Some may be times such as 20230131235959.
            return np.where(np.isfinite(typed), typed, np.nan)
    written = as_text(column)
    present = written[~written.isin(table_file.MISSING_AMONG_NUMBERS)].dropna()
    if is_category or present.empty or (present.str.match(r"0\d").any() and present.str.isdecimal().all()):
        return written
    num_distinct = present.nunique()

    def is_kind(others: pd.Series) -> bool:
        share, is_gap = 1 - len(others) / len(present), others.nunique() == 1 and num_distinct > _FEWEST_MEASURED
        return share >= MOSTLY or (share > 0.5 and (num_distinct > MANY or is_gap))

    is_compact = present.str.fullmatch(_COMPACT)
    is_compact &= is_compact.mean() > 0.5  # If only a few cells match, they may be numbers.
    numbers = pd.Series(table_file.numbers(present.mask(is_compact)), present.index)
    others, what = present[numbers.isna()], "numbers"
    is_loose = others.str.fullmatch(_LOOSE) & ~is_compact[others.index]
    if is_loose.any() and is_kind(others[~is_loose]):
        has_commas = others.str.contains(",", regex=False).any()
        remedy = ", give --decimal=, (a comma) if commas are decimal points" if has_commas else ""
        problem = f"numbers that contain commas or signs, and may have several meanings: {show(others[is_loose])}"
        raise _refusal(column, problem, f"Save them as plain numbers with decimal points{remedy}")
    values: Parsed = numbers.where(np.isfinite).reindex(column.index).to_numpy()
    if not is_kind(others):
        dates = of_texts(present.reindex(column.index), 0.5 if num_distinct > MANY or is_compact.any() else MOSTLY)
        if dates is None:
            return written
        what, (values, others) = "dates of one form", dates
    if len(others):
        words = [word for word in others.unique() if len(word) <= _LONGEST_WORD][:_NAMED]
        remedy = f"Give --missing_values={as_flag(words, quoted=True)} if such cells are missing"
        problem = f"{what} in all but {len(others)} of {len(present)} cells: {show(others)}"
        raise _refusal(column, problem, remedy if words else "Correct these cells")
    return values


def _refusal(column: pd.Series, problem: str, remedy: str) -> UsageError:
    """Error about a column that suggests a remedy, reading it as categories, or leaving it out."""
    name = as_flag([column.name])
    return UsageError(
        f"Column {column.name!r} has {problem}. {remedy}, give --category_columns={name} if all cells are "
        f"categories, or leave out the column with --ignore_columns={name}."
    )


def of_datetimes(column: pd.Series, utc: pd.Series | None = None) -> Moments:
    """Converts a column of type datetime64, with or without a time zone.

    Args:
      column: The times, as written.
      utc: The same times in UTC, if `column` has no time zone but the times in UTC are known.
    """
    if column.dt.tz is not None:
        column, utc = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    times = [each.to_numpy("datetime64[us]") for each in (column, column if utc is None else utc)]
    local, days = ((each - np.datetime64(0, "us")) / np.timedelta64(1, "D") for each in times)
    weekdays = np.where(np.isnan(local), -1, (np.floor(np.nan_to_num(local)) + 3) % 7)  # 1970 began on a Thursday.
    return Moments(days, local % 1 * 24, weekdays.astype(np.int64))


def of_texts(written: pd.Series, share: float) -> tuple[Moments, pd.Series] | None:
    """Returns the dates of a column and the cells that are not dates; None if too few of the cells are dates.

    Dates from 1678 to 2261 may be written with the year first (2023-01-31, 2023/1/31), with the name of the month (31
    Jan 2023, Jan 31, 2023) or in numbers (31/01/2023, 1/31/2023, 31.01.23). The time and the time zone are optional,
    also in the form 20230131T235959. A column is read in the format that fits all of its dates, or else the most.
    It is refused if several orders of day, month and year are possible.

    Args:
      written: Text, NaN where a date is missing.
      share: Minimum fraction of the cells that must be dates, in some format.

    Raises:
      UsageError: If the order of day, month and year is ambiguous, or if only some times have a time zone.
    """
    codes_of_row, distinct = pd.factorize(written)
    texts = pd.Series(distinct, dtype=object, name=written.name)
    plain = texts.str.replace(_COMPACT, r"\1-\2-\3 \4:\5:\6", regex=True)
    parts = plain.str.extract(_TIME, re.IGNORECASE).astype(object)
    clock = _since_1970(" " + parts["time"].fillna("00:00").str.replace(",", "."))
    bare = parts["day"].where(clock.notna()).str.replace(_DECORATION, "", regex=True)
    dashed = bare.mask(bare.str.fullmatch(_VERSION, na=False)).str.replace(r"[-/., ]+", "-", regex=True)
    forms = [(order, form) for order in _FORMATS for form in _FORMATS[order]]
    days = pd.DataFrame({each: pd.to_datetime(dashed, format=each[1], errors="coerce") for each in forms})
    # A year of two digits comes first only with dashes, as in 23-01-31.
    days[forms[-1]] = days[forms[-1]].where(bare.str.match(r"\d\d-", na=False))
    is_date, counts = days.notna().any(axis=1), np.bincount(codes_of_row[codes_of_row >= 0])
    if not is_date.any() or counts[is_date].sum() < share * counts.sum():
        return None
    local = days[_form(texts[is_date], days[is_date])] + clock
    has_zone = parts["zone"].notna()[local.notna()]
    if has_zone.nunique() > 1:
        with_zone, without = texts[has_zone.idxmax()], texts[has_zone.idxmin()]
        problem = f"times with a time zone, such as {with_zone!r}, and without, such as {without!r}"
        raise _refusal(written, problem, "Write all of them in the same way")
    by_text = of_datetimes(local, local + _since_1970(" 00:00" + parts["zone"].fillna("Z").str.upper()))
    parts_of_rows = (
        np.append(part, gap)[codes_of_row] for part, gap in zip(by_text, (np.nan, np.nan, -1), strict=True)
    )
    moments = Moments(*parts_of_rows)
    return moments, written[np.isnan(moments.days) & written.notna()]


def _since_1970(times: pd.Series) -> pd.Series:
    """Durations from the start of 1970 to times on that day, which may have a time zone; NaT for other texts."""
    read = pd.to_datetime("1970-01-01" + times, format="mixed", errors="coerce", utc=True)
    return read.dt.tz_localize(None) - pd.Timestamp(0)


def _form(texts: pd.Series, days: pd.DataFrame) -> tuple[str, str]:
    """Order and format in which all texts are dates; if there is none, those in which the most are."""
    possible = days.loc[:, days.notna().all()]
    if possible.empty:
        return days.notna().sum().idxmax()
    is_unclear = possible.ne(possible.iloc[:, 0], axis=0).any(axis=1)
    if is_unclear.any():
        place, orders = is_unclear.idxmax(), " and ".join(possible.columns.unique(0))
        problem = f"dates such as {texts[place]!r} that can be read with {orders}"
        raise _refusal(texts, problem, f"Write them as {possible.loc[place].iloc[0]:%Y-%m-%d}")
    return possible.columns[0]


def _parsed_like(known: statistics.OfColumn | None, column: pd.Series, show: Show) -> Parsed:
    """Parses the cells of a column as the type that its known statistics have."""
    written = as_text(column)
    if known is None or isinstance(known, statistics.Categories):
        return written
    is_number = isinstance(known, statistics.Numbers)
    missing = pd.Series(np.nan if is_number else pd.NaT, column.index)
    parsed = parse(missing if written.isna().all() else column, show)
    if not isinstance(parsed, np.ndarray if is_number else Moments):
        what, cells = "numbers" if is_number else "dates", show(written.dropna())
        raise UsageError(f"Column {column.name!r} has {what} in the run or --public_statistics, but holds {cells}.")
    return parsed


def _learned(parsed: Parsed, is_train: np.ndarray, *, is_wanted: bool) -> statistics.OfColumn | None:
    """Statistics of a column over the training rows; None if it has no values there."""
    if isinstance(parsed, np.ndarray):
        return statistics.Numbers.learned(parsed[is_train])
    if isinstance(parsed, Moments):
        days, has_times = statistics.Numbers.learned(parsed.days[is_train]), bool((parsed.hours[is_train] > 0).any())
        return days and statistics.Dates(days.mean, days.deviation, days.has_missing, has_times)
    distinct, present, seen = parsed.nunique(), parsed.notna().sum(), parsed[is_train]
    what, flag = f"Column {parsed.name!r} contains text with {distinct} distinct values", as_flag([parsed.name])
    remedy = f"leave it out with --ignore_columns={flag}"
    if distinct > statistics.MAX_CATEGORIES:
        raise UsageError(f"{what}, more than {statistics.MAX_CATEGORIES}: {remedy}.")
    if not is_wanted and present >= _FEW_ROWS and distinct >= _NEARLY_ALL * present:
        remedy += f", or keep it as categories with --category_columns={flag}"
        raise UsageError(f"{what} in {present} rows, so it is an identifier, not a feature: {remedy}.")
    categories = (*ordered(seen), *[MISSING_CATEGORY] * bool(seen.isna().any()))
    return None if seen.isna().all() else statistics.Categories(categories)
