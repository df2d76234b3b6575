"""Columns of a table as features: numbers standardised, everything else one-hot.

All that is learned (means, deviations, categories, which columns have gaps) is learned from training rows.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from data import table_file
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

MAX_CATEGORIES = 1000
_MISSING_AMONG_NUMBERS = ("?", "None")  # The former in UCI's files.
_MISSING_CATEGORY = "<missing>"


class Encoded(NamedTuple):
    """Columns as features.

    Attributes:
      values: float32 [rows, features].
      names: Of the features, such as `age`, `age is missing` and `color=red`.
      imputed: Missing numbers of each column that has some.
      missing_as_category: Missing categories of each column that has some.
      left_out: Columns without a value in training rows.
    """

    values: np.ndarray
    names: list[str]
    imputed: dict[str, int]
    missing_as_category: dict[str, int]
    left_out: list[str]


def encode(frame: "pd.DataFrame", is_train: np.ndarray) -> Encoded:
    """Returns the columns as features.

    A missing or infinite number becomes the mean, and its column gets a second feature, 1 where a number is missing, if
    training rows lack some. A missing category is a category. One that training rows lack is all zeros.

    Args:
      frame: The columns.
      is_train: bool [rows].

    Raises:
      UsageError: If a column has more than 1000 categories.
    """
    encoded = Encoded(np.zeros((len(frame), 0), np.float32), [], {}, {}, [])
    blocks = [encoded.values]
    for name in frame.columns:
        column = _parsed(frame[name])
        is_missing = np.asarray(column.isna())
        if is_missing[is_train].all():
            encoded.left_out.append(name)
            continue
        if column.dtype == np.float64:
            blocks.append(_standardised(column.to_numpy(), is_train))
            encoded.names.extend([name, f"{name} is missing"][: blocks[-1].shape[1]])
        else:
            block, categories = _one_hot(column, is_train)
            blocks.append(block)
            encoded.names.extend(f"{name}={category}" for category in categories)
        if is_missing.any():
            counts = encoded.imputed if column.dtype == np.float64 else encoded.missing_as_category
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


def codes(written: "pd.Series", categories: list[str]) -> np.ndarray:
    """Returns int32 indices into the categories, -1 for another text."""
    import pandas as pd

    return pd.Categorical(written, categories=categories).codes.astype(np.int32)


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
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    return pd.Series(np.where(np.isfinite(numbers), numbers, np.nan), column.index)


def _standardised(numbers: np.ndarray, is_train: np.ndarray) -> np.ndarray:
    """Returns float32 [rows, 1]; or [rows, 2] if training rows lack some numbers, the second saying which."""
    is_missing = np.isnan(numbers)
    seen = numbers[is_train & ~is_missing]
    standard = np.zeros(len(numbers))
    if seen.min() < seen.max():  # The deviation of equal numbers need not come out as 0.
        scale = np.abs(seen).max()  # Squares of large numbers overflow.
        standard = (numbers / scale - np.mean(seen / scale)) / np.std(seen / scale)
    features = [np.where(is_missing, 0.0, standard)]
    if is_missing[is_train].any():
        features.append(is_missing)
    return np.stack(features, axis=1).astype(np.float32)


def _one_hot(written: "pd.Series", is_train: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Returns float32 [rows, categories], and the categories of training rows."""
    if (distinct := written.nunique()) > MAX_CATEGORIES:
        raise UsageError(
            f"Column {written.name!r} is text with {distinct} distinct values, more than {MAX_CATEGORIES}: leave it "
            "out by naming the other columns with --feature_columns."
        )
    seen = written[is_train]
    categories = ordered(seen) + [_MISSING_CATEGORY] * bool(seen.isna().any())
    chosen = codes(written.fillna(_MISSING_CATEGORY), categories)
    return (chosen[:, np.newaxis] == np.arange(len(categories))).astype(np.float32), categories
