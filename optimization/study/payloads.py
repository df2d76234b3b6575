"""Payload between the server and the clients, in bytes, computed from shapes.

Left out: framing, single numbers beside a model or an update (weights, counts, sums of metrics), and what the protocol
of a secure sum adds.
"""

import math
from collections.abc import Sequence

import numpy as np

from data import clients
from optimization import options
from optimization.privacy.mechanisms import Mechanism
from optimization.study import metrics

_NUMBER = 4  # Bytes of a float32 or int32.
_LOGGED = 3  # Action, reward and propensity.


def of_model(shapes: Sequence[Sequence[int]]) -> int:
    """Bytes of float32 arrays of these shapes."""
    return _NUMBER * sum(map(math.prod, shapes))


def of_update(shapes: Sequence[Sequence[int]], aggregation: options.Aggregation) -> int:
    """Bytes of a client's update of a model with these shapes.

    With `ddp`, coordinates are padded to a power of two for the rotation and have `Mechanism.bits` each.
    """
    size = sum(map(math.prod, shapes))
    if aggregation.kind != "ddp":
        return aggregation.compression.num_bytes(size)
    padded = 1 << (size - 1).bit_length()
    return math.ceil(padded * Mechanism.bits / 8)


def of_log(contexts: clients.Features) -> int:
    """Bytes of a client's log: contexts, actions, rewards and propensities."""
    arrays = clients.arrays(contexts)
    rows = len(arrays[-1]) - (len(arrays) > 1)  # Bags of words end in the bounds of their posts.
    return sum(array.nbytes for array in arrays) + rows * _LOGGED * _NUMBER


def row(down: int, up: int, sent: int, came: int, measured: int = 0) -> dict[str, int]:
    """Columns of `metrics.csv`.

    Args:
      down: Bytes that a client receives.
      up: Bytes of its update.
      sent: How many receive them: also clients that drop out, or are only polled.
      came: Clients whose updates arrive.
      measured: Numbers that clients report of what they received, such as losses in a poll.
    """
    return {metrics.BYTES_DOWN: sent * down, metrics.BYTES_UP: came * up + measured * _NUMBER}


def of_selected(down: int, up: int, cohort: np.ndarray, polled: np.ndarray) -> dict[str, int]:
    """Columns of a round with a poll of int [polled] clients, who keep the models for their training."""
    members = np.unique(cohort)
    return row(down, up, len(np.union1d(polled, members)), len(members), len(polled))
