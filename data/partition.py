"""Splits of a pooled data set over clients."""

import numpy as np


def dirichlet_label_skew(
    labels: np.ndarray, num_clients: int, concentration: float, draw: np.random.Generator
) -> np.ndarray:
    """Deals examples to clients whose label mixes are drawn from a symmetric Dirichlet distribution.

    Every client receives the same number of examples (one more for the first ones, where they do not divide),
    without replacement. When a label runs out, the remaining ones of a client's mix are drawn in proportion
    (Hsu, Qi and Brown 2019, section 3).

    Args:
      labels: int [examples].
      num_clients: Clients to deal to.
      concentration: Dirichlet parameter of every label; small values give clients of few labels.
      draw: Random generator.

    Returns:
      int32 [examples], the client of each example.
    """
    classes, counts = np.unique(labels, return_counts=True)
    stacks = [draw.permutation(np.flatnonzero(labels == label)).tolist() for label in classes]
    left = counts.astype(float)
    client_of_row = np.empty(len(labels), np.int32)
    sizes = np.full(num_clients, len(labels) // num_clients)
    sizes[: len(labels) % num_clients] += 1
    for client, size in enumerate(sizes):
        mix = draw.dirichlet(np.full(len(classes), concentration))
        for _ in range(size):
            weights = np.where(left > 0, mix, 0.0)
            if weights.sum() <= 0:
                weights = left
            label = draw.choice(len(classes), p=weights / weights.sum())
            client_of_row[stacks[label].pop()] = client
            left[label] -= 1
    return client_of_row
