"""Reproduces figures and tables of the texts that the project follows; see `--help`.

Runs are played as a grid's: named by their flags, played once, shared by all figures that need them, and continued
where they were interrupted.
"""

import dataclasses
import os
import pathlib
import sys

from bandits import studies
from data.errors import UsageError
from optimization.study import cli, files
from scripts import runs
from scripts.grid import command as grid
from scripts.grid import players
from scripts.reproduce import pictures, playing, results, texts
from scripts.reproduce.plan import Figure
from scripts.reproduce.results import Found

_USAGE = """
Reproduces figures and tables of the texts that this project follows, beside the numbers and orderings they state.

  reproduce --list
  reproduce --figure=1a --scale=small
  reproduce --figure=all --scale=paper --workers=8

Files of data that cannot be downloaded are looked for in the folder FEDBANDITS_DATA_DIR of the environment. The same
command continues what was interrupted. An ordering that disagrees is a finding, no failure.
"""


def define() -> cli.FlagSet:
    """Returns the flags of `reproduce`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("What is reproduced")
    flags.text("figure", None, "names, separated by commas; all: the texts' own; flagship: this project's")
    flags.switch("list", False, "print the names of all figures and tables, and end")
    flags.choice("scale", texts.PAPER, texts.SCALES, "how much is run")
    flags.integer("repeat", None, "seeds (default: as many as the text's)", low=1)

    players.define(flags)

    flags.group("Output")
    flags.path("root_output_dir", "runs", "folder of all output")
    flags.folder("experiment_name", "name of this output's folder (default: reproduce_SCALE)")
    return flags


def report(figure: Figure, found: dict[str, Found], folder: pathlib.Path) -> None:
    """Writes and prints what a figure's runs gave.

    Raises:
      UsageError: If a run lacks what is measured.
    """
    import pandas as pd

    folder.mkdir(parents=True, exist_ok=True)
    print(f"\n{figure.name}: {figure.about}. {figure.text}")
    if figure.stand_in:
        print(results.stand_in(figure))
    if not found:
        print("No run is finished: nothing is drawn.")
        return
    rows = results.values(figure, found)
    verdicts = results.check(figure, rows)
    print(results.text(rows, verdicts))
    stem = str(folder / figure.name)
    table = results.table(rows).assign(data=figure.stand_in or "the text's")
    files.replace(pathlib.Path(f"{stem}.csv"), table.to_csv(index=False, float_format="%.6g").encode())
    orderings = [(one.claim.place, one.claim.says, one.status, one.why) for one in verdicts]
    checked = pd.DataFrame(orderings, columns=["source", "ordering", "status", "ours"])
    files.replace(pathlib.Path(f"{stem}_orderings.csv"), checked.to_csv(index=False).encode())
    outputs = [pathlib.Path(f"{stem}{suffix}") for suffix in (".png", ".pdf")]
    pictures.draw(figure, found, rows, verdicts, outputs)
    own = _own_figures(figure, found, folder)
    print(f"Written to {folder}: {', '.join(path.name for path in sorted(folder.iterdir()) if path.is_file())}")
    if own:
        print(f"The study's own figures beside: {own}")


def _own_figures(figure: Figure, found: dict[str, Found], folder: pathlib.Path) -> str:
    """Draws the pictures that the figure's binary has for it."""
    title = f"{results.stand_in(figure)}\n{figure.text}" if figure.stand_in else figure.text
    if figure.own_figures == "client_losses":
        from bandits.client_selection import figures

        names = {"selector": "client_selection", "cohort": "clients_per_round", "seed": "seed"}
        told = {}
        for path in (path for one in found.values() for path in one.folders):
            flags = runs.read(path).flags
            told[path] = {name: flags[flag] for name, flag in names.items()}
        path = folder / f"{figure.name}_clients.png"
        figures.draw_client_losses(figures.read(told)[1], path, title)
        return path.name
    if figure.own_figures == "study" and figure.study:
        from bandits.mab_fl import studies as mab_fl
        from bandits.mab_fl.figures import draw_study
        from bandits.mab_fl.flags import varied

        study = mab_fl.load()[figure.study]
        if figure.stand_in:
            words = f"\n{results.stand_in(figure)}"
            drawn = [dict(one) | ({"title": one["title"] + words} if "title" in one else {}) for one in study.figures]
            study = dataclasses.replace(study, figures=drawn)
        settings = {one.name: one for one in study.settings}
        drawn_runs = {
            path: varied(settings[label], runs.read(path).flags) for label, one in found.items() for path in one.folders
        }
        draw_study(study, drawn_runs, folder)
        return ", ".join(one["file"] for one in study.figures)
    return ""


def program(settings: cli.Settings) -> int:
    """Reproduces the chosen figures; returns 0, 1 if a run failed, or 128 + the signal that stopped it."""
    if settings.list:
        print(texts.listing())
        return 0
    settings = settings.settled()
    if not settings.figure:
        raise UsageError("--figure names nothing: give names, or all; --list prints them.")
    chosen = texts.choose(settings.figure, settings.scale)
    cores = len(os.sched_getaffinity(0))
    cores = cores if settings.ray_address else max(1, cores // settings.workers)
    base = (f"--max_concurrent_threads={cores}",)
    name = settings.experiment_name or f"reproduce_{settings.scale}"
    folder = pathlib.Path(settings.root_output_dir) / name
    for figure in chosen:  # A mistake is told before anything is played.
        figure.check()
    failed = []
    with grid.claim(folder, studies.STUDIES[chosen[0].binary]):
        team = players.build(settings, cores)
        with players.playing(team, folder):
            for figure in chosen:
                found, errors = playing.play(figure, settings.repeat or figure.repeat, base, folder / "runs", team)
                failed += [f"{figure.name}: {error}" for error in errors]
                try:
                    report(figure, found, folder / figure.name)
                except UsageError as error:
                    failed.append(f"{figure.name}: {error}")
    if failed:
        print(f"\n{len(failed)} failed:", *failed, sep="\n  ", file=sys.stderr)
    return 1 if failed else 0
