"""Federated bandits from Python: `run` runs them; `compare`, `report`, `plot`, `advise` and `evaluate` use runs.

`bandits.ads.run`, `bandits.client_selection.run` and `bandits.mab_fl.run` run other studies, and `load` reads the runs
of any study. Importing `bandits` is fast: slow packages are imported when a name is used.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from optimization.study import running

if TYPE_CHECKING:
    from optimization.study import results

    def run(**settings: Any) -> "results.Run | results.Runs":
        """Runs `run_federated` with keywords instead of flags; `help(bandits.run)` lists them."""


# Imported when they are first used: they import from this package, which imports nothing from them.
_STUDIES = ("ads", "client_selection", "mab_fl")
_PLACES = {
    "advise": "bandits.advice.command",
    "compare": "bandits.results.configurations",
    "evaluate": "scripts.evaluate_policy",
    "plot": "bandits.results.runs",
    "report": "bandits.results.page",
}
__all__ = ("advise", "compare", "evaluate", "load", "plot", "report", "run", *_STUDIES)


def load(folder: str | os.PathLike) -> "results.Run | results.Runs":
    """Reads the run, or all runs, of any study in a folder; see `optimization.study.python.load`.

    Example:
      >>> runs = bandits.load("runs")
      >>> runs.metrics.groupby(["run", "seed"])["bandits/average_rewards"].last()
    """
    from bandits import run_federated, studies
    from optimization.study import python

    return python.load(folder, studies.columns(), run_federated.STUDY.predictor)


def __getattr__(name: str) -> Any:
    if name in _STUDIES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    return running("bandits.run_federated")(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
