"""Types of columns (`parse`), and encoding of columns as features (`learn`, `encode`).

A column holds numbers, or dates, if at least 90% of its cells do; other cells are then refused, not guessed.
Numbers are standardized, dates become days, hour and weekday, everything else is one-hot. All statistics (means,
deviations, categories, missing values) are learned from training rows, or come from a file.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from data import dates, frames, memory, numerals, statistics, table_file
from data.errors import ColumnError, UsageError
from data.schema import as_flag
from data.table_file import as_text

if TYPE_CHECKING:
    import pandas as pd

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
      imputed: Number of missing numbers, or dates, by column.
      missing_as_category: Number of missing categories, by column.
      left_out: Columns without statistics.
      unknown: Number of cells of unknown categories, by column.
    """

    values: np.ndarray
    names: list[str]
    imputed: dict[str, int]
    missing_as_category: dict[str, int]
    left_out: list[str]
    unknown: dict[str, int]


def _by_row(cells: "pd.Series") -> str:
    return table_file.Table("", cells.to_frame()).cells(cells)


def check_accepted(refused: Mapping[str, ColumnError]) -> None:
    """Raises the errors of all columns together, each with its remedies, and the flags that resolve all of them.

    Args:
      refused: Errors by column.

    Raises:
      ColumnError: If there is one.
    """
    if len(refused) < 2:
        for error in refused.values():
            raise error
        return
    missing = dict.fromkeys(word for error in refused.values() for word in error.missing)
    ignored = [name for name, error in refused.items() if error.is_identifier]
    rest = [name for name, error in refused.items() if not (error.missing or error.is_identifier)]
    flags = [f"--ignore_columns={as_flag(ignored)}"] * bool(ignored)
    flags += [f"--missing_values={as_flag(missing, quoted=True)}"] * bool(missing)
    reasons = "\n".join(f"  - {error}" for error in refused.values())
    lines = [f"{len(refused)} columns cannot be read as they are:\n{reasons}"]
    if flags:
        lines.append(f"Add to the command, after the columns that these flags name already: {' '.join(flags)}")
    if rest:
        lines.append(f"Correct in the file: {', '.join(map(repr, rest))}")
    raise ColumnError("\n".join(lines), tuple(missing))


def learn(
    frame: "pd.DataFrame",
    is_train: np.ndarray,
    *,
    categories: Collection[str] = (),
    named: Collection[str] = (),
    show: "Callable[[pd.Series], str]" = _by_row,
) -> Learned:
    """Statistics of each column over the training rows; None for a column without values there.

    Args:
      frame: The columns.
      is_train: bool [rows].
      categories: Columns to treat as categories.
      named: Columns that the user names: identifiers among them are categories.
      show: Returns cells and their places, for messages.

    Raises:
      ColumnError: If some cells of a column of numbers, or of dates, are neither; or if a column holds text that is
        distinct in nearly all rows, or has more than 1000 categories. It names all such columns, with their remedies.
    """
    learned: dict[str, statistics.OfColumn | None] = {}
    refused: dict[str, ColumnError] = {}
    for name in frame.columns:
        try:
            parsed = as_text(frame[name]) if name in categories else parse(frame[name], show)
            if isinstance(parsed, np.ndarray):
                learned[name] = _numbers(parsed[is_train])
            elif isinstance(parsed, dates.Moments):
                learned[name] = _dates(parsed, is_train)
            else:
                learned[name] = _categories(parsed, parsed[is_train], is_wanted=name in named or name in categories)
        except ColumnError as error:
            refused[name] = error
    check_accepted(refused)
    return learned


