"""LRU cache of compiled computations, shared by all runs of a process.

Building and compiling a round takes seconds, and a command or a grid worker executes many runs. Entries may hold
computations and models, but not the task or the data of a run.
"""

import collections
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_MOST = 12  # Maximum number of results. A comparison of client selectors alternates between ten of them.
_cached: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
_Built = TypeVar("_Built")


def cached(key: Hashable, build: Callable[[], _Built]) -> _Built:
    """Returns the cached result for this key, or calls `build` and caches its result.

    A full cache drops the result that was used least recently.

    Args:
      key: Everything that determines the result of `build`.
      build: Function that builds the result.
    """
    if key not in _cached:
        _cached[key] = build()
    _cached.move_to_end(key)
    while len(_cached) > _MOST:
        _cached.popitem(last=False)
    return _cached[key]
