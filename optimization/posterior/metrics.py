"""Metrics of a run and their running means."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from optimization.study import metrics
from optimization.study.metrics import Better, Metric

if TYPE_CHECKING:
    pass

LOSS = metrics.LOSS
UPDATE_NORM = metrics.UPDATE_NORM
EXAMPLES = metrics.EXAMPLES
EMPTY_CLIENTS = metrics.EMPTY_CLIENTS
NONFINITE_CLIENTS = metrics.NONFINITE_CLIENTS
BYTES_DOWN = metrics.BYTES_DOWN
BYTES_UP = metrics.BYTES_UP
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

COLUMNS = (
    LOSS,
    UPDATE_NORM,
    EXAMPLES,
    EMPTY_CLIENTS,
    NONFINITE_CLIENTS,
    BYTES_DOWN,
    BYTES_UP,
    SHARE_MOVED,
    *MEASURED,
    *RUNNING,
)


def measure(log_probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    """Values of `MEASURES` for predictions.

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
