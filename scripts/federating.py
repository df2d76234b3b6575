"""Compares runs by client: for whom does federating pay? `python -m scripts.federating RUN_FOLDER...`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import pathlib

from bandits.results import federating, runs
from data import files
from data.settings import setting
from optimization.study import cli

_USAGE = """
Compares what clients earn if they train alone, together, with personalized models, or if a server has their logs.

  federating runs/alone runs/federated --output=private_clients.png

Each argument is the folder of a run with --report_clients, or a folder that holds such runs. A report is as private as
the clients' data.
"""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    output: pathlib.Path = setting("private_clients.png", "Output file for a scatter plot with one point per client")


def define() -> cli.FlagSet:
    """Flags of `federating`."""
    return cli.FlagSet(_USAGE, positional="folders").group("Flags", _Flags)


def program(settings: cli.Settings) -> int:
    """Prints the comparison, draws the picture, and returns the exit status."""
    named = runs.named(settings)
    output = pathlib.Path(settings.output)
    files.check_output("output", output, files.PICTURES)
    folders = [one for folder in named for seeds in runs.find(folder).values() for one in seeds]
    configurations = federating.read(folders)
    print(*federating.lines(configurations), sep="\n")
    if figure := federating.picture(configurations):
        files.save_picture(figure, output, dpi=120)
        print(f"Keep {output} private, because it shows the rewards of each client.")
    return 0


if __name__ == "__main__":
    cli.main(define(), program)
