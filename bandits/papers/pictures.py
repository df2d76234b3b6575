"""Pictures: curves of a figure beside the published numbers and verdicts; and those of the docs, drawn from records."""

import dataclasses
import functools
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandits.papers import page
from bandits.papers.figures import data_note
from bandits.papers.plan import Figure
from bandits.papers.scoreboard import Judged
from bandits.results import runs
from bandits.results.configuration import Configuration
from data import files
from data.errors import UsageError
from optimization.study import curves, intervals
from optimization.study.intervals import Interval

OVER_TASKS = "over tasks"  # In place of a file: the normalized scores over all tasks.
_SPEC = pathlib.Path(__file__).with_name("docs_pictures.toml")
_CELL = re.compile(r"([-+\d.]+) \(([-+\d.]+) to ([-+\d.]+)\)")
_PANEL = (4.6, 3.2)  # Inches.
_MOST_COLUMNS = 4
_OURS = "ours, 95% interval"


def draw(judged: Judged, found: Mapping[str, Configuration], output: pathlib.Path) -> None:
    """Draws the curves, then ours beside the published values.

    Args:
      judged: The figure with its numbers.
      found: Configurations with finished runs, by label.
      output: Picture to write.
    """
    from optimization.study import panels

    figure = judged.figure
    drawn = [one for one in figure.configurations if one.is_drawn and one.label in found]
    columns = [name for name in figure.curves if any(name in one.runs[0].metrics for one in found.values())]
    # Each label of the last axis has a panel.
    seconds = list(dict.fromkeys(one.words[-1] if len(one.words) > 1 else "" for one in drawn)) or [""]
    shown = [(column, second) for column in columns for second in seconds]
    compared = _compared(judged)
    count = max(1, len(shown) + len(compared))
    across = min(count, len(seconds) if len(seconds) > 1 else 2, _MOST_COLUMNS)
    down = -(-count // across)
    firsts = list(dict.fromkeys(one.words[0] for one in drawn))
    styles = dict(zip(firsts, curves.styles(firsts), strict=True))
    title = "\n".join([f"{figure.about}. {figure.text}", *filter(None, [data_note(figure)])])
    picture, grid = panels.grid(down, across, (_PANEL[0] * across + 0.5, _PANEL[1] * down + 0.9), title)
    axes = list(grid.flat)
    for plot, (column, second) in zip(axes, shown, strict=False):
        metric = runs.declared().get(column, column)
        for one in (one for one in drawn if second in ("", one.words[-1])):
            tables = [run.metrics for run in found[one.label].runs]
            name = one.words[0] + judged.results.baseline_note(one.label, figure.measures[0].name)
            curves.draw(plot, tables, metric, name, styles[one.words[0]])
        panels.label(plot, xlabel="round", ylabel=runs.about(column), title=second, legend=True)
    for plot, (name, values) in zip(axes[len(shown) :], compared.items(), strict=False):
        panels.forest(plot, {label: {_OURS: ours} for label, (ours, _) in values.items()}, {_OURS: curves.PLAIN})
        theirs = [published for _, published in values.values()]
        if np.isfinite(theirs).any():
            plot.plot(theirs, range(len(theirs)), "D", color=curves.RED, label="published", fillstyle="none")
        if name.endswith("_rate"):
            plot.set_xscale("log")
        panels.label(plot, xlabel=name.replace("_", " "), legend=True)
    for plot in axes[len(shown) + len(compared) :]:
        plot.remove()
    files.save_picture(picture, output, dpi=150)


def _compared(judged: Judged) -> dict[str, dict[str, tuple[Interval, float]]]:
    """Our number and the published one (or NaN) by label, of the measures with a panel.

    These are the measures that the paper states or a search selected; without curves, all.
    """
    published = {(one.configuration, one.measure): one.value for one in judged.figure.published}
    stated = {measure for _, measure in published}
    compared: dict[str, dict[str, tuple[Interval, float]]] = {}
    for label in judged.results.configurations:
        picked = judged.results.picked(label)
        for name in (*judged.results.measures, *picked):
            if name in stated or name in picked or not judged.figure.curves:
                both = judged.results.estimate(label, name), published.get((label, name), math.nan)
                compared.setdefault(name, {})[label] = both
    return compared


def draw_of_study(figure: Figure, found: Mapping[str, Configuration], folder: pathlib.Path) -> None:
    """Draws the pictures that the figure's binary has for it."""
    note = data_note(figure)
    title = f"{note}\n{figure.text}" if note else figure.text
    by_run = {run.folder: (label, run.flags) for label, one in found.items() for run in one.runs}
    if figure.own_figures == "client_losses":
        from bandits.client_selection import figures

        names = {"selector": "client_selection", "cohort": "clients_per_round", "seed": "seed"}
        about = {path: {name: flags[flag] for name, flag in names.items()} for path, (_, flags) in by_run.items()}
        figures.draw_client_losses(figures.read(about)[1], folder / f"{figure.name}_clients.png", title)
    elif figure.own_figures == "normality":
        _draw_normality(figure, found, folder / f"{figure.name}_normality.png", title)
    elif figure.own_figures == "study" and figure.study:
        from bandits.mab_fl import studies as mab_fl
        from bandits.mab_fl.figures import draw_study
        from bandits.mab_fl.flags import varied

        study = mab_fl.load()[figure.study]
        if note:
            drawn = [{**one, "title": f"{one['title']}\n{note}"} if "title" in one else one for one in study.figures]
            study = dataclasses.replace(study, figures=drawn)
        settings = {one.name: one for one in study.settings}
        draw_study(study, {path: varied(settings[label], flags) for path, (label, flags) in by_run.items()}, folder)


def _draw_normality(figure: Figure, found: Mapping[str, Configuration], path: pathlib.Path, title: str) -> None:
    """Draws the overlaid densities of the statistics of normality, all seeds together, a row of pictures an alpha."""
    from optimization.posterior import diagnostics

    names = list(dict.fromkeys(one.column.partition(":")[0] for one in figure.measures))
    panels: dict[str, dict[str, diagnostics.Normality]] = {}
    for planned in (one for one in figure.configurations if one.label in found):
        for name in names:
            round_words = pathlib.Path(name).stem.removeprefix("diagnosis_").replace("_", " ")
            words = [*planned.words, *([round_words] if len(names) > 1 else ())]
            panel = next(word for word in words if word.startswith("alpha=")) if len(words) > 1 else ""
            label = ", ".join(word for word in words if word != panel)
            paths = [run.folder / name for run in found[planned.label].runs]
            panels.setdefault(panel, {})[label] = diagnostics.read_normality(paths)
    diagnostics.draw_normality(panels, path, title)


@functools.cache
def specs() -> Mapping[str, Any]:
    """The docs' pictures by name: title, size and panels; see the head of docs_pictures.toml."""
    return tomllib.loads(_SPEC.read_text(encoding="utf-8"))


def write(folder: pathlib.Path, evidence: pathlib.Path) -> list[pathlib.Path]:
    """Draws all pictures of the docs as PNG files.

    Args:
      folder: Folder to write to.
      evidence: Folder of the records.

    Returns:
      The files.

    Raises:
      UsageError: If a record is missing; the message names the file.
    """
    written = []
    for name, spec in specs().items():
        written.append(folder / f"{name}.png")
        files.save_picture(_drawn(spec, evidence), written[-1], 120)
    return written


def _drawn(spec: Mapping[str, Any], evidence: pathlib.Path) -> Any:
    """A picture of the docs, as a Matplotlib figure; one row of panels."""
    from optimization.study import panels

    ratios = [panel.get("width", 1) for panel in spec["panels"]]
    figure, ((*grid,),) = panels.grid(1, len(ratios), tuple(spec["size"]), spec["title"], width_ratios=ratios)
    groups = [(panel, group) for panel in spec["panels"] for group in panel["groups"]]
    names = list(dict.fromkeys(name for panel, group in groups for name in _series(panel, group)))
    styles = dict(zip(names, curves.styles(names), strict=True))
    for axes, panel in zip(grid, spec["panels"], strict=True):
        found = values(panel, evidence)
        shown = {name: style for name, style in styles.items() if any(name in group for group in found.values())}
        if panel["kind"] == "forest":
            panels.forest(axes, found, shown, panel.get("zero", False))
        else:
            panels.levels(axes, found, shown)
        panels.label(axes, **{key: panel[key] for key in ("title", "xlabel", "ylabel", "ylim") if key in panel})
    if len(names) > 1 and spec.get("legend", True):
        panels.add_legend(figure, spec.get("columns", 5))
    return figure


def _series(panel: Mapping[str, Any], group: Mapping[str, Any]) -> Mapping[str, str]:
    """Strategies of a group of a panel, by the name in the legend: what stands for `*` in the group's record."""
    return group.get("series", panel.get("series"))


def values(panel: Mapping[str, Any], evidence: pathlib.Path) -> dict[str, dict[str, Interval]]:
    """Means with 95% intervals of a panel, by group and strategy."""
    found: dict[str, dict[str, Interval]] = {}
    for group in panel["groups"]:
        record = {key: group.get(key, panel.get(key, "")) for key in ("file", "measure", "arm", "reference")}
        for name, word in _series(panel, group).items():
            of_record = {key: text.replace("*", word) for key, text in record.items()}
            found.setdefault(group["name"], {})[name] = _interval(evidence, **of_record)
    return found


def _interval(evidence: pathlib.Path, file: str, measure: str, arm: str, reference: str) -> Interval:
    """Mean over seeds with its interval, of a configuration or of its paired difference to another.

    Args:
      evidence: Folder of the records.
      file: CSV file, Markdown file with tables, or OVER_TASKS.
      measure: Column.
      arm: Configuration; the start of a table's row.
      reference: Configuration that is subtracted; empty for none.

    Raises:
      UsageError: If there is no such number.
    """
    try:
        if file == OVER_TASKS:
            return _scores(evidence, measure)[arm]
        if file.endswith(".md"):
            return _of_page((evidence / file).read_text(encoding="utf-8"), measure, arm)
        table = _table(evidence / file).pivot(index="seed", columns="arm", values=measure)
        shown = table[arm] - table[reference] if reference else table[arm]
        return intervals.of_mean(shown.dropna().tolist())
    except (OSError, KeyError) as error:
        raise UsageError(f"{evidence / file} has no {measure} of {arm} ({error}).") from error


@functools.cache
def _table(path: pathlib.Path) -> Any:
    """Records of a file; configurations of a choice by logs are named task, estimator, epsilon, multiple of clients."""
    import pandas as pd

    table = pd.read_csv(path, dtype={"arm": str})
    if "arm" not in table:
        table["arm"] = table[["task", "estimator", "epsilon", "times"]].astype(str).agg(", ".join, axis=1)
    return table


@functools.cache
def _scores(evidence: pathlib.Path, measure: str) -> Mapping[str, Interval]:
    return page.scores_over_tasks(evidence)[measure].scores


def _of_page(text: str, measure: str, arm: str) -> Interval:
    """Number of a Markdown page's first table that has this column and a row that starts so."""
    head: Sequence[str] = ()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = ()
        elif not head:
            head = cells
        elif measure in head and cells[0].startswith(arm) and (match := _CELL.fullmatch(cells[head.index(measure)])):
            mean, low, high = map(float, match.groups())
            return Interval(mean, low, high, 0)
    raise KeyError(arm)
