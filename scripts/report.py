"""Writes a page about runs, of any experiment binary, to read in a browser: `python -m scripts.report RUN_FOLDER...`.

The page loads nothing from the network. Its curves need the Plotly library, which is written beside it.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import pathlib
import sys

from bandits.results import configurations, page, runs, sections
from data import files
from data.errors import UsageError
from data.settings import setting
from optimization.study import cli

_USAGE = """
Writes one HTML page about runs: their results, curves and commands.

  report runs/digits_scratch_softmax runs/digits_scratch_greedy --output=report.html

Each argument is a run's folder, or a folder that holds runs at any depth, such as a grid's.
"""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    output: pathlib.Path = setting("report.html", "Output file of the page")
    title: str = setting("Runs", "Title")
    standalone: bool = setting(False, "Whether to embed plotly.min.js (5 MB), so that the page needs no other file")
    reference: str = setting(
        None,
        "Configuration with which the others are compared: its name on the page, or its strategy (default: greedy, "
        "or the first configuration if there is no greedy)",
    )


def define() -> cli.FlagSet:
    """Flags of `report`."""
    return cli.FlagSet(_USAGE, positional="folders").group("Flags", _Flags)


def program(settings: cli.Settings) -> int:
    """Writes the page, and returns the exit status, which is 1 if a run could not be read."""
    named = runs.named(settings)
    output = pathlib.Path(settings.output)
    files.check_output("output", output, (".html",))
    results = runs.read_all(named)
    if not results.runs:
        searches = ["All of these runs come from searches or timing: name their own folders."] * bool(results.searches)
        raise UsageError(" ".join([*results.problems, *results.waiting, *searches]))
    page.write(output, results, settings.title, settings.reference, is_standalone=settings.standalone)
    parts = configurations.comparable(results.runs)
    for part in parts:
        for section in sections.dynamic_regret(part):
            print(f"{part.title}:", *section.lines(), sep="\n")
    for problem in results.problems:
        print(f"Left out: {problem}", file=sys.stderr)
    for section in sections.over_tasks(parts):
        print(*section.lines(), sep="\n")
    print(output)
    return 1 if results.problems else 0


if __name__ == "__main__":
    cli.main(define(), program)
