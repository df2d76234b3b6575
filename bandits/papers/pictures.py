"""Pictures of a figure: curves, numbers with the published ones, and verdicts on claims."""

import dataclasses
import math
import pathlib
import textwrap
from collections.abc import Mapping, Sequence

import numpy as np

from bandits.papers.plan import Figure
from bandits.papers.results import ConfigurationRuns, Value, data_note
from bandits.papers.scoreboard import Judged
from bandits.plans.plan import Configuration
from bandits.results import baselines, runs
from data import files
from optimization.study import curves

_PANEL = (4.6, 3.2)  # Inches.
_MOST_COLUMNS = 4
_MOST_TICKS = 6
_SPREAD = 20  # Ratio of values from which on their axis is logarithmic.
_RATE = "_rate"
_NOTE_WIDTH = 90  # Letters across a panel.
_OURS = "ours, 95% interval"


def draw(judged: Judged, found: Mapping[str, ConfigurationRuns], outputs: Sequence[pathlib.Path]) -> None:
    """Draws the curves, ours beside the published values, and the verdicts.

    Args:
      judged: The figure with its numbers and verdicts.
      found: Finished runs by configuration.
      outputs: Pictures to write.
    """
    from optimization.study import panels

    figure, rows = judged.figure, judged.rows
    drawn = [one for one in figure.configurations if one.is_drawn and one.label in found]
    columns = [column for column in figure.curves if any(column in one.tables[0] for one in found.values())]
    seconds = _seconds(drawn)
    shown = [(column, second) for column in columns for second in seconds]
    compared = [name for name in dict.fromkeys(row.measure for row in rows) if _is_compared(figure, rows, name)]
    across = len(seconds) if len(seconds) > 1 else 2 if shown else 3
    across = min(across, _MOST_COLUMNS, max(1, len(shown), len(compared)))
    down, rest = -(-len(shown) // across), -(-len(compared) // across)
    labels = max(1, len({row.configuration for row in rows}))
    heights = [_PANEL[1]] * down + [max(1.6, 0.9 + 0.2 * labels)] * rest
    notes = []
    for one in judged.lines:
        note = f"{one.status} ({figure.data_kind}): {one.says} ({one.place})"
        notes += textwrap.wrap(note, _NOTE_WIDTH * across, subsequent_indent="   ") if one.claim else []
    size = (_PANEL[0] * across + 0.5, sum(heights) + 0.9 + 0.15 * len(notes))
    firsts = list(dict.fromkeys(one.words[0] for one in drawn))
    looks = dict(zip(firsts, curves.styles(firsts), strict=True))
    title = "\n".join([f"{figure.about}. {figure.text}", *filter(None, [data_note(figure)])])
    picture, grid = panels.grid(len(heights), across, size, title, height_ratios=heights)
    axes = list(grid.flat)
    for plot, (column, second) in zip(axes, shown, strict=False):
        of_panel = [one for one in drawn if second in ("", one.words[-1])]
        _draw_curves(plot, column, second, [(one, looks[one.words[0]], found[one.label]) for one in of_panel])
    for plot, name in zip(axes[down * across :], compared, strict=False):
        _draw_values(plot, [row for row in rows if row.measure == name], name)
    for plot in (*axes[len(shown) : down * across], *axes[down * across + len(compared) :]):
        plot.remove()
    if notes:
        picture.supxlabel("\n".join(notes), fontsize=7, x=0.01, ha="left")
    for output in outputs:
        files.save_picture(picture, output, dpi=150)


def _is_compared(figure: Figure, rows: Sequence[Value], name: str) -> bool:
    """Whether a measure has a panel: the paper states it, or there are no curves."""
    own = [row for row in rows if row.measure == name]
    return any(row.published or row.is_picked for row in own) or not figure.curves


def _seconds(arms: Sequence[Configuration]) -> list[str]:
    """Labels of the last axis, each of which has a panel; one empty label if there is a single axis."""
    if not arms or len(arms[0].words) == 1:
        return [""]
    return list(dict.fromkeys(configuration.words[-1] for configuration in arms))


def _draw_curves(
    plot, column: str, title: str, found: Sequence[tuple[Configuration, curves.Style, ConfigurationRuns]]
) -> None:
    """Draws the curves of configurations in one panel."""
    from optimization.study import panels

    metric = runs.declared().get(column, column)
    notes = baselines.notes({configuration.label: of_one.folders for configuration, _, of_one in found}, metric)
    for configuration, look, of_one in found:
        name = configuration.words[0] + notes.get(configuration.label, "")
        curves.draw(plot, of_one.tables, metric, name, look)
    panels.label(plot, xlabel="round", ylabel=runs.about(column), title=title, legend=True)


def _draw_values(plot, own: Sequence[Value], name: str) -> None:
    """Draws the values of one measure, with their intervals and the published ones."""
    from optimization.study import panels

    panels.forest(plot, {row.configuration: {_OURS: row.interval} for row in own}, {_OURS: curves.PLAIN})
    theirs = [row.published.value if row.published else math.nan for row in own]
    if np.isfinite(theirs).any():
        plot.plot(theirs, range(len(own)), "D", color=curves.RED, label="published", fillstyle="none", markersize=7)
    finite = [value for value in (*(row.mean for row in own), *theirs) if math.isfinite(value)]
    if finite and min(finite) > 0 and (max(finite) > _SPREAD * min(finite) or name.endswith(_RATE)):
        plot.set_xscale("log")
        values = sorted(set(finite))
        if len(values) <= _MOST_TICKS:
            plot.set_xticks(values, [f"{value:g}" for value in values])
            plot.minorticks_off()
    else:
        plot.locator_params(axis="x", nbins=_MOST_TICKS)
    panels.label(plot, xlabel=name.replace("_", " "), legend=True)


def draw_of_study(figure: Figure, found: Mapping[str, ConfigurationRuns], folder: pathlib.Path) -> list[str]:
    """Draws the pictures that the figure's binary has for it; returns the names of their files."""
    note = data_note(figure)
    title = f"{note}\n{figure.text}" if note else figure.text
    if figure.own_figures == "client_losses":
        from bandits.client_selection import figures

        names = {"selector": "client_selection", "cohort": "clients_per_round", "seed": "seed"}
        flags = {path: runs.read(path).flags for one in found.values() for path in one.folders}
        about = {path: {name: own[flag] for name, flag in names.items()} for path, own in flags.items()}
        path = folder / f"{figure.name}_clients.png"
        figures.draw_client_losses(figures.read(about)[1], path, title)
        return [path.name]
    if figure.own_figures == "normality":
        path = folder / f"{figure.name}_normality.png"
        _draw_normality(figure, found, path, title)
        return [path.name]
    if figure.own_figures == "study" and figure.study:
        from bandits.mab_fl import studies as mab_fl
        from bandits.mab_fl.figures import draw_study
        from bandits.mab_fl.flags import varied

        study = mab_fl.load()[figure.study]
        if note:
            drawn = [{**one, "title": f"{one['title']}\n{note}"} if "title" in one else one for one in study.figures]
            study = dataclasses.replace(study, figures=drawn)
        settings = {one.name: one for one in study.settings}
        drawn_runs = {
            path: varied(settings[label], runs.read(path).flags) for label, one in found.items() for path in one.folders
        }
        draw_study(study, drawn_runs, folder)
        return [one["file"] for one in study.figures]
    return []


def _draw_normality(figure: Figure, found: Mapping[str, ConfigurationRuns], path: pathlib.Path, title: str) -> None:
    """Draws the overlaid densities of the statistics of normality, all seeds together, a row of pictures an alpha."""
    from optimization.posterior import diagnostics

    names = list(dict.fromkeys(one.column.partition(":")[0] for one in figure.measures))
    panels: dict[str, dict[str, diagnostics.Normality]] = {}
    for configuration in (configuration for configuration in figure.configurations if configuration.label in found):
        for name in names:
            round_words = pathlib.Path(name).stem.removeprefix("diagnosis_").replace("_", " ")
            words = [*configuration.words, *([round_words] if len(names) > 1 else ())]
            panel = next(word for word in words if word.startswith("alpha=")) if len(words) > 1 else ""
            label = ", ".join(word for word in words if word != panel)
            paths = [folder / name for folder in found[configuration.label].folders]
            panels.setdefault(panel, {})[label] = diagnostics.read_normality(paths)
    diagnostics.draw_normality(panels, path, title)
