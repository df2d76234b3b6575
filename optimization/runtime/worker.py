"""Where TFF's computations run: a worker process of the program's own, or workers on other machines.

The program starts its own worker instead of leaving it to TFF, see `worker_process`. Where a worker dies, TFF would
wait without limit: here the program ends, or other workers take over.
"""

import atexit
import functools
import os
import sys
import threading
import time
from typing import Any

import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import cohort_parts, connection, executor, private, worker_process

_START_SECONDS = 60
_RETRY_SECONDS = 1
_ending = threading.Event()


def start(
    max_concurrent_calls: int = 0, addresses: tuple[str, ...] = (), isolate: str = "auto", runtime: str = "fast"
) -> worker_process.Own | None:
    """Makes a worker of its own, or workers elsewhere, run every TFF computation of this process.

    Asked for the same once more, it takes the workers that it has already.

    Args:
      max_concurrent_calls: Clients computed at the same time; 0 for as many as the process may use cores.
      addresses: `HOST:PORT` of workers to use instead.
      isolate: Whether its own is kept from others, see `worker_process.own`.
      runtime: What has its own worker compute: `fast` for `executor.Executor`, `tff` for TFF itself.

    Returns:
      Its own worker, which ends with this process; None with workers elsewhere.

    Raises:
      Failure: If one does not answer in time, or cannot be isolated as required.
    """
    private.allow_deep_messages()
    context, own = _elsewhere(addresses) if addresses else _own(max_concurrent_calls, isolate, runtime)
    tff.framework.set_default_context(context)
    return own


@functools.cache
def _elsewhere(addresses: tuple[str, ...]) -> tuple[tff.framework.SyncContext, None]:
    worker_process.keep_freed_memory()
    # Where nobody answers, the program ends, and TFF's own context would add a complaint of its own.
    tff.framework.set_default_context(cohort_parts.CohortPartsContext([]))
    computing = threading.Event()
    return cohort_parts.CohortPartsContext(connection.connect(addresses, computing.set), computing=computing), None


@functools.cache
def _own(max_concurrent_calls: int, isolate: str, runtime: str) -> tuple[tff.framework.SyncContext, worker_process.Own]:
    worker_process.keep_freed_memory()
    own = worker_process.own(max_concurrent_calls, isolate)
    atexit.register(_end, own)
    stub = tff.framework.RemoteExecutorGrpcStub(connection.channel(own.address))
    deadline = time.monotonic() + _START_SECONDS
    while not stub.is_ready:
        if own.process.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"TFF's worker did not start (exit status {own.process.poll()}).")
        time.sleep(0.05)
    threading.Thread(target=_watch, args=(own,), daemon=True).start()
    concurrent_calls = max_concurrent_calls or len(os.sched_getaffinity(0))
    computing = threading.Event()
    executes = executor.tffs_own(stub) if runtime == "tff" else _OwnWorker(stub, computing.set)
    return cohort_parts.CohortPartsContext([executes], concurrent_calls, computing), own


class _OwnWorker(executor.Executor):
    """Tries again while the worker is out of reach, as TFF does; `_watch` ends the program if it is gone."""

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        while True:
            try:
                return super().invoke(computation, argument)
            except tff.framework.RetryableError:
                time.sleep(_RETRY_SECONDS)


def _watch(own: worker_process.Own) -> None:
    """Ends the program when its worker dies before it."""
    status = own.process.wait()
    if status and not _ending.is_set():
        own.end()
        print(
            f"TFF's worker died (exit status {status}), perhaps for want of memory. Checkpoints are kept: the same "
            "command continues after the last.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


def _end(own: worker_process.Own) -> None:
    _ending.set()
    own.end()
