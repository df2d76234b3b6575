"""Columns of a table as features: numbers standardised, dates as days, hour and weekday, everything else one-hot.

A column is of numbers, or of dates, if at least 90% of its cells are; the others are then refused, and not guessed at.
All that is learned (means, deviations, categories, which columns have gaps) is learned from training rows, or comes
from elsewhere.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from data import csv_file, dates, statistics, table_file
from data.errors import ColumnError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    Parsed: TypeAlias = np.ndarray | dates.Moments | pd.Series  # Numbers, dates, or text.

_MOSTLY = 0.9
_MISSING_AMONG_NUMBERS = ("?", "None")  # The former in UCI's files.
MISSING_CATEGORY = "<missing>"
# In a smaller table, years or ranks are easily consecutive, and names of a true category all distinct: of 200 equally
# frequent ones, 50 rows have 48 distinct in one table of 20.
_FEW_ROWS = 50
_NEARLY_ALL = 0.95
_ROWS_COUNTED = 0.98  # Of row numbers, some may be missing or twice, and a tenth of the rows deleted.
_DENSE = 0.9
_LONGEST_WORD = 80
MANY_CATEGORIES = 50  # More are warned of, unless they are asked for.
_MISSING_WORDS = 10  # That a message proposes.
_FEWEST_MEASURED = 20  # Distinct numbers of which one other word makes no category.
_WITH_SIGNS = r"[$€£]?\s*[+-]?[\d,]*\.?\d+\s*[%$€£]?"
Learned = Mapping[str, statistics.OfColumn | None]


class Encoded(NamedTuple):
    """Columns as features.

    Attributes:
      values: float32 [rows, features].
      names: Of the features, such as `age`, `age is missing` and `color=red`.
      imputed: Missing numbers, or dates, of each column that has some.
      missing_as_category: Missing categories of each column that has some.
      left_out: Columns of which nothing is known.
      unknown: Cells of each column whose category is not known.
    """

    values: np.ndarray
    names: list[str]
    imputed: dict[str, int]
    missing_as_category: dict[str, int]
    left_out: list[str]
    unknown: dict[str, int]


def _by_row(cells: "pd.Series") -> str:
    return table_file.Table("", cells.to_frame()).cells(cells)


def learn(
    frame: "pd.DataFrame",
    is_train: np.ndarray,
    *,
    categories: Collection[str] = (),
    named: Collection[str] = (),
    told: "Callable[[pd.Series], str]" = _by_row,
    refused: Mapping[str, ColumnError] | None = None,
) -> Learned:
    """Returns what training rows say about each column; None for one that has no value there.

    Args:
      frame: The columns.
      is_train: bool [rows].
      categories: Columns of categories, whatever they hold.
      named: Columns that were asked for by name: identifiers among them are categories.
      told: Returns cells and their places, for messages.
      refused: Columns that are refused already, such as `row_numbers`: they are named with the others.

    Raises:
      ColumnError: If some cells of a column of numbers, or of dates, are none; or if a column is of text that is
        distinct in nearly all rows, or has more than 1000 categories. It names all such columns, with their remedies.
    """
    learned: dict[str, statistics.OfColumn | None] = {}
    refused = dict(refused or {})
    for name in frame.columns:
        if name in refused:
            continue
        try:
            parsed = text(frame[name]) if name in categories else _parsed(frame[name], told)
            if isinstance(parsed, np.ndarray):
                learned[name] = _numbers(parsed[is_train])
            elif isinstance(parsed, dates.Moments):
                learned[name] = _dates(parsed, is_train)
            else:
                learned[name] = _categories(parsed, parsed[is_train], is_wanted=name in named or name in categories)
        except ColumnError as error:
            refused[name] = error
    csv_file.check_accepted(refused)
    return learned


def encode(frame: "pd.DataFrame", learned: Learned, *, told: "Callable[[pd.Series], str]" = _by_row) -> Encoded:
    """Returns the columns as features.

    A missing or infinite number becomes the mean, and its column gets a second feature, 1 where a number is missing, if
    it is known to lack some. A date is the number of days since 1970, which are treated so too; where there are times,
    sine and cosine of the hour on a clock of 24; and a category of seven, the weekday. Hour and weekday are those that
    are written, days go by UTC if there are time zones. A missing category is a category. One that is not known is all
    zeros, as are hour and weekday of a missing date.

    Args:
      frame: The columns.
      learned: What is known of each.
      told: Returns cells and their places, for messages.

    Raises:
      UsageError: If a column of numbers, or of dates, holds something else.
    """
    encoded = Encoded(np.zeros((len(frame), 0), np.float32), [], {}, {}, [], {})
    blocks = [encoded.values]
    for name in frame.columns:
        known = learned[name]
        if known is None:
            encoded.left_out.append(name)
            continue
        if isinstance(known, statistics.Categories):
            written = text(frame[name])
            is_missing, counts = np.asarray(written.isna()), encoded.missing_as_category
            blocks.append(_one_hot(written, known.categories))
            encoded.names.extend(f"{name}={category}" for category in known.categories)
            if unknown := int(written.notna().sum() - written.isin(known.categories).sum()):
                encoded.unknown[name] = unknown
        else:
            parsed, counts = _of_kind(frame[name], known, told), encoded.imputed
            days = parsed.days if isinstance(parsed, dates.Moments) else parsed
            is_missing = np.isnan(days)
            if isinstance(known, statistics.Dates):
                as_numbers = statistics.Numbers(known.mean_days, known.deviation_days, known.has_missing)
            else:
                as_numbers = known
            blocks.append(_standardised(days, as_numbers))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
            if isinstance(known, statistics.Dates) and isinstance(parsed, dates.Moments):
                blocks.append(_clock_and_week(parsed, known))
                encoded.names.extend([f"{name} hour sine", f"{name} hour cosine"] * known.has_times)
                encoded.names.extend(f"{name}={day}" for day in dates.WEEKDAYS)
        if is_missing.any():
            counts[name] = int(is_missing.sum())
    return encoded._replace(values=np.concatenate(blocks, axis=1))


def row_numbers(frame: "pd.DataFrame") -> dict[str, ColumnError]:
    """Returns errors of columns that number the rows: whole, nearly all distinct and consecutive in some order.

    There is none in a table of fewer than 50 rows.
    """
    refused = {}
    for name in frame.columns if len(frame) >= _FEW_ROWS else ():
        if (numbers := _whole_numbers(frame[name])) is None:
            continue
        distinct = len(np.unique(numbers))
        if distinct >= _ROWS_COUNTED * len(frame) and distinct >= _DENSE * (float(numbers.max()) - numbers.min() + 1):
            refused[name] = ColumnError(
                f"Column {name!r} numbers the rows, from {numbers.min():.0f} to {numbers.max():.0f}, which is an "
                f"identifier and no feature: leave it out with --ignore_columns={csv_file.flag([name])}, or ask for "
                "it by naming the features with --feature_columns.",
                is_identifier=True,
            )
    return refused


def _whole_numbers(column: "pd.Series") -> np.ndarray | None:
    """Returns those that are there, or None if anything but a whole number, written without decimals, is."""
    import pandas as pd

    has_gaps = column.isna().any()
    column = column.dropna()
    if column.empty:
        return None
    # Gaps make whole numbers float.
    if has_gaps and pd.api.types.is_float_dtype(column.dtype):
        numbers = column.to_numpy(np.float64)
        return numbers if (numbers % 1 == 0).all() else None
    if pd.api.types.is_integer_dtype(column.dtype):
        return column.to_numpy(np.int64) if column.max() <= np.iinfo(np.int64).max else None
    if column.dtype == object or pd.api.types.is_string_dtype(column.dtype):
        written = column.map(str).str.strip()
        return written.to_numpy(np.int64) if written.str.fullmatch(r"[+-]?\d{1,18}").all() else None
    return None


def text(column: "pd.Series") -> "pd.Series":
    """Returns stripped text, or NaN where it is missing; whole numbers made float by gaps beside them are whole."""
    import pandas as pd

    filled = column.dropna()
    if pd.api.types.is_float_dtype(column.dtype) and (filled % 1 == 0).all():
        filled = filled.map("{:.0f}".format)
    filled = filled.astype(object).map(str).map(str.strip)
    return filled[~filled.isin(table_file.MISSING)].astype(object).reindex(column.index)


def names(column: "pd.Series") -> "pd.Series":
    """Returns the text of a column of names; if the others are numbers, what is no number is missing."""
    written = text(column)
    numbers, others = _numbers_and_others(written)
    return written.where(~np.isnan(numbers)) if others.empty and not np.isnan(numbers).all() else written


def ordered(written: "pd.Series") -> list[str]:
    """Returns the distinct texts, in the order of numbers if they all are some."""
    distinct = written.dropna().unique().tolist()
    try:
        return sorted(distinct, key=lambda name: (float(name), name))
    except ValueError:
        return sorted(distinct)


def codes(written: "pd.Series", categories: Sequence[str]) -> np.ndarray:
    """Returns int32 indices into the categories, -1 for another text."""
    import pandas as pd

    return pd.Categorical(written, categories=list(categories)).codes.astype(np.int32)


def _parsed(column: "pd.Series", told: "Callable[[pd.Series], str]") -> "Parsed":
    """Returns float64 numbers, NaN where one is missing or infinite; or dates; or else text."""
    import pandas as pd

    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return text(column)
    # Arrow's dates, unlike its times, are best read as text.
    if pd.api.types.is_datetime64_any_dtype(kind) and not str(kind).startswith("date32"):
        return dates.of_datetimes(column)
    if pd.api.types.is_timedelta64_dtype(kind):
        column = column.dt.total_seconds() / 86400
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _finite(column)
    written = text(column)
    numbers, others = _numbers_and_others(written)
    found = written.notna().sum() - written.isin(_MISSING_AMONG_NUMBERS).sum()
    if others.empty and written.dropna().map(csv_file.is_padded).any() and written.dropna().str.isdecimal().all():
        return written
    if found and found - len(others) >= _MOSTLY * found:
        _check_none(others, found, "numbers", told)
        return numbers
    if read := dates.of_texts(written.mask(written.isin(_MISSING_AMONG_NUMBERS)), _MOSTLY):
        _check_none(read[1], found, "dates", told)
        return read[0]
    _check_no_mixture(written, told)
    return written


def _check_no_mixture(written: "pd.Series", told: "Callable[[pd.Series], str]") -> None:
    """Refuses many categories of which most are numbers or dates."""
    import pandas as pd

    there = written[written.notna() & ~written.isin(_MISSING_AMONG_NUMBERS)]
    is_plain = pd.to_numeric(there, errors="coerce").notna()
    is_number = is_plain | there.str.fullmatch(_WITH_SIGNS)
    is_many = there.nunique() > MANY_CATEGORIES
    if is_number.mean() > 0.5:
        if is_plain.mean() <= 0.5 and (is_many or is_number.mean() >= _MOSTLY):
            raise ColumnError(
                f"Column {there.name!r} has numbers with signs around them: "
                f"{told(there[is_number & ~is_plain])}. Save plain numbers in one unit, or say "
                f"--category_columns={csv_file.flag([there.name])} if all are categories."
            )
        is_gap = there[~is_plain].nunique() == 1 and there[is_plain].nunique() >= _FEWEST_MEASURED
        if is_many or (is_gap and is_plain.mean() > 0.5):
            _check_none(there[~is_plain], len(there), "numbers", told)
    if is_many and (read := dates.of_texts(there, 0.5)):
        _check_none(read[1], len(there), "dates", told)


def _check_none(others: "pd.Series", found: int, what: str, told: "Callable[[pd.Series], str]") -> None:
    """Refuses cells that are none of what a column is of."""
    if others.empty:
        return
    words = [word for word in others.drop_duplicates() if len(word) <= _LONGEST_WORD][:_MISSING_WORDS]
    missing = f"--missing_values={csv_file.flag(words, quoted=True)} if such cells are missing, or " if words else ""
    raise ColumnError(
        f"Column {others.name!r} is of {what} in all but {len(others)} of {found} cells: {told(others)}. Say "
        f"{missing}--category_columns={csv_file.flag([others.name])} if all are categories.",
        words,
    )


def _of_kind(column: "pd.Series", known: statistics.OfColumn, told: "Callable[[pd.Series], str]") -> "Parsed":
    """Returns a column's numbers or dates, as its statistics say."""
    what, kind = ("mean", np.ndarray) if isinstance(known, statistics.Numbers) else ("mean date", dates.Moments)
    parsed = _parsed(column, told)
    if isinstance(parsed, kind):
        return parsed
    if text(column).notna().any():
        raise UsageError(
            f"--public_statistics has a {what} of column {column.name!r}, which holds something else: these are "
            "statistics of another table."
        )
    missing = np.full(len(column), np.nan)
    return missing if kind is np.ndarray else dates.Moments(missing, missing, np.full(len(column), -1))


