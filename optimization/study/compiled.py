"""LRU cache of compiled computations, shared by all runs of a process.

Building and compiling a round takes seconds, and a command, or a worker of a grid, executes many runs. Entries may
hold computations and models, but no task or data of a run.
"""

import collections
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_MOST = 12  # A comparison of client selectors uses ten by turns.
_cached: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
_Built = TypeVar("_Built")


def cached(key: Hashable, build: Callable[[], _Built]) -> _Built:
    """Result of `build`, or its earlier result for this key; the least recently used one is dropped.

    Args:
      key: Everything that determines the result of `build`.
      build: Builds the result.
    """
    if key not in _cached:
        _cached[key] = build()
    _cached.move_to_end(key)
    while len(_cached) > _MOST:
        _cached.popitem(last=False)
    return _cached[key]
