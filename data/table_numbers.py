"""A column whose every cell must be a number, such as rewards; what is none is named with its place."""

from typing import TYPE_CHECKING

import numpy as np

from data import columns
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from data.table_file import Table


def finite(
    column: "pd.Series", flag: str, what: str, table: "Table", dtype: type = np.float64, each: str = ""
) -> np.ndarray:
    """Returns a column's numbers.

    Args:
      column: Of a table, with its index.
      flag: What names it, for messages.
      what: What each is, such as `reward`.
      table: Where it is from.
      dtype: What they are kept as, and must be finite in.
      each: What a row must have one of, where it is more than one: ` for every action`.

    Returns:
      [rows] of the dtype, finite.

    Raises:
      UsageError: If a cell is missing, not finite or no number.
    """
    import pandas as pd

    values = column
    if not pd.api.types.is_numeric_dtype(column.dtype):
        written = columns.text(column)
        values = pd.to_numeric(written, errors="coerce")
        wrong = written[values.isna() & written.notna()]
        if len(wrong):
            raise UsageError(
                f"{flag}: {wrong.iloc[0]!r} in column {column.name!r} ({table.place(wrong.index[0])} of {table.path}) "
                f"is no number; a {what} must be one."
            )
    exact = values.to_numpy(np.float64, na_value=np.nan)
    with np.errstate(over="ignore"):
        found = exact.astype(dtype)
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        value = "a missing value" if np.isnan(exact[row]) else f"{exact[row]}"
        count = int((~np.isfinite(found)).sum())
        more = f" (and {count - 1} more)" if count > 1 else ""
        raise UsageError(
            f"{flag}: {value} in column {column.name!r} ({table.place(column.index[row])} of {table.path}) is not "
            f"finite{more}; every row must have a {what}{each}."
        )
    return found
