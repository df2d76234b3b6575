"""Runs the laboratory of section 6 and writes its page: regret of simulated federated learners beside the bounds.

The page's text lies in `page.md`; each of its numbers is a name there, and found here.
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
  theory --page=docs/evidence/theory.md --picture=docs/theory.png
"""
_PAGE = pathlib.Path(__file__).resolve().parents[1] / "bandits" / "theory" / "page.md"
_QUICK = (
    "**This is a quick look**: the numbers are few runs', the sentences were written of the whole with `--seed=0`.\n\n"
)
_PANEL = (5.2, 3.6)  # Inches.


class _Flags:
    """Flags.

    Attributes:
      quick: A tenth of most runs, and fewer rounds: the same tables, with wider intervals and fewer rows.
      seed: Seed of all draws.
      page: Markdown file to write; printed if left out.
      picture: Picture to write, of .png or .pdf or .svg.
    """

    quick: bool = setting(False)
    seed: int = setting(0)
    page: pathlib.Path = setting()
    picture: pathlib.Path = setting()


def define() -> cli.FlagSet:
    """Returns the flags of `theory`."""
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
        found = experiment(scale)
        words |= found.words
        curves += found.curves
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


def _draw(curves: "list[Curve]", path: pathlib.Path) -> None:
    """Draws a panel for each title, with logarithmic axes; what is calculated is dashed."""
    import matplotlib
    from matplotlib import figure as figures

    titles = list(dict.fromkeys(curve.panel for curve in curves))
    with matplotlib.rc_context({"font.size": 9, "lines.linewidth": 1.3}):
        figure = figures.Figure((2 * _PANEL[0], -(-len(titles) // 2) * _PANEL[1]), layout="constrained")
        panels = figure.subplots(-(-len(titles) // 2), 2, squeeze=False).flat
        for panel, title in zip(panels, titles, strict=False):
            for curve in curves:
                if curve.panel == title:
                    panel.plot(curve.places, curve.values, "k--" if curve.is_bound else "o-", ms=3, label=curve.label)
            panel.set(title=title, xscale="log", yscale="log")
            panel.legend(fontsize=7)
            panel.grid(alpha=0.3)
        files.save_picture(figure, path, dpi=110)


if __name__ == "__main__":
    cli.main(define(), program)
