"""Draws several runs in one picture: `python -m scripts.plot DIR DIR --labels=softmax,greedy --output=x.pdf`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import math
import pathlib

from bandits import metrics
from bandits.results import baselines, runs
from data import files
from data.errors import UsageError
from data.settings import setting
from optimization.study import cli
from optimization.study.curves import BANDS

_USAGE = """
Draws the rewards, or another metric, of several runs in one picture.
Metrics of the deployed model are drawn as steps, and not smoothed across deployments.

  plot runs/digits_scratch_softmax runs/digits_scratch_greedy --output=compare.png,compare.pdf

Each argument is a run's folder; a folder of seeds (NAME/seed_N) is one band.
"""
_INCHES = (1.0, 50.0)  # Limits of a picture's sides.


class _Folders:
    """Runs.

    Attributes:
      runs: More folders, separated by commas.
    """

    runs: str = setting()


class _Picture:
    """Picture.

    Attributes:
      labels: Names of the runs in the picture, separated by commas (default: the folders').
      output: Pictures to write, separated by commas: .png, .pdf or .svg.
      title: Title.
      metric: Columns of metrics.csv to draw, separated by commas, such as privacy/epsilon (default: the round's reward;
        without one, the metric of the study's progress bar).
      megabytes: Draw over the payload sent so far, in both directions, instead of over rounds.
      smooth: Rounds of a moving average, which never crosses a deployment.
      band: Shaded band around the mean of several seeds.
      size: Width and height in inches, as 7x4.2 (default: by the number of metrics).
      ylim: Limits of the vertical axis, as 0,1 (default: those of the curves).
    """

    labels: str = setting()
    output: str = setting("comparison.png")
    title: str = setting("")
    metric: str = setting()
    megabytes: bool = setting(False)
    smooth: int = setting(1, low=1)
    band: str = setting("ci", BANDS)
    size: str = setting()
    ylim: str = setting()


def define() -> cli.FlagSet:
    """Flags of `plot`."""
    flags = cli.FlagSet(_USAGE, positional="folders")
    flags.group(_Folders)
    flags.group(_Picture)
    return flags


def program(settings: cli.Settings) -> None:
    """Reads the runs' metrics and draws them."""
    settings = settings.checked()
    folders = runs.named(settings)
    outputs = [pathlib.Path(cli.user_path(output)) for output in settings.output.split(",")]
    for output in outputs:
        files.check_output("output", output, files.PICTURES)
    size, limits = _pair(settings, "size", "x"), _pair(settings, "ylim", ",")
    if size and not _INCHES[0] <= min(size) <= max(size) <= _INCHES[1]:
        raise UsageError(f"--size={settings.size}: each side must be from {_INCHES[0]:g} to {_INCHES[1]:g} inches.")
    if limits and not limits[0] < limits[1]:
        raise UsageError(f"--ylim={settings.ylim}: the lower limit comes first.")
    labels = settings.labels.split(",") if settings.labels else runs.labels(folders)
    if len(labels) != len(folders):
        raise UsageError(f"--labels has {len(labels)} names for {len(folders)} --runs.")
    if len(set(labels)) != len(labels):
        raise UsageError(f"Two curves have the same name among {', '.join(labels)}: give different --labels.")
    seeds = dict(zip(labels, map(runs.seed_folders, folders), strict=True))
    tables = {label: [runs.read_metrics(path) for path in paths] for label, paths in seeds.items()}
    titles = {}
    for column in (runs.declared().get(name, name) for name in (settings.metric or runs.headline(tables)).split(",")):
        for label, group in tables.items():
            if missing := [table for table in group if column not in table or column == "round_num"]:
                columns = ", ".join(missing[0].columns[1:])
                raise UsageError(f"{label} has no column {column}: give --metric one of {columns}.")
        if not any(table[column].abs().lt(float("inf")).any() for group in tables.values() for table in group):
            raise UsageError(f"There is nothing to draw: {column} is never a finite number in these runs.")
        smoothed = f", mean of the last {settings.smooth} rounds" if settings.smooth > 1 else ""
        titles[column] = f"{runs.about(column)}{smoothed}"
    if "band" in settings.set_by_user and all(len(group) == 1 for group in tables.values()):
        raise UsageError("--band has no effect: each of --runs is a single seed.")
    places = {label: runs.megabytes(group) for label, group in tables.items()} if settings.megabytes else None
    if old := [label for label, place in (places or {}).items() if place is None]:
        raise UsageError(f"--megabytes: {old[0]} has no {' and '.join(runs.PAYLOAD)}: an earlier version ran it.")
    notes = baselines.notes(seeds, next(iter(titles)))
    from optimization.study import panels

    picture = panels.draw(
        {label + notes.get(label, ""): group for label, group in tables.items()},
        titles,
        title=settings.title,
        window=settings.smooth,
        kind=settings.band,
        size=size or ((7, 4.2) if len(titles) == 1 else None),
        limits=limits,
        marks=metrics.DEPLOYED,
        places=places,
        xlabel=runs.MEGABYTES if settings.megabytes else "round",
    )
    for output in outputs:
        files.save_picture(picture, output, dpi=300)
    print(*outputs, sep="\n")


def _pair(settings: cli.Settings, flag: str, separator: str) -> tuple[float, float] | None:
    """Two finite numbers of a flag; None if it is not set."""
    if not (text := settings[flag]):
        return None
    try:
        first, second = map(float, text.split(separator))
    except ValueError:
        first = second = math.nan
    if not (math.isfinite(first) and math.isfinite(second)):
        raise UsageError(f"--{flag}={text} must be two finite numbers, such as 1{separator}5.")
    return first, second


if __name__ == "__main__":
    cli.main(define(), program)
