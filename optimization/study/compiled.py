"""What is compiled once for all runs of a process that compute the same: the one place that keeps it, and not for long.

Building and compiling a round takes seconds, and a command, or a worker of a grid, plays many runs. What is kept may
hold computations and models, but nothing of a run: neither its task nor its data.
"""

import collections
import json
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, TypeVar

from optimization.study import run_folder

_MOST = 12  # A comparison of client selectors uses ten by turns.
_kept: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
_IN_STATE = ("seed", "total_rounds")
_Built = TypeVar("_Built")


def kept(key: Hashable, build: Callable[[], _Built]) -> _Built:
    """Returns what `build` returns, or returned before for this key; what was not asked for longest goes.

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


def run_key(settings: Mapping[str, Any], data_checksum: str, in_state: Collection[str] = _IN_STATE) -> str:
    """Returns a key of runs that differ in nothing but their state.

    Args:
      settings: Flags.
      data_checksum: Of the data.
      in_state: Flags that count in the state alone.
    """
    free = run_folder.FREE_FLAGS.union(in_state)
    named = {name: value for name, value in settings.items() if name not in free}
    return json.dumps([named, data_checksum], sort_keys=True, default=str)
