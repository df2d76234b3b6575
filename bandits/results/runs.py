"""Finished runs of any study: their folders, and the value of a metric by seed."""

import functools
import math
import os
import pathlib
import platform
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from bandits import metrics, studies
from bandits.results import bootstrap
from data.errors import UsageError
from optimization.study import cli, divergence, intervals, results
from optimization.study.curves import band
from optimization.study.metrics import SECONDS, Metric
from optimization.study.results import Run, find, labels, newest_command, read_json, read_metrics

if TYPE_CHECKING:
    import pandas as pd

__all__ = ("Run", "band", "find", "labels", "newest_command", "read_json", "read_metrics")

PAYLOAD = (metrics.BYTES_DOWN, metrics.BYTES_UP)  # Columns of the bytes of a round.
MEGABYTES = "megabytes down and up so far"
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by a key, in their order."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def read(folder: pathlib.Path) -> Run:
    """Reads the folder of a run of any study; see `results.read`."""
    return results.read(folder, studies.columns())


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
    """Folders that a command names, as arguments and by `--runs`, where names may contain commas.

    Raises:
      UsageError: If no folder is named, or a name is empty.
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
    """Metrics that studies declare, by name; if several studies declare a name, the first study's."""
    metrics: dict[str, Metric] = {}
    for columns in studies.columns():
        for metric in columns:
            metrics.setdefault(metric, metric)
    return metrics | {SECONDS: SECONDS}


def about(column: str) -> str:
    """Description of a column, as its study declares it; else its name."""
    return declared()[column].about if column in declared() else column


def trailing_window(rounds: int) -> int:
    """Number of rounds in the last tenth; at least one."""
    return max(1, rounds // 10)


def megabytes(tables: "Sequence[pd.DataFrame]") -> "pd.Series | None":
    """Megabytes sent so far in both directions, mean over seeds, by round; None if a table has no such columns."""
    import pandas as pd

    if not all(set(PAYLOAD) <= set(table) for table in tables):
        return None
    sent = [table.set_index("round_num")[[*PAYLOAD]].sum(axis=1).cumsum() / 1e6 for table in tables]
    return pd.concat(sent, axis=1).mean(axis=1)


def final_value(run: Run, column: str) -> float | None:
    """A run's last finite value of a metric; for a recent metric, the mean over the trailing window."""
    import numpy as np

    if column not in run.metrics:
        return None
    values = run.metrics[column].to_numpy(float)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    is_recent = isinstance(column, Metric) and column.recent
    return float(values[-trailing_window(len(values)) :].mean()) if is_recent else float(values[-1])


def seeds(seed_runs: Sequence[Run]) -> dict[int, Run]:
    """Runs of one configuration by seed; by position if no seed is recorded."""
    recorded = [run.flags.get("seed") for run in seed_runs]
    return {place if seed is None else int(seed): seed_runs[place] for place, seed in enumerate(recorded)}


def by_seed(seed_runs: Sequence[Run], column: str) -> dict[int, float]:
    """Final values of one configuration's runs by seed; NaN for diverged runs and missing values."""
    values = {}
    for seed, run in seeds(seed_runs).items():
        value = None if divergence.is_lost(run.metrics, run.columns, run.flags) else final_value(run, column)
        values[seed] = math.nan if value is None else value
    return values


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
    return any(run.flags.get("noise_multiplier") for run in seed_runs)


def difference_over_clients(seed_runs: Sequence[Run], reference: Sequence[Run]) -> intervals.Interval | None:
    """Difference of two configurations' last evaluations, with an interval over the evaluated clients.

    Each client counts with its mean over the common seeds. None with fewer than two clients.
    """
    differences: dict[str, list[float]] = {}
    reference_rewards = {run.flags.get("seed"): _client_rewards(run) for run in reference}
    for run in seed_runs:
        rewards_of_seed = reference_rewards.get(run.flags.get("seed"), {})
        for client, reward in _client_rewards(run).items():
            if client in rewards_of_seed:
                differences.setdefault(client, []).append(reward - rewards_of_seed[client])
    if len(differences) < 2:
        return None
    return bootstrap.over_clients([statistics.fmean(values) for values in differences.values()])


def evaluated_clients(seed_runs: Sequence[Run]) -> str:
    """Kind of the evaluated clients: `held-out` or `participating`."""
    return "held-out" if all(run.client_rewards.get("held_out", True) for run in seed_runs) else "participating"


def without_client_rewards(seed_runs: Sequence[Run]) -> list[Run]:
    """Runs of a configuration that lack each client's reward, though others have it."""
    missing = [run for run in seed_runs if not run.client_rewards]
    return missing if len(missing) < len(seed_runs) else []


def _client_rewards(run: Run) -> dict[str, float]:
    record = run.client_rewards
    return dict(zip(record.get("clients", ()), record.get("rewards", ()), strict=True))
