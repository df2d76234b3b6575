"""Run folders, of any experiment binary, as scripts ask for them."""

import functools
import os
import pathlib
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bandits import studies
from data.errors import UsageError
from optimization.study import cli, results
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
def machine() -> str:
    """Returns what the processor is called, and how many of its cores this process may use."""
    name = platform.processor() or platform.machine()
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {len(os.sched_getaffinity(0))} cores"


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
