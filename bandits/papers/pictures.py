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

_PANEL = (4.6, 3.2)  # Inches.
_MOST_COLUMNS = 4
_MOST_TICKS = 6
_SPREAD = 20  # Ratio of values from which on their axis is logarithmic.
_RATE = "_rate"
_TITLE_WIDTH, _NOTE_WIDTH = 50, 90  # Letters across a panel.


def draw(judged: Judged, found: Mapping[str, ConfigurationRuns], outputs: Sequence[pathlib.Path]) -> None:
    """Draws the curves, ours beside the published values, and the verdicts.

    Args:
      judged: The figure with its numbers and verdicts.
      found: Finished runs by configuration.
      outputs: Pictures to write.
    """
    import matplotlib
    from matplotlib import figure as figures

    figure, rows = judged.figure, judged.rows
    arms = [
        configuration
        for configuration in figure.configurations
        if configuration.is_drawn and configuration.label in found
    ]
    has_columns = [column for column in figure.curves if any(column in one.tables[0] for one in found.values())]
    panels = [(column, second) for column in has_columns for second in _seconds(arms)]
    firsts = list(dict.fromkeys(configuration.words[0] for configuration in arms))
    folders = {configuration.label: found[configuration.label].folders for configuration in arms}
    uniform_notes = {column: baselines.notes(folders, runs.declared().get(column, column)) for column in has_columns}
    compared = [name for name in dict.fromkeys(row.measure for row in rows) if _is_compared(figure, rows, name)]
    across = len(_seconds(arms)) if len(_seconds(arms)) > 1 else 2 if panels else 3
    across = min(across, _MOST_COLUMNS, max(1, len(panels), len(compared)))
    down, rest = -(-len(panels) // across), -(-len(compared) // across)
    labels = max(1, len({row.configuration for row in rows}))
    heights = [_PANEL[1]] * down + [max(1.6, 0.9 + 0.2 * labels)] * rest
    notes = []
    for one in judged.lines:
        note = f"{one.status} ({figure.data_kind}): {one.says} ({one.place})"
        notes += textwrap.wrap(note, _NOTE_WIDTH * across, subsequent_indent="   ") if one.claim else []
    with matplotlib.rc_context({"font.size": 9, "lines.linewidth": 1.3}):
        size = (_PANEL[0] * across + 0.5, sum(heights) + 0.9 + 0.15 * len(notes))
        picture = figures.Figure(figsize=size, layout="constrained")
        picture.suptitle(_title(figure, across), fontsize=11)
        axes = picture.subplots(len(heights), across, squeeze=False, gridspec_kw={"height_ratios": heights}).ravel()
        for plot, (column, second) in zip(axes, panels, strict=False):
            curves = [
                (
                    configuration.words[0] + uniform_notes[column].get(configuration.label, ""),
                    firsts.index(configuration.words[0]),
                    found[configuration.label],
                )
                for configuration in arms
                if second in ("", configuration.words[-1])
            ]
            _draw_curves(plot, column, second, curves)
        for plot, name in zip(axes[down * across :], compared, strict=False):
            _draw_values(plot, [row for row in rows if row.measure == name], name)
        used = {*range(len(panels)), *range(down * across, down * across + len(compared))}
        for index, plot in enumerate(axes):
            if index not in used:
                plot.remove()
        if notes:
            picture.supxlabel("\n".join(notes), fontsize=7, x=0.01, ha="left")
        for output in outputs:
            files.save_picture(picture, output, dpi=150)


def _title(figure: Figure, across: int) -> str:
    parts = [f"{figure.about}. {figure.text}", *filter(None, [data_note(figure)])]
    return "\n".join(textwrap.fill(part, _TITLE_WIDTH * across, break_on_hyphens=False) for part in parts)


def _is_compared(figure: Figure, rows: Sequence[Value], name: str) -> bool:
    """Whether a measure has a panel: the paper states it, or there are no curves."""
    own = [row for row in rows if row.measure == name]
    return any(row.published or row.is_picked for row in own) or not figure.curves


def _seconds(arms: Sequence[Configuration]) -> list[str]:
    """Labels of the last axis, each of which has a panel; one empty label if there is a single axis."""
    if not arms or len(arms[0].words) == 1:
        return [""]
    return list(dict.fromkeys(configuration.words[-1] for configuration in arms))


def _draw_curves(plot, column: str, title: str, curves: Sequence[tuple[str, int, ConfigurationRuns]]) -> None:
    """Draws curves, each with its name and the number of its colour."""
    for name, colour, found in curves:
        runs.draw(plot, found.tables, column, name, colour)
    plot.set(xlabel="round", ylabel=column, title=title)
    plot.grid(alpha=0.3)
    plot.legend(fontsize=6 if len(curves) > 8 else 7)


def _draw_values(plot, own: Sequence[Value], name: str) -> None:
    places = range(len(own))
    ours = [row.mean if math.isfinite(row.mean) else math.nan for row in own]
    halves = [row.interval.high - row.interval.mean for row in own]
    halves = [half if math.isfinite(half) else 0.0 for half in halves]
    theirs = [row.published.value if row.published else math.nan for row in own]
    plot.errorbar(
        ours, places, xerr=halves, fmt="o", color=runs.COLOURS[0], label="ours, 95% interval", capsize=2, markersize=5
    )
    if np.isfinite(theirs).any():
        plot.plot(theirs, places, "D", color=runs.COLOURS[1], label="published", fillstyle="none", markersize=7)
    finite = [value for value in (*ours, *theirs) if math.isfinite(value)]
    if finite and min(finite) > 0 and (max(finite) > _SPREAD * min(finite) or name.endswith(_RATE)):
        plot.set_xscale("log")
        shown = sorted(set(finite))
        if len(shown) <= _MOST_TICKS:
            plot.set_xticks(shown, [f"{value:g}" for value in shown])
            plot.minorticks_off()
    else:
        plot.locator_params(axis="x", nbins=_MOST_TICKS)
    plot.set_yticks(list(places), [row.configuration for row in own], fontsize=7)
    plot.set_ylim(len(own) - 0.5, -0.5)
    plot.set(xlabel=name.replace("_", " "))
    plot.grid(alpha=0.3)
    plot.legend(fontsize=7)


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
