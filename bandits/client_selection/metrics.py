"""Names of the columns of a client-selection run's `metrics.csv`, and what is measured of all clients' losses."""

import numpy as np

LOSS = "train/loss"  # Mean training loss per example of the round's mini-batches, before each step.
UPDATE_NORM = "train/update_norm"  # L2 norm of the aggregated update.
LEARNING_RATE = "train/learning_rate"
EMPTY_CLIENTS = "train/empty_clients"
NONFINITE_CLIENTS = "train/nonfinite_clients"
MODEL_TRANSFERS = "communication/model_transfers"  # Models sent to clients and updates sent back.
LOSS_POLLS = "communication/loss_polls"  # Clients asked for their exact loss; the model sent for it is counted above.
GLOBAL_LOSS = "eval/global_loss"  # Training loss of all clients, each weighted by its data.
JAIN_INDEX = "eval/jain_index"  # Fairness of the clients' training losses.
WORST_DECILE_LOSS = "eval/worst_decile_loss"  # Mean of the largest tenth of them.
ACCURACY = "eval/accuracy"  # On held-out examples.

COLUMNS = (
    LOSS,
    UPDATE_NORM,
    LEARNING_RATE,
    EMPTY_CLIENTS,
    NONFINITE_CLIENTS,
    MODEL_TRANSFERS,
    LOSS_POLLS,
    GLOBAL_LOSS,
    JAIN_INDEX,
    WORST_DECILE_LOSS,
    ACCURACY,
)


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
