"""Federated bandits from Python: `bandits.run`, and the studies' `bandits.ads.run`, ...; `bandits.load` reads runs.

Nothing slow is imported before a run begins.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimization.study import results

# Imported when they are first named: they import from this package, and it imports nothing from them.
_STUDIES = ("ads", "client_selection", "mab_fl")
__all__ = ("load", "run", *_STUDIES)


def run(**flags: Any) -> "results.Run | results.Runs":
    """Does by keywords what run_federated does by flags; see `optimization.study.python.run`."""
    from bandits import run_federated
    from optimization.study import python

    return python.run(run_federated.STUDY, flags)


def load(folder: str | os.PathLike) -> "results.Run | results.Runs":
    """Reads the run, or all runs, of a folder, whichever study's; see `optimization.study.python.load`."""
    from bandits import studies
    from optimization.study import python

    return python.load(folder, studies.columns())


def __getattr__(name: str) -> Any:
    if name in _STUDIES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_STUDIES})
