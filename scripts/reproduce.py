"""Reproduces figures and tables of the papers that the project follows; see `--help`.

Runs are those of a grid: named by their flags, run once, shared by all figures, and continued after an interruption.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence

from bandits import studies
from bandits.papers import docs_pictures, page, pictures, records, results, running, scoreboard, selection, texts
from bandits.papers.plan import FIRST_TUNING_SEED, Figure
from bandits.papers.results import ConfigurationRuns
from bandits.plans import estimate, executors, sweep
from bandits.plans.plan import Run
from data import files
from data.errors import UsageError
from optimization.study import cli
from optimization.study.settings import declared, no_folder, setting, title

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
      figure: Names, separated by commas; 1 means 1a to 1d; all: those of the papers; flagship: those of this project;
        or select_before_deploying.
      text: All figures and tables of one paper, instead of --figure.
      list: Print the names of all figures and tables, and end.
      arms: Labels of configurations, separated by semicolons: only these run; records keep the rows of the others.
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
    text: str = setting(words=texts.names(), only={"figure": False})
    list: bool = setting(False)
    arms: str = setting()
    scale: str = setting(texts.PAPER, texts.SCALES)
    repeat: int = setting(low=1, high=cli.MOST_REPEATS)
    data_dir: pathlib.Path = setting(only={"report_only": False})
    early_stop: str = setting(
        words={
            "asha": "asynchronous successive halving: the better half of a search's points is promoted to more rounds"
        },
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


def report(
    figure: Figure,
    found: dict[str, ConfigurationRuns],
    folder: pathlib.Path,
    kept: pathlib.Path | None = None,
    *,
    is_part: bool = False,
) -> Sequence[scoreboard.Line]:
    """Writes and prints the results of a figure.

    Args:
      figure: The figure.
      found: Results of each configuration.
      folder: Folder of the output.
      kept: Folder of permanent records, if any: pages are made from them.
      is_part: Whether only some configurations were run. The others come from existing records, and nothing is drawn.

    Returns:
      The figure's lines of the scoreboard.

    Raises:
      UsageError: If a run lacks a measured metric.
      Failure: If the folder cannot be written.
    """
    with files.write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"\n{figure.name}: {figure.about}. {figure.text}")
    if note := results.data_note(figure):
        print(note)
    path = _records_path(figure, folder, kept)
    table = records.of(figure, found) if found else None
    if is_part:
        table = records.joined(figure, table, path)
    judged = scoreboard.Judged.of(figure, table)
    if table is None:
        print("No run is finished, so nothing is drawn.")
        return judged.lines
    for each in {_records_path(figure, folder, None), path}:
        records.write(table, each)
    print(scoreboard.text(judged))
    stem = str(folder / figure.name)
    for tail, content in (("", scoreboard.values_table(judged)), ("_claims", scoreboard.claims_table(judged))):
        files.replace(pathlib.Path(f"{stem}{tail}.csv"), content.to_csv(index=False, float_format="%.6g").encode())
    of_study: list[str] = []
    if not is_part:  # Records of the others have no curves.
        pictures.draw(judged, found, [pathlib.Path(f"{stem}{suffix}") for suffix in (".png", ".pdf")])
        of_study = pictures.draw_of_study(figure, found, folder)
    print(f"Written to {folder}: {', '.join(path.name for path in sorted(folder.iterdir()) if path.is_file())}")
    if of_study:
        print(f"Figures in the style of the paper: {', '.join(of_study)}")
    return judged.lines


def _records_path(figure: Figure, folder: pathlib.Path, kept: pathlib.Path | None) -> pathlib.Path:
    """File of a figure's records, from which configurations without runs are read."""
    return records.path_of(figure, kept) if kept else folder / f"{figure.name}_records.csv"


def program(settings: cli.Settings) -> int:
    """Reproduces the chosen figures; returns 0, 1 if a run failed, or 128 + the signal that stopped it."""
    if settings.list:
        _alone(settings, "list", "--list only prints names")
        print(f"{texts.listing()}\n{selection.NAME:<24}{selection.ABOUT}")
        return 0
    settings = settings.settled()
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
        return _of_selection(settings) if settings.figure == selection.NAME else _of_figures(settings)


