"""Federated bandits from Python: `run` runs one; `compare`, `report` and `plot` describe finished runs.

`evaluate` estimates a policy's reward from a log, and `advise` recommends a strategy for your data. `bandits.ads.run`,
`bandits.client_selection.run` and `bandits.mab_fl.run` run other studies, and `load` reads the runs of any study.
Importing `bandits` is fast, because slow packages are imported only when a name is used.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from optimization.study import running

if TYPE_CHECKING:
    from optimization.study import results

    def run(**settings: Any) -> "results.Run | results.Runs":
        """Runs `run_federated` with keywords instead of flags; `help(bandits.run)` lists them."""


# Imported on first use: they are slow to import, and they import modules of this package.
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
    """Reads the run in a folder, or all runs below the folder, of any study; see `optimization.study.python.load`.

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
