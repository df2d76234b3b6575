"""Process of a TFF worker, which computes for anyone who reaches its port. Nothing here imports TFF.

TFF would start one on first use and never end it. Here it is started as a child: it dies with its parent, even by
SIGKILL; Ctrl-C at the terminal does not reach it; and it holds no stream of the parent open. If the system allows
it, only this program reaches its port: see `isolation`.
"""

import contextlib
import ctypes
import gc
import importlib.util
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Iterator

import portpicker

from data.errors import Failure
from optimization.runtime import isolation

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL("libc.so.6")
# glibc keeps freed memory instead of returning it and faulting it in again: models and messages of the same sizes come
# back every round, and page faults cost a fifth of a round. Few heaps, since updates pass between threads; but with
# fewer than one for each client at work and two for messages, threads wait for each other.
# Names, for the worker's environment, and values, as mallopt takes them here.
_MALLOC = {"MMAP_MAX_": (-4, 0), "TRIM_THRESHOLD_": (-1, 1 << 30), "ARENA_MAX": (-8, len(os.sched_getaffinity(0)) + 2)}

_ISOLATED_PORT = 9000  # In a separate network every port is free.
_local_workers: dict[tuple[int, str], isolation.Server] = {}
_starting = threading.Lock()


def local_worker(max_concurrent_calls: int, isolate: str) -> isolation.Server:
    """The program's own worker, which starts while the program imports TFF.

    A repeated call returns the same worker, or a new one if that has died.

    Args:
      max_concurrent_calls: Number of clients computed in parallel; 0 for the number of available cores.
      isolate: `required` for a separate network, which no other user or host reaches; `auto` for that or, if the system
        refuses it, a warning; `off` for a port that is open on all of the machine's addresses.

    Raises:
      Failure: If isolation is required, and refused.
    """
    with _starting:
        key = max_concurrent_calls, isolate
        if key in _local_workers and _local_workers[key].process.poll() is not None:
            _local_workers.pop(key).end()
        if key not in _local_workers:
            _local_workers[key] = _start(*key)
        return _local_workers[key]


def _start(max_concurrent_calls: int, isolate: str) -> isolation.Server:
    if isolate != "off":
        try:
            return launch(_ISOLATED_PORT, max_concurrent_calls, isolate=True)
        except isolation.RefusedError as error:
            if isolate == "required":
                raise Failure(
                    f"--isolation=required: this system refuses TFF's worker a separate network ({error}). Allow "
                    "user namespaces, or accept with --isolation=auto that anyone who reaches it can run code as you."
                ) from error
            print(
                "Warning: TFF's worker listens on all of this machine's addresses, and anyone who reaches it can run "
                f"code as you: the system refuses it a separate network ({error}). See --isolation.",
                file=sys.stderr,
            )
    return launch(portpicker.pick_unused_port(), max_concurrent_calls)


def end_with_parent() -> None:
    """Has the kernel kill this new process when the thread that started it ends; a `preexec_fn` of `subprocess`."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def launch(port: int, max_concurrent_calls: int = 0, *, isolate: bool = False) -> isolation.Server:
    """Starts a worker, which ends with this process.

    Args:
      port: A free port.
      max_concurrent_calls: Number of clients computed in parallel; 0 for the number of available cores.
      isolate: Whether it gets a separate network; otherwise it listens on all of the machine's addresses, the only
        choice of TFF's binary.

    Raises:
      RefusedError: If the system refuses the network.
    """
    cores = len(os.sched_getaffinity(0))
    calls = max_concurrent_calls or cores
    package = importlib.util.find_spec("tensorflow_federated").origin  # type: ignore[union-attr]
    binary = pathlib.Path(str(package)).parent / "data" / "worker_binary"
    # As many clients at a time as cores: each then gets one core's worth of threads, so that none waits for another.
    # A client's operations run one after the other in its own thread (-1): most are shorter than waking another.
    # TensorFlow's oneDNN kernels are off by default on processors without AVX-512 VNNI, where they take half the time.
    environment = dict(
        {"TF_NUM_INTEROP_THREADS": "-1", "TF_ENABLE_ONEDNN_OPTS": "1"} | os.environ,
        TF_NUM_INTRAOP_THREADS=str(max(1, cores // calls)),
        **{f"MALLOC_{name}": str(value) for name, (_, value) in _MALLOC.items()},
    )
    command = [str(binary), f"--port={port}", f"--max_concurrent_computation_calls={calls}"]
    return isolation.start(command, port, environment, isolate=isolate)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Speeds up TFF's import by a third: its objects are excluded from garbage collection."""
    is_first, was_enabled = "tensorflow_federated" not in sys.modules, gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
    if is_first:
        gc.freeze()


def keep_freed_memory() -> None:
    """Configures this process's heap like that of workers."""
    for parameter, value in _MALLOC.values():
        _libc.mallopt(parameter, value)
