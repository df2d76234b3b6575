"""Workers for TFF computations: a local worker process, or workers on other machines.

The program starts the local worker itself; see `worker_process`. If a worker dies, either its call fails or other
workers take over. TFF by itself would wait forever.
"""

import atexit
import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import grpc
import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import executor, private, rounds, worker_process

_START_SECONDS = 60
_RETRY_SECONDS = 1
_Workers = tuple[rounds.CohortPartsContext, worker_process.Server | None]
_known: dict[tuple, _Workers] = {}


def start(
    max_concurrent_calls: int = 0, addresses: tuple[str, ...] = (), isolate: str = "auto"
) -> worker_process.Server | None:
    """Makes every TFF computation of this process run on a local worker or on remote workers.

    A repeated call reuses the workers, unless they have died.

    Args:
      max_concurrent_calls: Number of clients that a local worker computes in parallel; 0 for the number of available
        cores.
      addresses: `HOST:PORT` of each remote worker; empty to start a local worker.
      isolate: Isolation of the local worker; see `worker_process.local_worker`.

    Returns:
      The local worker, which ends with this process; None with remote workers. A computation raises `Failure` if the
      local worker, or the last remote one, has died.

    Raises:
      Failure: If a worker does not answer in time, or cannot be isolated as required.
    """
    private.allow_deep_messages()
    context, local = _remote(addresses) if addresses else _local(max_concurrent_calls, isolate)
    tff.framework.set_default_context(context)
    return local


def _remote(addresses: tuple[str, ...]) -> _Workers:
    if addresses in _known and _known[addresses][0].workers:
        return _known[addresses]
    worker_process.keep_freed_memory()
    # If no worker answers, the program exits, and TFF's default context would then print another error.
    tff.framework.set_default_context(rounds.CohortPartsContext([]))
    _known[addresses] = rounds.CohortPartsContext(executor.connect(addresses)), None
    return _known[addresses]


def _local(max_concurrent_calls: int, isolate: str) -> _Workers:
    local = worker_process.local_worker(max_concurrent_calls, isolate)
    key = max_concurrent_calls, isolate
    if key in _known and _known[key][1] is local:
        return _known[key]
    worker_process.keep_freed_memory()
    atexit.register(local.end)
    os.register_at_fork(after_in_child=lambda: atexit.unregister(local.end))  # Only the parent process ends the worker.
    stub: Any = _LocalStub(local)
    deadline = time.monotonic() + _START_SECONDS
    while not stub.is_ready:
        if local.process.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"TFF's worker did not start (exit status {local.process.poll()}).")
        time.sleep(0.05)
    concurrent_calls = max_concurrent_calls or len(os.sched_getaffinity(0))
    _known[key] = rounds.CohortPartsContext([_LocalExecutor(stub)], concurrent_calls), local
    return _known[key]


class _LocalStub:
    """Calls to the local worker. Once it has died, calls raise `Failure`, which `_LocalExecutor` does not retry."""

    def __init__(self, local_worker: worker_process.Server):
        self._local_worker = local_worker
        self._stub = tff.framework.RemoteExecutorGrpcStub(executor.channel(local_worker.address))

    @property
    def is_ready(self) -> bool:
        """Whether the worker has answered."""
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
        with contextlib.suppress(subprocess.TimeoutExpired):  # The worker exits shortly after its last answer.
            status = self._local_worker.process.wait(_RETRY_SECONDS)
            raise Failure(
                f"TFF's worker died (exit status {status}), perhaps for lack of memory. Checkpoints are kept: run "
                "the same command again to continue from the last one."
            ) from error


class _LocalExecutor(executor.Executor):
    """Executor that retries while the worker cannot be reached, as TFF does."""

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        while True:
            try:
                return super().invoke(computation, argument)
            except tff.framework.RetryableError:
                continue  # The stub has already waited.
