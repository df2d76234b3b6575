"""Where TFF's computations run: a worker process of the program's own, or workers on other machines.

The program starts its own worker instead of leaving it to TFF, see `worker_process`. Where a worker dies, TFF would
wait without limit: here the call fails, or other workers take over.
"""

import atexit
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import executor, private, rounds, worker_process

_START_SECONDS = 60
_RETRY_SECONDS = 1
_Workers = tuple[rounds.CohortPartsContext, worker_process.Own | None]
_known: dict[tuple, _Workers] = {}


def start(
    max_concurrent_calls: int = 0, addresses: tuple[str, ...] = (), isolate: str = "auto", runtime: str = "fast"
) -> worker_process.Own | None:
    """Makes a worker of its own, or workers elsewhere, run every TFF computation of this process.

    Asked for the same once more, it takes the workers that it has already, unless they have died.

    Args:
      max_concurrent_calls: Clients computed at the same time; 0 for as many as the process may use cores.
      addresses: `HOST:PORT` of workers to use instead.
      isolate: Whether its own is kept from others, see `worker_process.own`.
      runtime: What has its own worker compute: `fast` for `executor.Executor`, `tff` for TFF itself.

    Returns:
      Its own worker, which ends with this process; None with workers elsewhere. A computation whose worker has died,
      or the last of those elsewhere, raises `Failure`.

    Raises:
      Failure: If one does not answer in time, or cannot be isolated as required.
    """
    private.allow_deep_messages()
    context, own = _elsewhere(addresses) if addresses else _own(max_concurrent_calls, isolate, runtime)
    tff.framework.set_default_context(context)
    return own


def _elsewhere(addresses: tuple[str, ...]) -> _Workers:
    if addresses in _known and _known[addresses][0].has_workers:
        return _known[addresses]
    worker_process.keep_freed_memory()
    # Where nobody answers, the program ends, and TFF's own context would add a complaint of its own.
    tff.framework.set_default_context(rounds.CohortPartsContext([]))
    computing = threading.Event()
    workers = executor.connect(addresses, computing.set)
    _known[addresses] = rounds.CohortPartsContext(workers, computing=computing), None
    return _known[addresses]


def _own(max_concurrent_calls: int, isolate: str, runtime: str) -> _Workers:
    own = worker_process.own(max_concurrent_calls, isolate)
    key = max_concurrent_calls, isolate, runtime
    if key in _known and _known[key][1] is own:
        return _known[key]
    worker_process.keep_freed_memory()
    atexit.register(own.end)
    os.register_at_fork(after_in_child=lambda: atexit.unregister(own.end))  # The parent's it stays.
    stub: Any = _OwnStub(own)
    deadline = time.monotonic() + _START_SECONDS
    while not stub.is_ready:
        if own.process.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"TFF's worker did not start (exit status {own.process.poll()}).")
        time.sleep(0.05)
    concurrent_calls = max_concurrent_calls or len(os.sched_getaffinity(0))
    computing = threading.Event()
    executes = executor.tffs_own(stub) if runtime == "tff" else _OwnWorker(stub, computing.set)
    _known[key] = rounds.CohortPartsContext([executes], concurrent_calls, computing), own
    return _known[key]


class _OwnStub:
    """The calls of a worker's own process: once that has died, they raise `Failure`, which nobody tries again."""

    def __init__(self, own: worker_process.Own):
        self._own = own
        self._stub = tff.framework.RemoteExecutorGrpcStub(executor.channel(own.address))

    @property
    def is_ready(self) -> bool:
        """Whether it has answered."""
        return self._stub.is_ready

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        call = getattr(self._stub, name)

        def answered(request: Any) -> Any:
            try:
                return call(request)
            except (tff.framework.RetryableError, grpc.RpcError) as error:
                self._check_alive(error)
                raise

        return answered

    def _check_alive(self, error: Exception) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):  # Its end is known a little after its silence.
            status = self._own.process.wait(_RETRY_SECONDS)
            raise Failure(
                f"TFF's worker died (exit status {status}), perhaps for want of memory. Checkpoints are kept: the same "
                "command continues after the last."
            ) from error


class _OwnWorker(executor.Executor):
    """Tries again while the worker is out of reach, as TFF does."""

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        while True:
            try:
                return super().invoke(computation, argument)
            except tff.framework.RetryableError:
                continue  # The stub has waited.
