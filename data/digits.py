"""Scikit-learn's 1,797 handwritten digits (the test set of UCI's optdigits), dealt to clients.

Who wrote which digit is not recorded, so clients are made: Dirichlet label skew, the same for every seed.
"""

import gzip
import importlib.metadata

import numpy as np

from data import clients, keys, partition

NUM_CLIENTS = 60
CONCENTRATION = 1.0
_HELD_OUT_FRACTION = 0.2
_SPLIT_SEED = 0  # The clients are part of the task, not of a run's chance.


def load(concentration: float = CONCENTRATION) -> tuple[clients.ClientData, clients.ClientData]:
    """Returns 60 clients of 23 or 24 examples, and 359 held-out examples as one client.

    Features are float32 [examples, 64] in [0, 1], ink 1; labels int32 [examples].

    Args:
      concentration: Dirichlet parameter of the clients' labels; small values give clients of few labels.
    """
    pixels, labels = _read_pool()
    features = (pixels / 16).astype(np.float32)
    order = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT, 0).permutation(len(labels))
    cut = int(len(labels) * _HELD_OUT_FRACTION)
    examples = clients.Examples(features, labels)
    train, held_out = examples.take(order[cut:]), examples.take(order[:cut])
    draw = keys.generator(_SPLIT_SEED, keys.Purpose.PARTITION)
    client_of_row = partition.dirichlet_label_skew(train.labels, NUM_CLIENTS, concentration, draw)
    names = [f"client_{index:02d}" for index in range(NUM_CLIENTS)]
    return clients.ArrayClients(train, client_of_row, names), clients.ArrayClients(
        held_out, np.zeros(cut, np.int32), ["held_out"]
    )


def _read_pool() -> tuple[np.ndarray, np.ndarray]:
    """Reads scikit-learn's own file: `sklearn.datasets.load_digits` would import it all, which takes seconds."""
    path = importlib.metadata.distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    with gzip.open(str(path), "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int32)
