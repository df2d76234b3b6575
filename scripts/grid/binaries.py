"""The experiment binaries, and what flags mean to them: checked by their own parsers, without data or TensorFlow."""

import dataclasses
import importlib
from collections.abc import Sequence

from data.errors import UsageError
from optimization.study import cli


@dataclasses.dataclass(frozen=True)
class Binary:
    """An experiment binary.

    Attributes:
      module: Its module, with `program(settings)` and, in its module `flags`, `define()` and `resolve(settings)`.
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


def flags_of(module: str):
    """Returns a binary's module of flags."""
    return importlib.import_module(module).flags


def parse(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Returns flags as they were given to a binary.

    Raises:
      UsageError: If it does not know them.
    """
    return flags_of(module).define().parse([module, *arguments])


def resolve(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Returns the flags of one run of a binary, all values filled in.

    Raises:
      UsageError: If the binary refuses them, or would play several runs.
    """
    found = flags_of(module).resolve(parse(module, arguments))
    if isinstance(found, cli.Settings):
        return found
    # Client selection and MAB-FL compare several settings in one command.
    runs = found.runs if hasattr(found, "runs") else [setting.settings for setting in found[0]]
    if len(runs) != 1:
        raise UsageError(f"These flags make {module} play {len(runs)} runs: name one, and --sweep the others.")
    return runs[0]
