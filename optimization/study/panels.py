"""Drawing functions for the whole project: figures with panels, curves over rounds, and intervals by group.

A strategy has the same colour, line style and marker in every figure (`curves.STYLES`).
"""

import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import matplotlib.figure
import matplotlib.ticker
import numpy as np
import pandas as pd

from optimization.study import curves
from optimization.study.curves import Style
from optimization.study.intervals import Interval
from optimization.study.metrics import range_of

_COLUMNS = 2
_SIZE, _SINGLE = (4.8, 3.2), (8, 4.2)  # Size in inches of a panel in a grid, and of a single panel.
_LETTERS, _SMALL_LETTERS = 12, 15  # Characters per inch of normal text, and of the smaller text in a legend.
_HANDLE = 7  # Width of a line in a legend, in characters.
_BARS = 16  # Number of interval bars in a panel; each curve has at least two.
_MOST_MARKS = 40  # More lines would hide the curves.
_LOOK: dict[Any, Any] = {
    "font.size": 9,
    "figure.titlesize": 10.5,
    "axes.titlesize": 9.5,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.4,
    "legend.fontsize": 8,
    "legend.frameon": False,
}
styled = matplotlib.rc_context(_LOOK)  # Decorator of functions that draw.
Groups = Mapping[str, Mapping[str, Interval]]  # For each group, the intervals of its strategies.


