"""The published files that are converted."""

import pathlib

from data.errors import UsageError


def find(source: pathlib.Path, name: str, *others: str) -> pathlib.Path:
    """Returns the path of a file that may also be gzipped.

    Args:
      source: Its folder.
      name: Its name, unpacked.
      *others: What the folder might hold instead, for the message.

    Raises:
      UsageError: If it is not there.
    """
    for path in (source / f"{name}.gz", source / name):
        if path.is_file():
            return path
    wanted = " or ".join([name, f"{name}.gz", *others])
    raise UsageError(f"There is no {wanted} in {source}: SOURCE_DIR must hold the files as they were published.")


def damaged(path: pathlib.Path, reason: object) -> UsageError:
    """Returns the error of a file that is not what it should be."""
    told = " ".join(str(reason).split())
    return UsageError(f"{path} is damaged ({told}): SOURCE_DIR must hold the files as they were published.")
