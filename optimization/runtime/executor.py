"""Runs computations on a worker through the same remote interface as TFF's executor, but sends less and waits less.

TFF's executor sends every computation again in each round, and waits until old values are deleted. `Executor` sends
each computation only once, and deletes values in the background.

A worker on another machine receives the following without encryption or a password: the computations, the server state
(models, optimizer, seeds of the privacy noise), the data of the cohort's simulated clients, and aggregated updates.
Anyone who can connect to a worker's port can run code there. Use a tunnel across untrusted networks.
"""

import collections
import concurrent.futures
import re
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import grpc
import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import private

_MOST_EXECUTORS = 10
_FAILED = "Failed to run computation: "  # How the worker's message about an error in TensorFlow begins.
_MOST_COMPUTATIONS = 6  # For each computation of an executor, a worker keeps a session of a few megabytes.


class _AtWorker(NamedTuple):
    """An executor at the worker, for cohorts of one size.

    Attributes:
      name: The worker's ID of the executor.
      computations: For each Python `id`, the computation and its reference at the worker. Holding the computation
        ensures that its `id` is not reused.
    """

    name: private.calls.ExecutorId
    computations: dict[int, tuple[tff.framework.ConcreteComputation, private.calls.ValueRef]]


class Executor:
    """Runs compiled computations on a worker."""

    def __init__(self, stub: tff.framework.RemoteExecutorStub):
        """Stores the stub for the worker's remote calls, and sends nothing yet."""
        self._stub = stub
        self._executors: collections.OrderedDict[int, _AtWorker] = collections.OrderedDict()
        self._disposals = concurrent.futures.ThreadPoolExecutor(1)

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        """Returns the result of a computation for an argument.

        Raises:
          Failure: If the computation fails, with the first line of TensorFlow's message.
          TypeError, ValueError: If the type of the argument is wrong.
          tff.framework.RetryableError: If the worker cannot be reached.
        """
        parameter = computation.type_signature.parameter
        cohort_size = 0 if parameter is None else num_clients(argument, parameter)
        try:
            return self._call(self._executor(cohort_size), computation, argument)
        except Exception as error:
            if cohort_size in self._executors:
                self._forget(cohort_size)
            details = error.details() if isinstance(error, grpc.Call) else None
            if found := re.match(f"{_FAILED}(.*?)( while evaluating local|$)", details or "", re.MULTILINE):
                raise Failure(f"TFF's worker reports an error: {found[1]}.") from error
            raise

    def _executor(self, cohort_size: int) -> _AtWorker:
        """Returns an executor at the worker for this cohort size, with room for one more computation."""
        executor = self._executors.get(cohort_size)
        if executor and len(executor.computations) == _MOST_COMPUTATIONS:
            self._forget(cohort_size).exception()  # Otherwise the worker would return the same executor again.
        if cohort_size not in self._executors:
            if len(self._executors) == _MOST_EXECUTORS:
                self._forget(next(iter(self._executors)))
            request = private.calls.GetExecutorRequest()
            request.cardinalities.add(cardinality=cohort_size).placement.uri = tff.CLIENTS.uri
            self._executors[cohort_size] = _AtWorker(self._stub.get_executor(request).executor, {})
        self._executors.move_to_end(cohort_size)
        return self._executors[cohort_size]

    def _forget(self, cohort_size: int) -> concurrent.futures.Future:
        """Starts to delete an executor and its values at the worker; the returned future waits for the deletion."""
        executor = self._executors.pop(cohort_size)
        request = private.calls.DisposeExecutorRequest(executor=executor.name)
        return self._disposals.submit(self._stub.dispose_executor, request)

    def _call(self, executor: _AtWorker, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        signature = computation.type_signature
        sent: list[private.calls.ValueRef] = []
        function = self._sent_once(executor, computation)
        request = private.calls.CreateCallRequest(executor=executor.name, function_ref=function)
        if signature.parameter is not None:
            request.argument_ref.CopyFrom(self._send(executor, argument, signature.parameter, sent))
        reference = self._stub.create_call(request).value_ref
        answer = self._stub.compute(private.calls.ComputeRequest(executor=executor.name, value_ref=reference))
        values = private.calls.DisposeRequest(executor=executor.name, value_ref=[*sent, reference])
        self._disposals.submit(self._stub.dispose, values)
        result, _ = tff.framework.deserialize_value(answer.value, signature.result)
        return tff.types.type_to_py_container(result, signature.result)

    def _sent_once(self, executor: _AtWorker, computation: tff.framework.ConcreteComputation) -> private.calls.ValueRef:
        """Returns a reference to the worker's copy of a computation, which is kept for the next round."""
        if id(computation) not in executor.computations:
            message, _ = tff.framework.serialize_value(computation, computation.type_signature)
            request = private.calls.CreateValueRequest(executor=executor.name, value=message)
            executor.computations[id(computation)] = computation, self._stub.create_value(request).value_ref
        return executor.computations[id(computation)][1]

    def _send(self, executor: _AtWorker, value: Any, type_spec: tff.Type, sent: list) -> private.calls.ValueRef:
        """Sends a value, or the parts of a struct one by one, and adds the worker's references to `sent`."""
        if isinstance(value, tff.structure.Struct) and isinstance(type_spec, tff.StructType):
            request = private.calls.CreateStructRequest(executor=executor.name)
            for name, part, part_type in parts(value, type_spec):
                request.element.add(name=name, value_ref=self._send(executor, part, part_type, sent))
            reference = self._stub.create_struct(request).value_ref
        else:
            message, _ = tff.framework.serialize_value(tff.tensorflow.transform_args(value), type_spec)
            request = private.calls.CreateValueRequest(executor=executor.name, value=message)
            reference = self._stub.create_value(request).value_ref
        sent.append(reference)
        return reference


def num_clients(value: Any, type_spec: tff.Type) -> int:
    """Number of clients in an argument; 0 if it has no values at clients."""
    if isinstance(type_spec, tff.StructType):
        return max((num_clients(part, part_type) for _, part, part_type in parts(value, type_spec)), default=0)
    return len(value) if isinstance(type_spec, tff.FederatedType) and not type_spec.all_equal else 0


def parts(value: Any, type_spec: tff.StructType) -> Iterator[tuple[str | None, Any, tff.Type]]:
    """Yields the name, value and type of each part of a structure.

    Raises:
      ValueError: If the parts of the structure do not match its type.
    """
    names = tff.structure.name_list_with_nones(type_spec)
    values = value if isinstance(value, tuple) else tff.structure.from_container(value)
    return zip(names, values, type_spec, strict=True)


_START_SECONDS = 10
_PING_EVERY_SECONDS = 5
_PING_SECONDS = 30
_MAX_MESSAGE_BYTES = 2 * 1000**3  # The same as in TFF.
_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
]


