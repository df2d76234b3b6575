"""Calls that the executor sends to a worker, recorded by a stub."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from optimization.runtime import executor, private
from optimization.runtime import worker as worker_module


class Notes:
    """A stub that answers, and records the requests."""

    def __init__(self):
        self.requests = collections.defaultdict(list)
        self.result = private.calls.Value()
        self.error = None

    def __getattr__(self, name: str):
        def call(request):
            self.requests[name].append(request)
            reference = private.calls.ValueRef(id=f"{name} {len(self.requests[name])}")
            if name == "get_executor":
                return private.calls.GetExecutorResponse(executor=private.calls.ExecutorId(id=reference.id))
            if name == "compute":
                if error := self.error:
                    self.error = None
                    raise error
                return private.calls.ComputeResponse(value=self.result)
            if name.startswith("dispose"):
                return None
            kind = "".join(part.capitalize() for part in name.split("_"))
            return getattr(private.calls, f"{kind}Response")(value_ref=reference)

        return call


STATE = tff.FederatedType([(np.float32, (2,)), np.int32], tff.SERVER)
CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)
VALUE = (np.zeros(2, np.float32), np.int32(0))


@tff.federated_computation(STATE, CLIENTS)
def next_round(state, clients):
    return state, tff.federated_sum(clients)


@tff.federated_computation(CLIENTS)
def only_a_sum(clients):
    return tff.federated_sum(clients)


@pytest.fixture
def worker() -> Notes:
    return Notes()


@pytest.fixture
def execute(worker):
    """Runs a computation, for which the worker returns `answer`."""
    remote = executor.Executor(worker)

    def execute(computation, *arguments, answer):
        worker.result, _ = tff.framework.serialize_value(answer, computation.type_signature.result)
        argument = tff.structure.Struct.unnamed(*arguments) if len(arguments) > 1 else arguments[0]
        result = remote.invoke(computation, argument)
        remote._disposals.submit(lambda: None).result()  # One thread disposes of all, in order.
        return result

    return execute


def disposed(worker) -> list[str]:
    return [reference.id for request in worker.requests["dispose"] for reference in request.value_ref]


def test_an_executor_with_many_computations_is_replaced(execute, worker, monkeypatch):
    monkeypatch.setattr(executor, "_MOST_COMPUTATIONS", 2)
    for size in (1, 2, 1):
        type_spec = tff.FederatedType((np.int32, (size,)), tff.SERVER)
        identity = tff.federated_computation(lambda value: value, type_spec)
        execute(identity, np.zeros(size, np.int32), answer=np.zeros(size, np.int32))
    assert len(worker.requests["get_executor"]) == 2
    assert [request.executor.id for request in worker.requests["dispose_executor"]] == ["get_executor 1"]


def test_each_cohort_size_has_its_executor_to_which_a_computation_is_sent_once(execute, worker):
    for cohort in ([1, 2], [1, 2, 3], [3, 4]):
        execute(only_a_sum, cohort, answer=np.int32(3))
    assert [request.cardinalities[0].cardinality for request in worker.requests["get_executor"]] == [2, 3]
    sent = [request.value.WhichOneof("value") for request in worker.requests["create_value"]]
    assert sent == [*["computation", "federated"] * 2, "federated"]
    calls = worker.requests["create_call"]
    assert [call.executor.id for call in calls] == ["get_executor 1", "get_executor 2", "get_executor 1"]
    assert calls[0].function_ref.id == calls[2].function_ref.id
    assert calls[0].function_ref.id not in disposed(worker)


def test_a_failed_executor_is_replaced(execute, worker):
    worker.error = RuntimeError("no")
    with pytest.raises(RuntimeError):
        execute(only_a_sum, [1, 2], answer=np.int32(3))
    assert execute(only_a_sum, [1, 2], answer=np.int32(3)) == 3
    assert [request.executor.id for request in worker.requests["dispose_executor"]] == ["get_executor 1"]
    assert worker.requests["create_call"][1].executor.id == "get_executor 2"


def test_the_local_worker_is_retried_while_out_of_reach(worker, monkeypatch):
    monkeypatch.setattr(worker_module, "_RETRY_SECONDS", 0)
    worker.error = tff.framework.RetryableError()
    worker.result, _ = tff.framework.serialize_value(np.int32(3), only_a_sum.type_signature.result)
    assert worker_module._LocalExecutor(worker).invoke(only_a_sum, [1, 2]) == 3
    assert len(worker.requests["get_executor"]) == 2


def test_arguments_are_disposed_of_and_the_result_keeps_its_containers(execute, worker):
    state, total = execute(next_round, VALUE, [1, 2], answer=((np.full(2, 3, np.float32), np.int32(4)), np.int32(5)))
    np.testing.assert_array_equal(state[0], [3, 3])
    assert (state[1], total) == (4, 5)
    parts = [element.value_ref.id for element in worker.requests["create_struct"][0].element]
    assert parts == ["create_value 2", "create_value 3"]
    assert set(disposed(worker)) == {*parts, "create_struct 1", "create_call 1"}
