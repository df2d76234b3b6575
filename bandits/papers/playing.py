"""Plays a figure's runs: those of searches on tuning seeds first, then all arms on the seeds that are reported."""

import contextlib
import dataclasses
import pathlib
import sys
from collections.abc import Iterable, Sequence

from bandits import studies
from bandits.papers import results
from bandits.papers.plan import Figure
from bandits.papers.results import Found
from bandits.plans import outcomes
from bandits.plans.executors import Executor
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep, refused
from bandits.results import runs
from data.errors import UsageError

_REDUCTION = 2  # One of so many points of a search goes on.
_ENDED = (outcomes.FINISHED, outcomes.DIVERGED)


@dataclasses.dataclass(frozen=True)
class Played:
    """What became of a figure's runs.

    Attributes:
      found: What each arm gave, without arms of which no run is finished.
      errors: A line for each run that failed.
      left: Runs that are not finished and could be played now.
    """

    found: dict[str, Found]
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
        some = {run.settings.get("task_type"): run for run in map(figure.first_run, figure.arms)}
        left = [run for run in some.values() if outcomes.finished_rounds(folder / run.name) < run.rounds]
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


def play(
    figure: Figure,
    repeat: int,
    base: Sequence[str],
    folder: pathlib.Path,
    executor: Executor | None,
    halving: int = 0,
) -> Played:
    """Plays what is missing of a figure.

    Args:
      figure: The figure.
      repeat: Seeds.
      base: Flags that all runs share.
      folder: Folder of all runs.
      executor: What executes them; None to play nothing, and take what is finished.
      halving: Runs at the same time, if points of searches are given up early (`Sweep.run_halving`); 0 to run all of
        them to the end.
    """
    metric = studies.load(studies.STUDIES[figure.binary]).ranked_by
    # What is compared, which the first axis has, is run close together.
    others = list(dict.fromkeys(arm.words[1:] for arm in figure.arms))
    ordered = sorted(figure.arms, key=lambda arm: others.index(arm.words[1:]))
    first = {arm.label: figure.runs_of(arm, repeat, base, folder) for arm in ordered}
    halved = [arm.label for arm in ordered if arm.is_searched and halving]
    reported: dict[str, list[Run]] = {}
    picked: dict[str, Run] = {}
    errors: dict[str, str] = {}
    sweep = Sweep(folder, executor or Executor(), metric, smallest=metric.better == "down")
    with contextlib.closing(sweep):
        run_all = sweep.run if executor else sweep.submit
        run_all(_once(some for label, some in first.items() if label not in halved))
        for label in halved:
            # Before the second deployment, rewards say little of what was learned.
            least = 2 * (first[label][0].settings.get("bandits_deploy_freq") or 0)
            sweep.run_halving(first[label], _REDUCTION, halving, max(1, least))
        for arm in ordered:
            reported[arm.label] = first[arm.label]
            if arm.is_searched:
                reported[arm.label] = []
                try:
                    point = best(figure, first[arm.label], sweep, folder)
                except UsageError as error:
                    errors[arm.label] = f"{arm.label}: {error}"
                    continue
                if point:
                    picked[arm.label] = point
                    reported[arm.label] = [point.with_seed(seed) for seed in range(repeat)]
        run_all(_once(reported.values()))
    label_of = {run.name: label for group in (first, reported) for label, some in group.items() for run in some}
    for name, outcome in sweep.outcomes.items():
        if outcome.status == outcomes.FAILED:
            errors[name] = f"{label_of[name]}: {outcome.error} ({folder / name})"
    found: dict[str, Found] = {}
    for label, some in reported.items():
        # What a diverged run has earned counts, too: without it, the others' mean would be too good. It judges nothing.
        ended = {run.seed: run for run in some if sweep.outcomes[run.name].status in _ENDED}
        lost = [seed for seed, run in ended.items() if sweep.outcomes[run.name].status == outcomes.DIVERGED]
        try:
            if ended:
                found[label] = _found(list(ended.values()), folder, picked.get(label), lost)
        except UsageError as error:
            errors[label] = f"{label}: {error}"
    left = [outcome.run for outcome in sweep.outcomes.values() if outcome.status == outcomes.UNFINISHED]
    return Played(found, list(errors.values()), left)


def _once(some: Iterable[Sequence[Run]]) -> list[Run]:
    return list({run.name: run for runs_of_arm in some for run in runs_of_arm}.values())


def best(figure: Figure, some: Sequence[Run], sweep: Sweep, folder: pathlib.Path) -> Run | None:
    """Returns a run of the best point of a search, by the figure's first measure, its mean over the tuning seeds.

    Returns:
      None if no run is finished, or one is still to be run.

    Raises:
      UsageError: If a finished run's files are damaged.
    """
    status = {run.name: sweep.outcomes[run.name].status for run in some}
    points: dict[str, list[Run]] = {}
    for run in some:
        if status[run.name] == outcomes.FINISHED:
            points.setdefault(run.point, []).append(run)
    if not points or outcomes.UNFINISHED in status.values():
        return None
    measure = figure.measures[0]

    def goodness(group: Sequence[Run]) -> float:
        return outcomes.goodness(results.measured(measure, _found(group, folder)), smallest=measure.smallest)

    most = max(map(len, points.values()))  # A point of which a seed is missing is not compared with whole ones.
    return max((group for group in points.values() if len(group) == most), key=goodness)[0]


def _found(some: Sequence[Run], folder: pathlib.Path, point: Run | None = None, diverged: Iterable[int] = ()) -> Found:
    folders = [folder / run.name for run in some]
    tables = [runs.read_metrics(folder / run.name, run.rounds) for run in some]
    values = {flag: point.settings[flag] for flag in point.numbers} if point else {}
    searched = {flag: float(value) for flag, value in values.items() if value is not None}
    return Found(folders, tables, searched, [run.seed for run in some], frozenset(diverged))
