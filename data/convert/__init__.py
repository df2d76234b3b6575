"""What makes the files that tasks read from published originals, and where those are found."""

import pathlib

from data.errors import UsageError


def find(source: pathlib.Path, *names: str) -> pathlib.Path:
    """Path of the first of these files that a folder holds.

    Raises:
      UsageError: If it holds none.
    """
    for name in names:
        if (path := source / name).is_file():
            return path
    wanted = " or ".join(names)
    raise UsageError(f"There is no {wanted} in {source}: SOURCE_DIR must hold the files as they were published.")


def damaged(path: pathlib.Path, reason: object) -> UsageError:
    """Error for a damaged source file."""
    told = " ".join(str(reason).split())
    return UsageError(f"{path} is damaged ({told}): SOURCE_DIR must hold the files as they were published.")
