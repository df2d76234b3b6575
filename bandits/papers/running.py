"""Reproduces figures: checks data, searches on tuning seeds, runs the reported seeds, and writes reports."""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from bandits import studies
from bandits.papers import page, pictures, results
from bandits.papers.plan import PAPER, Figure
from bandits.plans import estimate, executors, plan, sweep
from bandits.results import runs
from data import files
from data.errors import UsageError
from optimization.study import cli
from optimization.study.results import Run

_ENDED = (sweep.FINISHED, sweep.DIVERGED)
_THEN = (
    "the same command writes a job array for the runs of selected points, and --report_only, without --executor, "
    "reports finished runs"
)


class FigureRuns(NamedTuple):
    """A figure's runs.

    Attributes:
      finished: Finished runs of each configuration that has any, by label.
      table: Records of the finished runs; None without such runs.
      errors: A line for each failed run.
      left: Unfinished runs that could be executed now.
      later: Runs that stand for those of points that searches have yet to select.
    """

    finished: Mapping[str, Sequence[Run]]
    table: pd.DataFrame | None
    errors: Sequence[str] = ()
    left: Sequence[plan.Run] = ()
    later: Sequence[plan.Run] = ()


def check_data(figures: Sequence[Figure], folder: pathlib.Path, data_dir: str | None) -> None:
    """Opens the data of one run for each task of each figure, before any run is started.

    Args:
      figures: The figures.
      folder: Folder of all runs; finished ones need no data.
      data_dir: Value of `--data_dir`, which must hold the files.

    Raises:
      UsageError: If data is missing and `--data_dir` is set, or if no figure has data. The message names all figures.
    """
    groups = {}
    for figure in figures:
        some = {run.settings.get("task_type"): run for run in map(figure.first_run, figure.configurations)}
        groups[figure.name] = [
            dataclasses.replace(run, settings=run.settings.replace(data_dir=data_dir))
            if data_dir and "data_dir" in run.settings
            else run
            for run in sweep.unfinished(some.values(), folder)
        ]
    missing = sweep.refused(groups)
    lines = [f"--figure={','.join(names)}: {message}" for message, names in missing.items()]
    if lines and (data_dir or sum(map(len, missing.values())) == len(figures)):
        raise UsageError("\n".join(lines))
    for line in lines:
        print(f"Warning: {line}", file=sys.stderr)


def _once(some: Iterable[Sequence[plan.Run]]) -> list[plan.Run]:
    return list({run.name: run for seed_runs in some for run in seed_runs}.values())


def best(figure: Figure, some: Sequence[plan.Run], search: sweep.Sweep, folder: pathlib.Path) -> plan.Run | None:
    """Best point of a search, by the mean of the figure's first measure over the tuning seeds.

    Returns:
      One run of that point; None if any run is unfinished, or none succeeded.

    Raises:
      UsageError: If a finished run's files are damaged.
    """
    status = {run.name: search.outcomes[run.name].status for run in some}
    ended = [run for run in some if status[run.name] == sweep.FINISHED]
    points = runs.grouped(ended, lambda run: run.point)
    if not points or sweep.UNFINISHED in status.values():
        return None
    measure = figure.measures[0]

    def goodness(group: Sequence[plan.Run]) -> float:
        values = measure.values(runs.seeds(_read(group, folder)))
        return sweep.goodness(values, smallest=measure.smallest)

    most = max(map(len, points.values()))  # Points with missing seeds are not compared with complete points.
    return max((group for group in points.values() if len(group) == most), key=goodness)[0]


def _read(planned: Iterable[plan.Run], folder: pathlib.Path) -> list[Run]:
    """Reads finished runs up to their last planned round."""
    return [runs.read(folder / run.name, run.rounds) for run in planned]


def _run(
    figure: Figure,
    part: Figure,
    repeat: int,
    base: Sequence[str],
    folder: pathlib.Path,
    executor: executors.Executor | None,
) -> FigureRuns:
    """Executes the missing runs of a figure. Without an executor, only reads the finished ones.

    Args:
      figure: The figure.
      part: The figure with only the configurations to run. Others are included if all their runs are finished.
      repeat: Number of seeds.
      base: Flags that all runs share.
      folder: Folder of all runs.
      executor: Executes the runs.
    """
    # Configurations that differ only on the first axis are compared, so they run one after the other.
    others = list(dict.fromkeys(configuration.words[1:] for configuration in figure.configurations))
    ordered = sorted(figure.configurations, key=lambda configuration: others.index(configuration.words[1:]))
    planned = {one.label: figure.runs_of(one, repeat, base, folder) for one in ordered}
    metric = studies.load(studies.STUDIES[figure.binary]).ranked_by
    stepwise = [one.label for one in ordered if figure.halving and one.is_searched]

    def run_all(search: sweep.Sweep, some: Mapping[str, Sequence[plan.Run]]) -> None:
        search.run(_once(of_label for label, of_label in some.items() if label not in stepwise))
        for label in stepwise:
            if some.get(label):
                search.run_halving(some[label], least=figure.halving)

    for one in ordered:
        if one not in part.configurations:
            with contextlib.closing(sweep.Sweep(folder, executors.Executor(), metric)) as dry:
                run_all(dry, {one.label: planned[one.label]})
                if dry.left():
                    planned[one.label] = []
    reported, picked, errors, later = dict(planned), {}, {}, []
    with contextlib.closing(sweep.Sweep(folder, executor or executors.Executor(), metric)) as search:
        run_all(search, planned)
        for label in (one.label for one in ordered if one.is_searched and planned[one.label]):
            reported[label] = []
            try:
                point = best(figure, planned[label], search, folder)
                if point:
                    searched = {flag: point.settings[flag] for flag in point.numbers}
                    picked[label] = {flag: float(value) for flag, value in searched.items() if value is not None}
                    reported[label] = [point.with_seed(seed) for seed in range(repeat)]
                elif search.left(planned[label]):
                    later += _later(figure, planned[label], repeat)
            except UsageError as error:
                errors[label] = f"{label}: {error}"
        search.run(_once(reported.values()))
    label_of = {run.name: label for group in (planned, reported) for label, some in group.items() for run in some}
    for name, outcome in search.outcomes.items():
        if outcome.status == sweep.FAILED:
            errors[name] = f"{label_of[name]}: {outcome.error} ({folder / name})"
    finished, tables = {}, []
    for configuration in figure.configurations:
        label = configuration.label
        # Means include diverged runs, because leaving them out would bias the mean upwards. Verdicts leave them out.
        ended = {run.seed: run for run in reported[label] if search.outcomes[run.name].status in _ENDED}
        lost = {seed for seed, run in ended.items() if search.outcomes[run.name].status == sweep.DIVERGED}
        try:
            if ended:
                seed_runs = _read(ended.values(), folder)
                searched = picked.get(label, {})
                tables.append(results.rows_of(figure, configuration, seed_runs, searched, frozenset(lost)))
                finished[label] = seed_runs
        except UsageError as error:
            errors[label] = f"{label}: {error}"
    table = results.joined(tables) if tables else None
    return FigureRuns(finished, table, list(errors.values()), search.left(), later)


