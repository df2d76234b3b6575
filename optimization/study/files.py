"""Files that are written whole or not at all."""

import contextlib
import os
import pathlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

from data.errors import Failure, UsageError

if TYPE_CHECKING:
    import matplotlib.figure
    import numpy as np


@contextlib.contextmanager
def told(path: pathlib.Path) -> Iterator[None]:
    """Names the file in the error of one who writes it.

    Raises:
      Failure: Instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise Failure(
            f"{path} cannot be written ({error.strerror or error}). What was written before is kept."
        ) from error


@contextlib.contextmanager
def whole(path: pathlib.Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yields a file that takes the place of another once it is on the disk.

    Args:
      path: Where to.
      mode: Its permissions, of which the process's mask may take some.

    Raises:
      Failure: If it cannot be written; the other is as before, and nothing else is left.
    """
    path = path.resolve()  # What a link names is replaced, not the link.
    if path.exists() and not path.is_file():  # Such as /dev/null.
        with told(path), open(path, "wb") as file:
            yield file
        return
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        with told(path):
            with open(part, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def replace(path: pathlib.Path, content: bytes) -> None:
    """Writes a file whole.

    Raises:
      Failure: See `whole`.
    """
    with whole(path) as file:
        file.write(content)


def save_arrays(path: pathlib.Path, arrays: Mapping[str, "np.typing.ArrayLike"], mode: int = 0o666) -> None:
    """Writes a NumPy archive whole, as `np.savez`, which would complain later of a disk that was full.

    Args:
      path: Where to.
      arrays: The arrays by name.
      mode: See `whole`.

    Raises:
      Failure: See `whole`.
    """
    import numpy as np

    with whole(path, mode) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


def read_arrays(path: pathlib.Path) -> "dict[str, np.ndarray]":
    """Returns the arrays by name that `save_arrays` wrote as a model.

    Raises:
      UsageError: If the file is not readable.
    """
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception as error:  # What NumPy and zipfile raise over a damaged archive is almost anything.
        raise UsageError(f"{path} is not readable as a model ({error}).") from error


def save_picture(figure: "matplotlib.figure.Figure", path: str | os.PathLike, dpi: int) -> None:
    """Writes a picture whole, in the format that its name says.

    Raises:
      Failure: See `whole`.
    """
    import matplotlib

    path = pathlib.Path(path)
    # TrueType instead of Type 3 fonts, which publishers refuse.
    with whole(path) as file, matplotlib.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=dpi)


PICTURES = (".png", ".pdf", ".svg")


def check_output(flag: str, path: pathlib.Path, formats: Sequence[str] = ()) -> None:
    """Refuses a file that cannot be written, before what it is to hold is computed.

    Args:
      flag: Who names it.
      path: The file.
      formats: Endings of which it must have one.

    Raises:
      UsageError: Naming the flag.
    """
    if formats and path.suffix not in formats:
        raise UsageError(f"--{flag}: {path.name} is no {' or '.join(formats)} file.")
    if not path.parent.is_dir():
        raise UsageError(f"--{flag}: there is no folder {path.parent}.")
    if path.is_dir():
        raise UsageError(f"--{flag}: {path} is a folder, not a file.")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--{flag}: the folder {path.parent} cannot be written.")