class WorkerLostError(Exception):
    """A remote worker cannot be reached; the message names it."""


def channel(address: str) -> grpc.Channel:
    """Opens a channel to a worker."""
    return grpc.insecure_channel(address, _OPTIONS)


class RemoteWorker(Executor):
    """A worker on another machine. If it is lost, calls fail, whereas TFF would wait forever.

    Attributes:
      address: Address of the worker, `HOST:PORT`.
    """

    def __init__(self, address: str):
        self.address = address
        self._lost: str | None = None
        self._channel = channel(address)
        super().__init__(tff.framework.RemoteExecutorGrpcStub(self._channel))

    @property
    def is_ready(self) -> bool:
        """Whether the worker has answered."""
        return self._stub.is_ready

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any:
        """Returns the result of a computation for an argument.

        Raises:
          Failure, TypeError, ValueError: See `Executor.invoke`.
          WorkerLostError: If the worker cannot be reached.
        """
        try:
            if self._lost is None:
                return super().invoke(computation, argument)
        except tff.framework.RetryableError as error:
            self._lose(error.details() if isinstance(error, grpc.Call) else str(error))
        except (grpc.RpcError, ValueError):
            if self._lost is None:  # If it is set, `watch` has closed the channel.
                raise
        raise WorkerLostError(f"The TFF worker {self.address} was lost ({self._lost}).")

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._channel.close()  # Cancels calls that are waiting for an answer.

    def watch(self) -> None:
        """Waits until the worker's machine becomes unreachable, and then cancels all running calls."""
        # Use a separate connection, so that a model in transit cannot delay the answer.
        options = [*_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self.address, options) as watch_channel:
            ping = watch_channel.unary_unary("/worker/IsThere")
            while self._lost is None:
                try:
                    ping(b"", timeout=_PING_SECONDS, wait_for_ready=True)
                except grpc.RpcError as error:
                    # If the server answers that it does not have this method, it is alive.
                    if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                        self._lose(f"no answer in {_PING_SECONDS} seconds")
                time.sleep(_PING_EVERY_SECONDS)


def connect(addresses: Sequence[str]) -> list[RemoteWorker]:
    """Connects to the workers at these addresses, and waits until all have answered.

    Raises:
      Failure: If a worker does not answer within ten seconds.
    """
    workers = [RemoteWorker(address) for address in addresses]
    deadline = time.monotonic() + _START_SECONDS
    for worker in workers:
        while not worker.is_ready:
            if time.monotonic() > deadline:
                raise Failure(
                    f"No TFF worker answered at {worker.address} (--tff_workers): check it, and any tunnel to it."
                )
            time.sleep(0.05)
        threading.Thread(target=worker.watch, daemon=True).start()
    return workers
