"""Where a column's type is decided (`parse`), and columns as features (`learn`, `encode`).

A column is of numbers, or of dates, if at least 90% of its cells are; the others are then refused, and not guessed at.
Numbers are standardised, dates become days, hour and weekday, everything else is one-hot. All that is learned (means,
deviations, categories, which columns have gaps) is learned from training rows, or comes from elsewhere.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from data import dates, statistics, table_file
from data.errors import ColumnError, UsageError
from data.schema import as_flag
from data.table_file import as_text

if TYPE_CHECKING:
    import pandas as pd

    Parsed: TypeAlias = np.ndarray | dates.Moments | pd.Series  # Numbers, dates, or text.

_MOSTLY = 0.9
_MISSING_AMONG_NUMBERS = ("?", "None")  # The former in UCI's files.
MISSING_CATEGORY = "<missing>"
# Of 200 equally frequent names of a true category, 50 rows have 48 distinct ones in one table of 20.
_FEW_ROWS = 50
_NEARLY_ALL = 0.95
_LONGEST_WORD = 80
MANY_CATEGORIES = 50  # More are warned of, unless they are asked for.
_MISSING_WORDS = 10  # That a message proposes.
_FEWEST_MEASURED = 20  # Distinct numbers of which one other word makes no category.
_CODE = r"0\d+"  # As 007: a number would lose its zeros.
# Numbers with commas, or with signs around them, such as 1,5 and $1,200.
_OTHERWISE = (
    rf"{table_file.SIGNS}?\s*[+-]?(?:\d+\.?\d*|\.\d+|[\d.]*,\d+|\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?)"
    rf"(?:[eE][+-]?\d+)?\s*{table_file.SIGNS}?"
)
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


def check_accepted(refused: Mapping[str, ColumnError]) -> None:
    """Raises the errors of all columns together, each with its own remedies, and the flags that settle all at once.

    Args:
      refused: By column.

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
        lines.append(f"Add to the command, with what it names there already: {' '.join(flags)}")
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
    """Returns what training rows say about each column; None for one that has no value there.

    Args:
      frame: The columns.
      is_train: bool [rows].
      categories: Columns of categories, whatever they hold.
      named: Columns that were asked for by name: identifiers among them are categories.
      show: Returns cells and their places, for messages.

    Raises:
      ColumnError: If some cells of a column of numbers, or of dates, are none; or if a column is of text that is
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
    """Returns the columns as features.

    A missing or infinite number becomes the mean, and its column gets a second feature, 1 where a number is missing, if
    it is known to lack some. A date is the number of days since 1970, which are treated so too; where there are times,
    sine and cosine of the hour on a clock of 24; and a category of seven, the weekday. Hour and weekday are those that
    are written, days go by UTC if there are time zones. A missing category is a category. One that is not known is all
    zeros, as are hour and weekday of a missing date.

    Args:
      frame: The columns.
      learned: What is known of each.
      show: Returns cells and their places, for messages.

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
            blocks.append(_standardised(days, known.days if isinstance(known, statistics.Dates) else known))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
            if isinstance(known, statistics.Dates) and isinstance(parsed, dates.Moments):
                blocks.append(_clock_and_week(parsed, known))
                encoded.names.extend([f"{name} hour sine", f"{name} hour cosine"] * known.has_times)
                encoded.names.extend(f"{name}={day}" for day in dates.WEEKDAYS)
        if is_missing.any():
            counts[name] = int(is_missing.sum())
    return encoded._replace(values=np.concatenate(blocks, axis=1))


def named(column: "pd.Series") -> "pd.Series":
    """Returns a column of names as categories in the order of `ordered`; missing where all others are numbers."""
    import pandas as pd

    codes_of_row, distinct = pd.factorize(column)
    written = as_text(pd.Series(distinct, name=column.name))
    numbers, others = _numbers_and_others(written)
    if others.empty and not np.isnan(numbers).all():
        written = written.where(~np.isnan(numbers))
    names = ordered(written)
    coded = np.append(codes(written, names), -1).astype(np.int32)  # The last is that of a gap.
    return pd.Series(pd.Categorical.from_codes(coded[codes_of_row], names), index=column.index, name=column.name)


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


