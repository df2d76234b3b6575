"""Readers of published image formats: IDX files, and CIFAR-100's Python version.

MNIST, QMNIST's labels and Fashion-MNIST are IDX files: two zero bytes, one for the type of the values, one for the
number of dimensions, each size in four bytes, then the values; all big-endian. CIFAR-100 is an archive of two pickles,
`cifar-100-python/train` and `cifar-100-python/test`. A pickle can run any code; this
reader allows only arrays.
"""

import gzip
import io
import math
import pathlib
import pickle
import struct
import tarfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

_TYPES: Mapping[str, tuple[int, Any]] = {"uint8": (0x08, np.dtype(np.uint8)), "int32": (0x0C, np.dtype(">i4"))}


def read_idx(path: pathlib.Path, values: str, dimensions: int) -> np.ndarray:
    """Values of a file; it is gzipped if its name ends in `.gz`.

    Args:
      path: The file.
      values: Their type, `uint8` or `int32`.
      dimensions: Number of dimensions that the file must have.

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


CIFAR_PARTS = ("train", "test")
_FOLDER = "cifar-100-python"
# Classes of arrays, and of bytes that Python 3 wrote for Python 2.
_HARMLESS = {("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it calls {module_name}.{global_name}, which no array needs")
        return super().find_class(module_name, global_name)


def read_cifar(file: IO[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Images of a pickle, uint8 [examples, 32, 32, 3], and their fine labels, int64 [examples].

    Raises:
      ValueError: If it is no such pickle.
    """
    try:
        values = _Unpickler(io.BytesIO(file.read()), encoding="bytes").load()
        pixels, labels = values[b"data"], np.array(values[b"fine_labels"])
        return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels
    except Exception as error:  # A damaged pickle raises many types.
        raise ValueError(f"{type(error).__name__}: {error}") from error


def read_cifar_archive(file: IO[bytes]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Result of `read_cifar` for each of `CIFAR_PARTS`, from `cifar-100-python.tar.gz`.

    Raises:
      ValueError: If it is no such archive.
    """
    try:
        with tarfile.open(fileobj=file) as archive:
            members = [archive.extractfile(f"{_FOLDER}/{part}") for part in CIFAR_PARTS]
            return [read_cifar(member or io.BytesIO()) for member in members]
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error


def normalize(pixels: np.ndarray) -> np.ndarray:
    """Images as float32 [examples, height, width, channels] in [0, 1]; the input may lack channels.

    Pixels of float32 are returned unchanged.
    """
    if pixels.dtype == np.float32:
        return pixels
    with_channels = pixels if pixels.ndim == 4 else pixels[..., np.newaxis]
    return with_channels.astype(np.float32) / np.float32(255)
