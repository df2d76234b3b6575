"""What flags mean to an experiment binary: checked by its own parser, without data or TensorFlow."""

from collections.abc import Sequence

from bandits import studies
from data.errors import UsageError
from optimization.study import cli


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
