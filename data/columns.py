"""Detects the types of columns (`parse`) and encodes columns as features (`encode`).

A column is numeric, or a column of dates, if at least 90% of its cells are; the remaining cells then cause an error.
Numbers are standardized, dates become days, hours and weekdays, and everything else is one-hot encoded. All statistics
(means, deviations, categories, missing values) are learned from training rows or read from a file. They are applied in
NumPy and pandas, because scikit-learn's encoders use different statistics and take seconds to import.
"""

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from data import frames, memory, statistics, table_file
from data.errors import UsageError
from data.schema import COMMA, as_flag
from data.table_file import MOSTLY, as_text

MISSING_CATEGORY = "<missing>"
# If a true category has 200 equally frequent names, 50 rows have 48 distinct names in only one of 20 tables.
_FEW_ROWS = 50
_NEARLY_ALL = 0.95
_LONGEST_WORD = 80
MANY_CATEGORIES = 50  # A column with more categories causes a warning, unless the user names the column.
MAX_FEATURES = 100_000
_COPIES = 3  # Copies of the encoded features: the table, and its two parts while the rows are split.
_LARGEST = 5  # Maximum number of columns in a message.
_MISSING_WORDS = 10  # Maximum number of words that a message suggests as missing values.
_FEWEST_MEASURED = 20  # A single word among at least this many distinct numbers is not a category.
_CODE = r"0\d+"  # Codes such as 007, which would lose their zeros as numbers.
_SIGNS = "[$€£¥₹₩₽₺₪฿₫₱₦%]"
# Numbers that contain commas or have signs around them, such as 1,5 and $1,200.
_OTHERWISE = (
    rf"[+-]?{_SIGNS}?\s*[+-]?(?:\d+\.?\d*|\.\d+|[\d.]*,\d+|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?)"
    rf"(?:[eE][+-]?\d{{1,4}})?\s*{_SIGNS}?"
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TIME = (
    r"^(?P<day>.+?)(?:[T, ] *(?P<hour>\d\d?):(?P<minute>\d\d):?(?P<second>\d\d(?:[.,]\d+)?)?"
    r"(?: ?(?P<half>[ap])\.?m\.?)? ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?(?:\d\d)?)?)?$"
)
_DECORATION = r"^(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}[., ]+|(?<=\d)(?:st|nd|rd|th)\b"
_VERSION = r"(?=.{0,7}$)\d+\.\d+\.\d+"  # 1.2.10
_WITH_NAMES = ("%d-%b-%Y", "%d-%B-%Y", "%b-%d-%Y", "%B-%d-%Y", "%d-%b-%y")
_ORDERS = {
    "the day first": ("%d-%m-%Y", "%d-%m-%y"),
    "the month first": ("%m-%d-%Y", "%m-%d-%y"),
    "the year first": ("%Y-%m-%d", "%y-%m-%d"),
}
Learned = Mapping[str, statistics.OfColumn | None]


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
      gaps: For each column, the number of `imputed` numbers or dates, or of `missing` and `unknown` categories; zeros
        are left out.
    """

    values: np.ndarray
    names: list[str]
    learned: Learned
    gaps: dict[str, dict[str, int]]


def _by_row(cells: pd.Series) -> str:
    return table_file.Table("", cells.to_frame()).cells(cells)


def encode(
    frame: pd.DataFrame,
    is_train: np.ndarray | None = None,
    known: Learned | None = None,
    *,
    categories: Collection[str] = (),
    named: Collection[str] = (),
    show: Callable[[pd.Series], str] = _by_row,
) -> Encoded:
    """Encodes the columns as features.

    A missing or infinite number is replaced by the mean. If the statistics of a column include missing values, the
    column gets a second feature, which is 1 where a number is missing. A date becomes the number of days since 1970,
    which is treated like a number; the sine and cosine of the hour, if there are times; and the weekday as one of seven
    categories. The hour and weekday are as written; the days are in UTC if there are time zones. A missing category is
    a category of its own. An unknown category is all zeros, and so are the hour and weekday of a missing date.

    Args:
      frame: The columns.
      is_train: bool [rows], the rows from which statistics are learned; None for all rows.
      known: Statistics from a file, to be used instead.
      categories: Columns to treat as categories.
      named: Columns that the user names explicitly; identifiers among them are treated as categories.
      show: Returns the content and place of cells, for messages.

    Raises:
      UsageError: If there are too many features; if some cells of a numeric or date column have a different type, or
        do not match the known statistics; or if a column holds text that is distinct in nearly all rows, or has more
        than 1000 categories. The message names all such columns and says how to fix each.
    """
    refuse_lists(frame)
    is_train = np.ones(len(frame), bool) if is_train is None else is_train
    parsed: dict[str, Any] = {}
    learned: dict[str, Any] = {}
    refused: list[UsageError] = []
    for name in frame.columns:
        try:
            if known is not None:
                learned[name] = known.get(name)
                parsed[name] = _of_kind(frame[name], learned[name], show)
            else:
                parsed[name] = as_text(frame[name]) if name in categories else parse(frame[name], show)
                learned[name] = _learned(parsed[name], is_train, is_wanted=name in named or name in categories)
        except UsageError as error:
            refused.append(error)
    if refused:
        raise UsageError("\n".join(map(str, refused))) from refused[0]
    _check_size(len(frame), learned)
    encoded = Encoded(np.zeros((len(frame), 0), np.float32), [], learned, {})
    blocks = [encoded.values]
    for name, column in learned.items():
        if column is None:
            continue
        cells = parsed[name]
        if isinstance(column, statistics.Categories):
            is_missing = np.asarray(cells.isna())
            block = pd.Categorical(cells.fillna(MISSING_CATEGORY), categories=list(column.categories))
            counts = {"missing": is_missing.sum(), "unknown": (block.codes[~is_missing] < 0).sum()}
            blocks.append(pd.get_dummies(block, dtype=np.float32).to_numpy())
            encoded.names.extend(f"{name}={category}" for category in column.categories)
        else:
            is_date = isinstance(column, statistics.Dates)
            numbers, of_numbers = (cells.days, column.days) if is_date else (cells, column)
            counts = {"imputed": np.isnan(numbers).sum()}
            blocks.append(of_numbers.standardized(numbers))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
            if is_date:
                blocks.append(_clock_and_week(cells, has_times=column.has_times))
                encoded.names.extend([f"{name} hour sine", f"{name} hour cosine"] * column.has_times)
                encoded.names.extend(f"{name}={day}" for day in WEEKDAYS)
        encoded.gaps[name] = {what: int(count) for what, count in counts.items() if count}
    return encoded._replace(values=np.concatenate(blocks, axis=1))


def refuse_lists(frame: pd.DataFrame) -> None:
    """Refuses columns of lists, such as embeddings, because each list would become a category.

    Raises:
      UsageError: If there are any such columns.
    """
    if lists := [name for name in frame.columns if frames.holds_lists(frame[name])]:
        raise UsageError(
            f"Column {lists[0]!r} holds lists. Give each number of a list a column of its own, as by "
            f"pandas.DataFrame(frame[{lists[0]!r}].tolist()), or leave it out with --ignore_columns={as_flag(lists)}."
        )


def _check_size(rows: int, learned: Learned) -> None:
    """Checks that a model and the memory can hold all features, which are stored densely."""
    widths = {name: len(kind.categories) for name, kind in learned.items() if isinstance(kind, statistics.Categories)}
    width = sum(widths.values()) + len(learned) - len(widths)  # Lower bound.
    largest = sorted(widths, key=lambda name: -widths[name])[:_LARGEST]
    counts = ", such as " + ", ".join(f"{name!r} ({widths[name]:,} categories)" for name in largest) if largest else ""
    remedy = f"merge categories, or leave out columns{counts}, with --ignore_columns"
    if width > MAX_FEATURES:
        raise UsageError(f"The columns give {width:,} features, more than {MAX_FEATURES:,}: {remedy}.")
    what = f"The table with {width:,} features in each of {rows:,} rows"
    memory.check_memory(_COPIES * 4 * rows * width, what, f"{remedy}, or take a sample of the clients")


def named(column: pd.Series) -> pd.Series:
    """Converts a column of names, such as clients or actions, to categories in the order of `ordered`.

    Only empty cells count as missing, since `NA` may be Namibia.

    Raises:
      UsageError: If the names are numbers so large that rounding may have merged some; or if cells hold several values.
    """
    if frames.holds_lists(column):
        raise UsageError(f"Column {column.name!r} holds lists, not names: give each part a column of its own.")
    codes_of_row, distinct = pd.factorize(column)
    exact_up_to = 2**24 if column.dtype == np.float32 else 2**53
    for number in distinct:
        if isinstance(number, float | np.floating) and abs(float(number)) >= exact_up_to and number % 1 == 0:
            raise UsageError(
                f"Column {column.name!r} holds floating-point numbers such as {number:.0f}, which are rounded beyond "
                f"{exact_up_to:,}, so that different names have become equal. Read them as text, as by "
                'dtype=str, or as whole numbers, as by dtype_backend="numpy_nullable".'
            )
    written = as_text(pd.Series(distinct, name=column.name), missing=("",))
    names = ordered(written)
    coded = np.append(codes(written, names), -1).astype(np.int32)  # The last code is for a missing cell.
    return pd.Series(pd.Categorical.from_codes(coded[codes_of_row], names), index=column.index, name=column.name)


def ordered(written: pd.Series) -> list[str]:
    """Distinct texts, in numeric order if all of them are numbers."""
    distinct = written.dropna().drop_duplicates()
    numbers = table_file.numbers(distinct)
    numbers = np.where(np.isnan(numbers).any(), 0, numbers)
    return [name for _, name in sorted(zip(numbers, distinct, strict=True))]


def codes(written: pd.Series, categories: Sequence[str]) -> np.ndarray:
    """Indices into the categories, int32; -1 for any other text."""
    return pd.Categorical(written, categories=list(categories)).codes.astype(np.int32)


def parse(column: pd.Series, show: Callable[[pd.Series], str] = _by_row) -> Parsed:
    """Determines the type of a column: numbers, dates or categories.

    The dtype of the column decides (Boolean, category, time, number). For text, the first rule that matches applies:

    1. If all cells are whole numbers and some begin with a zero, such as 007, they are categories.
    2. If at least 90% of the cells are numbers, the column is numeric; `?` and `None` are missing values.
    3. If at least 90% of the cells are dates, it is a column of dates.
    4. Everything else is a category, unless it looks like numbers or dates that are written in several ways.

    Args:
      column: Cells of the column.
      show: Returns the content and place of cells, for messages.

    Returns:
      Numbers as float64 [rows], NaN where one is missing or infinite; or dates; or text.

    Raises:
      UsageError: If some cells of a numeric or date column have a different type, or if numbers are ambiguous.
    """
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind):
        return of_datetimes(column)
    if pd.api.types.is_timedelta64_dtype(kind):
        column = column.dt.total_seconds() / 86400
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(kind):
        return _finite(column.to_numpy(np.float64, na_value=np.nan))
    written = as_text(column)
    if pd.api.types.is_bool_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return written
    numbers = table_file.numbers(written)
    is_present = np.asarray(written.notna() & ~written.isin(table_file.MISSING_AMONG_NUMBERS))
    is_number = is_present & ~np.isnan(numbers)
    present, others = written[is_present], written[is_present & ~is_number]
    if present.str.fullmatch(_CODE).any() and written.dropna().str.isdecimal().all():
        return written
    is_many, num_numbers = present.nunique() > MANY_CATEGORIES, int(is_number.sum())
    _check_plain(others[others.str.fullmatch(_OTHERWISE)], num_numbers, len(present), is_many=is_many, show=show)
    if len(present) and num_numbers >= MOSTLY * len(present):
        _check_none(others, len(present), "numbers", show)
        return _finite(numbers)
    if read := of_texts(written.where(is_present), MOSTLY):
        _check_none(read[1], len(present), "dates", show)
        return read[0]
    # There are many categories and most of them are numbers or dates, or there is a single word among many numbers.
    if num_numbers > 0.5 * len(present):
        is_gap = others.nunique() == 1 and written[is_number].nunique() >= _FEWEST_MEASURED
        _check_none(others if is_many or is_gap else others[:0], len(present), "numbers", show)
    if is_many and (read := of_texts(present, 0.5)):
        _check_none(read[1], len(present), "dates", show)
    return written


def _finite(numbers: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _check_plain(
    ambiguous: pd.Series, num_numbers: int, num_cells: int, *, is_many: bool, show: Callable[[pd.Series], str]
) -> None:
    """Refuses ambiguous numbers, which contain commas or signs, if nearly all or many of the cells are numbers."""
    share = (num_numbers + len(ambiguous)) / max(num_cells, 1)
    is_many = is_many and 2 * num_numbers <= num_cells and share > 0.5
    if ambiguous.empty or not (share >= MOSTLY or is_many):
        return
    column, remedy = as_flag([ambiguous.name]), "Save"
    if ambiguous.str.contains(COMMA, regex=False).any():
        remedy = "Give --decimal=, (a comma) if commas are decimal points, or save"
    raise UsageError(
        f"Column {ambiguous.name!r} has numbers with commas or signs in them: {show(ambiguous)}. A comma may be a "
        "decimal point or group thousands, and signs may be of several units, or missing where others are percents. "
        f"{remedy} plain numbers with decimal points, give --category_columns={column} if all are "
        f"categories, or leave it out with --ignore_columns={column}."
    )


def _check_none(others: pd.Series, num_cells: int, what: str, show: Callable[[pd.Series], str]) -> None:
    """Refuses cells that do not match the type of their column."""
    if others.empty:
        return
    words = [word for word in others.drop_duplicates() if len(word) <= _LONGEST_WORD][:_MISSING_WORDS]
    missing = f"--missing_values={as_flag(words, quoted=True)} if such cells are missing, or " if words else ""
    raise UsageError(
        f"Column {others.name!r} has {what} in all but {len(others)} of {num_cells} cells: "
        f"{show(others)}. Give {missing}--category_columns={as_flag([others.name])} if all are categories."
    )


def of_datetimes(column: pd.Series, utc: pd.Series | None = None) -> Moments:
    """Converts a column of type datetime64, with or without a time zone.

    Args:
      column: The times, as written.
      utc: The same times in UTC, if it is known for times without a time zone.
    """
    if column.dt.tz is not None:
        column, utc = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    times = [each.to_numpy("datetime64[us]") for each in (column, column if utc is None else utc)]
    local, days = (np.where(np.isnat(each), np.nan, each.astype(np.int64) / 86400e6) for each in times)
    weekdays = np.where(np.isnan(local), -1, (np.floor(np.nan_to_num(local)) + 3) % 7)  # 1970 began on a Thursday.
    return Moments(days, local % 1 * 24, weekdays.astype(np.int64))


def of_texts(written: pd.Series, share: float) -> tuple[Moments, pd.Series] | None:
    """Returns the dates of a column and the cells that are not dates; None if too few of the cells are dates.

    Dates from 1678 to 2261 may be written with the year first (2023-01-31, 2023/1/31), with the name of the month
    (31 Jan 2023, Jan 31, 2023) or in numbers (31/01/2023, 1/31/2023, 31.01.23). The time and the time zone are
    optional. A column is read in the order of day, month and year that makes all of its cells dates, and is refused if
    more than one order does.

    Args:
      written: Text, NaN where a date is missing.
      share: Minimum fraction of the cells that must be dates, in some order.

    Raises:
      UsageError: If the order of day, month and year is ambiguous, or if only some times have a time zone.
    """
    codes_of_row, distinct = pd.factorize(written)
    texts = pd.Series(distinct, dtype=object, name=written.name)
    parts = texts.str.extract(_TIME, re.IGNORECASE).astype(object)
    hours, minutes = (parts[name].astype(float).fillna(0) for name in ("hour", "minute"))
    seconds, half = parts["second"].str.replace(",", ".").astype(float).fillna(0), parts["half"].str.lower()
    is_time = (hours <= 23) & (minutes <= 59) & (seconds < 60) & (half.isna() | hours.between(1, 12))
    hours = (hours % 12 + 12 * (half == "p")).where(half.notna(), hours)
    in_orders = _in_orders(parts["day"].where(is_time))
    is_date, counts = in_orders.notna().any(axis=1), np.bincount(codes_of_row[codes_of_row >= 0])
    if not is_date.any() or counts[is_date].sum() < share * counts.sum():
        return None
    local = in_orders[_order(texts[is_date], in_orders[is_date])]
    local += pd.to_timedelta(np.rint((hours * 3600 + minutes * 60 + seconds) * 1e6), "us")
    zone = parts["zone"].str.extract(r"([+-])(\d\d):?(\d\d)?").fillna("0")
    ahead = (zone[1].astype(int) * 60 + zone[2].astype(int)) * np.where(zone[0] == "-", -1, 1)
    with_zone, without = (texts[local.notna() & has_zone] for has_zone in (parts["zone"].notna(), parts["zone"].isna()))
    if len(with_zone) and len(without):
        raise UsageError(
            f"Column {written.name!r} has times with a time zone, such as {with_zone.iloc[0]!r}, and without, such "
            f"as {without.iloc[0]!r}: write all in one way, or leave the column out with --ignore_columns."
        )
    by_text = of_datetimes(local, local - pd.to_timedelta(ahead, "min"))
    missing = (np.nan, np.nan, -1)
    moments = Moments(*(np.append(of_text, gap)[codes_of_row] for of_text, gap in zip(by_text, missing, strict=True)))
    return moments, written[np.isnan(moments.days) & written.notna()]


def _in_orders(written: pd.Series) -> pd.DataFrame:
    """Returns the days as datetime64 [texts, orders], NaT for other texts."""
    bare = written.str.replace(_DECORATION, "", regex=True, case=False)
    days = bare.mask(bare.str.fullmatch(_VERSION, na=False)).str.replace(r"[-/., ]+", "-", regex=True)
    is_dashed = bare.str.contains(r"^\d\d-|^\d{4}", na=False)  # A two-digit year is first only in 23-01-31.
    named = _first_match(days, _WITH_NAMES)
    return pd.DataFrame(
        {
            order: named.fillna(_first_match(days.where(is_dashed) if order == "the year first" else days, formats))
            for order, formats in _ORDERS.items()
        }
    )


def _first_match(days: pd.Series, formats: Sequence[str]) -> pd.Series:
    parsed = (pd.to_datetime(days, format=each, errors="coerce") for each in formats)
    return functools.reduce(pd.Series.fillna, parsed)


def _order(texts: pd.Series, in_orders: pd.DataFrame) -> str:
    """Returns the order in which all texts are dates; if there is none, the order in which most of them are."""
    right = in_orders.notna().sum()
    possible = list(right.index[right == len(texts)])
    if not possible:
        return str(right.idxmax())
    is_unclear = in_orders[possible].ne(in_orders[possible[0]], axis=0).any(axis=1)
    if is_unclear.any():
        place = is_unclear.idxmax()
        raise UsageError(
            f"Column {texts.name!r} has dates such as {texts[place]!r} that can be read with "
            f"{' and '.join(possible)}: write them as {in_orders[possible[0]][place]:%Y-%m-%d}, or leave the column "
            "out with --ignore_columns."
        )
    return possible[0]


def _of_kind(column: pd.Series, known: statistics.OfColumn | None, show: Callable[[pd.Series], str]) -> Parsed:
    """Parses the cells of a column as the type that its known statistics have."""
    if known is None or isinstance(known, statistics.Categories):
        return as_text(column)
    what, kind = ("mean", np.ndarray) if isinstance(known, statistics.Numbers) else ("mean date", Moments)
    parsed = parse(column, show)
    if isinstance(parsed, kind):
        return parsed
    if as_text(column).notna().any():
        raise UsageError(
            f"Column {column.name!r} has a {what} in the statistics of the run or of --public_statistics, but other "
            f"cells here: {show(as_text(column).dropna())}."
        )
    missing = np.full(len(column), np.nan)
    return missing if kind is np.ndarray else Moments(missing, missing, np.full(len(column), -1))


def _learned(parsed: Parsed, is_train: np.ndarray, *, is_wanted: bool) -> statistics.OfColumn | None:
    """Statistics of a column over the training rows; None if it has no values there."""
    if isinstance(parsed, np.ndarray):
        return statistics.Numbers.learned(parsed[is_train])
    if isinstance(parsed, Moments):
        days, has_times = statistics.Numbers.learned(parsed.days[is_train]), bool((parsed.hours[is_train] > 0).any())
        return days and statistics.Dates(days.mean, days.deviation, days.has_missing, has_times)
    distinct, present = parsed.nunique(), parsed.notna().sum()
    column, what = as_flag([parsed.name]), f"Column {parsed.name!r} is text with {distinct} distinct values"
    if distinct > statistics.MAX_CATEGORIES:
        raise UsageError(f"{what}, more than {statistics.MAX_CATEGORIES}: leave it out with --ignore_columns={column}.")
    if not is_wanted and present >= _FEW_ROWS and distinct >= _NEARLY_ALL * present:
        raise UsageError(
            f"{what} in {present} rows, so it is an identifier, not a feature: leave it out with "
            f"--ignore_columns={column}, or keep it with --category_columns={column}."
        )
    seen = parsed[is_train]
    categories = (*ordered(seen), *[MISSING_CATEGORY] * bool(seen.isna().any()))
    return None if seen.isna().all() else statistics.Categories(categories)


def _clock_and_week(moments: Moments, *, has_times: bool) -> np.ndarray:
    """Encodes hours and weekdays; all features of a missing date are 0.

    Returns:
      float32 [rows, 7], the weekdays; or [rows, 9], the sine and cosine of the hour followed by the weekdays.
    """
    angles = np.nan_to_num(moments.hours) / 24 * 2 * np.pi
    is_there = ~np.isnan(moments.days)
    clock = [np.sin(angles) * is_there, np.cos(angles) * is_there] * has_times
    week = [moments.weekdays == day for day in range(len(WEEKDAYS))]
    return np.stack([*clock, *week], axis=1).astype(np.float32)
