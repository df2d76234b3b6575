"""Types of columns (`parse`), and encoding of columns as features (`encode`).

A column holds numbers, or dates, if at least 90% of its cells do; other cells are then refused, not guessed.
Numbers are standardized, dates become days, hour and weekday, everything else is one-hot. All statistics (means,
deviations, categories, missing values) are learned from training rows, or come from a file.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from data import dates, frames, memory, numerals, statistics, table_file
from data.errors import ColumnError, UsageError
from data.schema import as_flag
from data.table_file import as_text

Parsed: TypeAlias = np.ndarray | dates.Moments | pd.Series  # Numbers, dates, or text.

MISSING_CATEGORY = "<missing>"
# Of 200 equally frequent names of a true category, 50 rows have 48 distinct ones in one table of 20.
_FEW_ROWS = 50
_NEARLY_ALL = 0.95
_LONGEST_WORD = 80
MANY_CATEGORIES = 50  # More cause a warning, unless the user names the column.
MAX_FEATURES = 100_000
_COPIES = 3  # Copies of the encoded features: the table and its two parts while rows are split.
_LARGEST = 5  # Columns in a message.
_MISSING_WORDS = 10  # Proposed in a message.
_FEWEST_MEASURED = 20  # With so many distinct numbers, one other word makes no category.
_CODE = r"0\d+"  # As 007: a number would lose its zeros.
# Numbers with commas, or with signs around them, such as 1,5 and $1,200.
_OTHERWISE = (
    rf"{numerals.SIGNS}?\s*[+-]?(?:\d+\.?\d*|\.\d+|[\d.]*,\d+|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?)"
    rf"(?:[eE][+-]?\d{{1,4}})?\s*{numerals.SIGNS}?"
)
Learned = Mapping[str, statistics.OfColumn | None]


class Encoded(NamedTuple):
    """Columns as features.

    Attributes:
      values: float32 [rows, features].
      names: Names of the features, such as `age`, `age is missing` and `color=red`.
      learned: Statistics of each column; None for a column without values in training rows, which has no feature.
      imputed: Number of missing numbers, or dates, by column.
      missing_as_category: Number of missing categories, by column.
      unknown: Number of cells of unknown categories, by column.
    """

    values: np.ndarray
    names: list[str]
    learned: Learned
    imputed: dict[str, int]
    missing_as_category: dict[str, int]
    unknown: dict[str, int]


def _by_row(cells: pd.Series) -> str:
    return table_file.Table("", cells.to_frame()).cells(cells)


def check_accepted(refused: Mapping[str, ColumnError]) -> None:
    """Raises the errors of all columns together, each with its remedies, and the flags that resolve all of them.

    Args:
      refused: Errors by column.

    Raises:
      ColumnError: If there is one.
    """
    if len(refused) == 1:
        raise next(iter(refused.values()))
    if not refused:
        return
    missing = dict.fromkeys(word for error in refused.values() for word in error.missing)
    ignored = [name for name, error in refused.items() if error.is_identifier]
    rest = [name for name, error in refused.items() if not (error.missing or error.is_identifier)]
    flags = [f"--ignore_columns={as_flag(ignored)}"] * bool(ignored)
    flags += [f"--missing_values={as_flag(missing, quoted=True)}"] * bool(missing)
    lines = [f"{len(refused)} columns cannot be read as they are:", *(f"  - {error}" for error in refused.values())]
    if flags:
        lines.append(f"Add to the command, after the columns that these flags name already: {' '.join(flags)}")
    if rest:
        lines.append(f"Correct in the file: {', '.join(map(repr, rest))}")
    raise ColumnError("\n".join(lines), tuple(missing))


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
    statistics have missing values. A date becomes the number of days since 1970, treated likewise; if there are times,
    sine and cosine of the hour; and the weekday as one of seven categories. Hour and weekday are as written; days
    are in UTC if there are time zones. A missing category is a category. An unknown category is all zeros, as are hour
    and weekday of a missing date.

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
    is_train = np.ones(len(frame), bool) if is_train is None else is_train
    parsed: dict[str, Any] = {}
    learned: dict[str, Any] = {}
    refused: dict[str, ColumnError] = {}
    for name in frame.columns:
        try:
            if known is not None:
                learned[name] = known.get(name)
                parsed[name] = _of_kind(frame[name], learned[name], show)
            else:
                parsed[name] = as_text(frame[name]) if name in categories else parse(frame[name], show)
                learned[name] = _learned(parsed[name], is_train, is_wanted=name in named or name in categories)
        except ColumnError as error:
            refused[name] = error
    check_accepted(refused)
    _check_size(len(frame), learned)
    encoded = Encoded(np.zeros((len(frame), 0), np.float32), [], learned, {}, {}, {})
    blocks = [encoded.values]
    for name, column in learned.items():
        if column is None:
            continue
        cells, counts = parsed[name], encoded.imputed
        if isinstance(column, statistics.Categories):
            counts, is_missing = encoded.missing_as_category, np.asarray(cells.isna())
            block = codes(cells.fillna(MISSING_CATEGORY), column.categories)[:, np.newaxis]
            if unknown := int((block[~is_missing] < 0).sum()):
                encoded.unknown[name] = unknown
            blocks.append((block == np.arange(len(column.categories))).astype(np.float32))
            encoded.names.extend(f"{name}={category}" for category in column.categories)
        else:
            is_date = isinstance(column, statistics.Dates)
            numbers, of_numbers = (cells.days, column.days) if is_date else (cells, column)
            is_missing = np.isnan(numbers)
            blocks.append(_standardized(numbers, of_numbers))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
            if is_date:
                blocks.append(_clock_and_week(cells, has_times=column.has_times))
                encoded.names.extend([f"{name} hour sine", f"{name} hour cosine"] * column.has_times)
                encoded.names.extend(f"{name}={day}" for day in dates.WEEKDAYS)
        if is_missing.any():
            counts[name] = int(is_missing.sum())
    return encoded._replace(values=np.concatenate(blocks, axis=1))


def _check_size(rows: int, learned: Learned) -> None:
    """Refuses more features than a model or the memory can hold; the features are not sparse."""
    widths = {name: len(one.categories) for name, one in learned.items() if isinstance(one, statistics.Categories)}
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
      ColumnError: If names may have been merged, as they are rounded numbers; or if cells hold several values.
    """
    if frames.holds_lists(column):
        raise ColumnError(f"Column {column.name!r} holds lists, not names: give each part a column of its own.")
    codes_of_row, distinct = pd.factorize(column)
    _check_exact(column, distinct)
    written = as_text(pd.Series(distinct, name=column.name), missing=("",))
    names = ordered(written)
    coded = np.append(codes(written, names), -1).astype(np.int32)  # The last code is for a missing cell.
    return pd.Series(pd.Categorical.from_codes(coded[codes_of_row], names), index=column.index, name=column.name)


