"""Draws several runs in one picture: `python -m scripts.plot --runs=DIR,DIR --labels=softmax,greedy --output=x.png`."""

import pathlib

from data.errors import UsageError
from optimization import cli

_USAGE = """
Draws the rewards of several runs in one picture.

  plot --runs=runs/digits_scratch_softmax,runs/digits_scratch_greedy --output=compare.png
"""


def define() -> cli.FlagSet:
    """Returns the flags of `plot`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Flags")
    flags.text("runs", None, "folders of runs, separated by commas; a folder of seeds (NAME/seed_N) is one band")
    flags.text("labels", None, "their names in the picture, separated by commas (default: the folders')")
    flags.text("output", "comparison.png", "picture to write: .png, .svg or .pdf")
    flags.text("title", "", "title")
    flags.switch("running_average", False, "draw the average over the rounds so far, as the study does")
    return flags


def program(settings: cli.Settings) -> None:
    """Reads the runs' metrics and draws them."""
    if not settings.runs:
        raise UsageError("--runs names no run: give their folders, separated by commas.")
    folders = [pathlib.Path(cli.user_path(run)) for run in settings.runs.split(",")]
    labels = settings.labels.split(",") if settings.labels else [folder.name for folder in folders]
    if len(labels) != len(folders):
        raise UsageError(f"--labels has {len(labels)} names for {len(folders)} --runs.")
    found = {}
    for label, folder in zip(labels, folders, strict=True):
        files = sorted(folder.glob("seed_*/metrics.csv")) or [folder / "metrics.csv"]
        if not files[0].is_file():
            raise UsageError(f"--runs: {folder} holds no metrics.csv; is it a run's folder?")
        found[label] = files

    import pandas as pd

    from bandits import figures

    output = cli.user_path(settings.output)
    tables = {label: [pd.read_csv(file) for file in files] for label, files in found.items()}
    figures.draw_comparison(tables, output, settings.title, running_average=settings.running_average)
    print(output)


if __name__ == "__main__":
    cli.main(define(), program)
