"""Draws several runs in one picture: `python -m scripts.plot DIR DIR --labels=softmax,greedy --output=x.pdf`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import itertools
import pathlib

from bandits import metrics
from bandits.results import runs
from data import files
from data.errors import UsageError
from data.settings import setting
from optimization.study import cli, results
from optimization.study.curves import BANDS

_USAGE = """
Draws the rewards, or another metric, of several runs in one picture.
Metrics of the deployed model are drawn as steps, and not smoothed across deployments.

  plot runs/digits_scratch_softmax runs/digits_scratch_greedy --output=compare.png,compare.pdf

Each argument is a run's folder; a folder of seeds (NAME/seed_N) becomes one curve with a band.
"""


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    labels: str = setting(None, "Names of the runs in the picture, separated by commas (default: names of the folders)")
    output: str = setting("comparison.png", "Output files, separated by commas: .png, .pdf or .svg")
    title: str = setting("", "Title")
    metric: str = setting(
        None,
        "Columns of metrics.csv to draw, separated by commas, such as privacy/epsilon (default: the metric that the "
        "study's progress bar shows, such as the average reward)",
    )
    smooth: int = setting(1, "Rounds of a moving average; metrics of two deployed models are not mixed", low=1)
    band: str = setting("ci", "Band around the mean of several seeds", BANDS)


def define() -> cli.FlagSet:
    """Flags of `plot`."""
    return cli.FlagSet(_USAGE, positional="folders").group("Flags", _Flags)


def program(settings: cli.Settings) -> None:
    """Reads the runs' metrics and draws them."""
    settings = settings.checked()
    folders = runs.named(settings)
    outputs = [pathlib.Path(cli.user_path(output)) for output in settings.output.split(",")]
    for output in outputs:
        files.check_output("output", output, files.PICTURES)
    labels = settings.labels.split(",") if settings.labels else runs.labels(folders)
    if not len(set(labels)) == len(labels) == len(folders):
        raise UsageError(f"--labels needs {len(folders)} different names, one for each run: {','.join(labels)}.")
    seeds = dict(zip(labels, map(runs.seed_folders, folders), strict=True))
    tables = {label: [runs.read_metrics(path) for path in paths] for label, paths in seeds.items()}
    titles = {}
    for column in (runs.declared().get(name, name) for name in (settings.metric or runs.headline(tables)).split(",")):
        for label, group in tables.items():
            if missing := [table for table in group if column not in table or column == "round_num"]:
                columns = ", ".join(missing[0].columns[1:])
                raise UsageError(f"{label} has no column {column}: choose --metric from {columns}.")
        if not any(table[column].abs().lt(float("inf")).any() for group in tables.values() for table in group):
            raise UsageError(f"There is nothing to draw: {column} is not finite in any round. Give another --metric.")
        smoothed = f", mean of the last {settings.smooth} rounds" if settings.smooth > 1 else ""
        titles[column] = f"{runs.about(column)}{smoothed}"
        for table in itertools.chain(*tables.values()) if smoothed else ():
            # No window of a metric of deployed models includes a deployment.
            ends = table[metrics.DEPLOYED] if getattr(column, "deployed", False) else 0 * table["round_num"]
            finite = table[column].where(table[column].abs() < float("inf"))
            windows = finite.groupby(ends.shift(fill_value=0).cumsum()).rolling(settings.smooth, min_periods=1)
            table[column] = windows.mean().droplevel(0).where(finite.notna())
    if "band" in settings.set_by_user and all(len(group) == 1 for group in tables.values()):
        raise UsageError("--band has no effect, because each run is a single seed: leave it out.")
    from optimization.study import panels

    picture = panels.draw(
        tables,
        titles,
        title=settings.title,
        bounds=[results.read_bounds(path) for paths in seeds.values() for path in paths],
        kind=settings.band,
        marks=metrics.DEPLOYED,
    )
    for output in outputs:
        files.save_picture(picture, output, dpi=300)
    print(*outputs, sep="\n")


if __name__ == "__main__":
    cli.main(define(), program)
