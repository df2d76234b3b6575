"""Names of the columns of a run's `metrics.csv`, and what is made of them."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from sklearn import metrics as sklearn_metrics

LOSS = "train/loss"  # Mean training loss per example of the round's mini-batches, before each step.
UPDATE_NORM = "train/update_norm"  # L2 norm of the aggregated update.
EXAMPLES = "train/examples"
EMPTY_CLIENTS = "train/empty_clients"
NONFINITE_CLIENTS = "train/nonfinite_clients"
TRAINING = (LOSS, UPDATE_NORM, EXAMPLES, EMPTY_CLIENTS, NONFINITE_CLIENTS)

# Of the server's model after the round: on validation data (eval), and on the training data of the round's cohort.
SETS = ("eval", "cohort")
MEASURES = ("accuracy", "loss", "recall", "precision")  # Recall and precision are means over the labels that occur.
MEASURED = tuple(f"{part}/{measure}" for part in SETS for measure in MEASURES)
RUNNING = tuple(f"running/{name}" for name in MEASURED)  # Means over the last ten rounds.
WINDOW = 10
ACCURACY = "eval/accuracy"

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
