"""CIFAR-100's Python version: an archive of two pickles, `cifar-100-python/train` and `cifar-100-python/test`.

A pickle can run whatever it says. Here it can make arrays, and nothing else.
"""

import io
import pickle
import tarfile
import zlib
from typing import IO, Any

import numpy as np

PARTS = ("train", "test")
_FOLDER = "cifar-100-python"
# What arrays, and bytes that Python 3 has written for Python 2, are made of.
_HARMLESS = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it calls {module_name}.{global_name}, which no array needs")
        return super().find_class(module_name, global_name)


def read(file: IO[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the images of a pickle, uint8 [examples, 32, 32, 3], and their fine labels, int64 [examples].

    Raises:
      ValueError: If it is no such pickle.
    """
    try:
        values = _Unpickler(io.BytesIO(file.read()), encoding="bytes").load()
        pixels, labels = values[b"data"], np.array(values[b"fine_labels"])
        return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels
    except Exception as error:  # What a damaged pickle raises is almost anything.
        raise ValueError(f"{type(error).__name__}: {error}") from error


def read_archive(file: IO[bytes]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns what `read` does for each of `PARTS`, from `cifar-100-python.tar.gz`.

    Raises:
      ValueError: If it is no such archive.
    """
    try:
        with tarfile.open(fileobj=file) as archive:
            members = [archive.extractfile(f"{_FOLDER}/{part}") for part in PARTS]
            return [read(member or io.BytesIO()) for member in members]
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error) as error:
        raise ValueError(str(error)) from error
