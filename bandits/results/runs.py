"""Finished runs of any study: their folders, and the value of a metric by seed."""

import csv
import dataclasses
import functools
import itertools
import math
import os
import pathlib
import platform
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from bandits import metrics, studies
from data.errors import UsageError
from optimization.study import cli, intervals, results
from optimization.study.curves import BANDS, band
from optimization.study.metrics import SECONDS, Metric
from optimization.study.results import Run, Runs, find, labels, newest_command, read_json, read_metrics

if TYPE_CHECKING:
    from optimization.study import panels

__all__ = ("Run", "band", "find", "labels", "newest_command", "read_json", "read_metrics")

_DRAWS = 2000
LEAST_CLIENTS = 20  # Coverage of the percentile interval: 93% with 20 clients, 83% with 5, 50% with 2.
_SEARCHES = frozenset(("search", "estimate"))  # Folders in recommendations, grids and reproductions.
Several = Run | Runs | Iterable[Run | Runs]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def flat(runs: Several) -> list[Run]:
    """All distinct runs.

    Raises:
      UsageError: If there are no runs, or an item is not a run.
    """
    groups = runs if isinstance(runs, Iterable) else [runs]
    every = [run for group in groups for run in (group if isinstance(group, Iterable) else [group])]
    if not every or not all(isinstance(run, Run) for run in every):
        raise UsageError("Expected one or more runs: pass what bandits.run or bandits.load returns.")
    return list(dict.fromkeys(every))


def plot(runs: Several, *names: str, band: str = "ci") -> "panels.Figure":
    """Plots metrics of several runs over rounds; notebooks show the figure.

    Example:
      >>> bandits.plot([greedy, softmax], band="ci").savefig("rewards.png")
      >>> bandits.plot([greedy, softmax], "bandits/average_rewards")

    Args:
      runs: Runs, or sequences of runs. A configuration's seeds are drawn as a mean with a band.
      *names: Columns of `metrics.csv`; by default those that the study marks as drawn.
      band: `ci`, 95% interval of the seeds' mean; `minmax`, their range; or `sd`, one standard deviation.

    Raises:
      UsageError: If there are no runs, or there is no such metric or band.
    """
    if band not in BANDS:
        raise UsageError(f"band={band!r} must be one of {', '.join(BANDS)}.")
    return Runs(flat(runs)).plot(*names, band=band)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Groups items by a key, and keeps their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def read(folder: pathlib.Path, rounds: int | None = None) -> Run:
    """Reads the folder of a run of any study, up to a round if `rounds` is given; see `results.read`."""
    run = results.read(folder, studies.columns())
    return run if rounds is None else dataclasses.replace(run, metrics=run.metrics[run.metrics["round_num"] <= rounds])


@functools.cache
def processor() -> str:
    """The processor's name."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def machine() -> str:
    """The processor's name and the number of its cores that this process may use."""
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores"


def named(settings: cli.Settings) -> list[pathlib.Path]:
    """Folders that a command names.

    Raises:
      UsageError: If no folder is named, or a name is empty.
    """
    if not settings.folders or not all(settings.folders):
        raise UsageError("No run is named: give one or more run folders, such as runs/a runs/b.")
    return [pathlib.Path(cli.user_path(name)) for name in settings.folders]


@functools.cache
def declared() -> Mapping[str, Metric]:
    """Metrics that studies declare, by name; the first study counts if several declare the same name."""
    return {metric: metric for metric in dict.fromkeys(itertools.chain(*studies.columns(), [SECONDS]))}


def about(column: str) -> str:
    """Description of a column, as its study declares it; otherwise its name."""
    return declared()[column].about if column in declared() else column


def final_value(run: Run, column: str) -> float | None:
    """Last finite value of a metric, or of a recent one the mean over the last tenth of the rounds; None if unknown."""
    if column not in run.metrics:
        return None
    values = run.metrics[column].to_numpy(float)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    is_recent = isinstance(column, Metric) and column.recent
    return metrics.last_tenth(values) if is_recent else float(values[-1])


def seeds(seed_runs: Sequence[Run]) -> dict[int, Run]:
    """Runs of one configuration by seed; by position if no seed is recorded."""
    recorded = [run.flags.get("seed") for run in seed_runs]
    return {place if seed is None else int(seed): seed_runs[place] for place, seed in enumerate(recorded)}


def is_unpaired(seed_runs: Sequence[Run]) -> bool:
    """Whether the seed does not determine these runs, because noise or secret cohorts for privacy are not seeded.

    With `--insecure_seeded_noise` the seed determines them.
    """
    return any(
        bool(run.privacy.get("epsilon")) or (has_noise([run]) and not run.flags.get("insecure_seeded_noise"))
        for run in seed_runs
    )


