"""Pictures: curves of a figure beside the published numbers and verdicts; and those of the docs, drawn from records."""

import dataclasses
import functools
import math
import pathlib
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandits.papers import page
from bandits.papers.figures import data_note
from bandits.papers.plan import Figure
from bandits.papers.scoreboard import Judged
from bandits.plans import plan
from bandits.results import baselines, runs
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
_MOST_TICKS = 6
_SPREAD = 20  # Ratio of values from which on their axis is logarithmic.
_NOTE_WIDTH = 90  # Letters across a panel.
_OURS = "ours, 95% interval"


def draw(judged: Judged, found: Mapping[str, Configuration], outputs: Sequence[pathlib.Path]) -> None:
    """Draws the curves, ours beside the published values, and the verdicts.

    Args:
      judged: The figure with its numbers and verdicts.
      found: Configurations with finished runs, by label.
      outputs: Pictures to write.
    """
    from optimization.study import panels

    figure = judged.figure
    drawn = [one for one in figure.configurations if one.is_drawn and one.label in found]
    columns = [name for name in figure.curves if any(name in one.runs[0].metrics for one in found.values())]
    # Each label of the last axis has a panel.
    seconds = list(dict.fromkeys(one.words[-1] if len(one.words) > 1 else "" for one in drawn)) or [""]
    shown = [(column, second) for column in columns for second in seconds]
    compared = _compared(judged)
    across = len(seconds) if len(seconds) > 1 else 2 if shown else 3
    across = min(across, _MOST_COLUMNS, max(1, len(shown), len(compared)))
    down, rest = -(-len(shown) // across), -(-len(compared) // across)
    heights = [_PANEL[1]] * down + [max(1.6, 0.9 + 0.2 * max(1, len(judged.results.configurations)))] * rest
    notes = []
    for line in judged.lines:
        note = f"{line.status} ({figure.data_kind}): {line.says} ({line.place})"
        notes += textwrap.wrap(note, _NOTE_WIDTH * across, subsequent_indent="   ") if line.claim else []
    size = (_PANEL[0] * across + 0.5, sum(heights) + 0.9 + 0.15 * len(notes))
    firsts = list(dict.fromkeys(one.words[0] for one in drawn))
    styles = dict(zip(firsts, curves.styles(firsts), strict=True))
    title = "\n".join([f"{figure.about}. {figure.text}", *filter(None, [data_note(figure)])])
    picture, grid = panels.grid(len(heights), across, size, title, height_ratios=heights)
    axes = list(grid.flat)
    for plot, (column, second) in zip(axes, shown, strict=False):
        of_panel = [one for one in drawn if second in ("", one.words[-1])]
        _draw_curves(plot, column, second, [(one, styles[one.words[0]], found[one.label]) for one in of_panel])
    for plot, (name, values) in zip(axes[down * across :], compared.items(), strict=False):
        _draw_values(plot, values, name)
    for plot in (*axes[len(shown) : down * across], *axes[down * across + len(compared) :]):
        plot.remove()
    if notes:
        picture.supxlabel("\n".join(notes), fontsize=7, x=0.01, ha="left")
    for output in outputs:
        files.save_picture(picture, output, dpi=150)


def _compared(judged: Judged) -> dict[str, dict[str, tuple[Interval, float]]]:
    """Our number and the published one (or NaN) by label, of the measures with a panel.

    These are the measures that the paper states or a search selected; without curves, all.
    """
    published = {(one.configuration, one.measure): one.value for one in judged.figure.published}
    compared: dict[str, dict[str, tuple[Interval, float]]] = {}
    selected = set()
    for label in judged.results.configurations:
        picked = judged.results.picked(label)
        selected |= set(picked)
        for name in (*judged.results.measures, *picked):
            both = judged.results.estimate(label, name), published.get((label, name), math.nan)
            compared.setdefault(name, {})[label] = both
    return {
        name: values
        for name, values in compared.items()
        if name in selected or not judged.figure.curves or any(math.isfinite(one) for _, one in values.values())
    }


def _draw_curves(
    plot: Any, column: str, title: str, found: Sequence[tuple[plan.Configuration, curves.Style, Configuration]]
) -> None:
    """Draws the curves of configurations in one panel."""
    from optimization.study import panels

    metric = runs.declared().get(column, column)
    folders = {planned.label: [run.folder for run in one.runs] for planned, _, one in found}
    notes = baselines.notes(folders, metric)
    for planned, style, one in found:
        name = planned.words[0] + notes.get(planned.label, "")
        curves.draw(plot, [run.metrics for run in one.runs], metric, name, style)
    panels.label(plot, xlabel="round", ylabel=runs.about(column), title=title, legend=True)


def _draw_values(plot: Any, values: Mapping[str, tuple[Interval, float]], name: str) -> None:
    """Draws the values of one measure, with their intervals and the published ones."""
    from optimization.study import panels

    panels.forest(plot, {label: {_OURS: ours} for label, (ours, _) in values.items()}, {_OURS: curves.PLAIN})
    theirs = [published for _, published in values.values()]
    if np.isfinite(theirs).any():
        plot.plot(theirs, range(len(theirs)), "D", color=curves.RED, label="published", fillstyle="none", markersize=7)
    finite = [value for value in (*(ours.mean for ours, _ in values.values()), *theirs) if math.isfinite(value)]
    if finite and min(finite) > 0 and (max(finite) > _SPREAD * min(finite) or name.endswith("_rate")):
        plot.set_xscale("log")
        ticks = sorted(set(finite))
        if len(ticks) <= _MOST_TICKS:
            plot.set_xticks(ticks, [f"{value:g}" for value in ticks])
            plot.minorticks_off()
    else:
        plot.locator_params(axis="x", nbins=_MOST_TICKS)
    panels.label(plot, xlabel=name.replace("_", " "), legend=True)


def draw_of_study(figure: Figure, found: Mapping[str, Configuration], folder: pathlib.Path) -> list[str]:
    """Draws the pictures that the figure's binary has for it; returns the names of their files."""
    note = data_note(figure)
    title = f"{note}\n{figure.text}" if note else figure.text
    by_run = {run.folder: (label, run.flags) for label, one in found.items() for run in one.runs}
    if figure.own_figures == "client_losses":
        from bandits.client_selection import figures

        names = {"selector": "client_selection", "cohort": "clients_per_round", "seed": "seed"}
        about = {path: {name: flags[flag] for name, flag in names.items()} for path, (_, flags) in by_run.items()}
        path = folder / f"{figure.name}_clients.png"
        figures.draw_client_losses(figures.read(about)[1], path, title)
        return [path.name]
    if figure.own_figures == "normality":
        path = folder / f"{figure.name}_normality.png"
        _draw_normality(figure, found, path, title)
        return [path.name]
    if figure.own_figures == "study" and figure.study:
        from bandits.mab_fl.figures import draw_study
        from bandits.mab_fl.flags import load_studies, varied

        study = load_studies()[figure.study]
        if note:
            drawn = [{**one, "title": f"{one['title']}\n{note}"} if "title" in one else one for one in study.figures]
            study = dataclasses.replace(study, figures=drawn)
        settings = {one.name: one for one in study.settings}
        draw_study(study, {path: varied(settings[label], flags) for path, (label, flags) in by_run.items()}, folder)
        return [one["file"] for one in study.figures]
    return []


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