def parse(column: "pd.Series", show: "Callable[[pd.Series], str]" = _by_row) -> "Parsed":
    """Decides what a column is: numbers, dates or categories.

    A type that says so (a truth value, a category, a time, a number) decides alone. Of text, the first of these counts:

    1. Whole numbers of which some begin with a zero, such as 007, are categories.
    2. If at least 90% of the cells are numbers, the column is of numbers; `?` and `None` are missing.
    3. If at least 90% are dates, it is of dates.
    4. Everything else is a category, unless it looks like numbers or dates that are written in several ways.

    Args:
      column: Its cells.
      show: Returns cells and their places, for messages.

    Returns:
      Numbers float64 [rows], NaN where one is missing or infinite; or dates; or else text.

    Raises:
      ColumnError: If some cells of a column of numbers, or of dates, are none, or numbers have commas or several signs.
    """
    import pandas as pd

    kind = column.dtype
    if pd.api.types.is_bool_dtype(kind) or isinstance(kind, pd.CategoricalDtype):
        return as_text(column)
    # Arrow's dates, unlike its times, are best read as text.
    if pd.api.types.is_datetime64_any_dtype(kind) and not str(kind).startswith("date32"):
        return dates.of_datetimes(column)
    if pd.api.types.is_timedelta64_dtype(kind):
        column = column.dt.total_seconds() / 86400
    if pd.api.types.is_numeric_dtype(column.dtype):
        return _finite(column)
    written = as_text(column)
    numbers, others = _numbers_and_others(written)
    there = written[written.notna() & ~written.isin(_MISSING_AMONG_NUMBERS)]
    if there.str.fullmatch(_CODE).any() and written.dropna().str.isdecimal().all():
        return written
    _check_plain(there, others, show)
    if len(there) and len(there) - len(others) >= _MOSTLY * len(there):
        _check_none(others, len(there), "numbers", show)
        return numbers
    if read := dates.of_texts(written.mask(written.isin(_MISSING_AMONG_NUMBERS)), _MOSTLY):
        _check_none(read[1], len(there), "dates", show)
        return read[0]
    _check_no_mixture(there, others, show)
    return written


def _check_plain(there: "pd.Series", others: "pd.Series", show: "Callable[[pd.Series], str]") -> None:
    """Refuses numbers that are written with commas, or with several signs, which may mean two things."""
    otherwise = others[others.str.fullmatch(_OTHERWISE)]
    share = (len(there) - len(others) + len(otherwise)) / max(len(there), 1)
    is_many = len(others) >= 0.5 * len(there) and share > 0.5 and there.nunique() > MANY_CATEGORIES
    if otherwise.empty or not (share >= _MOSTLY or is_many):
        return
    column = as_flag([there.name])
    raise ColumnError(
        f"Column {there.name!r} has numbers with commas or signs in them: {show(otherwise)}. A comma may be a decimal "
        f"or group thousands, and signs may be of several units: save plain numbers with decimal points, or say "
        f"--category_columns={column} if all are categories, or leave the column out with --ignore_columns={column}."
    )


def _check_no_mixture(there: "pd.Series", others: "pd.Series", show: "Callable[[pd.Series], str]") -> None:
    """Refuses many categories of which most are numbers or dates."""
    is_many = there.nunique() > MANY_CATEGORIES
    if len(others) < 0.5 * len(there):
        is_gap = others.nunique() == 1 and there.drop(others.index).nunique() >= _FEWEST_MEASURED
        if is_many or is_gap:
            _check_none(others, len(there), "numbers", show)
    if is_many and (read := dates.of_texts(there, 0.5)):
        _check_none(read[1], len(there), "dates", show)


def _check_none(others: "pd.Series", found: int, what: str, show: "Callable[[pd.Series], str]") -> None:
    """Refuses cells that are none of what a column is of."""
    if others.empty:
        return
    words = [word for word in others.drop_duplicates() if len(word) <= _LONGEST_WORD][:_MISSING_WORDS]
    missing = f"--missing_values={as_flag(words, quoted=True)} if such cells are missing, or " if words else ""
    raise ColumnError(
        f"Column {others.name!r} is of {what} in all but {len(others)} of {found} cells: {show(others)}. Say "
        f"{missing}--category_columns={as_flag([others.name])} if all are categories.",
        words,
    )


def _of_kind(column: "pd.Series", known: statistics.OfColumn, show: "Callable[[pd.Series], str]") -> "Parsed":
    """Returns a column's numbers or dates, as its statistics say."""
    what, kind = ("mean", np.ndarray) if isinstance(known, statistics.Numbers) else ("mean date", dates.Moments)
    parsed = parse(column, show)
    if isinstance(parsed, kind):
        return parsed
    if as_text(column).notna().any():
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
    column = as_flag([written.name])
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