def _of_figures(settings: cli.Settings) -> int:
    """Reproduces figures; returns the exit status."""
    if settings.text:
        whole = chosen = texts.of_text(settings.text, settings.scale)
    else:
        whole = chosen = texts.choose(settings.figure, settings.scale)
    if (labels := _labels(settings)) is not None:
        chosen = [texts.only(figure, labels) for figure in whole]
    _check_seeds(settings.repeat, chosen)
    if settings.figure == texts.ALL and settings.scale == texts.SMALL:
        for name, why in texts.without_small().items():
            print(f"--figure={name} has no --scale={texts.SMALL}: {why}")
    if warning := scoreboard.one_seed(chosen, settings.repeat):
        print(warning, flush=True)
    searched = [(figure, arm) for figure in chosen for arm in figure.configurations if arm.is_searched]
    if settings.early_stop and not searched:
        raise UsageError("--early_stop has no effect: none of these figures has a search. Leave it out.")
    for figure in chosen:  # Raises errors before anything runs.
        figure.check()
    for figure, arm in searched if settings.early_stop else ():
        figure.first_run(arm).at_rounds(1)
    folder, base = _folder(settings), _base(settings)
    kept = pathlib.Path(settings.records) if settings.records else None
    halving = settings.workers if settings.early_stop else 0

    def planned() -> list[tuple[Run, int]]:
        return [run for each in chosen for run in each.planned(settings.repeat or each.repeat, base, folder / "runs")]

    def left() -> list[Run]:
        played = [
            running.run_figure(each, settings.repeat or each.repeat, base, folder / "runs", None) for each in chosen
        ]
        return [run for one in played for run in one.left]

    def check() -> None:
        if not settings.report_only and (settings.data_dir or (settings.executor == "local" and not settings.estimate)):
            running.check_data(chosen, folder / "runs", settings.data_dir)
        if not settings.estimate:
            _check_records(whole, chosen, folder, kept)

    def reproduce(executor: executors.Executor | None) -> int:
        failed: list[str] = []
        lines: list[scoreboard.Line] = []
        for figure, part in zip(whole, chosen, strict=True):
            played = running.run_figure(
                part, settings.repeat or figure.repeat, base, folder / "runs", executor, halving
            )
            failed += [f"{figure.name}: {error}" for error in played.errors]
            try:
                is_part = len(part.configurations) < len(figure.configurations)
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

    return _run(settings, chosen[0].binary, planned, left, reproduce, check)


def _of_selection(settings: cli.Settings) -> int:
    """Reproduces the figure of selection by logs; returns the exit status."""
    if settings.scale != texts.PAPER or settings.early_stop:
        flag = "early_stop" if settings.early_stop else "scale"
        raise UsageError(f"--figure={selection.NAME} has one scale, and no search: leave --{flag} out.")
    repeat = settings.repeat or selection.REPEAT
    if not 2 <= repeat <= selection.CANDIDATE_SEED:
        raise UsageError(f"--repeat={repeat}: {selection.NAME} takes 2 to {selection.CANDIDATE_SEED} logs of a task.")
    folder = _folder(settings)
    plan = selection.Plan(selection.choose(_labels(settings)), repeat, _base(settings), folder.resolve() / "runs")
    plan.check()
    kept = pathlib.Path(settings.records) if settings.records else None
    outputs = [folder / selection.NAME, *([kept / "selection"] if kept else [])]
    if kept:
        _check_folder(kept, outputs[-1])

    def reproduce(executor: executors.Executor | None) -> int:
        if executor:
            plan.run(executor)
        if left := plan.left():
            print(f"{len(left)} runs of {selection.NAME} are not finished, so nothing is reported.")
            return 1
        plan.report(outputs)
        return 0

    return _run(settings, selection.BINARY, plan.planned, plan.left, reproduce)