def ordered(written: pd.Series) -> list[str]:
    """Distinct texts, in numeric order if all are numbers."""
    distinct = written.dropna().drop_duplicates()
    numbers = numerals.numbers(distinct)
    numbers = np.where(np.isnan(numbers).any(), 0, numbers)
    return [name for _, name in sorted(zip(numbers, distinct, strict=True))]


def _check_exact(column: pd.Series, distinct: Any) -> None:
    """Refuses whole numbers that are so large that their type has rounded them, which merges clients."""
    exact_up_to = 2**24 if column.dtype == np.float32 else 2**53
    for number in distinct:
        if isinstance(number, float | np.floating) and abs(float(number)) >= exact_up_to and number % 1 == 0:
            raise ColumnError(
                f"Column {column.name!r} holds floating-point numbers such as {number:.0f}, which are rounded beyond "
                f"{exact_up_to:,}, so that different names have become equal. Read them as text, as by "
                'dtype=str, or as whole numbers, as by dtype_backend="numpy_nullable".'
            )


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
      column: Its cells.
      show: Returns cells and their places, for messages.

    Returns:
      Numbers float64 [rows], NaN where one is missing or infinite; or dates; or else text.

    Raises:
      ColumnError: If some cells of a column of numbers, or of dates, are neither, or numbers are ambiguous.
    """
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind):
        return dates.of_datetimes(column)
    if pd.api.types.is_timedelta64_dtype(kind):
        column = column.dt.total_seconds() / 86400
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(kind):
        return _finite(column.to_numpy(np.float64, na_value=np.nan))
    written = as_text(column)
    if pd.api.types.is_bool_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return written
    numbers = numerals.numbers(written)
    is_present = np.asarray(written.notna() & ~written.isin(numerals.MISSING_AMONG_NUMBERS))
    is_number = is_present & ~np.isnan(numbers)
    present, others = written[is_present], written[is_present & ~is_number]
    if present.str.fullmatch(_CODE).any() and written.dropna().str.isdecimal().all():
        return written
    is_many, num_numbers = present.nunique() > MANY_CATEGORIES, int(is_number.sum())
    _check_plain(others[others.str.fullmatch(_OTHERWISE)], num_numbers, len(present), is_many=is_many, show=show)
    if len(present) and num_numbers >= numerals.MOSTLY * len(present):
        _check_none(others, len(present), "numbers", show)
        return _finite(numbers)
    if read := dates.of_texts(written.where(is_present), numerals.MOSTLY):
        _check_none(read[1], len(present), "dates", show)
        return read[0]
    # Many categories, most of them numbers or dates; or a single word among many numbers.
    if num_numbers > 0.5 * len(present):
        is_gap = others.nunique() == 1 and written[is_number].nunique() >= _FEWEST_MEASURED
        _check_none(others if is_many or is_gap else others[:0], len(present), "numbers", show)
    if is_many and (read := dates.of_texts(present, 0.5)):
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
    if ambiguous.empty or not (share >= numerals.MOSTLY or is_many):
        return
    column, remedy = as_flag([ambiguous.name]), "Save"
    if ambiguous.str.contains(numerals.COMMA, regex=False).any():
        remedy = "Give --decimal=, (a comma) if commas are decimal points, or save"
    raise ColumnError(
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
    raise ColumnError(
        f"Column {others.name!r} has {what} in all but {len(others)} of {num_cells} cells: "
        f"{show(others)}. Give {missing}--category_columns={as_flag([others.name])} if all are categories.",
        words,
    )


def _of_kind(column: pd.Series, known: statistics.OfColumn | None, show: Callable[[pd.Series], str]) -> Parsed:
    """Cells of a column of which statistics are known."""
    if known is None or isinstance(known, statistics.Categories):
        return as_text(column)
    what, kind = ("mean", np.ndarray) if isinstance(known, statistics.Numbers) else ("mean date", dates.Moments)
    parsed = parse(column, show)
    if isinstance(parsed, kind):
        return parsed
    if as_text(column).notna().any():
        raise UsageError(f"--public_statistics has a {what} of column {column.name!r}, which differs here.")
    missing = np.full(len(column), np.nan)
    return missing if kind is np.ndarray else dates.Moments(missing, missing, np.full(len(column), -1))


def _learned(parsed: Parsed, is_train: np.ndarray, *, is_wanted: bool) -> statistics.OfColumn | None:
    """Statistics of a column over the training rows; None without a value there."""
    if isinstance(parsed, np.ndarray):
        return _of_numbers(parsed[is_train])
    if isinstance(parsed, dates.Moments):
        days, has_times = _of_numbers(parsed.days[is_train]), bool((parsed.hours[is_train] > 0).any())
        return days and statistics.Dates(days.mean, days.deviation, days.has_missing, has_times)
    distinct, present = parsed.nunique(), parsed.notna().sum()
    column, what = as_flag([parsed.name]), f"Column {parsed.name!r} is text with {distinct} distinct values"
    if distinct > statistics.MAX_CATEGORIES:
        raise ColumnError(
            f"{what}, more than {statistics.MAX_CATEGORIES}: leave it out with --ignore_columns={column}.",
            is_identifier=True,
        )
    if not is_wanted and present >= _FEW_ROWS and distinct >= _NEARLY_ALL * present:
        raise ColumnError(
            f"{what} in {present} rows, so it is an identifier, not a feature: leave it out with "
            f"--ignore_columns={column}, or keep it with --category_columns={column}.",
            is_identifier=True,
        )
    seen = parsed[is_train]
    categories = (*ordered(seen), *[MISSING_CATEGORY] * bool(seen.isna().any()))
    return None if seen.isna().all() else statistics.Categories(categories)


def _of_numbers(seen: np.ndarray) -> statistics.Numbers | None:
    """Statistics of numbers; NaN is a missing one."""
    present = seen[~np.isnan(seen)]
    if not len(present):
        return None
    has_missing = len(present) < len(seen)
    if present.min() == present.max():  # The deviation of equal numbers need not come out as 0.
        return statistics.Numbers(float(present[0]), 0.0, has_missing)
    scale = np.abs(present).max()  # Squares of large numbers overflow.
    mean, deviation = np.mean(present / scale) * scale, np.std(present / scale) * scale
    return statistics.Numbers(float(mean), float(deviation), has_missing)


def _standardized(numbers: np.ndarray, known: statistics.Numbers) -> np.ndarray:
    """Standardized numbers, float32 [rows, 1]; [rows, 2] with an indicator of missing values if there are any."""
    is_missing, standard = np.isnan(numbers), np.zeros(len(numbers))
    if known.deviation:
        with np.errstate(over="ignore"):  # Halves, as a difference of large numbers overflows.
            standard = (numbers / 2 - known.mean / 2) / (known.deviation / 2)
        largest = np.finfo(np.float32).max
        standard = np.clip(standard, -largest, largest)
    features = [np.where(is_missing, 0.0, standard), is_missing]
    return np.stack(features[: 1 + known.has_missing], axis=1).astype(np.float32)


def _clock_and_week(moments: dates.Moments, *, has_times: bool) -> np.ndarray:
    """Float32 [rows, 7], or [rows, 9] with the hour on a circle before the weekdays; 0 for a missing date."""
    angles = np.nan_to_num(moments.hours) / 24 * 2 * np.pi
    is_there = ~np.isnan(moments.days)
    clock = [np.sin(angles) * is_there, np.cos(angles) * is_there] * has_times
    week = [moments.weekdays == day for day in range(len(dates.WEEKDAYS))]
    return np.stack([*clock, *week], axis=1).astype(np.float32)