def encode(frame: "pd.DataFrame", learned: Learned, *, show: "Callable[[pd.Series], str]" = _by_row) -> Encoded:
    """Encodes the columns as features.

    A missing or infinite number becomes the mean. Its column gets a second feature, 1 where a number is missing, if its
    statistics have missing values. A date becomes the number of days since 1970, treated likewise; if there are times,
    sine and cosine of the hour; and the weekday as one of seven categories. Hour and weekday are as written; days
    are in UTC if there are time zones. A missing category is a category. An unknown category is all zeros, as are hour
    and weekday of a missing date.

    Args:
      frame: The columns.
      learned: Statistics of each column.
      show: Returns cells and their places, for messages.

    Raises:
      UsageError: If a column of numbers, or of dates, holds something else; or if there are too many features.
    """
    _check_size(len(frame), learned)
    encoded = Encoded(np.zeros((len(frame), 0), np.float32), [], {}, {}, [], {})
    blocks = [encoded.values]
    for name in frame.columns:
        known = learned[name]
        if known is None:
            encoded.left_out.append(name)
            continue
        if isinstance(known, statistics.Categories):
            written = as_text(frame[name])
            is_missing, counts = np.asarray(written.isna()), encoded.missing_as_category
            blocks.append(_one_hot(written, known.categories))
            encoded.names.extend(f"{name}={category}" for category in known.categories)
            if unknown := int(written.notna().sum() - written.isin(known.categories).sum()):
                encoded.unknown[name] = unknown
        else:
            parsed, counts = _of_kind(frame[name], known, show), encoded.imputed
            days = parsed.days if isinstance(parsed, dates.Moments) else parsed
            is_missing = np.isnan(days)
            blocks.append(_standardized(days, known.days if isinstance(known, statistics.Dates) else known))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
            if isinstance(known, statistics.Dates) and isinstance(parsed, dates.Moments):
                blocks.append(_clock_and_week(parsed, known))
                encoded.names.extend([f"{name} hour sine", f"{name} hour cosine"] * known.has_times)
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


def named(column: "pd.Series") -> "pd.Series":
    """Converts a column of names, such as clients or actions, to categories in the order of `ordered`.

    Only empty cells are missing: `NA` may be Namibia.

    Raises:
      ColumnError: If names may have been merged, as they are rounded numbers; or if cells hold several values.
    """
    import pandas as pd

    if frames.holds_lists(column):
        raise ColumnError(f"Column {column.name!r} holds lists, not names: give each part a column of its own.")
    codes_of_row, distinct = pd.factorize(column)
    _check_exact(column, distinct)
    written = as_text(pd.Series(distinct, name=column.name), missing=("",))
    names = ordered(written)
    coded = np.append(codes(written, names), -1).astype(np.int32)  # The last code is for a missing cell.
    return pd.Series(pd.Categorical.from_codes(coded[codes_of_row], names), index=column.index, name=column.name)


def ordered(written: "pd.Series") -> list[str]:
    """Distinct texts, in numeric order if all are numbers."""
    distinct = written.dropna().drop_duplicates()
    numbers = numerals.numbers(distinct)
    numbers = np.where(np.isnan(numbers).any(), 0, numbers)
    return [name for _, name in sorted(zip(numbers, distinct, strict=True))]


def _check_exact(column: "pd.Series", distinct: Any) -> None:
    """Refuses whole numbers that are so large that their type has rounded them, which merges clients."""
    exact_up_to = 2**24 if column.dtype == np.float32 else 2**53
    for number in distinct:
        if isinstance(number, float | np.floating) and abs(float(number)) >= exact_up_to and number % 1 == 0:
            raise ColumnError(
                f"Column {column.name!r} holds floating-point numbers such as {number:.0f}, which are rounded beyond "
                f"{exact_up_to:,}, so that different names have become equal. Read them as text, as by "
                'dtype=str, or as whole numbers, as by dtype_backend="numpy_nullable".'
            )


def codes(written: "pd.Series", categories: Sequence[str]) -> np.ndarray:
    """Indices into the categories, int32; -1 for any other text."""
    import pandas as pd

    return pd.Categorical(written, categories=list(categories)).codes.astype(np.int32)