def _run(
    settings: cli.Settings,
    binary: str,
    planned: Callable[[], Sequence[tuple[Run, int]]],
    left: Callable[[], Sequence[Run]],
    reproduce: Callable[[executors.Executor | None], int],
    check: Callable[[], None] = lambda: None,
) -> int:
    """Executes or estimates planned runs; returns the exit status.

    Args:
      settings: The flags.
      binary: Name in `studies.STUDIES`.
      planned: Gives all runs, with their weights.
      left: Gives the runs that can start now.
      reproduce: Runs and reports; without an executor, reports finished runs.
      check: Checks that need the output's folder, before anything runs.
    """
    if settings.report_only:
        check()
        return reproduce(None)
    folder, cores = _folder(settings), executors.cores_of_run(settings)
    with sweep.claim(folder, studies.STUDIES[binary]):
        if settings.executor == "slurm_script":
            then = (
                "the same command writes the runs of selected points; --report_only, without --executor, reports "
                "finished runs"
            )
            return sweep.write_job_array(left(), folder, cores, then)
        check()
        executor = executors.build(settings, cores)
        with executors.running(executor, folder):
            if settings.estimate or settings.scale == texts.PAPER:
                time = estimate.of(planned(), folder, executor, settings.workers)
                print(time.text, flush=True)
            if settings.estimate:
                return 0 if time.is_whole else 1
            return reproduce(executor)


def _folder(settings: cli.Settings) -> pathlib.Path:
    return pathlib.Path(settings.root_output_dir) / (settings.experiment_name or f"reproduce_{settings.scale}")


def _labels(settings: cli.Settings) -> list[str] | None:
    return None if settings.arms is None else [label.strip() for label in settings.arms.split(";")]


def _base(settings: cli.Settings) -> tuple[str, ...]:
    return (f"--max_concurrent_threads={executors.cores_of_run(settings)}",)


def _alone(settings: cli.Settings, flag: str, why: str) -> None:
    """Refuses other flags beside `flag`.

    Raises:
      UsageError: If there are others.
    """
    if others := sorted(settings.set_by_user - {flag}):
        raise UsageError(f"{why}: leave --{others[0]} out.")


def _check_records(
    whole: Sequence[Figure], chosen: Sequence[Figure], output: pathlib.Path, kept: pathlib.Path | None
) -> None:
    """Creates the records' folder before the runs.

    Raises:
      UsageError: If it cannot be written, or existing records cannot be joined with those of the chosen configurations.
    """
    for figure, part in zip(whole, chosen, strict=True):
        if len(part.configurations) < len(figure.configurations):
            path = _records_path(figure, output / figure.name, kept)
            records.check_others(figure, {arm.label for arm in part.configurations}, path)
    if kept:
        _check_folder(kept, records.path_of(chosen[0], kept).parent)  # One scale has one folder.


def _check_folder(kept: pathlib.Path, folder: pathlib.Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UsageError(f"--records={kept} cannot be written ({error.strerror}).") from error


def _check_seeds(repeat: int | None, chosen: Sequence[Figure]) -> None:
    """Refuses seeds that select a search's point.

    Raises:
      UsageError: If `repeat` includes one.
    """
    searched = [figure.name for figure in chosen if any(arm.is_searched for arm in figure.configurations)]
    if searched and (repeat or 0) > FIRST_TUNING_SEED:
        raise UsageError(
            f"--repeat={repeat} includes seeds from {FIRST_TUNING_SEED} on, which select points of "
            f"{', '.join(searched)}: give at most {FIRST_TUNING_SEED}."
        )


def write_page(path: pathlib.Path) -> int:
    """Writes the page of all records; returns the exit status."""
    files.check_output("page", path, (".md",))
    folder = _evidence("page", path)
    strays = page.strays(folder)
    files.replace(path, page.made(folder).encode())
    print(f"Written: {path}")
    for stray in strays:
        print(f"Warning: left out, {stray}.", file=sys.stderr)
    return 0


def write_pictures(folder: pathlib.Path) -> int:
    """Draws the docs' pictures; returns the exit status."""
    evidence = _evidence("pictures", folder)
    files.check_output("pictures", folder / "x.png", (".png",))
    print("Written:", *docs_pictures.write(folder, evidence), sep="\n")
    return 0


def _evidence(flag: str, path: pathlib.Path) -> pathlib.Path:
    """Folder of records beside an output.

    Raises:
      UsageError: If it has none.
    """
    folder = path.parent / "evidence"
    if not any(folder.glob("*/*.csv")):
        raise UsageError(
            f"--{flag}={path} is made from the records in {folder}, which has none: --records writes them."
        )
    return folder


if __name__ == "__main__":
    cli.main(define(), program)
