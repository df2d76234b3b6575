"""TFF's executor for a worker, but with less for a round to wait for."""

import concurrent.futures
import contextlib
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.python.common_libs import structure, tracing
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation
from tensorflow_federated.python.core.impl.executors import remote_executor, value_serialization

from optimization import cohorts
from optimization.runtime import serialization

_KEPT_COMPUTATIONS = 8
_MOST_COMPUTATIONS = 6  # A worker keeps the sessions, some megabytes each, of all that an executor ever had.
_disposals = concurrent.futures.ThreadPoolExecutor(1)
# TFF would log how long each of a round's hundreds of values takes to be sent, which takes longer than to send it.
tracing.set_tracing_providers([])


@dataclasses.dataclass
class LastResult:
    """What the last call of a worker gave, if it can be an argument of the next: one for all executors of the worker.

    Attributes:
      at_worker: The result there; None without one.
      found: The same here, once it has come.
    """

    at_worker: remote_executor.RemoteValue | None = None
    found: Any = None


class Executor(remote_executor.RemoteExecutor):
    """Writes arguments itself, sends a computation once, and disposes of values while the program goes on.

    The server's state that a round returns stays at the worker too: a next round from that very state is not sent it.
    """

    def __init__(self, stub: tff.framework.RemoteExecutorStub, last: LastResult):
        super().__init__(stub)
        self._computations: dict[int, tuple[tff.framework.ConcreteComputation, executor_pb2.ValueRef]] = {}
        self._last = last
        self._sent = 0
        self._disposal: weakref.finalize | None = None

    @property
    def is_full(self) -> bool:
        """Whether to take another executor for the next call, so that the worker forgets what this one computed."""
        return self._sent >= _MOST_COMPUTATIONS

    def set_cardinalities(self, cardinalities) -> None:
        """Makes the executor at the worker; see `tff.framework.RemoteExecutor`."""
        super().set_cardinalities(cardinalities)
        # TFF forgets executors of cohort sizes it has not seen for a while, and leaves them at the worker.
        request = executor_pb2.DisposeExecutorRequest(executor=self._executor_id)
        self._disposal = weakref.finalize(self, _in_background, self._stub.dispose_executor, request)
        self._disposal.atexit = False

    def _clear_executor(self) -> None:
        if self._disposal:
            self._disposal.detach()  # Twice would count for another executor of this cohort size.
        self._computations.clear()
        self._last.at_worker = self._last.found = None
        super()._clear_executor()

    async def create_value(self, value: Any, type_spec: tff.Type | None = None) -> remote_executor.RemoteValue:
        """Sends a value; see `tff.framework.RemoteExecutor`."""
        if isinstance(value, tff.framework.ConcreteComputation):
            return self._computation(value, type_spec)
        if not isinstance(type_spec, tff.FederatedType):
            return await super().create_value(tensorflow_computation.transform_args(value), type_spec)
        self._check_has_executor_id()
        if (index := next(self._same_at_worker(value, type_spec), None)) is not None:
            return await self.create_selection(self._last.at_worker, index)
        request = executor_pb2.CreateValueRequest(executor=self._executor_id)
        serialization.write(request.value, value, type_spec)
        response = self._stub.create_value(request)
        return remote_executor.RemoteValue(response.value_ref, type_spec, self)

    async def create_call(self, comp, arg=None) -> remote_executor.RemoteValue:
        """Has the worker compute; see `tff.framework.RemoteExecutor`."""
        cohorts.worker_computes.set()
        result = await super().create_call(comp, arg)
        self._last.found, self._last.at_worker = None, result if _comes_back(comp.type_signature) else None
        return result

    async def _compute(self, value_ref: executor_pb2.ValueRef, type_spec: tff.Type) -> Any:
        found = await super()._compute(value_ref, type_spec)
        if self._last.at_worker is not None and self._last.at_worker.reference is value_ref:
            self._last.found = found
        return found

    def _same_at_worker(self, value: Any, type_spec: tff.FederatedType) -> Iterator[int]:
        """Yields which parts of the last call's result a value is, array for array."""
        last = self._last
        if last.found is None or last.at_worker._executor is not self or not type_spec.all_equal:
            return
        for index, (_, part_type) in enumerate(structure.iter_elements(last.at_worker.type_signature)):
            if part_type == type_spec:
                leaves = (serialization.leaves(one, type_spec.member) for one in (last.found[index], value))
                if all(found is given and _never_changes(found) for found, given in itertools.zip_longest(*leaves)):
                    yield index

    def _computation(self, computation, type_spec: tff.Type) -> remote_executor.RemoteValue:
        """Returns the worker's copy of a computation, which keeps it ready for the next round."""
        self._check_has_executor_id()
        if id(computation) not in self._computations:
            if len(self._computations) == _KEPT_COMPUTATIONS:
                _, reference = self._computations.pop(next(iter(self._computations)))
                self._dispose(reference, self._executor_id)
            request = executor_pb2.CreateValueRequest(executor=self._executor_id)
            request.value.CopyFrom(value_serialization.serialize_value(computation, type_spec)[0])
            self._sent += 1
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


def _comes_back(signature: tff.FunctionType) -> bool:
    """Whether a computation returns, as a part of its result, what it also takes."""
    if not isinstance(signature.parameter, tff.StructType) or not isinstance(signature.result, tff.StructType):
        return False
    taken = [part for _, part in structure.iter_elements(signature.parameter)]
    return any(part in taken for _, part in structure.iter_elements(signature.result))


def _never_changes(leaf: Any) -> bool:
    return not isinstance(leaf, np.ndarray) or not leaf.flags.writeable


def _in_background(call: Callable[[Any], Any], request: Any) -> None:
    with contextlib.suppress(RuntimeError):  # The program is ending, and its worker with it.
        _disposals.submit(call, request)
