"""Frame of all studies: flags, presets, the training loop, callbacks, a run's folder and its reader."""

import importlib
from collections.abc import Callable
from typing import Any


def running(module: str) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package whose function `run` runs a study; see `optimization.study.python.run`.

    Args:
      module: Name of the module that defines the study as `STUDY`.
    """

    def attribute(name: str) -> Any:
        if name != "run":
            raise AttributeError(f"module {module.rpartition('.')[0]!r} has no attribute {name!r}")
        from optimization.study import python

        return python.function(importlib.import_module(module).STUDY)

    return attribute
