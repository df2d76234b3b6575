"""Tables that are in this process's memory, as pandas frames: while one is lent, it has a name like a file's.

The name tells its content, so that a run's folder, which records it, is refused for another table.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "dataframe:"
_lent: "dict[str, pd.DataFrame]" = {}


@contextlib.contextmanager
def lent(frame: "pd.DataFrame") -> Iterator[str]:
    """Yields the name by which `find` finds a frame as long as it is lent; afterwards nothing here holds it."""
    name = PREFIX + checksum(frame)
    _lent[name] = frame
    try:
        yield name
    finally:
        _lent.pop(name, None)


def find(name: str) -> "pd.DataFrame | None":
    """Returns the frame of a name; None if none of it is lent."""
    return _lent.get(name)


def checksum(frame: "pd.DataFrame") -> str:
    """Returns a digest of a frame's columns, their types, its index and all values; of equal frames it is the same."""
    named = frame.reset_index(drop=all(name is None for name in frame.index.names))  # Plain row numbers are no content.
    digest = hashlib.sha256(repr(named.shape).encode())
    for place, name in enumerate(named.columns):
        column = named.iloc[:, place]
        digest.update(repr((name, str(column.dtype))).encode())
        if column.dtype.kind in "biuf" and not hasattr(column.dtype, "na_value"):
            digest.update(column.to_numpy().tobytes())
        else:
            digest.update(repr(column.astype(object).tolist()).encode())
    return digest.hexdigest()[:16]
