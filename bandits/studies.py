"""All studies by the names of their binaries: the one place where a study is registered.

Grids, reports, plots, reproductions and tests find a study here; modules are named as text, so that nothing slow is
imported for a name.
"""

import importlib
from collections.abc import Mapping, Sequence

from optimization.study import cli, frame
from optimization.study.metrics import Metric

# Modules with a `STUDY`.
STUDIES: Mapping[str, str] = {
    "run_federated": "bandits.run_federated",
    "run_client_selection": "bandits.client_selection.run_client_selection",
    "run_mab_fl": "bandits.mab_fl.run_mab_fl",
    "run_ads": "bandits.ads.run_ads",
    "run_posterior": "optimization.posterior.run_posterior",
}


def load(module: str) -> frame.Study:
    """Returns a study by its binary's module."""
    return importlib.import_module(module).STUDY


def columns() -> list[Sequence[Metric]]:
    """Returns the columns of each study's `metrics.csv`."""
    return [load(module).columns for module in STUDIES.values()]


def flag_set(module: str) -> cli.FlagSet:
    """Returns the flags of a binary."""
    return frame.flag_set(load(module))


def plan(module: str, settings: cli.Settings) -> list[cli.Settings]:
    """Returns the flags of each run of a binary's command; see `frame.plan`."""
    return frame.plan(load(module), settings)


def program(module: str, settings: cli.Settings) -> int:
    """Plays a binary's runs; see `frame.program`."""
    return frame.program(load(module), settings)
