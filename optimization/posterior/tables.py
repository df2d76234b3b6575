"""Tables 5.1 and 5.2 of Johansson and Gullbrandson 2022, from the `metrics.csv` of some runs."""

import functools
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

import matplotlib.figure
import numpy as np
import pandas as pd

from data import files
from optimization.posterior import metrics

MEASURES = {
    "Accuracy": "running/eval/accuracy",
    "Training Accuracy": "running/cohort/accuracy",
    "Loss": "running/eval/loss",
    "Training Loss": "running/cohort/loss",
    "Precision": "running/eval/precision",
    "Recall": "running/eval/recall",
}
NAMES = {
    "fedag": "FedAG",
    "fedavg": "FedAvg",
    "fedbe": "FedBE",
    "fedkp": "FedKP",
    "fedkppa": "FedKPPA",
    "fedkp_cluster_mean": "FedKP_cm",
    "fedopt": "FedOpt",
    "fedpa": "FedPA",
    "sgld": "SGLD",
    "client_sgld": "SGLD (clients)",
}
NO_ALPHA = "-"
# Rounds and thresholds of each task: those of the tables; for MNIST, which has none, the rounds of its figures.
_EMNIST = ((600, 1000), (0.84, 0.86))
_MNIST = ((10, 50), (0.84, 0.86))
PUBLISHED: Mapping[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "emnist_chars": _EMNIST,
    "unipen62": _EMNIST,
    "cifar100": ((600, 800), (0.3, 0.4)),
    "mnist": _MNIST,
    "mnist_writers": _MNIST,
}


def build(
    cells: Mapping[tuple[str, str], Sequence[pd.DataFrame]], rounds: Sequence[int], thresholds: Sequence[float]
) -> pd.DataFrame:
    """Returns the table: measures and algorithms down, alphas under each round and each threshold across.

    Every value is of the running mean over ten rounds: its mean over seeds, and their standard deviation where there
    are several. A value that some seeds lack, because they are not that far or do not reach the threshold, is that of
    the others and says how many; with none it is a dash. Losses have no thresholds.

    Args:
      cells: (algorithm, alpha) -> `metrics.csv` of each seed.
      rounds: Rounds to report.
      thresholds: Of the other measures.

    Returns:
      Texts; rows (measure, algorithm), columns (round or threshold, alpha).
    """
    algorithms = [name for name in NAMES if any(name == algorithm for algorithm, _ in cells)]
    alphas = sorted({alpha for _, alpha in cells}, key=lambda alpha: np.inf if alpha == NO_ALPHA else float(alpha))
    blocks: list[tuple[str, Callable[[pd.DataFrame, str], float], str]] = []
    for number in rounds:
        blocks.append((f"Round {number}", functools.partial(_at, round_num=number), ".3f"))
    for threshold in thresholds:
        blocks.append((f"{100 * threshold:g}%", functools.partial(metrics.first_round, threshold=threshold), ".0f"))
    rows: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for measure, column in MEASURES.items():
        for algorithm in algorithms:
            row = rows[measure, NAMES[algorithm]] = {}
            for title, value, form in blocks:
                for alpha in alphas:
                    seeds = cells.get((algorithm, alpha), ())
                    skipped = title.endswith("%") and "Loss" in measure
                    values = [] if skipped else [value(seed, column) for seed in seeds]
                    row[title, alpha] = _text(values, form)
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows)
    table.columns = pd.MultiIndex.from_tuples(table.columns, names=["", "alpha"])
    return table


def _at(table: pd.DataFrame, column: str, round_num: int) -> float:
    rows = table.loc[table["round_num"] == round_num, column]
    return float(rows.iloc[0]) if len(rows) else np.nan


def _text(values: Sequence[float], form: str) -> str:
    reached = [value for value in values if np.isfinite(value)]
    if not reached:
        return "-"
    text = format(np.mean(reached), form)
    if len(reached) > 1:
        text += f" ± {np.std(reached, ddof=1):{form}}"
    return text if len(reached) == len(values) else f"{text} ({len(reached)} of {len(values)})"


def draw_run(metrics_path: pathlib.Path, output: str | os.PathLike, title: str) -> None:
    """Draws accuracy and loss over rounds, each round's and running means (Figures 5.1, 5.3, 5.5 to 5.8), as a PNG."""
    table = pd.read_csv(metrics_path)
    figure = matplotlib.figure.Figure(figsize=(9, 3.6), layout="constrained")
    for axes, measure in zip(figure.subplots(1, 2), ("accuracy", "loss"), strict=True):
        for index, (part, data) in enumerate(metrics.SETS.items()):
            color = f"C{index}"
            axes.plot(table["round_num"], table[f"{part}/{measure}"], color=color, alpha=0.3)
            axes.plot(table["round_num"], table[f"running/{part}/{measure}"], color=color, label=data)
        axes.set(xlabel="round", ylabel=measure)
        axes.grid(alpha=0.3)
    axes.legend()
    figure.suptitle(title)
    files.save_picture(figure, output, dpi=120)
