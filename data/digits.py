"""Scikit-learn's 1,797 handwritten digits (UCI optdigits test set, 43 writers unnamed), dealt to clients.

The writers are not recorded, so clients are made: Dirichlet label skew, the same for every run.
"""

import numpy as np

from data import clients, keys, partition

NUM_CLIENTS = 60
CONCENTRATION = 1.0
_HELD_OUT_FRACTION = 0.2
_SPLIT_SEED = 0  # The clients are part of the task, not of a run's chance.


def load() -> tuple[clients.ClientData, clients.ClientData]:
    """Returns 60 clients of 23 or 24 examples, and 359 held-out examples as one client.

    Features are float32 [examples, 64] in [0, 1], ink 1; labels int32 [examples].
    """
    from sklearn import datasets

    pool = datasets.load_digits()
    features = (pool.data / 16).astype(np.float32)
    labels = pool.target.astype(np.int32)
    order = keys.generator(_SPLIT_SEED, keys.Purpose.HELD_OUT).permutation(len(labels))
    cut = int(len(labels) * _HELD_OUT_FRACTION)
    examples = clients.Examples(features, labels)
    train, held_out = examples.take(order[cut:]), examples.take(order[:cut])
    draw = keys.generator(_SPLIT_SEED, keys.Purpose.PARTITION)
    client_of_row = partition.dirichlet_label_skew(train.labels, NUM_CLIENTS, CONCENTRATION, draw)
    names = [f"client_{index:02d}" for index in range(NUM_CLIENTS)]
    return clients.ArrayClients(train, client_of_row, names), clients.ArrayClients(
        held_out, np.zeros(cut, np.int32), ["held_out"]
    )
