"""Where the user's own files lie: `--data_dir`, else the environment's FEDBANDITS_DATA_DIR."""

import os
import pathlib

from data.errors import UsageError

_HOW_TO_NAME = "name its folder with --data_dir or FEDBANDITS_DATA_DIR."


def find(data_dir: str | None, name: str) -> pathlib.Path:
    """Returns the path of the file of this name.

    Args:
      data_dir: Its folder; None or empty for the environment's.
      name: File name.

    Raises:
      UsageError: If no folder is named, or the file is not in it.
    """
    path = place(data_dir, name) / name
    if not path.is_file():
        raise UsageError(f"There is no {name} in {path.parent}: {_HOW_TO_NAME}")
    return path


def place(data_dir: str | None, wanted: str) -> pathlib.Path:
    """Returns what `--data_dir`, else FEDBANDITS_DATA_DIR, names, whether or not it exists.

    Args:
      data_dir: Value of the flag.
      wanted: What the task reads, for the message.

    Raises:
      UsageError: If neither is given.
    """
    named = data_dir or os.environ.get("FEDBANDITS_DATA_DIR")
    if not named:
        raise UsageError(f"This task reads {wanted}: {_HOW_TO_NAME}")
    return pathlib.Path(named)
