"""Columns of a table as features: numbers standardised, everything else one-hot.

All that is learned (means, deviations, categories, which columns have gaps) is learned from training rows, or comes
from elsewhere.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data import statistics, table_file
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

_MISSING_AMONG_NUMBERS = ("?", "None")  # The former in UCI's files.
_MISSING_CATEGORY = "<missing>"
Learned = Mapping[str, statistics.Numbers | statistics.Categories | None]


class Encoded(NamedTuple):
    """Columns as features.

    Attributes:
      values: float32 [rows, features].
      names: Of the features, such as `age`, `age is missing` and `color=red`.
      imputed: Missing numbers of each column that has some.
      missing_as_category: Missing categories of each column that has some.
      left_out: Columns of which nothing is known.
    """

    values: np.ndarray
    names: list[str]
    imputed: dict[str, int]
    missing_as_category: dict[str, int]
    left_out: list[str]


def learn(frame: "pd.DataFrame", is_train: np.ndarray) -> Learned:
    """Returns what training rows say about each column; None for one that has no value there.

    Args:
      frame: The columns.
      is_train: bool [rows].

    Raises:
      UsageError: If a column has more than 1000 categories.
    """
    learned: dict[str, statistics.Numbers | statistics.Categories | None] = {}
    for name in frame.columns:
        column = _parsed(frame[name])
        seen = column[is_train]
        if seen.isna().all():
            learned[name] = None
        elif column.dtype == np.float64:
            learned[name] = _numbers(seen.to_numpy())
        else:
            learned[name] = _categories(column, seen)
    return learned


def encode(frame: "pd.DataFrame", learned: Learned) -> Encoded:
    """Returns the columns as features.

    A missing or infinite number becomes the mean, and its column gets a second feature, 1 where a number is missing, if
    it is known to lack some. A missing category is a category. One that is not known is all zeros.

    Args:
      frame: The columns.
      learned: What is known of each.

    Raises:
      UsageError: If a column of numbers has none.
    """
    encoded = Encoded(np.zeros((len(frame), 0), np.float32), [], {}, {}, [])
    blocks = [encoded.values]
    for name in frame.columns:
        known = learned[name]
        if known is None:
            encoded.left_out.append(name)
            continue
        if isinstance(known, statistics.Numbers):
            numbers = _as_numbers(frame[name])
            is_missing, counts = np.isnan(numbers), encoded.imputed
            if is_missing.all() and frame[name].notna().any():
                raise UsageError(
                    f"--public_statistics has a mean of column {name!r}, which holds no number here: these are "
                    "statistics of another table."
                )
            blocks.append(_standardised(numbers, known))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
        else:
            written = text(frame[name])
            is_missing, counts = np.asarray(written.isna()), encoded.missing_as_category
            blocks.append(_one_hot(written, known.categories))
            encoded.names.extend(f"{name}={category}" for category in known.categories)
        if is_missing.any():
            counts[name] = int(is_missing.sum())
    return encoded._replace(values=np.concatenate(blocks, axis=1))


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
    return written.where(_parsed(written).notna())


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


def _parsed(column: "pd.Series") -> "pd.Series":
    """Returns float64 numbers, or text where there is anything else; NaN where a value is missing or infinite."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        return text(column)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        written = text(column)
        column = pd.to_numeric(written, errors="coerce")
        others = written[column.isna() & written.notna()]
        if column.isna().all() or not others.isin(_MISSING_AMONG_NUMBERS).all():
            return written
    return pd.Series(_finite(column), column.index)


def _as_numbers(column: "pd.Series") -> np.ndarray:
    """Returns float64 [rows], NaN for what is no finite number."""
    import pandas as pd

    is_text = pd.api.types.is_bool_dtype(column.dtype) or not pd.api.types.is_numeric_dtype(column.dtype)
    return _finite(pd.to_numeric(text(column), errors="coerce") if is_text else column)


def _finite(column: "pd.Series") -> np.ndarray:
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _numbers(seen: np.ndarray) -> statistics.Numbers:
    """Returns what the training rows' numbers, NaN where one is missing, say about a column."""
    there = seen[~np.isnan(seen)]
    has_missing = len(there) < len(seen)
    if there.min() == there.max():  # The deviation of equal numbers need not come out as 0.
        return statistics.Numbers(float(there[0]), 0.0, has_missing)
    scale = np.abs(there).max()  # Squares of large numbers overflow.
    return statistics.Numbers(float(np.mean(there / scale) * scale), float(np.std(there / scale) * scale), has_missing)


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


def _categories(written: "pd.Series", seen: "pd.Series") -> statistics.Categories:
    """Returns the categories of training rows, those of all rows being not too many."""
    if (distinct := written.nunique()) > statistics.MAX_CATEGORIES:
        raise UsageError(
            f"Column {written.name!r} is text with {distinct} distinct values, more than {statistics.MAX_CATEGORIES}: "
            "leave it out by naming the other columns with --feature_columns."
        )
    return statistics.Categories(tuple(ordered(seen) + [_MISSING_CATEGORY] * bool(seen.isna().any())))


def _one_hot(written: "pd.Series", categories: Sequence[str]) -> np.ndarray:
    """Returns float32 [rows, categories]."""
    chosen = codes(written.fillna(_MISSING_CATEGORY), categories)
    return (chosen[:, np.newaxis] == np.arange(len(categories))).astype(np.float32)
