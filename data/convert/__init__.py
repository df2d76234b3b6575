"""Conversion of published data sets and logs of other software to the files that tasks read."""

import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any

from data.errors import UsageError

# One or two tables: one row per decision and offered action, and perhaps one row per action with its features. Then,
# flags of `bandits.run_federated` that assign roles to their columns, and sentences on what was converted or left out.
Converted = tuple[Sequence[Any], Sequence[str], Sequence[str]]


def find(source: pathlib.Path, *names: str) -> pathlib.Path:
    """Path of the first of the named files that the folder `source` has.

    Raises:
      UsageError: If it has none of them.
    """
    for name in names:
        if (path := source / name).is_file():
            return path
    wanted = " or ".join(names)
    raise UsageError(f"There is no {wanted} in {source}: SOURCE must hold the published files unchanged.")


def find_folder(source: pathlib.Path, *choices: Sequence[str]) -> Any:
    """Folder that holds all files of one of the choices: the source itself, or a folder directly in it.

    Args:
      source: Folder, or zip archive.
      *choices: Alternatives, each of which has the names of all files that the folder must hold.

    Returns:
      A `pathlib.Path`, or a `zipfile.Path`.

    Raises:
      UsageError: If there is no such folder, or if the archive is damaged.
    """
    if not source.is_dir() and not zipfile.is_zipfile(source):
        raise UsageError(f"{source} is neither a folder nor a zip archive.")
    root: Any = source if source.is_dir() else zipfile.Path(source)
    for folder in (root, *sorted((path for path in root.iterdir() if path.is_dir()), key=str)):
        if any(all((folder / name).is_file() for name in names) for names in choices):
            return folder
    wanted = ", or ".join(" and ".join(names) for names in choices)
    raise UsageError(f"There is no {wanted} in {source}: SOURCE must hold the published files unchanged.")


def damaged(path: pathlib.Path, reason: object) -> UsageError:
    """Error for a damaged source file."""
    cause = " ".join(str(reason).split())
    return UsageError(f"{path} is damaged ({cause}): SOURCE must hold the published files unchanged.")