def parse(column: "pd.Series", show: "Callable[[pd.Series], str]" = _by_row) -> "Parsed":
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
    import pandas as pd

    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return as_text(column)
    if pd.api.types.is_datetime64_any_dtype(kind):
        return dates.of_datetimes(column)
    if pd.api.types.is_timedelta64_dtype(kind):
        column = column.dt.total_seconds() / 86400
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _finite(column)
    written = as_text(column)
    numbers, non_numbers = _split_numbers(written)
    present = written[written.notna() & ~written.isin(numerals.MISSING_AMONG_NUMBERS)]
    if present.str.fullmatch(_CODE).any() and written.dropna().str.isdecimal().all():
        return written
    _check_plain(present, non_numbers, show)
    if len(present) and len(present) - len(non_numbers) >= numerals.MOSTLY * len(present):
        _check_none(non_numbers, len(present), "numbers", show)
        return numbers
    if read := dates.of_texts(written.mask(written.isin(numerals.MISSING_AMONG_NUMBERS)), numerals.MOSTLY):
        _check_none(read[1], len(present), "dates", show)
        return read[0]
    _check_no_mixture(present, non_numbers, show)
    return written


def _check_plain(present: "pd.Series", non_numbers: "pd.Series", show: "Callable[[pd.Series], str]") -> None:
    """Refuses numbers with commas, or with several signs, which are ambiguous."""
    otherwise = non_numbers[non_numbers.str.fullmatch(_OTHERWISE)]
    has_comma = otherwise.str.contains(numerals.COMMA, regex=False).any()
    share = (len(present) - len(non_numbers) + len(otherwise)) / max(len(present), 1)
    is_many = len(non_numbers) >= 0.5 * len(present) and share > 0.5 and present.nunique() > MANY_CATEGORIES
    if otherwise.empty or not (share >= numerals.MOSTLY or is_many):
        return
    column = as_flag([present.name])
    remedy = "Give --decimal=, (a comma) if commas are decimal points, or save" if has_comma else "Save"
    raise ColumnError(
        f"Column {present.name!r} has numbers with commas or signs in them: {show(otherwise)}. A comma may be a "
        "decimal point or group thousands, and signs may be of several units, or missing where others are percents. "
        f"{remedy} plain numbers with decimal points, give --category_columns={column} if all are "
        f"categories, or leave it out with --ignore_columns={column}."
    )


def _check_no_mixture(present: "pd.Series", non_numbers: "pd.Series", show: "Callable[[pd.Series], str]") -> None:
    """Refuses a column with many categories, most of them numbers or dates."""
    is_many = present.nunique() > MANY_CATEGORIES
    if len(non_numbers) < 0.5 * len(present):
        is_gap = non_numbers.nunique() == 1 and present.drop(non_numbers.index).nunique() >= _FEWEST_MEASURED
        if is_many or is_gap:
            _check_none(non_numbers, len(present), "numbers", show)
    if is_many and (read := dates.of_texts(present, 0.5)):
        _check_none(read[1], len(present), "dates", show)


def _check_none(others: "pd.Series", num_cells: int, what: str, show: "Callable[[pd.Series], str]") -> None:
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


def _of_kind(column: "pd.Series", known: statistics.OfColumn, show: "Callable[[pd.Series], str]") -> "Parsed":
    what, kind = ("mean", np.ndarray) if isinstance(known, statistics.Numbers) else ("mean date", dates.Moments)
    parsed = parse(column, show)
    if isinstance(parsed, kind):
        return parsed
    if as_text(column).notna().any():
        raise UsageError(
            f"--public_statistics has a {what} of column {column.name!r}, which differs: these are "
            "statistics of another table."
        )
    missing = np.full(len(column), np.nan)
    return missing if kind is np.ndarray else dates.Moments(missing, missing, np.full(len(column), -1))


