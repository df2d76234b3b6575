"""Channels from the program to TFF's workers, on this machine and on others.

What crosses the wire, unencrypted and without a password: the computations, the server's state (models, optimizer,
and with it the seeds of privacy noise), the data of the cohort's simulated clients, and the aggregated updates.
Who reaches a worker's port can run code there. Across networks that are not trusted, tunnel it.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import executor

_START_SECONDS = 10
_PING_EVERY_SECONDS = 5
_PING_SECONDS = 30
_MAX_MESSAGE_BYTES = 2 * 1000**3  # As TFF sets it.
_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
]


class WorkerLostError(Exception):
    """A remote worker cannot be reached any more; the message names it."""


def channel(address: str) -> grpc.Channel:
    """Returns a channel to a worker."""
    return grpc.insecure_channel(address, _OPTIONS)


class RemoteWorker(executor.Executor):
    """A worker on another machine. TFF alone would wait for a lost one without limit."""

    def __init__(self, address: str, on_call: Callable[[], None]):
        self.address = address
        self._lost: str | None = None
        self._channel = channel(address)
        super().__init__(tff.framework.RemoteExecutorGrpcStub(self._channel), on_call)

    @property
    def is_ready(self) -> bool:
        """Whether it has answered."""
        return self._stub.is_ready

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        """Runs a compiled computation there.

        Raises:
          WorkerLostError: If the worker cannot be reached any more.
        """
        try:
            if self._lost is None:
                return super().invoke(computation, argument)
        except tff.framework.RetryableError as error:
            self._lose(error.details() if isinstance(error, grpc.Call) else str(error))
        except (grpc.RpcError, ValueError):
            if self._lost is None:  # Else `_watch` has closed the channel.
                raise
        raise WorkerLostError(f"The TFF worker {self.address} was lost ({self._lost}).")

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._channel.close()  # Ends calls that wait for an answer.

    def watch(self) -> None:
        """Sees to it that calls under way end soon when the machine is gone without a word."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        # A connection of its own, so that no model in transit delays the answer.
        options = [*_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self.address, options) as own:
            ping = own.unary_unary("/worker/IsThere")
            while self._lost is None:
                try:
                    ping(b"", timeout=_PING_SECONDS, wait_for_ready=True)
                except grpc.RpcError as error:
                    # The server's word that it has no such method is the sign of life.
                    if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                        self._lose(f"no answer in {_PING_SECONDS} seconds")
                time.sleep(_PING_EVERY_SECONDS)


def connect(addresses: Sequence[str], on_call: Callable[[], None] = lambda: None) -> list[RemoteWorker]:
    """Returns the workers at these addresses, each of which has answered; for `on_call` see `executor.Executor`.

    Raises:
      Failure: If one does not within ten seconds.
    """
    workers = [RemoteWorker(address, on_call) for address in addresses]
    deadline = time.monotonic() + _START_SECONDS
    for worker in workers:
        while not worker.is_ready:
            if time.monotonic() > deadline:
                raise Failure(
                    f"What listens at {worker.address} (--tff_workers) is no TFF worker, or a tunnel to none."
                )
            time.sleep(0.05)
        worker.watch()
    return workers
