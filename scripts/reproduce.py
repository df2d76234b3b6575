"""Reproduces figures and tables of the papers that the project follows; see `--help`.

Runs are the same as in a grid: they are named after their flags, executed once, shared by all figures, and continued
after an interruption.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import pathlib

from bandits.papers import figures, page, pictures, running
from bandits.papers.plan import FIRST_TUNING_SEED
from bandits.plans import executors
from data import files
from data.errors import UsageError
from data.settings import declared, no_folder, setting
from optimization.study import cli

_USAGE = """
Reproduces figures and tables of the papers that this project follows, and compares numbers and orderings
with the published ones.

  reproduce --list
  reproduce --figure=1a --scale=small
  reproduce --figure=1 --estimate               # prints how long 1(a) to 1(d) would take; needs no data
  reproduce --figure=agarwal2023 --workers=8    # all figures and tables of a paper
  reproduce --figure=2a --rounds=5 --repeat=1   # a rehearsal on the real data; not judged

The same command continues after an interruption. An ordering that is contradicted is a result, not a failure.
"""


@dataclasses.dataclass(frozen=True)
class _Figures:
    """Figures."""

    figure: str = setting(
        None,
        "Names of figures and tables, separated by commas. Groups: 1 (1a to 1d), a paper's name in --list, such as "
        "agarwal2023 (its figures), all (all papers), flagship (this project's own, which have only --scale=paper)",
    )
    list: bool = setting(False, "Print the names of all figures and tables, and exit")
    configurations: str = setting(
        None, "Labels of configurations to run, separated by semicolons; others are reported if they are finished"
    )
    scale: str = setting(figures.PAPER, "Scale of the runs", figures.SCALES)
    # The bound separates these seeds from those on which searches select points.
    repeat: int = setting(None, "Number of seeds (default: as in the paper)", low=1, high=FIRST_TUNING_SEED)
    rounds: int = setting(None, "Maximum rounds per run, for a rehearsal that is marked and never judged", low=2)
    data_dir: pathlib.Path = setting(
        None,
        "Folder of all required data files (default: FEDBANDITS_DATA_DIR in the environment; files that it lacks are "
        "downloaded to the cache folder if possible)",
        only={"report_only": False},
    )
    estimate: bool = setting(
        False,
        "Run a few rounds of each task, print the estimated time of all runs, and exit; random examples replace "
        "data sets that would be downloaded",
        only={"executor": executors.RUNNING, "report_only": False},
    )
    report_only: bool = setting(False, "Only report finished runs, even while another process executes more")


@dataclasses.dataclass(frozen=True)
class _Output:
    """Output."""

    records: pathlib.Path = setting(None, "Output folder for a file of numbers per figure, such as docs/evidence")
    page: pathlib.Path = setting(None, "Page to make from the records in the folder evidence next to it; runs nothing")
    pictures: pathlib.Path = setting(None, "Folder for the docs' pictures of the same records; runs nothing")
    root_output_dir: pathlib.Path = setting("runs", "Folder of all output")
    experiment_name: str = setting(None, "Name of this output's folder (default: reproduce_SCALE)", check=no_folder)


def define() -> cli.FlagSet:
    """Flags of `reproduce`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Figures", _Figures)
    execution = declared(executors.Executors, executor={"only": {"report_only": False}})
    flags.group("Execution", *execution)
    flags.group("Output", _Output)
    return flags


def program(settings: cli.Settings) -> int:
    """Reproduces figures, or writes a page or pictures. Returns 0, 1 if a run failed, or 128 + a signal's number.

    Raises:
      UsageError: If the flags choose no figure, or conflict with each other.
    """
    for flag in ("list", "page", "pictures"):
        if settings[flag] and (others := sorted(settings.set_by_user - {flag})):
            raise UsageError(f"--{flag} runs nothing: leave --{others[0]} out.")
    if settings.list:
        print(figures.listing())
        return 0
    settings = settings.checked()
    if settings.page:
        return write_page(pathlib.Path(settings.page))
    if settings.pictures:
        return _write_pictures(pathlib.Path(settings.pictures))
    if not all(name.strip() for name in (settings.figure or "").split(",")):
        problem = f"={settings.figure} has an empty name" if settings.figure else " is missing"
        raise UsageError(f"--figure{problem}: give names, or all; --list prints the names.")
    with files.data_folder(settings.data_dir):
        return running.execute(settings, _figures(settings))


def _figures(settings: cli.Settings) -> list[figures.Figure]:
    """Returns the figures that the flags choose.

    Raises:
      UsageError: If the flags of a configuration are invalid.
    """
    chosen = figures.choose(settings.figure, settings.scale)
    chosen = [figure.rehearsed(settings.rounds) for figure in chosen] if settings.rounds else chosen
    if settings.figure == figures.ALL and settings.scale == figures.SMALL:
        for name, why in figures.without_small().items():
            print(f"--figure={name} has no --scale={figures.SMALL}: {why}")
    one_seed = ", ".join(figure.name for figure in chosen if (settings.repeat or figure.repeat) == 1)
    if one_seed and not settings.rounds:
        print(f"One seed: no claim or number of {one_seed} will get a verdict. --repeat=3 runs three.", flush=True)
    for figure in chosen:
        figure.check()
        figure.chosen(settings.configurations)
    return chosen


def _evidence(flag: str, path: pathlib.Path) -> pathlib.Path:
    """Returns the folder of records next to the output that a flag names.

    Raises:
      UsageError: If there is no such folder.
    """
    folder = path.parent / "evidence"
    if not any(folder.glob("*/*.csv")):
        raise UsageError(f"--{flag}={path} needs records in {folder}, which has none: --records writes them.")
    return folder


def write_page(path: pathlib.Path) -> int:
    """Writes the page of all records, and returns the exit status."""
    files.check_output("page", path, (".md",))
    files.replace(path, page.made(_evidence("page", path)).encode())
    print(f"Written: {path}")
    return 0


def _write_pictures(folder: pathlib.Path) -> int:
    """Draws the pictures of the documentation, and returns the exit status."""
    evidence = _evidence("pictures", folder)
    files.check_output("pictures", folder / "x.png", (".png",))
    print("Written:", *pictures.write(folder, evidence), sep="\n")
    return 0


if __name__ == "__main__":
    cli.main(define(), program)
