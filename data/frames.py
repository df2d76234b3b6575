"""Gives pandas data frames in memory names like those of files, so that they can be used as tables.

A name includes a digest of the content. The folder of a run records the name, so it is refused for another table.
"""

import contextlib
import hashlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "dataframe:"
_SEVERAL = (list, tuple, set, frozenset, dict, np.ndarray)
LENT: "dict[str, pd.DataFrame]" = {}  # Frames that are available as tables, by name.


@contextlib.contextmanager
def lent(frame: "pd.DataFrame") -> Iterator[str]:
    """Adds a frame to `LENT` and yields its name; removes it when the context closes."""
    name = PREFIX + checksum(frame)
    LENT[name] = frame
    try:
        yield name
    finally:
        LENT.pop(name, None)


def save(frame: "pd.DataFrame", folder: pathlib.Path) -> str:
    """Saves a frame for other processes, under a name that depends on the content, and returns the path.

    Raises:
      UsageError: If the file cannot be written, or if a column has values of several types.
    """
    path = folder / f"table_{checksum(frame)[:8]}.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with_index(frame).to_parquet(path)
    except (OSError, ValueError, TypeError) as error:  # pyarrow raises the latter two if a column has several types.
        raise UsageError(f"The DataFrame cannot be saved as {path} ({error}): save it yourself.") from error
    return str(path)


def with_plain_types(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Frame with NumPy types and NaN for missing numbers; integer and Boolean columns with gaps keep their types."""
    columns = {name: frame[name] for name in frame.columns}
    plain = {name: _plain(column) for name, column in columns.items()}
    return frame.assign(**{name: column for name, column in plain.items() if column is not columns[name]})


def _plain(column: "pd.Series") -> "pd.Series":
    import pandas as pd

    kind, types = column.dtype, pd.api.types
    if isinstance(kind, pd.ArrowDtype) and types.is_integer_dtype(kind):
        return column.astype(kind.numpy_dtype.name.replace("int", "Int").replace("u", "U"))
    if isinstance(kind, pd.ArrowDtype):
        import pyarrow as pa

        return pd.Series(pa.array(column).to_pandas().array, column.index, name=column.name)
    if isinstance(kind, pd.StringDtype) or kind.kind == "c":
        return column.astype(object)
    if types.is_extension_array_dtype(kind) and types.is_float_dtype(kind):
        return pd.Series(column.to_numpy(kind.type, na_value=np.nan), column.index, name=column.name)
    return column


def holds_lists(column: "pd.Series") -> bool:
    """Whether some cells hold several values: lists, arrays, sets or dictionaries."""
    import pandas as pd

    if column.dtype != object or not pd.api.types.infer_dtype(column, skipna=True).startswith("mixed"):
        return False
    return any(isinstance(cell, _SEVERAL) for cell in column)


def with_index(frame: "pd.DataFrame", path: str = "the DataFrame") -> "pd.DataFrame":
    """Frame with numbered rows: a named index becomes a column, and plain row numbers are dropped.

    Args:
      frame: The frame, which is not changed.
      path: Name of the frame in messages.

    Raises:
      UsageError: If the index has the same name as a column.
    """
    try:
        return frame.reset_index(drop=all(name is None for name in frame.index.names))
    except ValueError as error:
        raise UsageError(
            f"The index of {path} is named like a column ({error}): rename it, or drop it by reset_index(drop=True)."
        ) from error


def checksum(frame: "pd.DataFrame") -> str:
    """Digest of a frame's columns, types, index and values; equal frames have equal digests.

    Raises:
      UsageError: See `with_index`.
    """
    named = with_index(frame)
    digest = hashlib.sha256(repr(named.shape).encode())
    for place, name in enumerate(named.columns):
        column = named.iloc[:, place]
        digest.update(repr((name, str(column.dtype))).encode())
        if column.dtype.kind in "biuf" and not hasattr(column.dtype, "na_value"):
            digest.update(column.to_numpy().tobytes())
        else:
            cells = (cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in column.astype(object))
            digest.update(repr(list(cells)).encode())  # The `repr` of a large array would omit elements.
    return digest.hexdigest()[:16]
