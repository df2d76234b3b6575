"""Metrics of a run, and what is made of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from optimization.study import metrics
from optimization.study.metrics import Better, Metric

if TYPE_CHECKING:
    import pandas as pd

LOSS = metrics.LOSS
UPDATE_NORM = metrics.UPDATE_NORM
EXAMPLES = metrics.EXAMPLES
EMPTY_CLIENTS = metrics.EMPTY_CLIENTS
NONFINITE_CLIENTS = metrics.NONFINITE_CLIENTS
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
        told=name == "eval/accuracy",
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

COLUMNS = (LOSS, UPDATE_NORM, EXAMPLES, EMPTY_CLIENTS, NONFINITE_CLIENTS, SHARE_MOVED, *MEASURED, *RUNNING)

_RESULTS = {
    "accuracy": RUNNING_ACCURACY,
    "training accuracy": "running/cohort/accuracy",
    "precision": "running/eval/precision",
    "recall": "running/eval/recall",
}


def measure(log_probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    """Returns the `MEASURES` of predictions.

    Args:
      log_probabilities: float32 [examples, classes].
      labels: int [examples].
    """
    from sklearn import metrics as sklearn_metrics

    predicted = log_probabilities.argmax(axis=1)
    precision, recall, _, _ = sklearn_metrics.precision_recall_fscore_support(
        labels, predicted, labels=np.unique(labels), average="macro", zero_division=0
    )
    loss = -log_probabilities[np.arange(len(labels)), labels].mean(dtype=np.float64)
    return [float(np.mean(predicted == labels)), float(loss), float(recall), float(precision)]


def results(rounds: "pd.DataFrame", thresholds: Sequence[float]) -> "pd.DataFrame":
    """Returns the lines of Tables 5.1 and 5.2: each measure's running mean at the end, and rounds until thresholds.

    Args:
      rounds: A run's `metrics.csv`.
      thresholds: Of the running means; a threshold that is never reached has no number of rounds.
    """
    import pandas as pd

    lines = []
    for name, column in _RESULTS.items():
        line = {"measure": name, "final": rounds[column].iloc[-1]}
        for threshold in thresholds:
            reached = first_round(rounds, column, threshold)
            line[f"rounds to {threshold:g}"] = int(reached) if np.isfinite(reached) else None
        lines.append(line)
    return pd.DataFrame(lines).convert_dtypes()


def first_round(rounds: "pd.DataFrame", column: str, threshold: float) -> float:
    """Returns the first round of a `metrics.csv` in which a column reaches a threshold; NaN if none does."""
    reached = rounds["round_num"][rounds[column] >= threshold]
    return float(reached.iloc[0]) if len(reached) else np.nan
