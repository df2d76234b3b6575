"""Files that are written whole or not at all."""

import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import BinaryIO

from data.errors import Failure


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
def whole(path: pathlib.Path) -> Iterator[BinaryIO]:
    """Yields a file that takes the place of another once it is on the disk.

    Raises:
      Failure: If it cannot be written; the other is as before, and nothing else is left.
    """
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        with told(path):
            with open(part, "wb") as file:
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
