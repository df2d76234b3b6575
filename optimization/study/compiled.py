"""What is compiled once for all runs of a process that compute the same: the one place that keeps it, and not for long.

Building and compiling a round takes seconds, and a command, or a worker of a grid, plays many runs. What is kept may
hold computations and models, but nothing of a run: neither its task nor its data.
"""

import collections
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_MOST = 12  # A comparison of client selectors uses ten by turns.
_kept: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
_Built = TypeVar("_Built")


def kept(key: Hashable, build: Callable[[], _Built]) -> _Built:
    """Result of `build`, or its earlier result for this key; the least recently used one is dropped.

    Args:
      key: All that tells what is built from anything else that is.
      build: Builds it.
    """
    if key not in _kept:
        _kept[key] = build()
    _kept.move_to_end(key)
    while len(_kept) > _MOST:
        _kept.popitem(last=False)
    return _kept[key]
