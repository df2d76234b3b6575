"""Draws several runs in one picture: `python -m scripts.plot --runs=DIR,DIR --labels=softmax,greedy --output=x.pdf`.

With `--tables`, prints the posterior study's tables of its runs instead.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits import metrics
from data.errors import UsageError
from optimization.study import cli, files
from scripts import runs

if TYPE_CHECKING:
    import pandas as pd

_USAGE = """
Draws the rewards, or another metric, of several runs in one picture; or prints tables of run_posterior's runs.

  plot --runs=runs/digits_scratch_softmax,runs/digits_scratch_greedy --output=compare.png,compare.pdf
  plot --tables --runs=runs/my_study
"""
_MOST_MARKS = 40  # More lines would hide the curves.
_WINDOW = 5  # Rounds of the moving average of what is drawn by default.


def define() -> cli.FlagSet:
    """Returns the flags of `plot`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("What is shown")
    flags.text("runs", None, "folders of runs, separated by commas; a folder of seeds (NAME/seed_N) is one band")
    flags.switch(
        "tables",
        False,
        "print measures of run_posterior's runs, and rounds to thresholds, by algorithm and alpha, as the study's "
        "Tables 5.1 and 5.2; --runs may name folders of many runs",
    )

    flags.group("Picture", tables=False)
    flags.text("labels", None, "their names in the picture, separated by commas (default: the folders')")
    flags.text("output", "comparison.png", "pictures to write, separated by commas: .png, .pdf or .svg")
    flags.text("title", "", "title")
    flags.switch("running_average", False, "draw the average over the rounds so far, as the study does")
    flags.text("metric", None, "another column of metrics.csv to draw, such as privacy/epsilon")
    flags.belong("running_average", metric=False)
    flags.text("ylabel", None, "words at the vertical axis (default: what is drawn)")

    flags.group("Tables", tables=True)
    flags.text("rounds", None, "rounds to report, separated by commas (default: the study's for the task, or the last)")
    flags.text("thresholds", None, "thresholds likewise (default: the study's for the task, or 0.84,0.86)")
    return flags


def program(settings: cli.Settings) -> None:
    """Reads the runs' metrics and draws them."""
    settings = settings.settled()
    if not settings.runs or "" in settings.runs.split(","):
        raise UsageError("--runs names no run: give their folders, separated by commas.")
    if settings.tables:
        print_tables(settings)
        return
    outputs = [pathlib.Path(cli.user_path(output)) for output in settings.output.split(",")]
    for output in outputs:
        files.check_output("output", output, files.PICTURES)
    folders = [pathlib.Path(cli.user_path(run)) for run in settings.runs.split(",")]
    labels = settings.labels.split(",") if settings.labels else runs.labels(folders)
    if len(labels) != len(folders):
        raise UsageError(f"--labels has {len(labels)} names for {len(folders)} --runs.")
    if len(set(labels)) != len(labels):
        raise UsageError(f"Two curves would have one name among {', '.join(labels)}: tell them apart with --labels.")
    found = [runs.find(folder) for folder in folders]
    for folder, groups in zip(folders, found, strict=True):
        if len(groups) > 1:
            raise UsageError(
                f"--runs: {folder} holds {len(groups)} runs: name one of them, such as {next(iter(groups))}."
            )

    # Seeds that have not begun are left out.
    seeds = [[path for path in next(iter(groups.values())) if (path / "metrics.csv").is_file()] for groups in found]
    for folder, paths in zip(folders, seeds, strict=True):
        if not paths:
            raise UsageError(f"--runs: {folder} holds no metrics.csv; has the run begun?")
    tables = {label: [runs.read_metrics(path) for path in paths] for label, paths in zip(labels, seeds, strict=True)}
    column = settings.metric or (metrics.AVERAGE_REWARD if settings.running_average else metrics.ROUND_REWARD)
    if all(column not in table for group in tables.values() for table in group):
        column = runs.former_names().get(column, column)
    window, words = 1, runs.about(column)
    if column == metrics.ROUND_REWARD and not settings.metric:
        window, words = _WINDOW, f"{words} (mean of {_WINDOW} rounds)"
    for label, group in tables.items():
        if missing := [table for table in group if column not in table or column == "round_num"]:
            raise UsageError(
                f"{label} has no column {column}: give --metric one of {', '.join(missing[0].columns[1:])}."
            )
    draw(tables, outputs, column, window=window, title=settings.title, ylabel=settings.ylabel or words)
    print(*outputs, sep="\n")


