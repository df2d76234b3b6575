"""Finished runs of any study: their folders, and the value of a metric by seed."""

import functools
import math
import os
import pathlib
import platform
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bandits import studies
from bandits.results import bootstrap
from data.errors import UsageError
from optimization.study import cli, divergence, intervals, results
from optimization.study.curves import COLOURS, band, draw
from optimization.study.metrics import SECONDS, Metric
from optimization.study.results import Run, find, labels, newest_command, read_json

if TYPE_CHECKING:
    import pandas as pd

__all__ = (
    "COLOURS",
    "Run",
    "about",
    "band",
    "declared",
    "draw",
    "find",
    "labels",
    "machine",
    "named",
    "newest_command",
    "processor",
    "read",
    "read_json",
    "read_metrics",
)


def read(folder: pathlib.Path) -> Run:
    """Reads the folder of a run of whatever study; see `results.read`."""
    return results.read(folder, studies.columns())


def read_metrics(folder: pathlib.Path, rounds: int | None = None) -> "pd.DataFrame":
    """Reads the `metrics.csv` of such a folder; see `results.read_metrics`."""
    return results.read_metrics(folder, rounds)


@functools.cache
def processor() -> str:
    """Returns the processor's name."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def machine() -> str:
    """Returns the processor's name and the number of its cores that this process may use."""
    return f"{processor()}, {len(os.sched_getaffinity(0))} cores"


def named(settings: cli.Settings) -> list[pathlib.Path]:
    """Returns the folders that a command names, as arguments and by `--runs`, where names may hold commas, too.

    Raises:
      UsageError: If there is none, or an empty name.
    """
    words = settings.runs.split(",") if settings.runs else []
    names = list(settings.folders)
    while words:
        longest = range(len(words), 0, -1)
        count = next((n for n in longest if os.path.exists(cli.user_path(",".join(words[:n])))), 1)
        names.append(",".join(words[:count]))
        words = words[count:]
    if not names or not all(names):
        raise UsageError("No run is named: give run folders, as in: runs/a runs/b.")
    return [pathlib.Path(cli.user_path(name)) for name in names]


@functools.cache
def declared() -> Mapping[str, Metric]:
    """Returns the metrics that studies declare, by name; of two that share one, the first study's.

    Columns of `metrics.csv` that are none, as those of other programs, are known by name alone.
    """
    found: dict[str, Metric] = {}
    for columns in studies.columns():
        for metric in columns:
            found.setdefault(metric, metric)
    return found | {SECONDS: SECONDS}


def about(column: str) -> str:
    """Returns what a column says, as its study declares it; else its name."""
    return declared()[column].about if column in declared() else column


def trailing_window(rounds: int) -> int:
    """Returns how many rounds the last tenth of so many is, one at least."""
    return max(1, rounds // 10)


def final_value(run: Run, column: str) -> float | None:
    """Returns a run's last finite value of a metric; of a recent one, the mean over the trailing window."""
    import numpy as np

    if column not in run.metrics:
        return None
    values = run.metrics[column].to_numpy(float)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    is_recent = isinstance(column, Metric) and column.recent
    return float(values[-trailing_window(len(values)) :].mean()) if is_recent else float(values[-1])


def seeds(found: Sequence[Run]) -> dict[int, Run]:
    """Returns the runs of one configuration by seed; by place, where none is recorded."""
    recorded = [run.flags.get("seed") for run in found]
    return {place if seed is None else int(seed): found[place] for place, seed in enumerate(recorded)}


def by_seed(found: Sequence[Run], column: str) -> dict[int, float]:
    """Returns a metric of one configuration's runs; not a number where training diverged, or there is no value."""
    values = {}
    for seed, run in seeds(found).items():
        value = None if divergence.is_lost(run.metrics, run.columns, run.flags) else final_value(run, column)
        values[seed] = math.nan if value is None else value
    return values


def is_unpaired(found: Sequence[Run]) -> bool:
    """Returns whether no seed determines these runs: they draw noise for privacy, or cohorts that are secret for it.

    Noise that `--insecure_seeded_noise` seeds is not secret: a seed determines such runs.
    """
    return any(
        run.privacy.get("epsilon") is not None or (has_noise([run]) and not run.flags.get("insecure_seeded_noise"))
        for run in found
    )


def has_noise(found: Sequence[Run]) -> bool:
    """Returns whether these runs draw noise for privacy, seeded or not."""
    return any(run.flags.get("noise_multiplier") for run in found)


def difference_over_clients(found: Sequence[Run], reference: Sequence[Run]) -> intervals.Interval | None:
    """Returns the difference of two configurations' last evaluations, with an interval over the evaluated clients.

    Each client counts with its mean over the common seeds. None, if there are fewer than two clients.
    """
    differences: dict[str, list[float]] = {}
    others = {run.flags.get("seed"): _client_rewards(run) for run in reference}
    for run in found:
        other = others.get(run.flags.get("seed"), {})
        for client, reward in _client_rewards(run).items():
            if client in other:
                differences.setdefault(client, []).append(reward - other[client])
    if len(differences) < 2:
        return None
    return bootstrap.over_clients([statistics.fmean(some) for some in differences.values()])


def evaluated_clients(found: Sequence[Run]) -> str:
    """Returns whose rewards evaluations compare: `held-out` or `participating` clients."""
    return "held-out" if all(run.client_rewards.get("held_out", True) for run in found) else "participating"


def _client_rewards(run: Run) -> dict[str, float]:
    found = run.client_rewards
    return dict(zip(found.get("clients", ()), found.get("rewards", ()), strict=True))
