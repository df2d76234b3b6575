"""Types of columns (`parse`), and encoding of columns as features (`encode`).

A column holds numbers, or dates, if at least 90% of its cells do; other cells are then refused, not guessed.
Numbers are standardized, dates become days, hour and weekday, everything else is one-hot. All statistics (means,
deviations, categories, missing values) are learned from training rows, or come from a file. They are applied in NumPy
and pandas: scikit-learn's encoders have other ones, and take seconds to import.
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
# With 200 equally frequent names in a true category, 50 rows have 48 distinct names in one table of 20.
_FEW_ROWS = 50
_NEARLY_ALL = 0.95
_LONGEST_WORD = 80
MANY_CATEGORIES = 50  # More cause a warning, unless the user names the column.
MAX_FEATURES = 100_000
_COPIES = 3  # Copies of the encoded features: the table and its two parts while rows are split.
_LARGEST = 5  # Columns in a message.
_MISSING_WORDS = 10  # Proposed in a message.
_FEWEST_MEASURED = 20  # With so many distinct numbers, a single word is no category.
_CODE = r"0\d+"  # As 007: a number would lose its zeros.
_SIGNS = "[$€£¥₹₩₽₺₪฿₫₱₦%]"
# Numbers with commas, or with signs around them, such as 1,5 and $1,200.
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
      days: float64, since 1970 began: in UTC if there is a time zone, else as written; NaN where a date is missing.
      hours: float64 from 0 to below 24, as written; NaN where a date is missing.
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
      gaps: Number of `imputed` numbers or dates, and of `missing` and `unknown` categories, by column, where not 0.
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

    A missing or infinite number becomes the mean. Its column gets a second feature, 1 where a number is missing, if its
    statistics have missing values. A date becomes the number of days since 1970, treated like a number; if there are
    times, sine and cosine of the hour; and the weekday as one of seven categories. Hour and weekday are as written;
    days are in UTC if there are time zones. A missing category is a category. An unknown category is all zeros, as are
    hour and weekday of a missing date.

    Args:
      frame: The columns.
      is_train: bool [rows], rows that statistics are learned from; None for all.
      known: Statistics from a file instead.
      categories: Columns to treat as categories.
      named: Columns that the user names: identifiers among them are categories.
      show: Returns cells and their places, for messages.

    Raises:
      UsageError: If there are too many features; if some cells of a column of numbers, or of dates, are neither, or
        differ from the known statistics; or if a column holds text that is distinct in nearly all rows, or has more
        than 1000 categories. It names all such columns, with their remedies.
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
    """Refuses columns of lists, such as embeddings, which would become categories.

    Raises:
      UsageError: If there are any.
    """
    if lists := [name for name in frame.columns if frames.holds_lists(frame[name])]:
        raise UsageError(
            f"Column {lists[0]!r} holds lists. Give each number of a list a column of its own, as by "
            f"pandas.DataFrame(frame[{lists[0]!r}].tolist()), or leave it out with --ignore_columns={as_flag(lists)}."
        )


def _check_size(rows: int, learned: Learned) -> None:
    """Refuses more features than a model or the memory can hold; the features are not sparse."""
    widths = {name: len(kind.categories) for name, kind in learned.items() if isinstance(kind, statistics.Categories)}
    width = sum(widths.values()) + len(learned) - len(widths)  # At least.
    largest = sorted(widths, key=lambda name: -widths[name])[:_LARGEST]
    counts = ", such as " + ", ".join(f"{name!r} ({widths[name]:,} categories)" for name in largest) if largest else ""
    remedy = f"merge categories, or leave out columns{counts}, with --ignore_columns"
    if width > MAX_FEATURES:
        raise UsageError(f"The columns give {width:,} features, more than {MAX_FEATURES:,}: {remedy}.")
    what = f"The table with {width:,} features in each of {rows:,} rows"
    memory.check_memory(_COPIES * 4 * rows * width, what, f"{remedy}, or take a sample of the clients")


def named(column: pd.Series) -> pd.Series:
    """Converts a column of names, such as clients or actions, to categories in the order of `ordered`.

    Only empty cells are missing: `NA` may be Namibia.

    Raises:
      UsageError: If names may have been merged, as they are rounded numbers; or if cells hold several values.
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
    """Distinct texts, in numeric order if all are numbers."""
    distinct = written.dropna().drop_duplicates()
    numbers = table_file.numbers(distinct)
    numbers = np.where(np.isnan(numbers).any(), 0, numbers)
    return [name for _, name in sorted(zip(numbers, distinct, strict=True))]