class Figure(matplotlib.figure.Figure):
    """A figure that Jupyter shows with any pyplot backend."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


@styled
def grid(
    rows: int, columns: int, size: tuple[float, float], title: str = "", **arguments: Any
) -> tuple[Figure, np.ndarray]:
    """A figure and its panels, [rows, columns], in this project's style.

    Args:
      rows: Number of rows of panels.
      columns: Number of columns of panels.
      size: Width and height of the figure in inches.
      title: Title above all panels, wrapped to the width; empty for none.
      **arguments: Arguments of `Figure.subplots`.
    """
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **arguments)
    if title:
        width = int(0.96 * _LETTERS * size[0])  # Titles are bold.
        figure.suptitle("\n".join(textwrap.fill(line, width) for line in title.split("\n")), weight="bold")
    return figure, axes


@styled
def label(axes: Any, **words: Any) -> None:
    """Sets properties of a panel, with the arguments of Matplotlib's `Axes.set`, in this project's style."""
    if "ylabel" in words and "\n" not in words["ylabel"]:
        height = axes.figure.get_figheight() / axes.get_gridspec().nrows
        words["ylabel"] = textwrap.fill(words["ylabel"], max(12, int(0.75 * _LETTERS * height)))
    axes.set(**words)
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
            # Labels minor ticks only if the axis spans less than about two decades.
            axis.set_minor_formatter(matplotlib.ticker.LogFormatter(minor_thresholds=(1.8, 0.5)))


@styled
def add_legend(figure: Figure, note: str = "") -> None:
    """Adds a note and a shared legend below all panels. Each name appears once."""
    named: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(name, handle)
    width = _SMALL_LETTERS * figure.get_figwidth()
    columns = max(1, int(width / (max(map(len, named), default=0) + _HANDLE)))
    words = textwrap.fill(note, int(width))
    figure.legend(named.values(), named, loc="outside lower center", ncols=columns, title=words, title_fontsize=8)


@styled
def draw(
    tables: Mapping[str, Sequence[pd.DataFrame]],
    titles: Mapping[str, str],
    title: str = "",
    note: str = "",
    marks: str | None = None,
    bounds: Sequence[Mapping[str, Any]] = (),
    **shown: Any,
) -> Figure:
    """Plots metrics over rounds, one panel per metric. Seeds of a configuration become a mean with a band.

    Args:
      tables: For the label of each configuration, the `metrics.csv` of its seeds.
      titles: For each metric, the label of its panel's vertical axis.
      title: Title of the figure.
      note: Sentences below the panels.
      marks: Column that is 1 in rounds to be marked by a vertical line; None for no marks.
      bounds: Contents of the runs' `bounds.json`. Intervals end at the smallest and largest possible values.
      **shown: Arguments of `curves.band`. The note below the panels says which `kind` of band is drawn.
    """
    width = min(_COLUMNS, len(titles))
    height = math.ceil(len(titles) / width)
    size = (_SIZE[0] * width, _SIZE[1] * height + 0.4) if len(titles) > 1 else _SINGLE
    figure, together = grid(height, width, size, title)
    looks = curves.styles(list(tables))
    for axes, (column, words) in zip(together.flat, titles.items(), strict=False):
        bands = []
        places = np.linspace(0, 1, len(tables) * max(2, _BARS // len(tables)) + 1)[1:]
        for index, (style, (name, seeds)) in enumerate(zip(looks, tables.items(), strict=True)):
            if having := [seed for seed in seeds if column in seed]:
                at, limits = places[index :: len(tables)], range_of(bounds, column)
                bands.append(curves.draw(axes, having, column, name, style, at, bounds=limits, **shown))
        first = next(iter(tables.values()))[0]
        rounds = first.loc[first[marks] == 1, "round_num"] if marks in first else []
        if 0 < len(rounds) <= _MOST_MARKS:
            whole, name = axes.get_xaxis_transform(), str(marks).rpartition("/")[2]
            axes.vlines(rounds, 0, 1, curves.GREY, ":", name, transform=whole, linewidth=0.8)
        label(axes, xlabel="round", ylabel=words)
        axes.locator_params(axis="x", integer=True)
        axes.set_ylim(curves.limits(bands))
    for axes in together.flat[len(titles) :]:
        axes.remove()
    if any(len(seeds) > 1 for seeds in tables.values()):
        note += f" Bars: {curves.BANDS[shown.get('kind', 'ci')]}."
    add_legend(figure, note.strip())
    return figure


@styled
def forest(axes: Any, groups: Groups, looks: Mapping[str, Style], zero: bool = False) -> None:
    """Draws horizontal intervals, with one row per group, in which the intervals of its strategies are stacked.

    Args:
      axes: Matplotlib's axes.
      groups: Intervals by group and strategy.
      looks: Style of each strategy, by name.
      zero: Whether to draw a line at 0, for example if the values are differences.
    """
    step = 0.7 / max(1, len(looks))
    for row, strategies in enumerate(groups.values()):
        if row % 2:
            axes.axhspan(row - 0.5, row + 0.5, color=curves.GREY, alpha=0.08, linewidth=0)
        first = row - step * (len(strategies) - 1) / 2
        for place, (name, interval) in enumerate(strategies.items()):
            _point(axes, interval, first + step * place, name, looks[name], horizontal=True)
    if zero:
        axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(groups)), list(groups))
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


@styled
def levels(axes: Any, groups: Groups, looks: Mapping[str, Style], *, numeric: bool = False) -> None:
    """Draws each strategy's means from group to group, with their intervals.

    Args:
      axes: Matplotlib's axes.
      groups: Intervals by group and strategy.
      looks: Style of each strategy, by name.
      numeric: Whether the names of groups are numbers, which are their positions. Otherwise groups are evenly spaced.
    """
    places = list(map(float, groups)) if numeric else range(len(groups))
    for place, (name, style) in enumerate(looks.items()):
        # Shifts keep intervals from hiding each other.
        shift = 0.0 if numeric else 0.06 * (place - (len(looks) - 1) / 2)
        at = [where + shift for where, group in zip(places, groups.values(), strict=True) if name in group]
        intervals = [group[name] for group in groups.values() if name in group]
        axes.plot(at, [interval.mean for interval in intervals], color=style.colour, linestyle=style.dash)
        for here, interval in zip(at, intervals, strict=True):
            _point(axes, interval, here, name, style)
    if not numeric:
        axes.set_xticks(places, list(groups))
        axes.set_xlim(-0.4, len(groups) - 0.6)


def _point(axes: Any, interval: Interval, at: float, name: str, style: Style, *, horizontal: bool = False) -> None:
    """Draws a mean with its interval, if it has one; the mean may lie outside an interval that ends at a bound."""
    middle, half = (interval.low + interval.high) / 2, (interval.high - interval.low) / 2
    if np.isfinite(half):
        place = (middle, at) if horizontal else (at, middle)
        width = {"xerr" if horizontal else "yerr": half}
        axes.errorbar(*place, **width, fmt="none", ecolor=style.colour, elinewidth=1.4, capsize=2)
    place = (interval.mean, at) if horizontal else (at, interval.mean)
    axes.plot(*place, style.marker, color=style.colour, markersize=4.5, label=name)
