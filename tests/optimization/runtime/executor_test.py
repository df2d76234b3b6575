"""What the executor sends to a worker, and when, against a worker that only notes it."""

import asyncio
import collections
import gc

import numpy as np
import pytest
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2

from optimization import cohorts
from optimization.runtime import connection, executor, serialization


class Notes:
    """A stub that answers, and keeps the requests."""

    def __init__(self):
        self.requests = collections.defaultdict(list)
        self.result = executor_pb2.Value()

    def __getattr__(self, name: str):
        def call(request):
            self.requests[name].append(request)
            reference = executor_pb2.ValueRef(id=f"{name} {len(self.requests[name])}")
            if name == "get_executor":
                return executor_pb2.GetExecutorResponse(executor=executor_pb2.ExecutorId(id=reference.id))
            if name.startswith("dispose"):
                return None
            if name == "compute":
                return executor_pb2.ComputeResponse(value=self.result)
            kind = "".join(part.capitalize() for part in name.split("_"))
            return getattr(executor_pb2, f"{kind}Response")(value_ref=reference)

        return call

    def disposed(self) -> list[str]:
        """Returns what has been disposed of by now."""
        executor._disposals.submit(lambda: None).result()  # One thread does it all, in order.
        return [reference.id for request in self.requests["dispose"] for reference in request.value_ref]


@pytest.fixture
def worker() -> Notes:
    return Notes()


@pytest.fixture
def last() -> executor.LastResult:
    return executor.LastResult()


@pytest.fixture
def own(worker, last):
    remote = executor.Executor(worker, last)
    remote.set_cardinalities({tff.CLIENTS: 2})
    return remote


def identity(size: int) -> tff.Computation:
    return tff.federated_computation(lambda value: value, tff.FederatedType((np.int32, (size,)), tff.SERVER))


def send(own, value, type_spec=None):
    return asyncio.run(own.create_value(value, type_spec or value.type_signature))


def test_a_computation_is_sent_once_and_stays(own, worker):
    computations = [identity(1), identity(2)]
    references = [send(own, computation).reference.id for computation in [*computations, *computations]]
    assert references == ["create_value 1", "create_value 2"] * 2
    assert worker.disposed() == []


def test_of_many_computations_the_oldest_goes(own, worker):
    computations = [identity(size) for size in range(1, 10)]
    for computation in computations:
        send(own, computation)
    assert worker.disposed() == ["create_value 1"]
    send(own, computations[0])
    assert len(worker.requests["create_value"]) == 10


def test_an_executor_that_had_many_computations_is_replaced(worker, monkeypatch):
    monkeypatch.setattr(executor, "_MOST_COMPUTATIONS", 2)
    executors = connection.context(worker).executor_factory
    for size in (1, 2, 1):
        send(executors.create_executor({tff.CLIENTS: 2}), identity(size))
    assert len(worker.requests["get_executor"]) == 2
    assert [request.executor.id for request in worker.requests["dispose_executor"]] == ["get_executor 1"]


def test_another_executor_is_sent_its_computations_anew(own, worker):
    computation = identity(1)
    send(own, computation)
    own.set_cardinalities({tff.CLIENTS: 3})
    send(own, computation)
    assert [request.executor.id for request in worker.requests["create_value"]] == ["get_executor 1", "get_executor 2"]


def test_a_value_is_disposed_of_when_it_is_gone(own, worker):
    value = send(own, np.zeros(3, np.int32), tff.FederatedType((np.int32, (3,)), tff.SERVER))
    assert worker.disposed() == []
    del value
    assert worker.disposed() == ["create_value 1"]


def test_an_executor_that_is_forgotten_is_disposed_of(worker, last):
    remote = executor.Executor(worker, last)
    remote.set_cardinalities({tff.CLIENTS: 2})
    send(remote, identity(1))
    del remote
    gc.collect()
    worker.disposed()
    assert [request.executor.id for request in worker.requests["dispose_executor"]] == ["get_executor 1"]


def test_the_next_cohort_is_prepared_once_the_worker_computes(own):
    prepared = []
    ahead = cohorts.PreparedAhead(prepared.append, total_rounds=9)
    ahead(1)
    assert prepared == [1]
    function = send(own, identity(1))
    asyncio.run(own.create_call(function))
    ahead._pool.submit(lambda: None).result()
    assert prepared == [1, 2]


STATE = tff.FederatedType([(np.float32, (2,)), np.int32], tff.SERVER)
CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)


@tff.federated_computation(STATE, CLIENTS)
def next_round(state, clients):
    return state, tff.federated_sum(clients)


@tff.federated_computation(CLIENTS)
def only_a_sum(clients):
    return tff.federated_sum(clients)


def played(own, worker, computation, result):
    """Returns what the worker's answer to a call of this computation becomes."""
    worker.result = executor_pb2.Value()
    serialization.write(worker.result, result, computation.type_signature.result)
    call = asyncio.run(own.create_call(send(own, computation)))
    return asyncio.run(call.compute())


def state_of(scale: float):
    return np.full(2, scale, np.float32), np.int32(scale)


def test_a_state_that_the_worker_returned_is_not_sent_again(own, worker):
    state, _ = played(own, worker, next_round, (state_of(1), np.int32(5)))
    value = send(own, state, STATE)
    assert value.reference.id == "create_selection 1"
    assert worker.requests["create_selection"][0].source_ref.id == "create_call 1"
    assert len(worker.requests["create_value"]) == 1  # The computation.
    # In another container the arrays are the same.
    assert send(own, (state[0], state[1]), STATE).reference.id == "create_selection 2"


def test_another_state_is_sent_even_if_it_is_equal(own, worker):
    state, _ = played(own, worker, next_round, (state_of(1), np.int32(5)))
    for other in [state_of(1), (state[0], np.int32(2)), (state[0].copy(), state[1])]:
        assert send(own, other, STATE).reference.id.startswith("create_value")
    assert not worker.requests["create_selection"]


def test_a_state_of_the_call_before_the_last_is_sent(own, worker):
    earlier, _ = played(own, worker, next_round, (state_of(1), np.int32(5)))
    later, _ = played(own, worker, next_round, (state_of(2), np.int32(5)))
    assert send(own, earlier, STATE).reference.id.startswith("create_value")
    assert send(own, later, STATE).reference.id == "create_selection 1"


def test_a_returned_state_cannot_be_changed(own, worker):
    state, _ = played(own, worker, next_round, (state_of(1), np.int32(5)))
    with pytest.raises(ValueError, match="read-only"):
        state[0][0] = 3


def test_a_result_stays_until_the_next_call_if_it_can_come_back(own, worker):
    played(own, worker, next_round, (state_of(1), np.int32(5)))
    assert worker.disposed() == []
    played(own, worker, only_a_sum, np.int32(5))
    assert worker.disposed() == ["create_call 1", "create_call 2"]


def test_a_state_of_another_cohort_size_is_sent_and_its_executor_keeps_nothing(own, worker, last):
    state, _ = played(own, worker, next_round, (state_of(1), np.int32(5)))
    other = executor.Executor(worker, last)
    other.set_cardinalities({tff.CLIENTS: 3})
    assert send(other, state, STATE).reference.id.startswith("create_value")
    played(other, worker, next_round, (state_of(2), np.int32(5)))
    assert "create_call 1" in worker.disposed()
