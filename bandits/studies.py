"""All studies by the names of their binaries: the one place where a study is registered.

Grids, reports, plots, reproductions and tests find a study here; modules are named as text, so that nothing slow is
imported for a name.
"""

import importlib
import pathlib
from collections.abc import Mapping, Sequence

from optimization.study import cli, frame
from optimization.study import presets as study_presets
from optimization.study.metrics import Metric

# Modules with a `STUDY`.
STUDIES: Mapping[str, str] = {
    "run_federated": "bandits.run_federated",
    "run_client_selection": "bandits.client_selection.run_client_selection",
    "run_mab_fl": "bandits.mab_fl.run_mab_fl",
    "run_ads": "bandits.ads.run_ads",
    "run_posterior": "optimization.posterior.run_posterior",
}

# Of those that have none yet.
_RANKED_BY = {"bandits.mab_fl.run_mab_fl": "best_auc"}


def load(name: str) -> frame.Study:
    """Returns a study by its binary's name."""
    return importlib.import_module(STUDIES[name]).STUDY


def presets(module: str) -> pathlib.Path:
    """Returns the folder of a binary's presets."""
    binary = importlib.import_module(module)
    return binary.STUDY.presets if hasattr(binary, "STUDY") else binary.flags.PRESETS


def flag_set(module: str) -> cli.FlagSet:
    """Returns the flags of a binary."""
    binary = importlib.import_module(module)
    return frame.flag_set(binary.STUDY) if hasattr(binary, "STUDY") else binary.flags.define()


def plan(module: str, settings: cli.Settings) -> list[cli.Settings]:
    """Returns the flags of each run of a binary's command; see `frame.plan`."""
    binary = importlib.import_module(module)
    if hasattr(binary, "STUDY"):
        return frame.plan(binary.STUDY, settings)
    flags = binary.flags
    if hasattr(flags, "PRESETS"):
        settings = study_presets.applied(settings, flags.PRESETS)
    return list(flags.plan(settings).runs) if hasattr(flags, "plan") else [flags.resolve(settings)]


def program(module: str, settings: cli.Settings) -> int:
    """Plays a binary's runs; see `frame.program`."""
    binary = importlib.import_module(module)
    return frame.program(binary.STUDY, settings) if hasattr(binary, "STUDY") else binary.program(settings) or 0


def columns(module: str) -> Sequence[Metric]:
    """Returns the columns of a binary's `metrics.csv`."""
    binary = importlib.import_module(module)
    if hasattr(binary, "STUDY"):
        return binary.STUDY.columns
    return importlib.import_module(f"{module.rpartition('.')[0]}.metrics").COLUMNS


def ranked_by(module: str) -> Metric:
    """Returns the metric by which a grid of a binary's runs ranks."""
    binary = importlib.import_module(module)
    if hasattr(binary, "STUDY"):
        return binary.STUDY.ranked_by
    return next(metric for metric in columns(module) if metric == _RANKED_BY[module])
