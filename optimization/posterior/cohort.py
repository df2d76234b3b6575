"""A cohort's models as the rows of a matrix, processed in chunks of parameters."""

import concurrent.futures
import os
from collections.abc import Callable

import numpy as np


def finite_clients(models: np.ndarray) -> np.ndarray:
    """Whether each model, float32 [clients, parameters], is finite, bool [clients]."""
    return np.isfinite(models.sum(axis=1, dtype=np.float64))


def each_chunk(function: Callable[[slice], None], num_parameters: int, chunk_size: int) -> None:
    """Calls a function with consecutive slices of the parameters, on all cores."""
    np.empty(1 << 24, np.uint8)  # Freed at once: glibc then keeps smaller blocks instead of mapping them each time.
    chunks = [slice(start, start + chunk_size) for start in range(0, num_parameters, chunk_size)]
    # Threads suffice: NumPy computes without the interpreter's lock.
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for _ in pool.map(function, chunks):
            pass