def _later(figure: Figure, planned: Sequence[plan.Run], repeat: int) -> list[plan.Run]:
    """Stands for the runs that will follow an unfinished search, with its last points, which are often the slowest."""
    later = [planned[-1].with_seed(seed) for seed in range(repeat)]
    rungs = sweep.rungs(planned[0].rounds, len(planned), 2, figure.halving)[1:] if figure.halving else []
    for level in range(len(rungs), 0, -1):
        later += [run.at_rounds(rungs[level - 1]) for run in planned[-(len(planned) >> level) :]]
    return later


def report(figure: Figure, ended: FigureRuns, folder: pathlib.Path, records: pathlib.Path | None = None) -> None:
    """Prints the results of a figure, and writes its records and its picture.

    Args:
      figure: The figure.
      ended: Runs of the figure.
      folder: Folder of the output.
      records: Folder of permanent records, if any.

    Raises:
      Failure: If a folder cannot be written.
    """
    figure = figure if ended.table is None else results.figure_of(figure, ended.table)
    print(f"\n{figure.name}: {figure.about}. {figure.text}")
    if figure.data_note:
        print(figure.data_note)
    if ended.table is None:
        print("No run is finished, so nothing is drawn.")
        return
    for path in [folder / f"{figure.name}_records.csv", *([results.path_of(figure, records)] if records else [])]:
        with files.write_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, ended.table.to_csv(index=False, float_format="%.6g").encode())
    print(page.Judged.of(results.Results(figure, ended.table)).text())
    pictures.draw(figure, ended.finished, folder)
    print(f"Written to {folder}: {', '.join(path.name for path in sorted(folder.iterdir()) if path.is_file())}")


def execute(settings: cli.Settings, figures: Sequence[Figure]) -> int:
    """Executes runs and reports results, or estimates the time; returns the exit status.

    Args:
      settings: The flags of `reproduce`.
      figures: The figures.

    Raises:
      UsageError: If data that the runs need is missing, if finished runs are damaged, or if the records' folder cannot
        be written.
    """
    name = f"reproduce_{settings.scale}" + f"_{results.REHEARSAL}" * bool(settings.rounds)
    top = pathlib.Path(settings.root_output_dir) / (settings.experiment_name or name)
    cores, folder = executors.cores_of_run(settings), top / "runs"
    base = (f"--max_concurrent_threads={cores}",)

    parts = [figure.chosen(settings.configurations) for figure in figures]

    def run(figure: Figure, part: Figure, executor: executors.Executor | None) -> FigureRuns:
        return _run(figure, part, settings.repeat or figure.repeat, base, folder, executor)

    def found() -> list[FigureRuns]:
        some = [run(part, part, None) for part in parts]
        if errors := [error for ended in some for error in ended.errors]:
            raise UsageError("\n".join(errors))
        return some

    def reproduce(executor: executors.Executor | None) -> int:
        failed: list[str] = []
        for figure, part in zip(figures, parts, strict=True):
            ended = run(figure, part, executor)
            failed += [f"{figure.name}: {error}" for error in ended.errors]
            report(figure, ended, top / figure.name, pathlib.Path(settings.records) if settings.records else None)
            if ended.left:
                print(f"{len(ended.left)} runs of {figure.name} are not finished.")
        if failed:
            print(f"\n{len(failed)} failed:", *failed, sep="\n  ", file=sys.stderr)
        return 1 if failed else 0

    if settings.records:
        files.check_output("records", pathlib.Path(settings.records) / "x.csv")
    if settings.report_only:
        return reproduce(None)
    with sweep.claim(top, studies.STUDIES[figures[0].binary]):
        if settings.executor == "slurm_script":
            left = [one for ended in found() for one in ended.left]
            return sweep.write_job_array(left, top, cores, _THEN)
        if settings.data_dir or (settings.executor == "local" and not settings.estimate):
            check_data(parts, folder, settings.data_dir)
        executor = executors.build(settings, cores)
        with executors.running(executor, top):
            if settings.estimate or settings.scale == PAPER:
                left = [one for ended in found() for one in (*ended.later, *ended.left)]
                time = estimate.of(left, top, executor, settings.workers)
                print(time.text, flush=True)
            if settings.estimate:
                return 0 if time.is_whole else 1
            return reproduce(executor)
