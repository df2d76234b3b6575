"""The page of the laboratory, whose text is `page.md`, and its picture."""

import pathlib
import string
import time
from collections.abc import Callable, Sequence

import numpy as np

from bandits.theory import clients, delay, findings, floors, rates
from bandits.theory.findings import Curve
from data import files
from optimization.study import curves as curves_lib
from optimization.study import intervals, panels

_TEXT = pathlib.Path(__file__).with_name("page.md")
_QUICK = (
    "**This is a quick run**: its numbers come from few runs, but the sentences describe the full run with "
    "`--seed=0`.\n\n"
)
_TITLE = "Learning keeps the bound's rate, constant exploration has a floor, and rare deployment costs regret"
_EXPERIMENTS = (
    rates.exact_property,
    rates.shrinking_gaps,
    rates.other_gaps,
    rates.bounds_beside,
    floors.regret_of_parts,
    floors.schedules_end_it,
    floors.constant_parameters,
    floors.inexact_oracle,
    delay.bounds_and_regret,
    delay.half_as_often,
    clients.few_clients,
    clients.local_steps,
    clients.own_training,
)


def made(scale: findings.Scale, ended: Callable[[str, float], None] | None = None) -> tuple[str, list[Curve]]:
    """Runs all experiments; returns the page and the curves of its picture.

    Args:
      scale: How many runs there are.
      ended: Called after each experiment with its description and its seconds.
    """
    words = {"seeds": str(findings.SEEDS), "seed": str(scale.seed)}
    curves: list[Curve] = []
    for experiment in _EXPERIMENTS:
        start = time.monotonic()
        result = experiment(scale)
        words |= result.words
        curves += result.curves
        if ended:
            ended((experiment.__doc__ or "").partition("\n")[0], time.monotonic() - start)
    text = string.Template(_TEXT.read_text(encoding="utf-8")).substitute(words)
    return _QUICK * scale.quick + text, curves


def draw(found: Sequence[Curve], path: pathlib.Path) -> None:
    """Draws a panel for each of `PANELS`, with logarithmic axes: means with their 95% bands over seeds, and bounds."""
    labels = [one.label for one in found if np.ndim(one.values) == 2]
    looks = dict(zip(labels, curves_lib.styles(labels), strict=True))
    figure, grid = panels.grid(2, 2, (10.4, 7.4), _TITLE)
    for axes, (name, (title, across)) in zip(grid.flat, findings.PANELS.items(), strict=True):
        for curve in found:
            values = np.asarray(curve.values)
            if curve.panel != name:
                continue
            if values.ndim == 1:
                axes.plot(curve.places, values, label=curve.label, color="black", linestyle="--")
                continue
            half = intervals.half_width(values.std(axis=1, ddof=1), values.shape[1])
            mean, look = values.mean(axis=1), looks[curve.label]
            axes.plot(curve.places, mean, color=look.colour, marker=look.marker, markersize=4, label=curve.label)
            axes.fill_between(curve.places, mean - half, mean + half, color=look.colour, alpha=0.2, linewidth=0)
        panels.label(axes, title=title, xlabel=across, ylabel=name, xscale="log", yscale="log", legend=True)
    files.save_picture(figure, path, dpi=110)
