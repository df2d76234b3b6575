"""Federated bandits from Python: `bandits.run`, and the studies' `bandits.ads.run`, ...; `bandits.load` reads runs.

Nothing slow is imported before a run begins.
"""

import os
from typing import TYPE_CHECKING, Any

from bandits import ads, client_selection, mab_fl

if TYPE_CHECKING:
    from optimization.study import results

__all__ = ("ads", "client_selection", "load", "mab_fl", "run")


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
