"""Reproduces figures: checks, searches on tuning seeds, runs of the reported seeds, reports and the scoreboard."""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Mapping, Sequence

from bandits import studies
from bandits.papers import figures, pictures, records, results, scoreboard
from bandits.papers.plan import PAPER, Figure
from bandits.plans import estimate, executors, plan, sweep
from bandits.results import runs
from bandits.results.configuration import Configuration
from data import files
from data.errors import UsageError
from optimization.study import cli
from optimization.study.results import Run

_ENDED = (sweep.FINISHED, sweep.DIVERGED)
_THEN = "the same command writes the runs of selected points; --report_only, without --executor, reports finished runs"


@dataclasses.dataclass(frozen=True)
class FigureRuns:
    """A figure's runs.

    Attributes:
      found: Configurations with finished runs, by label.
      errors: A line for each failed run.
      left: Unfinished runs that could run now.
    """

    found: dict[str, Configuration]
    errors: list[str]
    left: list[plan.Run]


def check_data(figures: Sequence[Figure], folder: pathlib.Path, data_dir: str | None) -> None:
    """Opens the data of figures before any run is started: of each figure that of one run a task.

    Args:
      figures: The figures.
      folder: Folder of all runs; finished ones need no data.
      data_dir: Value of `--data_dir`, which must hold the files.

    Raises:
      UsageError: If data is not there and `--data_dir` is given, or no figure's data is. It names all figures.
    """
    groups: dict[str, list[plan.Run]] = {}
    for figure in figures:
        some = {run.settings.get("task_type"): run for run in map(figure.first_run, figure.configurations)}
        left = sweep.unfinished(some.values(), folder)
        for place, run in enumerate(left):
            if data_dir and "data_dir" in run.settings:
                left[place] = dataclasses.replace(run, settings=run.settings.replace(data_dir=data_dir))
        groups[figure.name] = left
    missing = sweep.refused(groups)
    lines = [f"--figure={','.join(names)}: {message}" for message, names in missing.items()]
    if lines and (data_dir or sum(map(len, missing.values())) == len(figures)):
        raise UsageError("\n".join(lines))
    for line in lines:
        print(f"Warning: {line}", file=sys.stderr)


def run_figure(
    figure: Figure,
    repeat: int,
    base: Sequence[str],
    folder: pathlib.Path,
    executor: executors.Executor | None,
    *,
    has_halving: bool = False,
) -> FigureRuns:
    """Executes the missing runs of a figure.

    Args:
      figure: The figure.
      repeat: Number of seeds.
      base: Flags that all runs share.
      folder: Folder of all runs.
      executor: Executes runs; None to use only finished ones.
      has_halving: Whether searches stop points early (`Sweep.run_halving`).
    """
    metric = studies.load(studies.STUDIES[figure.binary]).ranked_by
    # Configurations that differ only on the first axis are compared, so they run close together.
    others = list(dict.fromkeys(configuration.words[1:] for configuration in figure.configurations))
    ordered = sorted(figure.configurations, key=lambda configuration: others.index(configuration.words[1:]))
    first = {configuration.label: figure.runs_of(configuration, repeat, base, folder) for configuration in ordered}
    halved = [configuration.label for configuration in ordered if configuration.is_searched and has_halving]
    reported, picked, errors = dict(first), dict[str, plan.Run](), dict[str, str]()
    search = sweep.Sweep(folder, executor or executors.Executor(), metric, smallest=metric.better == "down")
    with contextlib.closing(search):
        run_all = search.run if executor else search.submit
        run_all(_once(some for label, some in first.items() if label not in halved))
        for label in halved:
            # Before the second deployment, rewards hardly depend on training.
            least = 2 * (first[label][0].settings.get("bandits_deploy_freq") or 0)
            search.run_halving(first[label], least=max(1, least))
        for label in (one.label for one in ordered if one.is_searched):
            reported[label] = []
            try:
                if point := best(figure, first[label], search, folder):
                    picked[label] = point
                    reported[label] = [point.with_seed(seed) for seed in range(repeat)]
            except UsageError as error:
                errors[label] = f"{label}: {error}"
        run_all(_once(reported.values()))
    label_of = {run.name: label for group in (first, reported) for label, some in group.items() for run in some}
    for name, outcome in search.outcomes.items():
        if outcome.status == sweep.FAILED:
            errors[name] = f"{label_of[name]}: {outcome.error} ({folder / name})"
    found: dict[str, Configuration] = {}
    for configuration in ordered:
        label = configuration.label
        # Diverged runs count in means, which would be biased upwards without them; verdicts leave them out.
        ended = {run.seed: run for run in reported[label] if search.outcomes[run.name].status in _ENDED}
        lost = {seed for seed, run in ended.items() if search.outcomes[run.name].status == sweep.DIVERGED}
        values = {flag: picked[label].settings[flag] for flag in picked[label].numbers} if label in picked else {}
        searched = {flag: float(value) for flag, value in values.items() if value is not None}
        try:
            if ended:
                seed_runs = _read(ended.values(), folder)
                found[label] = results.of_runs(figure, configuration, seed_runs, searched, frozenset(lost))
        except UsageError as error:
            errors[label] = f"{label}: {error}"
    left = [outcome.run for outcome in search.outcomes.values() if outcome.status == sweep.UNFINISHED]
    return FigureRuns(found, list(errors.values()), left)