def _numbers_and_others(written: "pd.Series") -> "tuple[np.ndarray, pd.Series]":
    """Returns float64 [rows], NaN for what is no finite number, and the cells that are neither that nor a gap."""
    import pandas as pd

    numbers = pd.to_numeric(written, errors="coerce")
    others = written[numbers.isna() & written.notna()]
    return _finite(numbers), others[~others.isin(_MISSING_AMONG_NUMBERS)]


def _finite(column: "pd.Series") -> np.ndarray:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _numbers(seen: np.ndarray) -> statistics.Numbers | None:
    """Returns what the training rows' numbers, NaN where one is missing, say about a column."""
    there = seen[~np.isnan(seen)]
    if not len(there):
        return None
    has_missing = len(there) < len(seen)
    if there.min() == there.max():  # The deviation of equal numbers need not come out as 0.
        return statistics.Numbers(float(there[0]), 0.0, has_missing)
    scale = np.abs(there).max()  # Squares of large numbers overflow.
    return statistics.Numbers(float(np.mean(there / scale) * scale), float(np.std(there / scale) * scale), has_missing)


def _dates(moments: dates.Moments, is_train: np.ndarray) -> statistics.Dates | None:
    days = _numbers(moments.days[is_train])
    if days is None:
        return None
    has_times = bool((moments.hours[is_train] > 0).any())
    return statistics.Dates(days.mean, days.deviation, days.has_missing, has_times)


