"""Errors with messages for the user, and suggestions of similar names."""

import difflib
import re
from collections.abc import Iterable

_MOST_NAMES = 3
_ALIKE = 0.95  # One letter of twenty differs.


class UsageError(ValueError):
    """Bad input. Programs print its message and exit with status 2.

    The message gives the error, the flag, and a remedy.
    """


class Failure(RuntimeError):  # noqa: N818
    """A request failed; the message gives the reason. Programs exit with status 1."""


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
