"""Reproduces figures and tables of the texts that the project follows; see `--help`.

Runs are played as a grid's: named by their flags, played once, shared by all figures that need them, and continued
where they were interrupted.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import pathlib
import sys
import tempfile
from collections.abc import Sequence

from bandits import studies
from bandits.papers import judging, page, pictures, playing, records, results, scoreboard, texts
from bandits.papers.plan import FIRST_TUNING_SEED, Figure
from bandits.papers.results import Found
from bandits.plans import estimate, executors, sweep
from bandits.plans.plan import Run
from bandits.results import runs
from data import files
from data import files as data_files
from data.errors import UsageError
from optimization.study import cli

_REDUCTION = 2  # One of so many points of a search goes on, with --early_stop.
_USAGE = """
Reproduces figures and tables of the texts that this project follows, beside the numbers and orderings they state.

  reproduce --list
  reproduce --figure=1a --scale=small
  reproduce --figure=1 --estimate               # hours for Figures 1(a) to 1(d); needs no data
  reproduce --text=agarwal2023 --scale=paper --workers=8

The same command continues what was interrupted. An ordering that disagrees is a finding, no failure.
"""


def define() -> cli.FlagSet:
    """Returns the flags of `reproduce`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("What is reproduced")
    flags.text(
        "figure",
        None,
        "names, separated by commas; 1 means 1a to 1d; all: the texts' own; flagship: this project's",
    )
    flags.choice("text", None, texts.names(), "all figures and tables of one text, instead of --figure")
    flags.belong("text", figure=False)
    flags.switch("list", False, "print the names of all figures and tables, and end")
    flags.text("arms", None, "their labels, separated by semicolons: only these; records keep the rows of the others")
    flags.choice("scale", texts.PAPER, texts.SCALES, "how much is run")
    flags.integer("repeat", None, "seeds (default: as many as the text's)", low=1)

    flags.path(
        "data_dir",
        None,
        "folder of the data files, which must hold all that are needed (default: FEDBANDITS_DATA_DIR in the "
        "environment; for what it lacks and can be downloaded, the cache folder)",
    )
    flags.choice(
        "early_stop",
        None,
        {"asha": "asynchronous successive halving: the better half of a search's points go on to more rounds"},
        "give up points of searches early (default: run all to the end)",
    )
    flags.belong("early_stop", executor=("local", "ray"))

    flags.switch(
        "estimate",
        False,
        "run a few rounds of each task, print how long all takes, and end; random examples stand in for data sets that "
        "would be downloaded",
    )
    flags.switch("report_only", False, "play nothing: report what is finished, also while another process plays")

    executors.define(flags, slurm_script="write a job array for Slurm, and run nothing")

    flags.group("Output")
    flags.path("records", None, "folder in which a small file of numbers a figure is kept, such as docs/evidence")
    flags.path("page", None, "page to make of the records beside it, in the folder evidence; plays nothing")
    flags.path("root_output_dir", "runs", "folder of all output")
    flags.folder("experiment_name", "name of this output's folder (default: reproduce_SCALE)")
    return flags


