"""IDX files, the form in which MNIST, QMNIST's labels and Fashion-MNIST are published.

Two zero bytes, one for the type of the values, one for the number of dimensions, each size in four bytes, then the
values; all big-endian.
"""

import gzip
import math
import pathlib
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

_TYPES: Mapping[str, tuple[int, Any]] = {"uint8": (0x08, np.dtype(np.uint8)), "int32": (0x0C, np.dtype(">i4"))}


def read(path: pathlib.Path, values: str, dimensions: int) -> np.ndarray:
    """Returns the values of a file, gzipped if its name ends in `.gz`.

    Args:
      path: The file.
      values: Their type, `uint8` or `int32`.
      dimensions: How many the file must have.

    Raises:
      ValueError: If the file is not readable, or holds something else.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error
    kind, dtype = _TYPES[values]
    start = 4 + 4 * dimensions
    magic = bytes((0, 0, kind, dimensions))
    if content[:4] != magic or len(content) < start:
        raise ValueError(f"it begins with {content[:4].hex()}, not with {magic.hex()}")
    shape = struct.unpack_from(f">{dimensions}I", content, 4)
    if (size := len(content) - start) != math.prod(shape) * dtype.itemsize:
        wanted = " x ".join(map(str, shape))
        raise ValueError(f"its header promises {wanted} values of {dtype.itemsize} bytes, and {size} bytes follow")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(values)
