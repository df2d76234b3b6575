"""Conversion of published data sets to the files that tasks read."""

import pathlib

from data.errors import UsageError


def find(source: pathlib.Path, *names: str) -> pathlib.Path:
    """Path of the first of these files that is in a folder.

    Raises:
      UsageError: If none of them is in it.
    """
    for name in names:
        if (path := source / name).is_file():
            return path
    wanted = " or ".join(names)
    raise UsageError(f"There is no {wanted} in {source}: SOURCE_DIR must hold the published files unchanged.")


def damaged(path: pathlib.Path, reason: object) -> UsageError:
    """Error for a damaged source file."""
    cause = " ".join(str(reason).split())
    return UsageError(f"{path} is damaged ({cause}): SOURCE_DIR must hold the published files unchanged.")
