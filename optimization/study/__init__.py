"""Frame of all studies: flags, presets, the training loop, callbacks, a run's folder and its reader."""

import importlib
from collections.abc import Callable
from typing import Any


def running(module: str) -> Callable[[str], Any]:
    """`__getattr__` for a package whose `run` runs a study from Python; see `optimization.study.python.run`.

    Args:
      module: Module of the study.
    """

    def attribute(name: str) -> Any:
        if name != "run":
            raise AttributeError(f"module {module.rpartition('.')[0]!r} has no attribute {name!r}")
        from optimization.study import python

        return python.function(importlib.import_module(module).STUDY)

    return attribute
