"""Metrics of a run, their running means, and tables and a figure of them.

The tables are Tables 5.1 and 5.2 of Johansson and Gullbrandson 2022, from the `metrics.csv` of some runs.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data import files
from optimization.study import metrics
from optimization.study.metrics import Better, Metric

if TYPE_CHECKING:
    import pandas as pd

SHARE_MOVED = Metric(
    "train/share_moved", "Share of parameters that mean shift moved away from the clients' mean", share=True
)

# Of the server's model after the round.
SETS = {"eval": "validation data", "cohort": "the cohort's training data"}
# Recall and precision are means over the labels that occur.
MEASURES: Mapping[str, Better] = {"accuracy": "up", "loss": "down", "recall": "up", "precision": "up"}
WINDOW = 10  # Rounds of a running mean.
MEASURED = tuple(
    Metric(
        name := f"{part}/{measure}",
        f"{measure.capitalize()} on {data}",
        better=better,
        in_summary=name == "eval/accuracy",
        share=measure != "loss",
    )
    for part, data in SETS.items()
    for measure, better in MEASURES.items()
)
RUNNING = tuple(
    Metric(f"running/{one}", f"{one.about}, mean of {WINDOW} rounds", better=one.better, share=one.share)
    for one in MEASURED
)
ACCURACY, RUNNING_ACCURACY = MEASURED[0], RUNNING[0]

_OF_TRAINING = (metrics.LOSS, metrics.UPDATE_NORM, metrics.EXAMPLES, metrics.EMPTY_CLIENTS, metrics.NONFINITE_CLIENTS)
COLUMNS = (*_OF_TRAINING, metrics.BYTES_DOWN, metrics.BYTES_UP, SHARE_MOVED, *MEASURED, *RUNNING)


def measure(log_probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    """Values of `MEASURES` for predictions.

    Args:
      log_probabilities: float32 [examples, classes].
      labels: int [examples].
    """
    import sklearn.metrics

    predicted = log_probabilities.argmax(axis=1)
    precision, recall, _, _ = sklearn.metrics.precision_recall_fscore_support(
        labels, predicted, labels=np.unique(labels), average="macro", zero_division=0
    )
    loss = -log_probabilities[np.arange(len(labels)), labels].mean(dtype=np.float64)
    return [float(np.mean(predicted == labels)), float(loss), float(recall), float(precision)]


TABLE_MEASURES = {
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
# Rounds and thresholds of each task, from the tables; for MNIST, which has no table, the rounds of its figures.
_EMNIST = ((600, 1000), (0.84, 0.86))
_MNIST = ((10, 50), (0.84, 0.86))
PUBLISHED: Mapping[str, tuple[tuple[int, ...], tuple[float, ...]]] = {
    "emnist_chars": _EMNIST,
    "unipen62": _EMNIST,
    "cifar100": ((600, 800), (0.3, 0.4)),
    "mnist": _MNIST,
    "mnist_writers": _MNIST,
}


def build_table(
    cells: Mapping[tuple[str, str], "Sequence[pd.DataFrame]"], rounds: Sequence[int], thresholds: Sequence[float]
) -> "pd.DataFrame":
    """Table of measures and algorithms (rows), and alphas by round and by threshold (columns).

    Every value is of the running mean over ten rounds: its mean over seeds, and their standard deviation where there
    are several. If some seeds lack a value, because they are too short or miss the threshold, it is that of
    the others, with their number; without any it is a dash. Losses have no thresholds.

    Args:
      cells: (algorithm, alpha) -> `metrics.csv` of each seed.
      rounds: Rounds to report.
      thresholds: Thresholds of the other measures.

    Returns:
      Texts; rows (measure, algorithm), columns (round or threshold, alpha).
    """
    import pandas as pd

    values = pd.DataFrame(
        [
            (measure, NAMES[algorithm], title, alpha, value)
            for (algorithm, alpha), seeds in cells.items()
            for seed in seeds
            for measure, column in TABLE_MEASURES.items()
            for title, value in _values(seed, column, rounds, thresholds).items()
        ],
        columns=["measure", "algorithm", "title", "alpha", "value"],
    )
    groups = values.groupby(["measure", "algorithm", "title", "alpha"])["value"]
    texts = pd.Series({key: _text(group, ".0f" if key[2].endswith("%") else ".3f") for key, group in groups})
    algorithms = [name for name in NAMES.values() if name in set(values["algorithm"])]
    alphas = sorted({alpha for _, alpha in cells}, key=lambda alpha: np.inf if alpha == NO_ALPHA else float(alpha))
    titles = [f"Round {number}" for number in rounds] + [f"{100 * threshold:g}%" for threshold in thresholds]
    return (
        texts.unstack([2, 3])
        .reindex(
            index=pd.MultiIndex.from_product([TABLE_MEASURES, algorithms]),
            columns=pd.MultiIndex.from_product([titles, alphas], names=["", "alpha"]),
        )
        .fillna("-")
    )


def _values(run: "pd.DataFrame", column: str, rounds: Sequence[int], thresholds: Sequence[float]) -> dict[str, float]:
    """Value of a measure at each round, and the first round at each threshold; NaN where there is none."""
    at = run.set_index("round_num")[column].reindex(rounds)
    values = {f"Round {number}": at[number] for number in rounds}
    is_loss = "loss" in column
    return values | {f"{100 * one:g}%": np.nan if is_loss else first_round(run, column, one) for one in thresholds}


def _text(values: "pd.Series", form: str) -> str:
    reached = values[np.isfinite(values)]
    if reached.empty:
        return "-"
    text = format(reached.mean(), form)
    if len(reached) > 1:
        text += f" ± {reached.std():{form}}"
    return text if len(reached) == len(values) else f"{text} ({len(reached)} of {len(values)})"


def results(rounds: "pd.DataFrame", thresholds: Sequence[float]) -> "pd.DataFrame":
    """Lines of a run: each measure's running mean at the end, and the rounds to each threshold.

    Args:
      rounds: A run's `metrics.csv`.
      thresholds: Thresholds of the running means; one that is never reached has no number of rounds.
    """
    import pandas as pd

    lines = []
    for name, column in TABLE_MEASURES.items():
        if "Loss" not in name:
            reached = {f"rounds to {one:g}": first_round(rounds, column, one) for one in thresholds}
            lines.append({"measure": name.lower(), "final": rounds[column].iloc[-1], **reached})
    return pd.DataFrame(lines).convert_dtypes()


def first_round(rounds: "pd.DataFrame", column: str, threshold: float) -> float:
    """First round of a `metrics.csv` in which a column reaches a threshold; NaN if none does."""
    reached = rounds["round_num"][rounds[column] >= threshold]
    return float(reached.iloc[0]) if len(reached) else np.nan


def draw_run(table: "pd.DataFrame", output: str | os.PathLike, title: str) -> None:
    """Plots running means of accuracy and loss over rounds (Figures 5.1, 5.3, 5.5 to 5.8), as a PNG.

    Args:
      table: A run's `metrics.csv`.
      output: PNG to write.
      title: Title of both plots.
    """
    from optimization.study import panels  # Imports Matplotlib.

    titles = {measure: f"{measure}, mean of {WINDOW} rounds" for measure in ("accuracy", "loss")}
    names = {data: {f"running/{part}/{measure}": measure for measure in titles} for part, data in SETS.items()}
    tables = {data: [table[["round_num", *own]].rename(columns=own)] for data, own in names.items()}
    files.save_picture(panels.draw(tables, titles, title=title), output, dpi=120)