def has_noise(seed_runs: Sequence[Run]) -> bool:
    """Whether these runs add noise for privacy, seeded or not."""
    return any(run.flags.get("noise_multiplier") or run.flags.get("target_epsilon") for run in seed_runs)


def bootstrapped(values: np.ndarray, statistic: Callable[[np.ndarray], float]) -> intervals.Interval:
    """A statistic with a 95% interval from a bootstrap over both seeds and clients, with replacement.

    Owen, "The Pigeonhole Bootstrap", 2007. It is conservative: if seeds and clients differ only by noise, the interval
    is sqrt(3) times as wide as necessary. With a single seed, it is the percentile bootstrap over clients.

    Args:
      values: float [seeds, clients]; NaN where a client did not participate.
      statistic: Computes the statistic of such an array.

    Returns:
      `size` is the number of clients; the ends are NaN with fewer than `LEAST_CLIENTS`.
    """
    (seeds, clients), low, high = values.shape, math.nan, math.nan
    if clients >= LEAST_CLIENTS:
        generator = np.random.default_rng(0)
        # One sample at a time, so that they are never all in memory.
        samples = [
            statistic(values[generator.integers(seeds, size=seeds)][:, generator.integers(clients, size=clients)])
            for _ in range(_DRAWS)
        ]
        low, high = np.nanpercentile(samples, [50 * (1 - intervals.CONFIDENCE), 50 * (1 + intervals.CONFIDENCE)])
    return intervals.Interval(statistic(values), float(low), float(high), clients)


def seed_folders(folder: pathlib.Path) -> list[pathlib.Path]:
    """Folders of a run's seeds, without those that have no finished round.

    Raises:
      UsageError: If the folder holds several runs, or no finished round.
    """
    groups = find(folder)
    if len(groups) > 1:
        raise UsageError(f"{folder} holds {len(groups)} runs: name one of them, such as {next(iter(groups))}.")
    folders = [path for path in next(iter(groups.values())) if (path / "metrics.csv").is_file()]
    if not folders:
        raise UsageError(f"{folder} holds no metrics.csv, so no round is finished.")
    return folders


def headline(tables: Mapping[str, Sequence[pd.DataFrame]]) -> str:
    """Default metric: the headline of the study that shares the most columns with the first run."""
    columns = set(next(iter(tables.values()))[0].columns)
    known = [studies.load(module) for module in studies.STUDIES.values()]
    return max(known, key=lambda study: len(columns & set(study.columns))).headline


class Found(NamedTuple):
    """Runs found in some folders.

    Attributes:
      runs: Runs that were read.
      waiting: A sentence for each run without a finished round.
      problems: A sentence for each run that could not be read.
      searches: Runs of searches and of time measurements, which were left out.
    """

    runs: list[Run]
    waiting: list[str]
    problems: list[str]
    searches: list[pathlib.Path]


def read_all(folders: Iterable[pathlib.Path]) -> Found:
    """Reads all runs in some folders, at any depth, each only once.

    Runs of searches and of time measurements are left out, unless `folders` names them or the folder of the search.
    """
    paths: dict[pathlib.Path, pathlib.Path] = {}  # Resolved path -> path as named.
    found = Found([], [], [], [])
    tuning = functools.cache(_tuning)
    for folder in folders:
        try:
            for path in (path for together in find(folder).values() for path in together):
                if _is_search(path, folder, tuning):
                    found.searches.append(path)
                else:
                    paths[path.resolve()] = path
        except UsageError as error:
            found.problems.append(str(error))
    for resolved, path in paths.items():
        try:
            found.runs.append(dataclasses.replace(read(path), folder=resolved))
        except UsageError as error:
            (found.waiting if _waits(path) else found.problems).append(str(error))
    return found


def _is_search(path: pathlib.Path, folder: pathlib.Path, tuning: Callable[[pathlib.Path], set[str]]) -> bool:
    """Whether a run below a folder belongs to a search or to a time measurement."""
    if not _SEARCHES.isdisjoint(path.relative_to(folder).parts[:-1]):
        return True
    grids = (parent for parent in path.parents if parent.name == "runs" and parent.is_relative_to(folder))
    return any(path.relative_to(parent).as_posix() in tuning(parent.parent) for parent in grids)


def _tuning(grid: pathlib.Path) -> set[str]:
    """Runs of a grid that were used to select its best points, if these are reported on new seeds."""
    try:
        with open(grid / "results.csv", encoding="utf-8", newline="") as file:
            return {row["run"] for row in csv.DictReader(file) if row.get("used_for") == "tuning"}
    except (OSError, KeyError):
        return set()


def _waits(folder: pathlib.Path) -> bool:
    """Whether a folder belongs to a valid run that has no row of metrics yet."""
    path = folder / "metrics.csv"
    try:
        read_json(folder / "config.json")
    except UsageError:
        return False
    return not path.exists() or (path.is_file() and path.read_bytes().count(b"\n") == 1)
