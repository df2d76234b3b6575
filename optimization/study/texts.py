"""Text helpers for users' input and output: similar names, words separated by commas, paths."""

import csv
import difflib
import io
import os
import re
from collections.abc import Iterable

from data.errors import UsageError

WORKING_DIRECTORY = "BUILD_WORKING_DIRECTORY"  # The user's working directory under `bazel run`.
_MOST_NAMES = 3
_ALIKE = 0.95  # One letter of twenty differs.


def near_names(word: str, known: Iterable[str]) -> list[str]:
    """Names that a word may mean: those that hardly differ, else those with all of its parts, else similar ones.

    Args:
      word: The user's word.
      known: All names; their parts are separated by underscores. Names of few parts come first.
    """
    known, wanted = list(known), _parts(word)
    alike = difflib.get_close_matches(word, known, n=_MOST_NAMES, cutoff=_ALIKE)
    whole = [name for name in known if wanted and wanted <= _parts(name)]
    return (
        alike
        or sorted(whole, key=lambda name: len(_parts(name)))
        or difflib.get_close_matches(word, known, n=_MOST_NAMES)
    )


def did_you_mean(names: Iterable[str], otherwise: str) -> str:
    """Question whether the first of some names were meant; `otherwise` advises if there are none."""
    first = list(names)[:_MOST_NAMES]
    return f"did you mean {' or '.join(filter(None, (', '.join(first[:-1]), first[-1])))}?" if first else otherwise


def _parts(name: str) -> set[str]:
    return set(re.findall("[0-9a-z]+", name.lower()))


def unknown(flag: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """Error for an unknown name: it lists similar names, or advises `otherwise`."""
    return UsageError(f"--{flag}={name} is not known: {did_you_mean(near_names(name, known), otherwise)}")


def words(value: str | None) -> list[str]:
    """Words of a value, separated by commas."""
    return [] if value is None else [word.strip() for word in value.split(",")]


def whole_numbers(flag: str, text: str) -> list[int]:
    """Numbers of a flag, separated by commas.

    Raises:
      UsageError: If one is not a whole number above 0.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--{flag}={text} must be whole numbers above 0, separated by commas.")
    return [int(word) for word in words]


def joined(words: Iterable[str]) -> str:
    """Value of a flag that takes words separated by commas; a word that holds a comma is quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(words)
    return text.getvalue()


def shown_path(path: str) -> str:
    """Path as the user would write it: relative if it is below the working directory."""
    relative = os.path.relpath(path, user_path("."))
    return path if relative.startswith("..") else relative


def user_path(path: str) -> str:
    """Absolute path; under `bazel run`, relative paths start at the user's working directory."""
    base = os.environ.get(WORKING_DIRECTORY, os.getcwd())
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
