"""Names in-memory pandas data frames the way files are named, so that they can be used as tables.

A name includes a digest of the content. A run's folder records the name, so that the run cannot continue with a
different table.
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
        raise UsageError(f"The DataFrame cannot be saved as {path} ({error}): save it to a file yourself.") from error
    return str(path)


def with_index(frame: "pd.DataFrame", path: str = "the DataFrame") -> "pd.DataFrame":
    """Frame with numbered rows: a named index becomes a column, and an index without a name is dropped.

    Args:
      frame: The frame, which is not changed.
      path: Name of the frame in messages.

    Raises:
      UsageError: If the index has the same name as a column.
    """
    try:
        return frame.reset_index(drop=all(name is None for name in frame.index.names))
    except ValueError as error:
        remedy = "rename it, or drop it with reset_index(drop=True)"
        raise UsageError(f"The index of {path} has the same name as a column ({error}): {remedy}.") from error


def checksum(frame: "pd.DataFrame") -> str:
    """Digest of a frame's columns, types and values, and of its index if that has a name.

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