def _once(some: Iterable[Sequence[plan.Run]]) -> list[plan.Run]:
    return list({run.name: run for seed_runs in some for run in seed_runs}.values())


def best(figure: Figure, some: Sequence[plan.Run], search: sweep.Sweep, folder: pathlib.Path) -> plan.Run | None:
    """A run of the best point of a search, by the mean of the figure's first measure over the tuning seeds.

    Returns:
      The run; None if no run is finished, or one is unfinished.

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
        values = results.measured(measure, runs.seeds(_read(group, folder)))
        return sweep.goodness(values, smallest=measure.smallest)

    most = max(map(len, points.values()))  # Points with a missing seed are not compared with complete ones.
    return max((group for group in points.values() if len(group) == most), key=goodness)[0]


def _read(planned: Iterable[plan.Run], folder: pathlib.Path) -> list[Run]:
    """Finished runs, up to their last planned round."""
    return [
        dataclasses.replace(runs.read(folder / run.name), metrics=runs.read_metrics(folder / run.name, run.rounds))
        for run in planned
    ]


@dataclasses.dataclass(frozen=True)
class Figures:
    """Figures that are reproduced together.

    Attributes:
      whole: The figures.
      parts: The same figures, with the configurations that run.
      repeat: Number of seeds; None for that of each figure.
      base: Flags that all runs share.
      folder: Folder of all output.
      records: Folder of permanent records, if any.
      has_halving: Whether searches stop points early.
    """

    whole: Sequence[Figure]
    parts: Sequence[Figure]
    repeat: int | None
    base: tuple[str, ...]
    folder: pathlib.Path
    records: pathlib.Path | None = None
    has_halving: bool = False

    @property
    def binary(self) -> str:
        """Name in `studies.STUDIES`."""
        return self.parts[0].binary

    def prepare(self, settings: cli.Settings) -> None:
        """Opens the data, and creates the records' folder, before anything runs.

        Raises:
          UsageError: If data is missing, the folder cannot be written, or existing records cannot be joined with those
            of the configurations that run.
        """
        is_here = settings.executor == "local" and not settings.estimate
        if not settings.report_only and (settings.data_dir or is_here):
            check_data(self.parts, self.folder / "runs", settings.data_dir)
        if settings.estimate:
            return
        for figure, part in zip(self.whole, self.parts, strict=True):
            if len(part.configurations) < len(figure.configurations):
                path = records.path_of(figure, self.records, self.folder / figure.name)
                records.check_others(figure, {configuration.label for configuration in part.configurations}, path)
        if self.records:
            records.check_folder(self.records / self.parts[0].scale)

    def planned(self) -> list[tuple[plan.Run, int]]:
        """All runs, with their weights; see `Figure.planned`."""
        folder = self.folder / "runs"
        return [run for each in self.parts for run in each.planned(self.repeat or each.repeat, self.base, folder)]

    def left(self) -> list[plan.Run]:
        """Unfinished runs that could run now."""
        return [run for each in self.parts for run in self._run(each, None).left]

    def _run(self, figure: Figure, executor: executors.Executor | None) -> FigureRuns:
        repeat, has_halving = self.repeat or figure.repeat, self.has_halving and executor is not None
        return run_figure(figure, repeat, self.base, self.folder / "runs", executor, has_halving=has_halving)

    def reproduce(self, executor: executors.Executor | None) -> int:
        """Runs what is missing, and reports; without an executor, reports finished runs. Returns the exit status."""
        failed: list[str] = []
        lines: list[scoreboard.Line] = []
        for figure, part in zip(self.whole, self.parts, strict=True):
            ended = self._run(part, executor)
            failed += [f"{figure.name}: {error}" for error in ended.errors]
            try:
                is_part = len(part.configurations) < len(figure.configurations)
                lines += report(figure, ended.found, self.folder / figure.name, self.records, is_part=is_part)
            except UsageError as error:
                failed.append(f"{figure.name}: {error}")
            if ended.left:
                print(f"{len(ended.left)} runs of {figure.name} are not finished.")
        path = self.folder / "scoreboard.csv"
        files.replace(path, scoreboard.table(lines).to_csv(index=False).encode())
        print(f"\nScoreboard, in {path}:\n{scoreboard.summary(lines)}")
        if failed:
            print(f"\n{len(failed)} failed:", *failed, sep="\n  ", file=sys.stderr)
        return 1 if failed else 0


def report(
    figure: Figure,
    found: Mapping[str, Configuration],
    folder: pathlib.Path,
    record_folder: pathlib.Path | None = None,
    *,
    is_part: bool = False,
) -> Sequence[scoreboard.Line]:
    """Writes and prints the results of a figure.

    Args:
      figure: The figure.
      found: Results of each configuration.
      folder: Folder of the output.
      record_folder: Folder of permanent records, if any: pages are made from them.
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
    if note := figures.data_note(figure):
        print(note)
    path = records.path_of(figure, record_folder, folder)
    table = records.of(found) if found else None
    if is_part:
        table = records.joined(figure, table, path)
    judged = scoreboard.Judged.of(figure, table)
    if table is None:
        print("No run is finished, so nothing is drawn.")
        return judged.lines
    for each in {records.path_of(figure, None, folder), path}:
        records.write(table, each)
    print(scoreboard.text(judged))
    files.replace(folder / f"{figure.name}.csv", scoreboard.values_table(judged).to_csv(index=False).encode())
    if not is_part:  # Records of the others have no curves.
        pictures.draw(judged, found, folder / f"{figure.name}.png")
        pictures.draw_of_study(figure, found, folder)
    print(f"Written to {folder}: {', '.join(path.name for path in sorted(folder.iterdir()) if path.is_file())}")
    return judged.lines


def execute(settings: cli.Settings, chosen: Figures) -> int:
    """Executes or estimates runs, and reports; returns the exit status.

    Args:
      settings: The flags of `reproduce`.
      chosen: What is reproduced.

    Raises:
      UsageError: If something is missing that the runs need.
    """
    if settings.report_only:
        chosen.prepare(settings)
        return chosen.reproduce(None)
    cores = executors.cores_of_run(settings)
    with sweep.claim(chosen.folder, studies.STUDIES[chosen.binary]):
        if settings.executor == "slurm_script":
            return sweep.write_job_array(chosen.left(), chosen.folder, cores, _THEN)
        chosen.prepare(settings)
        executor = executors.build(settings, cores)
        with executors.running(executor, chosen.folder):
            if settings.estimate or settings.scale == PAPER:
                time = estimate.of(chosen.planned(), chosen.folder, executor, settings.workers)
                print(time.text, flush=True)
            if settings.estimate:
                return 0 if time.is_whole else 1
            return chosen.reproduce(executor)