def report(
    figure: Figure,
    found: dict[str, Found],
    folder: pathlib.Path,
    kept: pathlib.Path | None = None,
    *,
    is_part: bool = False,
) -> list[scoreboard.Line]:
    """Writes and prints what a figure's runs gave.

    Args:
      figure: The figure.
      found: What each arm gave.
      folder: Where it is written.
      kept: Folder of records that are kept, if any: pages are made of them.
      is_part: Whether only some of its arms were played: the others are those of the records that are there, and
        nothing is drawn.

    Returns:
      The figure's lines of the scoreboard.

    Raises:
      UsageError: If a run lacks what is measured.
      Failure: If the folder cannot be written.
    """
    import pandas as pd

    with files.told(folder):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"\n{figure.name}: {figure.about}. {figure.text}")
    if note := results.data_note(figure):
        print(note)
    path = _records_path(figure, folder, kept)
    table = records.of(figure, found) if found else None
    if is_part:
        table = records.joined(figure, table, path)
    if table is None:
        print("No run is finished: nothing is drawn.")
        return scoreboard.lines(figure, [])
    for each in {_records_path(figure, folder, None), path}:
        records.write(table, each)
    rows = records.values(figure, table)
    verdicts = judging.check(figure, rows)
    print(scoreboard.text(figure, rows, verdicts))
    stem = str(folder / figure.name)
    values = scoreboard.values_table(figure, rows).assign(data_kind=figure.data_kind, data=figure.data or "the paper's")
    files.replace(pathlib.Path(f"{stem}.csv"), values.to_csv(index=False, float_format="%.6g").encode())
    claims = [(one.claim.place, one.claim.says, one.status, figure.data_kind, one.why, one.seeds) for one in verdicts]
    computed = scoreboard.accounted(figure)
    claims += [(one.place, one.says, one.status, one.data_kind, one.ours, one.seeds) for one in computed]
    checked = pd.DataFrame(claims, columns=["source", "claim", "verdict", "data_kind", "ours", "seeds"])
    files.replace(pathlib.Path(f"{stem}_claims.csv"), checked.to_csv(index=False).encode())
    own = ""
    if not is_part:  # Of the others there are no curves.
        pictures.draw(figure, found, rows, verdicts, [pathlib.Path(f"{stem}{suffix}") for suffix in (".png", ".pdf")])
        own = _own_figures(figure, found, folder)
    print(f"Written to {folder}: {', '.join(path.name for path in sorted(folder.iterdir()) if path.is_file())}")
    if own:
        print(f"The study's own figures beside: {own}")
    return scoreboard.lines(figure, rows)


def _records_path(figure: Figure, folder: pathlib.Path, kept: pathlib.Path | None) -> pathlib.Path:
    """Returns the file of a figure's records, of which those of arms that are not played are taken."""
    return records.path_of(figure, kept) if kept else folder / f"{figure.name}_records.csv"


def _own_figures(figure: Figure, found: dict[str, Found], folder: pathlib.Path) -> str:
    """Draws the pictures that the figure's binary has for it."""
    note = results.data_note(figure)
    title = f"{note}\n{figure.text}" if note else figure.text
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
    if figure.own_figures == "normality":
        return _draw_normality(figure, found, folder / f"{figure.name}_normality.png", title)
    if figure.own_figures == "study" and figure.study:
        from bandits.mab_fl import studies as mab_fl
        from bandits.mab_fl.figures import draw_study
        from bandits.mab_fl.flags import varied

        study = mab_fl.load()[figure.study]
        if note:
            words = f"\n{note}"
            drawn = [dict(one) | ({"title": one["title"] + words} if "title" in one else {}) for one in study.figures]
            study = dataclasses.replace(study, figures=drawn)
        settings = {one.name: one for one in study.settings}
        drawn_runs = {
            path: varied(settings[label], runs.read(path).flags) for label, one in found.items() for path in one.folders
        }
        draw_study(study, drawn_runs, folder)
        return ", ".join(one["file"] for one in study.figures)
    return ""


def _draw_normality(figure: Figure, found: dict[str, Found], path: pathlib.Path, title: str) -> str:
    """Draws the overlaid densities of the statistics of normality, all seeds together, a row of pictures an alpha."""
    from optimization.posterior import diagnostics

    names = list(dict.fromkeys(one.column.partition(":")[0] for one in figure.measures))
    panels: dict[str, dict[str, diagnostics.Normality]] = {}
    for arm in (arm for arm in figure.arms if arm.label in found):
        for name in names:
            round_words = pathlib.Path(name).stem.removeprefix("diagnosis_").replace("_", " ")
            words = [*arm.words, *([round_words] if len(names) > 1 else ())]
            panel = next(word for word in words if word.startswith("alpha=")) if len(words) > 1 else ""
            label = ", ".join(word for word in words if word != panel)
            paths = [folder / name for folder in found[arm.label].folders]
            panels.setdefault(panel, {})[label] = diagnostics.read_normality(paths)
    diagnostics.draw_normality(panels, path, title)
    return path.name


