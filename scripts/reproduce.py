"""Reproduces figures and tables of the papers that the project follows; see `--help`.

Runs are those of a grid: named by their flags, run once, shared by all figures, and continued after an interruption.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib
import sys

from bandits.papers import figures, page, pictures, records, running
from bandits.papers.plan import FIRST_TUNING_SEED
from bandits.plans import executors
from data import files
from data.errors import UsageError
from data.settings import declared, no_folder, setting, title
from optimization.study import cli

_USAGE = """
Reproduces figures and tables of the papers that this project follows, and compares their numbers and orderings.

  reproduce --list
  reproduce --figure=1a --scale=small
  reproduce --figure=1 --estimate               # hours for Figures 1(a) to 1(d); needs no data
  reproduce --text=agarwal2023 --scale=paper --workers=8

The same command continues after an interruption. A contradicted ordering is a finding, not a failure.
"""


class _Figures:
    """Figures.

    Attributes:
      figure: Names, separated by commas; 1 means 1a to 1d; all: those of the papers; flagship: those of this project.
      text: All figures and tables of one paper, instead of --figure.
      list: Print the names of all figures and tables, and end.
      configurations: Labels, separated by semicolons: only these run; records keep the rows of the others.
      scale: Scale of the runs.
      repeat: Seeds (default: as in the paper).
      data_dir: Folder of all needed data files (default: FEDBANDITS_DATA_DIR in the environment; for missing files that
        can be downloaded, the cache folder).
      early_stop: Stop bad points of searches early (default: run all to the end).
      estimate: Run a few rounds of each task, print the estimated time of all runs, and end; random examples replace
        data sets that would be downloaded.
      report_only: Run nothing: report finished runs, also while another process runs.
    """

    figure: str = setting()
    text: str = setting(words=figures.names(), only={"figure": False})
    list: bool = setting(False)
    configurations: str = setting()
    scale: str = setting(figures.PAPER, figures.SCALES)
    repeat: int = setting(low=1, high=cli.MOST_REPEATS)
    data_dir: pathlib.Path = setting(only={"report_only": False})
    early_stop: str = setting(
        words={"halving": "successive halving: the better half of a search's points is promoted to more rounds"},
        only={"executor": executors.RUNNING, "report_only": False},
    )
    estimate: bool = setting(False, only={"executor": executors.RUNNING, "report_only": False})
    report_only: bool = setting(False)


class _Output:
    """Output.

    Attributes:
      records: Folder for a small file of numbers per figure, such as docs/evidence.
      page: Page to make from the records in the folder evidence beside it; runs nothing.
      pictures: Folder to draw the docs' pictures in, from the same records; runs nothing.
      root_output_dir: Folder of all output.
      experiment_name: Name of this output's folder (default: reproduce_SCALE).
    """

    records: pathlib.Path = setting()
    page: pathlib.Path = setting()
    pictures: pathlib.Path = setting()
    root_output_dir: pathlib.Path = setting("runs")
    experiment_name: str = setting(complaint=no_folder)


def define() -> cli.FlagSet:
    """Flags of `reproduce`."""
    flags = cli.FlagSet(_USAGE)
    flags.group(_Figures)
    execution = declared(executors.Executors, executor={"only": {"report_only": False}})
    flags.group(title(executors.Executors), *execution)
    flags.group(_Output)
    return flags


def program(settings: cli.Settings) -> int:
    """Reproduces the chosen figures; returns 0, 1 if a run failed, or 128 + the signal that stopped it."""
    if settings.list:
        _alone(settings, "list", "--list only prints names")
        print(figures.listing())
        return 0
    settings = settings.checked()
    if settings.page:
        _alone(settings, "page", "--page is made from all records, and runs nothing")
        return write_page(pathlib.Path(settings.page))
    if settings.pictures:
        _alone(settings, "pictures", "--pictures draws from all records, and runs nothing")
        return write_pictures(pathlib.Path(settings.pictures))
    if not settings.text and not all(name.strip() for name in (settings.figure or "").split(",")):
        problem = f"={settings.figure} has an empty name" if settings.figure else " is missing"
        raise UsageError(f"--figure{problem}: give names, or all, or --text; --list prints them.")
    with files.data_folder(settings.data_dir):
        return running.execute(settings, _figures(settings))


def _figures(settings: cli.Settings) -> running.Figures:
    """Figures that the flags choose."""
    choose = figures.of_text if settings.text else figures.choose
    whole = parts = choose(settings.text or settings.figure, settings.scale)
    if settings.configurations is not None:
        labels = [label.strip() for label in settings.configurations.split(";")]
        parts = [figures.only(figure, labels) for figure in whole]
    searched = [figure.name for figure in parts if any(one.is_searched for one in figure.configurations)]
    if searched and (settings.repeat or 0) > FIRST_TUNING_SEED:
        raise UsageError(
            f"--repeat={settings.repeat} includes seeds from {FIRST_TUNING_SEED} on, which select points of "
            f"{', '.join(searched)}: give at most {FIRST_TUNING_SEED}."
        )
    if settings.figure == figures.ALL and settings.scale == figures.SMALL:
        for name, why in figures.without_small().items():
            print(f"--figure={name} has no --scale={figures.SMALL}: {why}")
    if one_seed := [figure.name for figure in parts if (settings.repeat or figure.repeat) == 1]:
        names = ", ".join(one_seed)
        print(f"One seed: no claim or number of {names} will get a verdict. --repeat=3 runs three.", flush=True)
    if settings.early_stop and not searched:
        raise UsageError("--early_stop has no effect: none of these figures has a search. Leave it out.")
    for figure in parts:
        figure.check(early_stop=bool(settings.early_stop))
    return running.Figures(
        whole,
        parts,
        settings.repeat,
        (f"--max_concurrent_threads={executors.cores_of_run(settings)}",),
        pathlib.Path(settings.root_output_dir) / (settings.experiment_name or f"reproduce_{settings.scale}"),
        pathlib.Path(settings.records) if settings.records else None,
        bool(settings.early_stop),
    )


def _alone(settings: cli.Settings, flag: str, why: str) -> None:
    """Refuses other flags beside `flag`.

    Raises:
      UsageError: If there are others.
    """
    if others := sorted(settings.set_by_user - {flag}):
        raise UsageError(f"{why}: leave --{others[0]} out.")


def write_page(path: pathlib.Path) -> int:
    """Writes the page of all records; returns the exit status."""
    files.check_output("page", path, (".md",))
    folder = records.beside("page", path)
    strays = page.strays(folder)
    files.replace(path, page.made(folder).encode())
    print(f"Written: {path}")
    for stray in strays:
        print(f"Warning: left out, {stray}.", file=sys.stderr)
    return 0


def write_pictures(folder: pathlib.Path) -> int:
    """Draws the docs' pictures; returns the exit status."""
    evidence = records.beside("pictures", folder)
    files.check_output("pictures", folder / "x.png", (".png",))
    print("Written:", *pictures.write(folder, evidence), sep="\n")
    return 0


if __name__ == "__main__":
    cli.main(define(), program)
