"""Errors with messages for the user, and helpers for such messages: similar names, counts and lists."""

import difflib
import re
from collections.abc import Iterable, Sequence

_MOST_NAMES = 3
_ALIKE = 0.95  # Similarity of names in which one of twenty letters differs.


class UsageError(ValueError):
    """Invalid input. Programs print the message and exit with status 2.

    The message states the error, the flag and how to fix it.
    """


class Failure(RuntimeError):  # noqa: N818
    """A failure despite valid input, such as a full disk. Programs print the message and exit with status 1."""


def near_names(word: str, known: Iterable[str]) -> list[str]:
    """Names that the user may have meant by a word.

    These are the names that are nearly equal to the word. If there are none, they are the names that contain all parts
    of the word, sorted by their number of parts; and if there are none of these, similar names.

    Args:
      word: The word that the user wrote.
      known: All names; their parts are separated by underscores.
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
    """Asks whether the user meant one of the first few names; returns `otherwise` if there are none."""
    first = list(names)[:_MOST_NAMES]
    return f"did you mean {' or '.join(filter(None, (', '.join(first[:-1]), first[-1])))}?" if first else otherwise


def counted(number: int, noun: str) -> str:
    """Formats a number of things, such as `1 row` and `2,000 rows`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def first(words: Sequence[str], most: int) -> str:
    """Lists the first words, such as `a, b and 3 more`."""
    return ", ".join(words[:most]) + f" and {len(words) - most:,} more" * (len(words) > most)


def _parts(name: str) -> set[str]:
    return set(re.findall("[0-9a-z]+", name.lower()))
