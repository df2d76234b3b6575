"""Metrics of a run, and what is made of them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn import metrics as sklearn_metrics

from optimization.study.metrics import Better, Metric

LOSS = Metric("train/loss", "Training loss per example of the round's mini-batches, before each step", better="down")
UPDATE_NORM = Metric("train/update_norm", "L2 norm of the aggregated update")
EXAMPLES = Metric("train/examples", "Examples of the cohort")
EMPTY_CLIENTS = Metric("train/empty_clients", "Clients without an example")
NONFINITE_CLIENTS = Metric("train/nonfinite_clients", "Clients whose training diverged")
TRAINING = (LOSS, UPDATE_NORM, EXAMPLES, EMPTY_CLIENTS, NONFINITE_CLIENTS)

# Of the server's model after the round: on validation data (eval), and on the training data of the round's cohort.
SETS = {"eval": "validation data", "cohort": "the cohort's training data"}
MEASURES = ("accuracy", "loss", "recall", "precision")  # Recall and precision are means over the labels that occur.
WINDOW = 10


def _measured(part: str, measure: str, window: int = 0) -> Metric:
    """Returns a measure of a set, of one round or as a mean over the last ones."""
    about = f"{measure.capitalize()} on {SETS[part]}{f', mean of {window} rounds' if window else ''}"
    better: Better = "down" if measure == "loss" else "up"
    name = f"{'running/' if window else ''}{part}/{measure}"
    return Metric(name, about, better=better, told=name == "eval/accuracy")


MEASURED = tuple(_measured(part, measure) for part in SETS for measure in MEASURES)
RUNNING = tuple(_measured(part, measure, WINDOW) for part in SETS for measure in MEASURES)
ACCURACY, RUNNING_ACCURACY = MEASURED[0], RUNNING[0]

COLUMNS = (*TRAINING, *MEASURED, *RUNNING)

_RESULTS = {
    "accuracy": "running/eval/accuracy",
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
    predicted = log_probabilities.argmax(axis=1)
    precision, recall, _, _ = sklearn_metrics.precision_recall_fscore_support(
        labels, predicted, labels=np.unique(labels), average="macro", zero_division=0
    )
    loss = -log_probabilities[np.arange(len(labels)), labels].mean(dtype=np.float64)
    return [float(np.mean(predicted == labels)), float(loss), float(recall), float(precision)]


def results(rounds: pd.DataFrame, thresholds: Sequence[float]) -> pd.DataFrame:
    """Returns the lines of Tables 5.1 and 5.2: each measure's running mean at the end, and rounds until thresholds.

    Args:
      rounds: A run's `metrics.csv`.
      thresholds: Of the running means; a threshold that is never reached has no number of rounds.
    """
    lines = []
    for name, column in _RESULTS.items():
        line = {"measure": name, "final": rounds[column].iloc[-1]}
        for threshold in thresholds:
            reached = first_round(rounds, column, threshold)
            line[f"rounds to {threshold:g}"] = int(reached) if np.isfinite(reached) else None
        lines.append(line)
    return pd.DataFrame(lines).convert_dtypes()


def first_round(rounds: pd.DataFrame, column: str, threshold: float) -> float:
    """Returns the first round of a `metrics.csv` in which a column reaches a threshold; NaN if none does."""
    reached = rounds["round_num"][rounds[column] >= threshold]
    return float(reached.iloc[0]) if len(reached) else np.nan
