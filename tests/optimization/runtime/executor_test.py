"""What the executor sends to a worker, and when, against a worker that only notes it."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from optimization.runtime import executor, private, serialization
from optimization.runtime import worker as worker_module


class Notes:
    """A stub that answers, and keeps the requests."""

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
            kind = "".join(part.capitalize() for part in name.split("_"))
            return (
                None if name.startswith("dispose") else getattr(private.calls, f"{kind}Response")(value_ref=reference)
            )

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


def identity(size: int) -> tff.Computation:
    return tff.federated_computation(lambda value: value, tff.FederatedType((np.int32, (size,)), tff.SERVER))


@pytest.fixture
def worker() -> Notes:
    return Notes()


@pytest.fixture
def execute(worker):
    """Has the worker compute; returns what becomes of its answer."""
    remote = executor.Executor(worker)

    def execute(computation, *arguments, answer):
        worker.result = private.calls.Value()
        serialization.write(worker.result, answer, computation.type_signature.result)
        argument = tff.structure.Struct.unnamed(*arguments) if len(arguments) > 1 else arguments[0]
        result = remote.invoke(computation, argument)
        remote._disposals.submit(lambda: None).result()  # One thread disposes of all, in order.
        return result

    return execute


@pytest.fixture
def run_identity(execute):
    return lambda size: execute(identity(size), np.zeros(size, np.int32), answer=np.zeros(size, np.int32))


def run_round(execute, state, cohort_size=2, scale=1):
    answer = (np.full(2, scale, np.float32), np.int32(scale)), np.int32(5)
    return execute(next_round, state, [np.int32(1)] * cohort_size, answer=answer)


def sent(worker) -> list[str]:
    """Types of the sent values."""
    return [request.value.WhichOneof("value") for request in worker.requests["create_value"]]


def disposed(worker) -> list[str]:
    return [reference.id for request in worker.requests["dispose"] for reference in request.value_ref]


def test_a_computation_is_sent_once_and_stays(execute, worker):
    for _ in range(2):
        execute(only_a_sum, [1, 2], answer=np.int32(3))
    assert sent(worker) == ["computation", "federated", "federated"]
    first, again = (request.function_ref.id for request in worker.requests["create_call"])
    assert first == again
    assert first not in disposed(worker)


def test_an_executor_that_had_many_computations_is_replaced(run_identity, worker, monkeypatch):
    monkeypatch.setattr(executor, "_MOST_COMPUTATIONS", 2)
    for size in (1, 2, 1):
        run_identity(size)
    assert len(worker.requests["get_executor"]) == 2
    assert [request.executor.id for request in worker.requests["dispose_executor"]] == ["get_executor 1"]


def test_an_executor_is_for_cohorts_of_one_size(execute, worker):
    for cohort in ([1, 2], [1, 2, 3], [3, 4]):
        execute(only_a_sum, cohort, answer=np.int32(3))
    sizes = [request.cardinalities[0].cardinality for request in worker.requests["get_executor"]]
    assert sizes == [2, 3]
    assert sent(worker).count("computation") == 2
    calls = [request.executor.id for request in worker.requests["create_call"]]
    assert calls == ["get_executor 1", "get_executor 2", "get_executor 1"]


def test_an_executor_that_failed_is_replaced(execute, worker):
    worker.error = RuntimeError("no")
    with pytest.raises(RuntimeError):
        execute(only_a_sum, [1, 2], answer=np.int32(3))
    assert execute(only_a_sum, [1, 2], answer=np.int32(3)) == 3
    assert [request.executor.id for request in worker.requests["dispose_executor"]] == ["get_executor 1"]
    assert worker.requests["create_call"][1].executor.id == "get_executor 2"


def test_the_own_worker_is_tried_again_where_it_is_out_of_reach(worker, monkeypatch):
    monkeypatch.setattr(worker_module, "_RETRY_SECONDS", 0)
    worker.error = tff.framework.RetryableError()
    serialization.write(worker.result, np.int32(3), only_a_sum.type_signature.result)
    assert worker_module._LocalExecutor(worker, lambda: None).invoke(only_a_sum, [1, 2]) == 3
    assert len(worker.requests["get_executor"]) == 2


@pytest.mark.parametrize("container", [tuple, list])
def test_a_state_that_the_worker_returned_is_not_sent_again(execute, worker, container):
    state, total = run_round(execute, VALUE)
    assert total == 5
    assert sent(worker) == ["computation", "federated", "federated"]
    run_round(execute, container(state))  # In another container the arrays are the same.
    (selection,) = worker.requests["create_selection"]
    assert (selection.source_ref.id, selection.index) == ("create_call 1", 0)
    parts = [element.value_ref.id for element in worker.requests["create_struct"][1].element]
    assert parts == ["create_selection 1", "create_value 4"]


def test_another_state_is_sent_even_if_it_is_equal(execute, worker):
    for other in (
        lambda state: (np.ones(2, np.float32), np.int32(1)),
        lambda state: (state[0], np.int32(2)),
        lambda state: (state[0].copy(), state[1]),
    ):
        state, _ = run_round(execute, VALUE)
        run_round(execute, other(state))
    assert not worker.requests["create_selection"]


def test_a_returned_state_cannot_be_changed(execute):
    state, _ = run_round(execute, VALUE)
    with pytest.raises(ValueError, match="read-only"):
        state[0][0] = 3


def test_a_state_of_another_cohort_size_is_sent_and_its_executor_keeps_nothing(execute, worker):
    state, _ = run_round(execute, VALUE)
    run_round(execute, state, cohort_size=3)
    assert not worker.requests["create_selection"]
    assert "create_call 1" in disposed(worker)
