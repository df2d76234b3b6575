"""Reproduces figures together: checks, runs, reports and the scoreboard."""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence

from bandits import studies
from bandits.papers import pictures, records, results, running, scoreboard
from bandits.papers.plan import PAPER, Figure
from bandits.papers.results import ConfigurationRuns
from bandits.plans import estimate, executors, sweep
from bandits.plans.plan import Run
from data import files
from data.errors import UsageError
from optimization.study import cli


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
      halving: As of `running.run_figure`.
    """

    whole: Sequence[Figure]
    parts: Sequence[Figure]
    repeat: int | None
    base: tuple[str, ...]
    folder: pathlib.Path
    records: pathlib.Path | None = None
    halving: bool = False

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
            running.check_data(self.parts, self.folder / "runs", settings.data_dir)
        if settings.estimate:
            return
        for figure, part in zip(self.whole, self.parts, strict=True):
            if len(part.configurations) < len(figure.configurations):
                path = records.path_of(figure, self.records, self.folder / figure.name)
                records.check_others(figure, {configuration.label for configuration in part.configurations}, path)
        if self.records:
            records.check_folder(self.records, self.parts[0].scale)

    def planned(self) -> list[tuple[Run, int]]:
        """All runs, with their weights; see `Figure.planned`."""
        runs = self.folder / "runs"
        return [run for each in self.parts for run in each.planned(self.repeat or each.repeat, self.base, runs)]

    def left(self) -> list[Run]:
        """Unfinished runs that could run now."""
        return [run for each in self.parts for run in self._run(each, None).left]

    def _run(self, figure: Figure, executor: executors.Executor | None) -> running.FigureRuns:
        repeat, halving = self.repeat or figure.repeat, self.halving and executor is not None
        return running.run_figure(figure, repeat, self.base, self.folder / "runs", executor, halving)

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
    path = records.path_of(figure, kept, folder)
    table = records.of(figure, found) if found else None
    if is_part:
        table = records.joined(figure, table, path)
    judged = scoreboard.Judged.of(figure, table)
    if table is None:
        print("No run is finished, so nothing is drawn.")
        return judged.lines
    for each in {records.path_of(figure, None, folder), path}:
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
            then = (
                "the same command writes the runs of selected points; --report_only, without --executor, reports "
                "finished runs"
            )
            return sweep.write_job_array(chosen.left(), chosen.folder, cores, then)
        chosen.prepare(settings)
        executor = executors.build(settings, cores)
        with executors.running(executor, chosen.folder):
            if settings.estimate or settings.scale == PAPER:
                time = estimate.of(chosen.planned(), chosen.folder, executor, settings.workers)
                print(time.text, flush=True)
            if settings.estimate:
                return 0 if time.is_whole else 1
            return chosen.reproduce(executor)