def print_tables(settings: cli.Settings) -> None:
    """Prints the tables of `optimization.posterior.tables`.

    Raises:
      UsageError: If the runs are not of one task and of run_posterior, or two would stand in one cell.
    """
    from optimization.posterior import tables

    cells, tasks = {}, set()
    folders: dict[tuple[str, str], pathlib.Path] = {}
    for folder in settings.runs.split(","):
        for group, seeds in runs.find(pathlib.Path(cli.user_path(folder))).items():
            read = [runs.read(path) for path in seeds if (path / "metrics.csv").is_file()]
            if not read:
                continue
            flags = read[0].flags
            if flags.get("algorithm") not in tables.NAMES or tables.MEASURES["Accuracy"] not in read[0].metrics:
                raise UsageError(f"--runs: {group} is no run of run_posterior.")
            alphas = [flags.get(name) for name in ("client_sampling_alpha", "partition_alpha")]
            alpha = next((f"{value:g}" for value in alphas if value is not None), tables.NO_ALPHA)
            cell = flags["algorithm"], alpha
            if folders.setdefault(cell, group) != group:
                raise UsageError(f"--runs: {folders[cell]} and {group} have one algorithm and alpha: name one of them.")
            cells[cell] = [run.metrics for run in read]
            tasks.add(flags["task_type"])
    if len(tasks) != 1:
        raise UsageError(f"--runs: a table is of one task, not of {', '.join(sorted(tasks)) or 'none'}.")
    last = min(int(table["round_num"].iloc[-1]) for seeds in cells.values() for table in seeds)
    rounds, thresholds = tables.PUBLISHED.get(tasks.pop(), ((last,), (0.84, 0.86)))
    wanted = _numbers(settings, "rounds", int, rounds), _numbers(settings, "thresholds", float, thresholds)
    print(tables.build(cells, *wanted).to_string())


def _numbers(settings: cli.Settings, name: str, kind: type, default: Sequence[Any]) -> Sequence[Any]:
    if settings[name] is None:
        return default
    try:
        numbers = [kind(word) for word in settings[name].split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) <= 0 or (kind is float and max(numbers) > 1):
        wanted = "whole numbers above 0" if kind is int else "numbers above 0 up to 1"
        raise UsageError(f"--{name}={settings[name]} must be {wanted}, separated by commas.")
    return numbers


def draw(
    tables: "Mapping[str, Sequence[pd.DataFrame]]",
    outputs: Sequence[pathlib.Path],
    column: str,
    *,
    window: int,
    title: str,
    ylabel: str,
) -> None:
    """Draws a metric of several runs in one plot; several seeds of one become their mean and range.

    Args:
      tables: Metrics of each label's seeds.
      outputs: Pictures to write.
      column: What is drawn.
      window: Rounds of the moving average that is drawn instead of single rounds.
      title: Title.
      ylabel: Words at the vertical axis.
    """
    from matplotlib import figure

    picture = figure.Figure(figsize=(7, 4.2), layout="constrained")
    axes = picture.subplots()
    for place, (label, seeds) in enumerate(tables.items()):
        runs.draw(axes, seeds, column, label, place, window)
    _mark(axes, next(iter(tables.values()))[0])
    axes.set(title=title, xlabel="round", ylabel=ylabel)
    axes.grid(alpha=0.3)
    axes.legend()
    for output in outputs:
        files.save_picture(picture, output, dpi=300)


def _mark(axes, table: "pd.DataFrame") -> None:
    """Draws a line at each round that a run's metrics mark."""
    for metric in table.columns.intersection([one for one in runs.declared().values() if one.marks]):
        rounds = table.loc[table[metric] == 1, "round_num"]
        for index, round_num in enumerate(rounds if len(rounds) <= _MOST_MARKS else ()):
            label = None if index else runs.about(metric)
            axes.axvline(round_num, color="grey", linewidth=0.8, linestyle=":", label=label)


if __name__ == "__main__":
    cli.main(define(), program)
