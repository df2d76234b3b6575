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


def without_file(module: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Returns the same flags with those of `--config` among them, so that the file may change while runs are played.

    Raises:
      UsageError: If the binary does not know them.
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
