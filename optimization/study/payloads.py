"""Payload between the server and the clients, and the memory that a run needs, both computed from shapes, in bytes.

The payload does not include framing, single numbers sent along with a model or an update (weights, counts, sums of
metrics), or the overhead of the protocol of a secure sum.
"""

import contextlib
import math
from collections.abc import Sequence

import numpy as np

from data import clients, memory
from data.errors import UsageError
from optimization import options
from optimization.privacy.mechanisms import Mechanism
from optimization.study import metrics

_NUMBER = 4  # Number of bytes of a float32 or int32.
_LOGGED = 3  # Action, reward and propensity.
# These constants were measured; docs/faq.md has the figures.
_BASE_BYTES = 900_000_000
_COPIES = 85
_COPIES_OF_A_CLIENT = 1.9  # One copy is the client's update.
# A run is refused below this share of the usual memory, with only this number of the compiler's copies of the model.
_LEAST_SHARE, _LEAST_COPIES = 0.6, 25


def of_model(shapes: Sequence[Sequence[int]]) -> int:
    """Number of bytes of float32 arrays with these shapes."""
    return _NUMBER * sum(map(math.prod, shapes))


def of_update(shapes: Sequence[Sequence[int]], aggregation: options.Aggregation) -> int:
    """Number of bytes of a client's update for a model with these shapes.

    With `ddp`, coordinates are padded to a power of two for the rotation, and each has `Mechanism.bits` bits.
    """
    size = sum(map(math.prod, shapes))
    if aggregation.kind != "ddp":
        return _NUMBER * size
    padded = 1 << (size - 1).bit_length()
    return math.ceil(padded * Mechanism.bits / 8)


def of_log(contexts: clients.Features) -> int:
    """Number of bytes of a client's log: contexts, actions, rewards and propensities."""
    arrays = clients.arrays(contexts)
    rows = len(arrays[-1]) - (len(arrays) > 1)  # The last array of bags of words holds the bounds of its rows.
    return sum(array.nbytes for array in arrays) + rows * _LOGGED * _NUMBER


def row(down: int, up: int, sent: int, came: int, measured: int = 0) -> dict[str, int]:
    """Values of the payload columns of `metrics.csv`.

    Args:
      down: Number of bytes that a client receives.
      up: Number of bytes of a client's update.
      sent: Number of clients that receive a model, including those that drop out or are only polled.
      came: Number of clients whose updates arrive.
      measured: Number of values, such as losses in a poll, that all clients together report on the received models.
    """
    return {metrics.BYTES_DOWN: sent * down, metrics.BYTES_UP: came * up + measured * _NUMBER}


def of_selected(down: int, up: int, cohort: np.ndarray, polled: np.ndarray) -> dict[str, int]:
    """Values of the payload columns of a round with a poll. Polled clients in the cohort get the model only once."""
    members = np.unique(cohort)
    return row(down, up, len(np.union1d(polled, members)), len(members), len(polled))


def usual_bytes(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> int:
    """Number of bytes that the program and its worker usually need together, without the task's data.

    Args:
      model_bytes: Size of the model's weights.
      cohort_size: Number of clients in a round.
      keeps_models: Whether the server needs each client's model, as in FedKP.
    """
    return int(_BASE_BYTES + model_bytes * (_COPIES + keeps_models * _COPIES_OF_A_CLIENT * cohort_size))


def needed_bytes(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> int:
    """Minimum number of bytes that the program and its worker need together; arguments as in `usual_bytes`."""
    of_cohort = usual_bytes(model_bytes, cohort_size, keeps_models=keeps_models) - _COPIES * model_bytes
    return int(_LEAST_SHARE * of_cohort + _LEAST_COPIES * model_bytes)


def check_memory(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> None:
    """Refuses a run that does not fit into memory. Call it before anything as large as the model is allocated.

    Raises:
      UsageError: If less memory is available than `needed_bytes`.
    """
    import psutil

    program = psutil.Process()
    children = program.children(recursive=True)
    # Both processes can reuse memory from earlier runs. Without a local worker, the program needs half of the copies.
    free = memory.available_bytes() + program.memory_info().rss
    for process in children:
        with contextlib.suppress(psutil.Error):  # The process has ended.
            free += process.memory_info().rss
    figures = (size(model_bytes, cohort_size, keeps_models=keeps_models) for size in (needed_bytes, usual_bytes))
    needed, usual = (figure if children else figure // 2 for figure in figures)
    if needed > free:
        cohort = f" and a cohort of {cohort_size:,}, whose models the server collects" if keeps_models else ""
        remedy = "or fewer --clients_per_round" if keeps_models else "or a larger machine"
        raise UsageError(
            f"A round with a model of {model_bytes / 1e6:,.0f} MB{cohort} needs at least {needed / 1e9:,.1f} GB of "
            f"memory, and usually {usual / 1e9:,.1f} GB, but only {free / 1e9:,.1f} GB are free: choose a smaller "
            f"model (--model, --hidden), {remedy}."
        )
