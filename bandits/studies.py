"""All studies by the names of their binaries: the one place where a study is registered.

Grids, reports, plots, reproductions and tests look up studies here. Modules are named as text, so that a lookup imports
nothing slow.
"""

import functools
import importlib
from collections.abc import Mapping, Sequence

from data.errors import UsageError
from optimization.study import cli, frame
from optimization.study.metrics import Metric

# For each binary, the module that defines its `STUDY`.
STUDIES: Mapping[str, str] = {
    "run_federated": "bandits.run_federated",
    "run_client_selection": "bandits.client_selection.run_client_selection",
    "run_mab_fl": "bandits.mab_fl.run_mab_fl",
    "run_ads": "bandits.ads.run_ads",
    "run_posterior": "optimization.posterior.run_posterior",
}


def load(module: str) -> frame.Study:
    """Returns the study of a binary, given the binary's module."""
    return importlib.import_module(module).STUDY


def columns() -> list[Sequence[Metric]]:
    """Columns of each study's `metrics.csv`."""
    return [load(module).columns for module in STUDIES.values()]


@functools.cache
def flag_set(module: str) -> cli.FlagSet:
    """All flags of a binary."""
    return frame.flag_set(load(module))


def parse(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Flags as they were passed to a binary, read without data or TensorFlow.

    Raises:
      UsageError: If a flag is unknown.
    """
    return flag_set(module).parse([module, *arguments])


def resolve(module: str, arguments: Sequence[str]) -> cli.Settings:
    """Flags of one run of a binary, with all defaults filled in.

    Raises:
      UsageError: If the binary refuses them, or they describe several runs.
    """
    runs = frame.plan(load(module), parse(module, arguments))
    if len(runs) != 1:
        raise UsageError(f"These flags describe {len(runs)} runs of {module}: describe one, or use --sweep for more.")
    return runs[0]


def without_file(module: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Replaces `--config` by the flags in that file, so that the file may change while runs are executed.

    Raises:
      UsageError: If a flag is unknown.
    """
    words, rest = list(arguments), []
    while words:
        name, equals, _ = (word := words.pop(0)).partition("=")
        if name.lstrip("-") != "config":
            rest.append(word)
        elif not equals:
            words = words[1:]
    if len(rest) == len(arguments):
        return tuple(arguments)
    settings = parse(module, arguments)
    added = sorted(settings.from_file)
    return (*(f"--{name}={settings[name]}" for name in added), *rest)


def program(module: str, settings: cli.Settings) -> int:
    """Executes a binary's runs; see `frame.program`."""
    return frame.program(load(module), settings)
