"""Compares runs by client: for whom does federating pay? `python -m scripts.federating RUN_FOLDER...`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib

from bandits.results import federating, runs
from data import files
from data.settings import Setting
from optimization.study import cli

_USAGE = """
Compares what clients earn if they train alone, together, with personalized models, or if a server has their logs.

  federating runs/alone runs/federated --output=private_clients.png

Each argument is the folder of a run with --report_clients, or a folder that holds such runs. A report is as private as
the clients' data.
"""


def define() -> cli.FlagSet:
    """Flags of `federating`."""
    text = "Output file for a scatter plot with one point per client"
    output = Setting("output", pathlib.Path, text, "private_clients.png")
    return cli.FlagSet(_USAGE, positional="folders").group("Flags", output)


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
