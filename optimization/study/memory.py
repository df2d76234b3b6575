"""Memory of a run, from its model's size, against what the machine has left."""

import contextlib

from data import memory
from data.errors import UsageError

# As measured: docs/faq.md has the figures.
_BASE_BYTES = 900_000_000
_COPIES = 85
_COPIES_OF_A_CLIENT = 2.4
# Shares of these below which a run is refused. Fewer copies for the compiler are sometimes enough.
_LEAST_SHARE, _LEAST_COPIES = 0.6, 25


def usual_bytes(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> int:
    """Usual bytes of the program and its worker together, without the task's data.

    Args:
      model_bytes: Size of the model.
      cohort_size: Number of clients in a round.
      keeps_models: Whether the server needs each client's model, as in FedKP.
    """
    return int(_BASE_BYTES + model_bytes * (_COPIES + keeps_models * _COPIES_OF_A_CLIENT * cohort_size))


def needed_bytes(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> int:
    """Least bytes of the program and its worker together; arguments as in `usual_bytes`."""
    of_cohort = usual_bytes(model_bytes, cohort_size, keeps_models=keeps_models) - _COPIES * model_bytes
    return int(_LEAST_SHARE * of_cohort + _LEAST_COPIES * model_bytes)


def check(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> None:
    """Refuses a run that cannot fit into memory, before anything of the model's size exists; see `needed_bytes`.

    Raises:
      UsageError: If it cannot.
    """
    import psutil

    program = psutil.Process()
    children = program.children(recursive=True)
    # Both processes keep what earlier runs have freed. Without a local worker, the program has half of the copies.
    free = memory.available_bytes() + program.memory_info().rss
    for process in children:
        with contextlib.suppress(psutil.Error):  # It has ended.
            free += process.memory_info().rss
    figures = (size(model_bytes, cohort_size, keeps_models=keeps_models) for size in (needed_bytes, usual_bytes))
    needed, usual = (figure if children else figure // 2 for figure in figures)
    if needed > free:
        cohort = f" and a cohort of {cohort_size:,}, whose models the server keeps" if keeps_models else ""
        raise UsageError(
            f"A round with a model of {model_bytes / 1e6:,.0f} MB{cohort} needs at least {needed / 1e9:,.1f} GB of "
            f"memory, usually {usual / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are left: choose a smaller model "
            "(--model, --hidden)" + (" or fewer --clients_per_round." if keeps_models else ", or a larger machine.")
        )
