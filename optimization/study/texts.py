"""What users write and read: names that are nearly right, words separated by commas, paths."""

import csv
import difflib
import io
import os
import re
from collections.abc import Callable, Iterable

from data.errors import UsageError

WORKING_DIRECTORY = "BUILD_WORKING_DIRECTORY"  # Where the user is, under `bazel run`.
_MOST_NAMES = 3
_ALIKE = 0.95  # A letter of twenty.


def near_names(word: str, known: Iterable[str]) -> list[str]:
    """Returns the names that a word may stand for, the likeliest first; none if nothing is near.

    They are those of which hardly a letter differs; else those that have all the parts of the word; else parts that
    begin so; else those of whose parts it is the initials; and else those that are spelt alike. Short names come first.

    Args:
      word: What was written.
      known: All names; their parts are separated by underscores.
    """
    known, wanted = list(known), _parts(word)
    if not wanted:
        return []
    if alike := difflib.get_close_matches(word, known, n=_MOST_NAMES, cutoff=_ALIKE):
        return alike
    whole = [name for name in known if set(wanted) <= set(_parts(name))]
    begun = [name for name in known if all(any(map(_begins(part), _parts(name))) for part in wanted)]
    initials = [name for name in known if len(word) > 1 and word.lower() in "".join(one[0] for one in _parts(name))]
    found = sorted(whole or begun or initials, key=lambda name: len(_parts(name)))
    return found or difflib.get_close_matches(word, known, n=_MOST_NAMES)


def did_you_mean(names: Iterable[str], otherwise: str) -> str:
    """Returns the question whether the first of some names were meant; what to do `otherwise` if there are none."""
    first = list(names)[:_MOST_NAMES]
    return f"did you mean {' or '.join(filter(None, (', '.join(first[:-1]), first[-1])))}?" if first else otherwise


def _parts(name: str) -> list[str]:
    return [part for part in re.split("[^0-9a-z]+", name.lower()) if part]


def _begins(part: str) -> Callable[[str], bool]:
    return lambda other: other == part or (len(part) > 1 and other.startswith(part))


def unknown(flag: str, name: str, known: Iterable[str], otherwise: str) -> UsageError:
    """Returns the error of a name that is not known: it tells those that are near, or what to do `otherwise`."""
    return UsageError(f"--{flag}={name} is not known: {did_you_mean(near_names(name, known), otherwise)}")


def words(value: str | None) -> list[str]:
    """Returns the words of a value, which are separated by commas."""
    return [] if value is None else [word.strip() for word in value.split(",")]


def whole_numbers(flag: str, text: str) -> list[int]:
    """Returns the numbers of a flag, separated by commas.

    Raises:
      UsageError: If one is no whole number above 0.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise UsageError(f"--{flag}={text} must be whole numbers above 0, separated by commas.")
    return [int(word) for word in words]


def joined(words: Iterable[str]) -> str:
    """Returns the value of a flag that takes words separated by commas; one that holds a comma is quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(words)
    return text.getvalue()


def shown_path(path: str) -> str:
    """Returns a path as the user would write it: relative, if it lies below where the user is."""
    relative = os.path.relpath(path, user_path("."))
    return path if relative.startswith("..") else relative


def user_path(path: str) -> str:
    """Returns an absolute path; under `bazel run`, relative ones start where the user is."""
    base = os.environ.get(WORKING_DIRECTORY, os.getcwd())
    return os.path.normpath(os.path.join(base, os.path.expanduser(path)))
