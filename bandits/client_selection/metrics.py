"""Metrics of a client-selection run, and what is measured of all clients' losses."""

import numpy as np

from optimization.study import metrics
from optimization.study.metrics import Metric, declared

LOSS = metrics.LOSS
UPDATE_NORM = metrics.UPDATE_NORM
LEARNING_RATE = Metric("train/learning_rate", "Learning rate of the clients")
EMPTY_CLIENTS = metrics.EMPTY_CLIENTS
NONFINITE_CLIENTS = metrics.NONFINITE_CLIENTS
MODEL_TRANSFERS = Metric(
    "communication/model_transfers", "Models sent to clients, those for polls too, and updates sent back", better="down"
)
LOSS_POLLS = Metric("communication/loss_polls", "Clients asked for their exact loss", better="down")
GLOBAL_LOSS = Metric(
    "eval/global_loss",
    "Training loss of all clients, each weighted by its data",
    better="down",
    evaluated=True,
    told=True,
)
JAIN_INDEX = Metric(
    "eval/jain_index",
    "Fairness of the clients' training losses",
    better="up",
    evaluated=True,
    told=True,
    share=True,
)
WORST_DECILE_LOSS = Metric(
    "eval/worst_decile_loss", "Mean of the largest tenth of the clients' losses", better="down", evaluated=True
)
MEDIAN_LOSS = Metric("eval/median_loss", "Median of the clients' training losses", better="down", evaluated=True)
ACCURACY = Metric("eval/accuracy", "Accuracy on held-out examples", better="up", evaluated=True, told=True, share=True)

COLUMNS = declared(vars())


def jain_index(losses: np.ndarray) -> float:
    """Returns Jain's fairness index of the clients' losses, in [1 / clients, 1] (Cho et al. 2020, equation 3).

    Args:
      losses: float [clients], at least 0. All zero, they are equal: 1.
    """
    losses = np.asarray(losses, np.float64)
    squares = len(losses) * np.square(losses).sum()
    return float(np.square(losses.sum()) / squares) if squares else 1.0


def worst_decile(losses: np.ndarray) -> float:
    """Returns the mean of the largest tenth of the losses, rounded up."""
    count = -(-len(losses) // 10)
    return float(np.sort(losses)[-count:].mean())
