"""Runs a figure: searches on tuning seeds first, then all configurations on the reported seeds."""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Sequence

from bandits import studies
from bandits.papers import results
from bandits.papers.plan import Figure
from bandits.papers.results import ConfigurationRuns
from bandits.plans import sweep as outcomes
from bandits.plans.executors import Executor
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep, refused
from bandits.results import runs
from data.errors import UsageError

_REDUCTION = 2  # Successive halving keeps one of two points.
_ENDED = (outcomes.FINISHED, outcomes.DIVERGED)


@dataclasses.dataclass(frozen=True)
class FigureRuns:
    """A figure's runs.

    Attributes:
      found: Finished runs by configuration, without configurations that have none.
      errors: A line for each failed run.
      left: Unfinished runs that could run now.
    """

    found: dict[str, ConfigurationRuns]
    errors: list[str]
    left: list[Run]


def check_data(figures: Sequence[Figure], folder: pathlib.Path, data_dir: str | None) -> None:
    """Opens the data of figures before any run is started: of each figure that of one run a task.

    Args:
      figures: The figures.
      folder: Folder of all runs; finished ones need no data.
      data_dir: Value of `--data_dir`, which must hold the files.

    Raises:
      UsageError: If data is not there and `--data_dir` is given, or no figure's data is. It names all figures.
    """
    groups: dict[str, list[Run]] = {}
    for figure in figures:
        some = {run.settings.get("task_type"): run for run in map(figure.first_run, figure.configurations)}
        left = outcomes.unfinished(some.values(), folder)
        for place, run in enumerate(left):
            if data_dir and "data_dir" in run.settings:
                left[place] = dataclasses.replace(run, settings=run.settings.replace(data_dir=data_dir))
        groups[figure.name] = left
    missing = refused(groups)
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
    executor: Executor | None,
    halving: bool = False,
) -> FigureRuns:
    """Executes the missing runs of a figure.

    Args:
      figure: The figure.
      repeat: Number of seeds.
      base: Flags that all runs share.
      folder: Folder of all runs.
      executor: Executes runs; None to use only finished ones.
      halving: Whether searches stop points early (`Sweep.run_halving`).
    """
    metric = studies.load(studies.STUDIES[figure.binary]).ranked_by
    # Configurations that differ only on the first axis are compared, so they run close together.
    others = list(dict.fromkeys(configuration.words[1:] for configuration in figure.configurations))
    ordered = sorted(figure.configurations, key=lambda configuration: others.index(configuration.words[1:]))
    first = {configuration.label: figure.runs_of(configuration, repeat, base, folder) for configuration in ordered}
    halved = [configuration.label for configuration in ordered if configuration.is_searched and halving]
    reported: dict[str, list[Run]] = {}
    picked: dict[str, Run] = {}
    errors: dict[str, str] = {}
    sweep = Sweep(folder, executor or Executor(), metric, smallest=metric.better == "down")
    with contextlib.closing(sweep):
        run_all = sweep.run if executor else sweep.submit
        run_all(_once(some for label, some in first.items() if label not in halved))
        for label in halved:
            # Before the second deployment, rewards hardly depend on training.
            least = 2 * (first[label][0].settings.get("bandits_deploy_freq") or 0)
            sweep.run_halving(first[label], _REDUCTION, max(1, least))
        for configuration in ordered:
            reported[configuration.label] = first[configuration.label]
            if configuration.is_searched:
                reported[configuration.label] = []
                try:
                    point = best(figure, first[configuration.label], sweep, folder)
                except UsageError as error:
                    errors[configuration.label] = f"{configuration.label}: {error}"
                    continue
                if point:
                    picked[configuration.label] = point
                    reported[configuration.label] = [point.with_seed(seed) for seed in range(repeat)]
        run_all(_once(reported.values()))
    label_of = {run.name: label for group in (first, reported) for label, some in group.items() for run in some}
    for name, outcome in sweep.outcomes.items():
        if outcome.status == outcomes.FAILED:
            errors[name] = f"{label_of[name]}: {outcome.error} ({folder / name})"
    found: dict[str, ConfigurationRuns] = {}
    for label, some in reported.items():
        # Diverged runs count in means, which would be biased upwards without them; verdicts leave them out.
        ended = {run.seed: run for run in some if sweep.outcomes[run.name].status in _ENDED}
        lost = [seed for seed, run in ended.items() if sweep.outcomes[run.name].status == outcomes.DIVERGED]
        try:
            if ended:
                found[label] = _found(list(ended.values()), folder, picked.get(label), lost)
        except UsageError as error:
            errors[label] = f"{label}: {error}"
    left = [outcome.run for outcome in sweep.outcomes.values() if outcome.status == outcomes.UNFINISHED]
    return FigureRuns(found, list(errors.values()), left)


def _once(some: Iterable[Sequence[Run]]) -> list[Run]:
    return list({run.name: run for runs_of_arm in some for run in runs_of_arm}.values())


def best(figure: Figure, some: Sequence[Run], sweep: Sweep, folder: pathlib.Path) -> Run | None:
    """A run of the best point of a search, by the mean of the figure's first measure over the tuning seeds.

    Returns:
      The run; None if no run is finished, or one is unfinished.

    Raises:
      UsageError: If a finished run's files are damaged.
    """
    status = {run.name: sweep.outcomes[run.name].status for run in some}
    ended = [run for run in some if status[run.name] == outcomes.FINISHED]
    points = runs.grouped(ended, lambda run: run.point)
    if not points or outcomes.UNFINISHED in status.values():
        return None
    measure = figure.measures[0]

    def goodness(group: Sequence[Run]) -> float:
        return outcomes.goodness(results.measured(measure, _found(group, folder)), smallest=measure.smallest)

    most = max(map(len, points.values()))  # Points with a missing seed are not compared with complete ones.
    return max((group for group in points.values() if len(group) == most), key=goodness)[0]


def _found(
    some: Sequence[Run], folder: pathlib.Path, point: Run | None = None, diverged: Iterable[int] = ()
) -> ConfigurationRuns:
    folders = [folder / run.name for run in some]
    tables = [runs.read_metrics(folder / run.name, run.rounds) for run in some]
    values = {flag: point.settings[flag] for flag in point.numbers} if point else {}
    searched = {flag: float(value) for flag, value in values.items() if value is not None}
    return ConfigurationRuns(folders, tables, searched, [run.seed for run in some], frozenset(diverged))
