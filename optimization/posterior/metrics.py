"""Metrics of runs with posterior aggregation, and their running means."""

from collections.abc import Mapping

import numpy as np

from optimization.study import metrics
from optimization.study.metrics import Better, Metric

SHARE_MOVED = Metric(
    "train/share_moved", "Share of parameters that mean shift moved away from the clients' mean", share=True
)

# Data on which the server's model is evaluated after a round.
SETS = {"eval": "validation data", "cohort": "the cohort's training data"}
# Recall and precision are averaged over the labels that occur.
MEASURES: Mapping[str, Better] = {"accuracy": "up", "loss": "down", "recall": "up", "precision": "up"}
WINDOW = 10  # Number of rounds in a running mean.
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
    Metric(f"running/{metric}", f"{metric.about}, mean of {WINDOW} rounds", better=metric.better, share=metric.share)
    for metric in MEASURED
)
ACCURACY, RUNNING_ACCURACY = MEASURED[0], RUNNING[0]

_OF_TRAINING = (metrics.LOSS, metrics.UPDATE_NORM, metrics.EXAMPLES, metrics.EMPTY_CLIENTS, metrics.NONFINITE_CLIENTS)
COLUMNS = (*_OF_TRAINING, metrics.BYTES_DOWN, metrics.BYTES_UP, SHARE_MOVED, *MEASURED, *RUNNING)


def measure(log_probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    """Values of `MEASURES` for predictions, in the same order.

    Args:
      log_probabilities: Predictions, float32 [examples, classes].
      labels: int [examples], classes.
    """
    import sklearn.metrics

    predicted = log_probabilities.argmax(axis=1)
    precision, recall, _, _ = sklearn.metrics.precision_recall_fscore_support(
        labels, predicted, labels=np.unique(labels), average="macro", zero_division=0
    )
    loss = -log_probabilities[np.arange(len(labels)), labels].mean(dtype=np.float64)
    return [float(np.mean(predicted == labels)), float(loss), float(recall), float(precision)]
