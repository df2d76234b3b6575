"""Runs of a picture or of the posterior study's tables, read from their folders."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bandits import metrics, studies
from bandits.results import runs
from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


def seeds(folder: pathlib.Path) -> list[pathlib.Path]:
    """Folders of a run's seeds, without those that have no finished round.

    Raises:
      UsageError: If the folder holds several runs, or no finished round.
    """
    groups = runs.find(folder)
    if len(groups) > 1:
        raise UsageError(f"--runs: {folder} holds {len(groups)} runs: name one of them, such as {next(iter(groups))}.")
    found = [path for path in next(iter(groups.values())) if (path / "metrics.csv").is_file()]
    if not found:
        raise UsageError(f"--runs: {folder} holds no metrics.csv, so no round is finished.")
    return found


def headline(tables: "Mapping[str, Sequence[pd.DataFrame]]") -> str:
    """Default metric: the reward, or the headline of the study with the most columns of the first run."""
    columns = set(next(iter(tables.values()))[0].columns)
    if metrics.ROUND_REWARD in columns:
        return metrics.ROUND_REWARD
    known = [studies.load(module) for module in studies.STUDIES.values()]
    return max(known, key=lambda study: len(columns & set(study.columns))).headline


def posterior_tables(
    folders: Sequence[pathlib.Path], rounds: Sequence[int] | None, thresholds: Sequence[float] | None
) -> str:
    """Tables of `optimization.posterior.metrics` about the runs in some folders, one for each task, as text.

    Args:
      folders: The folders.
      rounds: Rounds to report; None for the study's, or the last.
      thresholds: Thresholds likewise.

    Raises:
      UsageError: If a run is not of run_posterior, two runs belong to one cell, or there is no run.
    """
    from optimization.posterior import metrics

    by_task: dict[str, dict[tuple[str, str], list[pd.DataFrame]]] = {}
    owners: dict[tuple[str, str, str], pathlib.Path] = {}
    for group, paths in (one for folder in folders for one in runs.find(folder).items()):
        read = [runs.read(path) for path in paths if (path / "metrics.csv").is_file()]
        if not read:
            continue
        flags = read[0].flags
        if flags.get("algorithm") not in metrics.NAMES or metrics.TABLE_MEASURES["Accuracy"] not in read[0].metrics:
            raise UsageError(f"--runs: {group} is no run of run_posterior.")
        alphas = [flags.get(name) for name in ("client_sampling_alpha", "partition_alpha")]
        alpha = next((f"{value:g}" for value in alphas if value is not None), metrics.NO_ALPHA)
        task, algorithm = flags["task_type"], flags["algorithm"]
        other = owners.setdefault((task, algorithm, alpha), group)
        if other != group:
            raise UsageError(f"--runs: {other} and {group} have one task, algorithm and alpha: name one of them.")
        by_task.setdefault(task, {})[algorithm, alpha] = [run.metrics for run in read]
    if not by_task:
        raise UsageError("--runs: no run of run_posterior has a finished round.")
    texts = []
    for task, cells in by_task.items():
        last = min(int(table["round_num"].iloc[-1]) for some in cells.values() for table in some)
        usual = metrics.PUBLISHED.get(task, ((last,), (0.84, 0.86)))
        texts.append(f"{task}\n{metrics.build_table(cells, rounds or usual[0], thresholds or usual[1]).to_string()}\n")
    return "\n".join(texts)
