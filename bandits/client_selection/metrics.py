"""Metrics of a client-selection run."""

from optimization.study import metrics
from optimization.study.metrics import Metric, declared

LOSS = metrics.LOSS
UPDATE_NORM = metrics.UPDATE_NORM
LEARNING_RATE = Metric("train/learning_rate", "Learning rate of the clients")
EMPTY_CLIENTS = metrics.EMPTY_CLIENTS
NONFINITE_CLIENTS = metrics.NONFINITE_CLIENTS
MODEL_TRANSFERS = Metric(
    "communication/model_transfers", "Models sent to clients, including for polls, and updates sent back", better="down"
)
BYTES_DOWN = metrics.BYTES_DOWN
BYTES_UP = metrics.BYTES_UP
LOSS_POLLS = Metric("communication/loss_polls", "Clients asked for their exact loss", better="down")
GLOBAL_LOSS = Metric(
    "eval/global_loss",
    "Training loss over the evaluated clients, weighted by their data",
    better="down",
    evaluated=True,
    in_summary=True,
)
JAIN_INDEX = Metric(
    "eval/jain_index",
    "Fairness of the clients' training losses",
    better="up",
    evaluated=True,
    in_summary=True,
    share=True,
)
WORST_DECILE_LOSS = Metric(
    "eval/worst_decile_loss", "Mean of the largest tenth of the clients' losses", better="down", evaluated=True
)
MEDIAN_LOSS = Metric("eval/median_loss", "Median of the clients' training losses", better="down", evaluated=True)
ACCURACY = Metric(
    "eval/accuracy", "Accuracy on held-out examples", better="up", evaluated=True, in_summary=True, share=True
)

COLUMNS = declared(vars())
