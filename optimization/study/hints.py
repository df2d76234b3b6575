"""Which known names are meant by one that is not known."""

import difflib
import re
from collections.abc import Callable, Iterable

_MOST = 3
_ALIKE = 0.95  # A letter of twenty.


def near(word: str, known: Iterable[str]) -> list[str]:
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
    if alike := difflib.get_close_matches(word, known, n=_MOST, cutoff=_ALIKE):
        return alike
    whole = [name for name in known if set(wanted) <= set(_parts(name))]
    begun = [name for name in known if all(any(map(_begins(part), _parts(name))) for part in wanted)]
    initials = [name for name in known if len(word) > 1 and word.lower() in "".join(one[0] for one in _parts(name))]
    found = sorted(whole or begun or initials, key=lambda name: len(_parts(name)))
    return found or difflib.get_close_matches(word, known, n=_MOST)


def told(names: Iterable[str], otherwise: str) -> str:
    """Returns the question whether the first of some names were meant; what to do `otherwise` if there are none."""
    first = list(names)[:_MOST]
    return f"did you mean {' or '.join(filter(None, (', '.join(first[:-1]), first[-1])))}?" if first else otherwise


def _parts(name: str) -> list[str]:
    return [part for part in re.split("[^0-9a-z]+", name.lower()) if part]


def _begins(part: str) -> Callable[[str], bool]:
    return lambda other: other == part or (len(part) > 1 and other.startswith(part))
