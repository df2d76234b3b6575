"""TFF's executor for a worker, but with less for a round to wait for."""

import concurrent.futures
import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.python.common_libs import tracing
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation
from tensorflow_federated.python.core.impl.executors import remote_executor, value_serialization

from optimization import cohorts, serialization

_KEPT_COMPUTATIONS = 8
_disposals = concurrent.futures.ThreadPoolExecutor(1)
# TFF would log how long each of a round's hundreds of values takes to be sent, which takes longer than to send it.
tracing.set_tracing_providers([])


class Executor(remote_executor.RemoteExecutor):
    """Writes arguments itself, sends a computation once, and disposes of values while the program goes on."""

    def __init__(self, stub: tff.framework.RemoteExecutorStub):
        super().__init__(stub)
        self._computations: dict[int, tuple[tff.framework.ConcreteComputation, executor_pb2.ValueRef]] = {}

    def set_cardinalities(self, cardinalities) -> None:
        """Makes the executor at the worker; see `tff.framework.RemoteExecutor`."""
        super().set_cardinalities(cardinalities)
        # TFF forgets executors of cohort sizes it has not seen for a while, and leaves them at the worker.
        request = executor_pb2.DisposeExecutorRequest(executor=self._executor_id)
        weakref.finalize(self, _in_background, self._stub.dispose_executor, request).atexit = False

    def _clear_executor(self) -> None:
        self._computations.clear()
        super()._clear_executor()

    async def create_value(self, value: Any, type_spec: tff.Type | None = None) -> remote_executor.RemoteValue:
        """Sends a value; see `tff.framework.RemoteExecutor`."""
        if isinstance(value, tff.framework.ConcreteComputation):
            return self._computation(value, type_spec)
        if not isinstance(type_spec, tff.FederatedType):
            return await super().create_value(tensorflow_computation.transform_args(value), type_spec)
        self._check_has_executor_id()
        request = executor_pb2.CreateValueRequest(executor=self._executor_id)
        serialization.write(request.value, value, type_spec)
        response = self._stub.create_value(request)
        return remote_executor.RemoteValue(response.value_ref, type_spec, self)

    async def create_call(self, comp, arg=None) -> remote_executor.RemoteValue:
        """Has the worker compute; see `tff.framework.RemoteExecutor`."""
        cohorts.worker_computes.set()
        return await super().create_call(comp, arg)

    def _computation(self, computation, type_spec: tff.Type) -> remote_executor.RemoteValue:
        """Returns the worker's copy of a computation, which keeps it ready for the next round."""
        self._check_has_executor_id()
        if id(computation) not in self._computations:
            if len(self._computations) == _KEPT_COMPUTATIONS:
                _, reference = self._computations.pop(next(iter(self._computations)))
                self._dispose(reference, self._executor_id)
            request = executor_pb2.CreateValueRequest(executor=self._executor_id)
            request.value.CopyFrom(value_serialization.serialize_value(computation, type_spec)[0])
            # Held with the computation, so that no other one gets its id.
            self._computations[id(computation)] = computation, self._stub.create_value(request).value_ref
        return _Kept(self._computations[id(computation)][1], type_spec, self)

    def _dispose(self, value_ref: executor_pb2.ValueRef, value_executor_id: executor_pb2.ExecutorId) -> None:
        if value_executor_id == self._executor_id:
            request = executor_pb2.DisposeRequest(executor=value_executor_id, value_ref=[value_ref])
            _in_background(self._stub.dispose, request)


class _Kept(remote_executor.RemoteValue):
    """A value that stays at the worker when this object is gone."""

    def __init__(self, value_ref: executor_pb2.ValueRef, type_spec: tff.Type, executor: Executor):
        self._value_ref = value_ref
        self._type_signature = type_spec
        self._executor = executor


def _in_background(call: Callable[[Any], Any], request: Any) -> None:
    with contextlib.suppress(RuntimeError):  # The program is ending, and its worker with it.
        _disposals.submit(call, request)
