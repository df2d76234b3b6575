"""All studies by the names of their binaries: the one place where a study is registered.

Grids, reports, plots, reproductions and tests find a study here; modules are named as text, so that nothing slow is
imported for a name.
"""

import importlib
from collections.abc import Mapping

from optimization.study import frame

# Modules with a `STUDY`.
STUDIES: Mapping[str, str] = {
    "run_federated": "bandits.run_federated",
    "run_client_selection": "bandits.client_selection.run_client_selection",
    "run_mab_fl": "bandits.mab_fl.run_mab_fl",
    "run_ads": "bandits.ads.run_ads",
    "run_posterior": "optimization.posterior.run_posterior",
}


def load(name: str) -> frame.Study:
    """Returns a study by its binary's name."""
    return importlib.import_module(STUDIES[name]).STUDY