def codes(written: pd.Series, categories: Sequence[str]) -> np.ndarray:
    """Indices into the categories, int32; -1 for any other text."""
    return pd.Categorical(written, categories=list(categories)).codes.astype(np.int32)


def parse(column: pd.Series, show: Callable[[pd.Series], str] = _by_row) -> Parsed:
    """Determines the type of a column: numbers, dates or categories.

    A column's dtype decides (a truth value, a category, a time, a number). For text, the first of these rules counts:

    1. Whole numbers of which some begin with a zero, such as 007, are categories.
    2. If at least 90% of the cells are numbers, the column holds numbers; `?` and `None` are missing.
    3. If at least 90% are dates, it holds dates.
    4. Everything else is a category, unless it looks like numbers or dates that are written in several ways.

    Args:
      column: Cells of the column.
      show: Returns cells and their places, for messages.

    Returns:
      Numbers float64 [rows], NaN where one is missing or infinite; or dates; or else text.

    Raises:
      UsageError: If some cells of a column of numbers, or of dates, are neither, or numbers are ambiguous.
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
    # Many categories, most of them numbers or dates; or a single word among many numbers.
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
    """Refuses numbers with commas, or with several signs, which are ambiguous, if nearly all, or many, are numbers."""
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
    """Refuses cells that differ from a column's type."""
    if others.empty:
        return
    words = [word for word in others.drop_duplicates() if len(word) <= _LONGEST_WORD][:_MISSING_WORDS]
    missing = f"--missing_values={as_flag(words, quoted=True)} if such cells are missing, or " if words else ""
    raise UsageError(
        f"Column {others.name!r} has {what} in all but {len(others)} of {num_cells} cells: "
        f"{show(others)}. Give {missing}--category_columns={as_flag([others.name])} if all are categories."
    )


def of_datetimes(column: pd.Series, utc: pd.Series | None = None) -> Moments:
    """Converts a column of type datetime64, with or without a time zone; `utc` has the times without zones in UTC."""
    if column.dt.tz is not None:
        column, utc = column.dt.tz_localize(None), column.dt.tz_convert("UTC").dt.tz_localize(None)
    times = [each.to_numpy("datetime64[us]") for each in (column, column if utc is None else utc)]
    local, days = (np.where(np.isnat(each), np.nan, each.astype(np.int64) / 86400e6) for each in times)
    weekdays = np.where(np.isnan(local), -1, (np.floor(np.nan_to_num(local)) + 3) % 7)  # 1970 began on a Thursday.
    return Moments(days, local % 1 * 24, weekdays.astype(np.int64))


def of_texts(written: pd.Series, share: float) -> tuple[Moments, pd.Series] | None:
    """Dates of a column, and its cells that are no dates; None if fewer than a share of cells are dates.

    Dates from 1678 to 2261 may be written with the year first (2023-01-31, 2023/1/31), with the name of the month
    (31 Jan 2023, Jan 31, 2023) or in numbers (31/01/2023, 1/31/2023, 31.01.23), each with a time and a time zone or
    without. A column is read in the only order of day, month and year in which all its cells are dates, and refused if
    there are two.

    Args:
      written: Text, NaN where a date is missing.
      share: The part of the cells that must be dates, in some order.

    Raises:
      UsageError: If the order of day, month and year is ambiguous, or only some times have a time zone.
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
    """Days as datetime64, NaT for other texts: [texts, orders]."""
    bare = written.str.replace(_DECORATION, "", regex=True, case=False)
    days = bare.mask(bare.str.fullmatch(_VERSION, na=False)).str.replace(r"[-/., ]+", "-", regex=True)
    is_dashed = bare.str.contains(r"^\d\d-|^\d{4}", na=False)  # A two-digit year comes first only in 23-01-31.
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
    """Order in which all texts are dates; if there is none, that in which most are."""
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
    """Cells of a column of which statistics are known."""
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
    """Statistics of a column over the training rows; None without a value there."""
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
    """Float32 [rows, 7], or [rows, 9] with the hour on a circle before the weekdays; 0 for a missing date."""
    angles = np.nan_to_num(moments.hours) / 24 * 2 * np.pi
    is_there = ~np.isnan(moments.days)
    clock = [np.sin(angles) * is_there, np.cos(angles) * is_there] * has_times
    week = [moments.weekdays == day for day in range(len(WEEKDAYS))]
    return np.stack([*clock, *week], axis=1).astype(np.float32)