def _standardised(numbers: np.ndarray, known: statistics.Numbers) -> np.ndarray:
    """Returns float32 [rows, 1]; or [rows, 2] if some are known to be missing, the second saying which."""
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
    """Returns float32 [rows, 7], or [rows, 9] with the hour on a circle before the weekdays; 0 for a missing date."""
    angles = np.nan_to_num(moments.hours) / 24 * 2 * np.pi
    is_there = ~np.isnan(moments.days)
    clock = [np.sin(angles) * is_there, np.cos(angles) * is_there] * known.has_times
    week = [moments.weekdays == day for day in range(len(dates.WEEKDAYS))]
    return np.stack([*clock, *week], axis=1).astype(np.float32)


def _categories(written: "pd.Series", seen: "pd.Series", *, is_wanted: bool) -> statistics.Categories | None:
    """Returns the categories of training rows, those of all rows being not too many, nor nearly as many as rows."""
    distinct, found = written.nunique(), written.notna().sum()
    column = csv_file.flag([written.name])
    what = f"Column {written.name!r} is text with {distinct} distinct values"
    if distinct > statistics.MAX_CATEGORIES:
        raise ColumnError(
            f"{what}, more than {statistics.MAX_CATEGORIES}: leave it out with --ignore_columns={column}.",
            is_identifier=True,
        )
    if not is_wanted and found >= _FEW_ROWS and distinct >= _NEARLY_ALL * found:
        raise ColumnError(
            f"{what} in {found} rows, which is an identifier and no feature: leave it out with "
            f"--ignore_columns={column}, or ask for it with --category_columns={column}.",
            is_identifier=True,
        )
    if seen.isna().all():
        return None
    return statistics.Categories(tuple(ordered(seen) + [MISSING_CATEGORY] * bool(seen.isna().any())))


def _one_hot(written: "pd.Series", categories: Sequence[str]) -> np.ndarray:
    """Returns float32 [rows, categories]."""
    chosen = codes(written.fillna(MISSING_CATEGORY), categories)
    return (chosen[:, np.newaxis] == np.arange(len(categories))).astype(np.float32)