def program(settings: cli.Settings) -> int:
    """Reproduces the chosen figures; returns 0, 1 if a run failed, or 128 + the signal that stopped it."""
    if settings.list:
        _alone(settings, "list", "--list prints names, and ends")
        print(texts.listing())
        return 0
    settings = settings.settled()
    if settings.page:
        _alone(settings, "page", "--page is made of all records, and plays nothing")
        return write_page(pathlib.Path(settings.page))
    if not settings.text and not all(name.strip() for name in (settings.figure or "").split(",")):
        what = f"={settings.figure} has an empty name" if settings.figure else " names nothing"
        raise UsageError(f"--figure{what}: give names, or all, or --text; --list prints them.")
    for flag in ("estimate", "executor", "data_dir", "early_stop") if settings.report_only else ():
        if flag in settings.given:
            raise UsageError(f"--report_only plays nothing: leave --{flag} out.")
    if settings.estimate and settings.executor == "slurm_script":
        raise UsageError("--estimate plays a few rounds, and --executor=slurm_script plays nothing: leave one out.")
    with data_files.data_folder(settings.data_dir):
        return _checked(settings)


def _checked(settings: cli.Settings) -> int:
    """Checks what is chosen of figures, and reproduces it; returns the exit status."""
    if settings.text:
        whole = chosen = texts.of_text(settings.text, settings.scale)
    else:
        whole = chosen = texts.choose(settings.figure, settings.scale)
    if settings.arms is not None:
        labels = [label.strip() for label in settings.arms.split(";")]
        chosen = [texts.only(figure, labels) for figure in whole]
    _check_seeds(settings.repeat, chosen)
    if settings.figure == texts.ALL and settings.scale == texts.SMALL:
        for name, why in texts.without_small().items():
            print(f"--figure={name} has no --scale={texts.SMALL}: {why}")
    if warning := scoreboard.one_seed(chosen, settings.repeat):
        print(warning, flush=True)
    cores = executors.cores_of_run(settings)
    folder = pathlib.Path(settings.root_output_dir) / (settings.experiment_name or f"reproduce_{settings.scale}")
    searched = [(figure, arm) for figure in chosen for arm in figure.arms if arm.is_searched]
    if settings.early_stop and not searched:
        raise UsageError(
            "--early_stop has an effect only on searches, and none of these figures has one: leave it out."
        )
    for figure in chosen:  # A mistake is told before anything is played.
        figure.check()
    for figure, arm in searched if settings.early_stop else ():
        figure.first_run(arm).at_rounds(1)
    if settings.report_only:
        _check_records(settings, whole, chosen, folder)
        return _reproduce(settings, whole, chosen, folder, cores, None)
    with sweep.claim(folder, studies.STUDIES[chosen[0].binary]):
        if settings.executor == "slurm_script":
            return _write_script(settings, chosen, folder, cores)
        if settings.data_dir or (settings.executor == "local" and not settings.estimate):
            playing.check_data(chosen, folder / "runs", settings.data_dir)
        executor = executors.build(settings, cores)
        with executors.running(executor, folder):
            if not settings.estimate:
                _check_records(settings, whole, chosen, folder)
            if settings.estimate or settings.scale == texts.PAPER:
                planned = [
                    one
                    for figure in chosen
                    for one in figure.planned(settings.repeat or figure.repeat, _base(cores), folder / "runs")
                ]
                time = estimate.of(planned, folder, executor, settings.workers)
                print(time.text, flush=True)
            if settings.estimate:
                return 0 if time.is_whole else 1
            return _reproduce(settings, whole, chosen, folder, cores, executor)


def _alone(settings: cli.Settings, flag: str, why: str) -> None:
    """Refuses all flags beside one that takes no other.

    Raises:
      UsageError: If there are.
    """
    if others := sorted(settings.given - {flag}):
        raise UsageError(f"{why}: leave --{others[0]} out.")


