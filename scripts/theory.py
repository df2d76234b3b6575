"""Simulates federated learners in known environments, and writes a page that compares their regret with bounds.

The page's text is the template `page.md`, whose numbers are computed here.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib
import string
import time
from typing import TYPE_CHECKING

from data import files
from optimization.study import cli
from optimization.study.settings import setting

if TYPE_CHECKING:
    from bandits.theory.findings import Curve

_USAGE = """
Simulates environments whose true rewards are known, and compares regret with bounds of theory: 20 seeds, in minutes.

  theory                                                # prints the page
  theory --quick                                        # a tenth of most of it, in a minute or two
  theory --page=docs/evidence/theory.md --picture=docs/pictures/theory.png
"""
_PAGE = pathlib.Path(__file__).resolve().parents[1] / "bandits" / "theory" / "page.md"
_QUICK = (
    "**This is a quick run**: its numbers come from few runs, but the sentences describe the full run with "
    "`--seed=0`.\n\n"
)
_TITLE = "Learning keeps the bound's rate, constant exploration has a floor, and rare deployment costs regret"


class _Flags:
    """Flags.

    Attributes:
      quick: A tenth of most runs, and fewer rounds: the same tables, with wider intervals and fewer rows.
      seed: Seed of all randomness.
      page: Markdown file to write; printed if left out.
      picture: Picture to write, a .png, .pdf or .svg file.
    """

    quick: bool = setting(False)
    seed: int = setting(0)
    page: pathlib.Path = setting()
    picture: pathlib.Path = setting()


def define() -> cli.FlagSet:
    """Flags of `theory`."""
    flags = cli.FlagSet(_USAGE)
    flags.group(_Flags)
    return flags


def program(settings: cli.Settings) -> None:
    """Runs all experiments."""
    for name, formats in (("page", (".md",)), ("picture", files.PICTURES)):
        if settings[name]:
            files.check_output(name, pathlib.Path(settings[name]), formats)
    from bandits.theory import clients, delay, findings, floors, rates

    scale = findings.Scale(settings.quick, settings.seed)
    words = {"seeds": str(findings.SEEDS), "seed": str(settings.seed)}
    curves: list[Curve] = []
    for experiment in (
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
    ):
        start = time.monotonic()
        result = experiment(scale)
        words |= result.words
        curves += result.curves
        if settings.page:
            print(
                f"{(experiment.__doc__ or '').partition(chr(10))[0]:<110}{time.monotonic() - start:6.1f} s", flush=True
            )
    text = string.Template(_PAGE.read_text(encoding="utf-8")).substitute(words)
    if settings.quick:
        text = _QUICK + text
    if settings.picture:
        _draw(curves, pathlib.Path(settings.picture))
    if settings.page:
        files.replace(pathlib.Path(settings.page), text.encode())
    else:
        print(text)


def _draw(found: "list[Curve]", path: pathlib.Path) -> None:
    """Draws a panel for each of `PANELS`, with logarithmic axes: means with their 95% bands over seeds, and bounds."""
    import numpy as np

    from bandits.theory.findings import PANELS
    from optimization.study import curves, intervals, panels

    labels = [one.label for one in found if np.ndim(one.values) == 2]
    looks = dict(zip(labels, curves.styles(labels), strict=True))
    figure, grid = panels.grid(2, 2, (10.4, 7.4), _TITLE)
    for axes, (name, (title, across)) in zip(grid.flat, PANELS.items(), strict=True):
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


if __name__ == "__main__":
    cli.main(define(), program)