def _split_numbers(written: "pd.Series") -> "tuple[np.ndarray, pd.Series]":
    """Float64 [rows], NaN for anything but a finite number, and the cells that are neither a number nor empty."""
    numbers = numerals.numbers(written)
    non_numbers = written[np.isnan(numbers) & written.notna()]
    return np.where(np.isfinite(numbers), numbers, np.nan), non_numbers[
        ~non_numbers.isin(numerals.MISSING_AMONG_NUMBERS)
    ]


def numbers(column: "pd.Series") -> np.ndarray:
    """Finite numbers of a column of any type, float64 [rows]; NaN for anything else."""
    import pandas as pd

    return _finite(column) if pd.api.types.is_numeric_dtype(column.dtype) else _split_numbers(as_text(column))[0]


def _finite(column: "pd.Series") -> np.ndarray:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _numbers(seen: np.ndarray) -> statistics.Numbers | None:
    """Statistics of a column's numbers over the training rows; NaN is a missing number."""
    present = seen[~np.isnan(seen)]
    if not len(present):
        return None
    has_missing = len(present) < len(seen)
    if present.min() == present.max():  # The deviation of equal numbers need not come out as 0.
        return statistics.Numbers(float(present[0]), 0.0, has_missing)
    scale = np.abs(present).max()  # Squares of large numbers overflow.
    return statistics.Numbers(
        float(np.mean(present / scale) * scale), float(np.std(present / scale) * scale), has_missing
    )


def _dates(moments: dates.Moments, is_train: np.ndarray) -> statistics.Dates | None:
    days = _numbers(moments.days[is_train])
    if days is None:
        return None
    has_times = bool((moments.hours[is_train] > 0).any())
    return statistics.Dates(days.mean, days.deviation, days.has_missing, has_times)


def _standardized(numbers: np.ndarray, known: statistics.Numbers) -> np.ndarray:
    """Standardized numbers, float32 [rows, 1]; [rows, 2] with an indicator of missing values if there are any."""
    is_missing = np.isnan(numbers)
    standard = np.zeros(len(numbers))
    if known.deviation:
        with np.errstate(over="ignore"):  # Halves, as a difference of large numbers overflows.
            standard = (numbers / 2 - known.mean / 2) / (known.deviation / 2)
        largest = np.finfo(np.float32).max
        standard = np.clip(standard, -largest, largest)
    features = [np.where(is_missing, 0.0, standard)]
    if known.has_missing:
        features.append(is_missing)
    return np.stack(features, axis=1).astype(np.float32)


def _clock_and_week(moments: dates.Moments, known: statistics.Dates) -> np.ndarray:
    """Float32 [rows, 7], or [rows, 9] with the hour on a circle before the weekdays; 0 for a missing date."""
    angles = np.nan_to_num(moments.hours) / 24 * 2 * np.pi
    is_there = ~np.isnan(moments.days)
    clock = [np.sin(angles) * is_there, np.cos(angles) * is_there] * known.has_times
    week = [moments.weekdays == day for day in range(len(dates.WEEKDAYS))]
    return np.stack([*clock, *week], axis=1).astype(np.float32)


def _categories(written: "pd.Series", seen: "pd.Series", *, is_wanted: bool) -> statistics.Categories | None:
    """Categories of the training rows; refuses too many categories, or nearly as many as rows."""
    distinct, present = written.nunique(), written.notna().sum()
    column = as_flag([written.name])
    what = f"Column {written.name!r} is text with {distinct} distinct values"
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
    if seen.isna().all():
        return None
    return statistics.Categories(tuple(ordered(seen) + [MISSING_CATEGORY] * bool(seen.isna().any())))


def _one_hot(written: "pd.Series", categories: Sequence[str]) -> np.ndarray:
    """Float32 [rows, categories]."""
    chosen = codes(written.fillna(MISSING_CATEGORY), categories)
    return (chosen[:, np.newaxis] == np.arange(len(categories))).astype(np.float32)
