"""Least memory of a run, from its model's size, against what the machine has left."""

import contextlib

from data import memory
from data.errors import UsageError

# Below half of what was measured, as docs/faq.md describes.
_BASE_BYTES = 500_000_000
_COPIES = 25


def needed_bytes(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> int:
    """Least bytes of the program and its worker together.

    Args:
      model_bytes: Size of the model.
      cohort_size: Number of clients in a round.
      keeps_models: Whether the server needs each client's model, as in FedKP.
    """
    return _BASE_BYTES + model_bytes * (_COPIES + keeps_models * cohort_size)


def check(model_bytes: int, cohort_size: int, *, keeps_models: bool) -> None:
    """Refuses a run that cannot fit into memory, before anything of the model's size exists; see `needed_bytes`.

    Raises:
      UsageError: If it cannot.
    """
    import psutil

    program, needed = psutil.Process(), needed_bytes(model_bytes, cohort_size, keeps_models=keeps_models)
    children = program.children(recursive=True)
    # Both processes keep what earlier runs have freed. Without a local worker, the program has half of the copies.
    free = memory.available_bytes() + program.memory_info().rss
    for process in children:
        with contextlib.suppress(psutil.Error):  # It has ended.
            free += process.memory_info().rss
    needed = needed if children else needed // 2
    if needed > free:
        cohort = f" and a cohort of {cohort_size:,}, whose models the server keeps" if keeps_models else ""
        raise UsageError(
            f"A round with a model of {model_bytes / 1e6:,.0f} MB{cohort} needs at least {needed / 1e9:,.1f} GB of "
            f"memory, and {free / 1e9:,.1f} GB are left: choose a smaller model (--model, --hidden)"
            + (" or fewer --clients_per_round." if keeps_models else ", or a larger machine.")
        )