def _check_records(
    settings: cli.Settings, whole: Sequence[Figure], chosen: Sequence[Figure], output: pathlib.Path
) -> None:
    """Makes the records' folder, so that it is known to be there when all has been played.

    Raises:
      UsageError: If it cannot be written, or what is there cannot be joined with records of the arms that are chosen.
    """
    kept = pathlib.Path(settings.records) if settings.records else None
    for figure, part in zip(whole, chosen, strict=True):
        if len(part.arms) < len(figure.arms):
            path = _records_path(figure, output / figure.name, kept)
            records.check_others(figure, {arm.label for arm in part.arms}, path)
    if not kept:
        return
    folder = records.path_of(chosen[0], kept).parent  # One scale has one folder.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(f"--records={settings.records} cannot be written ({error.strerror}).") from error


def _check_seeds(repeat: int | None, chosen: Sequence[Figure]) -> None:
    """Refuses more seeds than one command plays, or so many that one of them has picked a search's point.

    Raises:
      UsageError: If there are.
    """
    if (repeat or 0) > cli.MOST_REPEATS:
        raise UsageError(f"--repeat={repeat} is more than {cli.MOST_REPEATS} seeds.")
    searched = [figure.name for figure in chosen if any(arm.is_searched for arm in figure.arms)]
    if searched and (repeat or 0) > FIRST_TUNING_SEED:
        raise UsageError(
            f"--repeat={repeat} would report seeds by which points are picked, those from {FIRST_TUNING_SEED} on, of "
            f"{', '.join(searched)}: give at most {FIRST_TUNING_SEED}."
        )


def _base(cores: int) -> tuple[str, ...]:
    return (f"--max_concurrent_threads={cores}",)


def _reproduce(
    settings: cli.Settings,
    whole: Sequence[Figure],
    chosen: Sequence[Figure],
    folder: pathlib.Path,
    cores: int,
    executor: executors.Executor | None,
) -> int:
    """Plays what is chosen of figures, and reports them; returns the exit status."""
    failed, lines = [], []
    kept = pathlib.Path(settings.records) if settings.records else None
    halving = playing.Halving(_REDUCTION, settings.workers) if settings.early_stop else None
    for figure, part in zip(whole, chosen, strict=True):
        played = playing.play(part, settings.repeat or figure.repeat, _base(cores), folder / "runs", executor, halving)
        failed += [f"{figure.name}: {error}" for error in played.errors]
        try:
            is_part = len(part.arms) < len(figure.arms)
            lines += report(figure, played.found, folder / figure.name, kept, is_part=is_part)
        except UsageError as error:
            failed.append(f"{figure.name}: {error}")
        if played.left:
            print(f"{len(played.left)} runs of {figure.name} are not finished.")
    files.replace(folder / "scoreboard.csv", scoreboard.table(lines).to_csv(index=False).encode())
    print(f"\nScoreboard, in {folder / 'scoreboard.csv'}:\n{scoreboard.summary(lines)}")
    if failed:
        print(f"\n{len(failed)} failed:", *failed, sep="\n  ", file=sys.stderr)
    return 1 if failed else 0


def _write_script(settings: cli.Settings, chosen: Sequence[Figure], folder: pathlib.Path, cores: int) -> int:
    """Writes the job array of what can be played now; returns the exit status."""
    left: dict[str, Run] = {}
    for figure in chosen:
        played = playing.play(figure, settings.repeat or figure.repeat, _base(cores), folder / "runs", None)
        left |= {run.name: run for run in played.left}
    if not left:
        print("All runs are finished: --report_only, without --executor, reports them.")
        return 0
    script = executors.write_slurm_script(folder, [run.job(folder / "runs") for run in left.values()], cores)
    print(f"{len(left)} runs in {script}. When they are done, the same command writes those that a search has picked.")
    print("How long they take: --estimate, without --executor, measures a round of each task here.")
    return 0


def write_page(path: pathlib.Path) -> int:
    """Writes the page of all records; returns the exit status."""
    files.check_output("page", path, (".md",))
    folder = path.parent / "evidence"
    strays = page.strays(folder)
    if not any(folder.glob("*/*.csv")):
        raise UsageError(
            f"--page={path} is made of the records beside it, and {folder} has none: --records writes them."
        )
    files.replace(path, page.made(folder).encode())
    print(f"Written: {path}")
    for told in strays:
        print(f"Warning: left out, {told}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    cli.main(define(), program)
