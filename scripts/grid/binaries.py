"""The experiment binaries, and what flags mean to them: checked by their own parsers, without data or TensorFlow."""

import dataclasses
from collections.abc import Sequence

from bandits import studies
from data.errors import UsageError
from optimization.study import cli


@dataclasses.dataclass(frozen=True)
class Binary:
    """An experiment binary.

    Attributes:
      module: Its module, in `bandits.studies`.
      metric: Column of `metrics.csv` by which points are ranked.
      smallest: Whether less of it is better.
    """

    module: str
    metric: str
    smallest: bool = False


BINARIES = {
    "run_federated": Binary("bandits.run_federated", "bandits/average_rewards"),
    "run_client_selection": Binary("bandits.client_selection.run_client_selection", "eval/global_loss", True),
    "run_mab_fl": Binary("bandits.mab_fl.run_mab_fl", "best_auc"),
    "run_ads": Binary("bandits.ads.run_ads", "federated_total_reward"),
    "run_posterior": Binary("optimization.posterior.run_posterior", "running/eval/accuracy"),
}


def parse(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Returns flags as they were given to a binary.

    Raises:
      UsageError: If it does not know them.
    """
    return studies.flag_set(module).parse([module, *arguments])


def resolve(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Returns the flags of one run of a binary, all values filled in.

    Raises:
      UsageError: If the binary refuses them, or would play several runs.
    """
    runs = studies.plan(module, parse(module, arguments))
    if len(runs) != 1:
        raise UsageError(f"These flags make {module} play {len(runs)} runs: name one, and --sweep the others.")
    return runs[0]
