"""Pandas frames of this process under names like those of files, for use as tables.

A name includes a digest of the content, so that a run's folder, which records it, is refused for another table.
"""

import contextlib
import hashlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "dataframe:"
_lent: "dict[str, pd.DataFrame]" = {}


@contextlib.contextmanager
def lent(frame: "pd.DataFrame") -> Iterator[str]:
    """Yields a frame's name for `find`, while the context is open; afterwards nothing here holds the frame."""
    name = PREFIX + checksum(frame)
    _lent[name] = frame
    try:
        yield name
    finally:
        _lent.pop(name, None)


def save(frame: "pd.DataFrame", folder: pathlib.Path) -> str:
    """Saves a frame for other processes, under a name that depends on its content; returns the file's path.

    Raises:
      UsageError: If the file cannot be written, or a column has values of several types.
    """
    path = folder / f"table_{checksum(frame)[:8]}.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with_index(frame).to_parquet(path)
    except (OSError, ValueError, TypeError) as error:  # The latter two are pyarrow's, for a column of several types.
        raise UsageError(
            f"The DataFrame cannot be saved as {path} ({error}): save it yourself as data_file."
        ) from error
    return str(path)


def find(name: str) -> "pd.DataFrame | None":
    """Frame of a lent name; None if no frame was lent under it."""
    return _lent.get(name)


def with_index(frame: "pd.DataFrame", path: str = "the DataFrame") -> "pd.DataFrame":
    """Frame with numbered rows: a named index becomes a column, plain row numbers are dropped.

    Args:
      frame: The frame, which is not changed.
      path: Its name in messages.

    Raises:
      UsageError: If the index is named like a column.
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
            digest.update(repr(column.astype(object).tolist()).encode())
    return digest.hexdigest()[:16]
