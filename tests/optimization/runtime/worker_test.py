"""Rounds on one, two and four workers, and on workers that die."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import numpy as np
import portpicker
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import experiment, flags, run_federated
from bandits import options as bandit_options
from data.errors import Failure
from optimization.posterior import algorithms
from optimization.runtime import executor, rounds, worker, worker_process
from optimization.study import aggregation_flags, frame
from tests.optimization import aggregations, linear_rounds

pytestmark = pytest.mark.slow

SHAPES = ((200, 2), (96,))
DRAW = np.random.default_rng(5)
COHORT = [tuple(DRAW.normal(0, 0.02 * size, shape).astype(np.float32) for shape in SHAPES) for size in range(1, 8)]
AGGREGATORS = dict(aggregations.KINDS)
AGGREGATORS["mean, by examples"] = ("--aggregator_type=mean", "--client_weighting=num_examples")
# Its noise is not seeded: almost none. Rounding to its grid differs from run to run.
AGGREGATORS["ddp"] = ("--aggregator_type=ddp", "--noise_multiplier=0.0001", "--clip_norm=4")


@contextlib.contextmanager
def launched(count: int) -> Iterator[list]:
    """Starts workers; yields (address, server) of each."""
    ports = [portpicker.pick_unused_port() for _ in range(count)]
    started = [(f"localhost:{port}", worker_process.launch(port, 1)) for port in ports]
    try:
        yield started
    finally:
        for _, server in started:
            server.end()


@pytest.fixture(scope="module")
def contexts(tff_worker) -> Iterator[dict[int, tff.framework.SyncContext]]:
    """A context by number of workers, each of them remote."""
    with launched(4) as started:
        workers = executor.connect([address for address, _ in started])
        yield {count: rounds.CohortPartsContext(workers[:count]) for count in (1, 2, 4)}


def on(context: tff.framework.SyncContext):
    return tff.framework.get_context_stack().install(context)


def assert_close(found, expected, tolerance: float = 1e-5) -> None:
    tf.nest.assert_same_structure(found, expected)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def bits(results) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in tf.nest.flatten(results)]


@pytest.fixture(scope="module")
def execute():
    """Runs three rounds in the current context: their rows, the final weights, and the state of the selection."""
    argv = ["test", "--client_selection=ucb_cs", "--clients_per_round=5", "--total_rounds=3", "--bandits_deploy_freq=2"]
    chosen = flags.options(frame.flag_set(run_federated.STUDY).parse(argv).checked(flags.check))
    task = run_federated.STUDY.open(chosen)
    (phase,) = bandit_options.phases(chosen, task)
    mechanism = aggregation_flags.mechanism(phase.aggregation, phase.cohorts, 60, 1)

    def completed():
        study = experiment.BanditRounds(task, phase, mechanism, None)
        state, rows = study.initial_state(), []
        for round_num in range(1, 4):
            state, row = study.run_round(state, round_num)
            rows.append(row)
        return rows, state.server.weights, state.clients

    return completed


def test_metrics_of_bandits_are_those_of_the_own_worker(contexts, execute):
    expected = execute()
    for context in contexts.values():
        with on(context):
            assert_close(execute(), expected)


def test_tffs_executor_gives_equal_bits_and_close_ones_in_parts(execute, monkeypatch):
    local, server = worker._local(0, "auto")
    stub = tff.framework.RemoteExecutorGrpcStub(executor.channel(server.address))

    def create(cardinalities):
        remote = tff.framework.RemoteExecutor(stub)
        remote.set_cardinalities({tff.CLIENTS: 0, **cardinalities})
        return remote

    alone = tff.framework.SyncExecutionContext(
        tff.framework.ResourceManagingExecutorFactory(create),
        transform_args=tff.tensorflow.transform_args,
        transform_result=tff.tensorflow.transform_result,
    )
    tffs = rounds.CohortPartsContext([alone])
    with on(local):
        expected = execute()
    with on(tffs):
        assert bits(execute()) == bits(expected)
    monkeypatch.setattr(rounds, "_PART_BYTES", 1)
    with on(tffs):
        assert_close(execute(), expected)


@pytest.mark.parametrize("kind", AGGREGATORS)
def test_aggregators_give_the_own_workers_results(contexts, kind):
    _, process = aggregations.build(*AGGREGATORS[kind], cohort=len(COHORT), shapes=SHAPES)
    initial, weights = process.initialize(), [float(size) for size in range(1, 8)]

    def execute():
        first = process.next(initial, COHORT, weights)
        second = process.next(first.state, COHORT, weights)
        return [first.result, second.result], [first.measurements, second.measurements]

    results, measurements = execute()
    with on(contexts[4]):
        found, measured = execute()
    assert_close(found, results, 1e-3 if kind == "ddp" else 1e-5)
    if kind != "ddp":
        assert_close(measured, measurements)


@pytest.fixture(scope="module")
def collection(contexts):
    cohort = [linear_rounds.client(number, size) for number, size in enumerate((5, 1, 0, 8, 3, 2))]
    return algorithms.build_collection(linear_rounds.definition(cohort_size=6)), linear_rounds.INITIAL, cohort


def test_a_cohorts_updates_are_collected_in_its_order(contexts, collection, monkeypatch):
    collect, weights, cohort = collection
    expected = collect(weights, cohort)
    assert list(expected.sums["examples"]) == [5, 1, 0, 8, 3, 2]
    assert len(expected.deltas) == 5  # None of the client without examples.
    alone = np.concatenate([collect(weights, [client]).deltas for client in cohort])
    np.testing.assert_array_equal(expected.deltas, alone)
    for least in (rounds._RESULT_BYTES, 1):
        monkeypatch.setattr(rounds, "_RESULT_BYTES", least)
        for context in contexts.values():
            with on(context):
                for order in (cohort, cohort[::-1]):
                    assert_close(collect(weights, order), expected, 0)


def test_updates_of_a_lost_worker_are_computed_by_another(own, collection, monkeypatch, capfd):
    collect, weights, cohort = collection
    expected = collect(weights, cohort)
    monkeypatch.setattr(rounds, "_RESULT_BYTES", 1)
    both = [_Counting(own, dies_at=2), _Counting(own)]
    with on(rounds.CohortPartsContext(both, concurrent_calls=1)):
        assert_close(collect(weights, cohort), expected, 0)
    assert sum(worker.calls for worker in both) in (6, 7)
    assert capfd.readouterr().err.count("nine:9 was lost") <= 1


@tff.tensorflow.computation(np.float32, np.float32)
def _product(one, other):
    return one * other


@tff.federated_computation(tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(np.float32, tff.CLIENTS))
def _sum_of_squares(server, values):
    return tff.federated_zip((server, tff.federated_sum(tff.federated_map(_product, (values, values)))))


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def _sum_of_shares(values):
    total = tff.federated_broadcast(tff.federated_sum(values))
    return tff.federated_sum(tff.federated_map(_product, (values, total)))


def test_a_sum_that_depends_on_another_is_run_undivided_with_a_warning(contexts, capfd):
    with on(contexts[2]):
        assert _sum_of_shares([1.0, 2.0, 3.0]) == 36
    assert "so one worker runs each cohort" in capfd.readouterr().err


class _Counting:
    """The own worker, counting calls; dies at the call of a given number."""

    def __init__(self, context, dies_at: int = 0):
        self._context, self._dies_at, self.calls = context, dies_at, 0

    def invoke(self, computation, argument):
        self.calls += 1
        if self.calls == self._dies_at:
            raise executor.WorkerLostError("The TFF worker nine:9 was lost (test).")
        return self._context.invoke(computation, argument)


@pytest.fixture(scope="module")
def own(contexts):
    return contexts[1].workers[0]


def test_a_cohort_with_a_large_state_is_run_in_parts_one_after_the_other(own, monkeypatch):
    monkeypatch.setattr(rounds, "_PART_BYTES", 8)  # Two clients' share of a server's state of 4 bytes.
    alone = _Counting(own)
    with on(rounds.CohortPartsContext([alone])):
        assert _sum_of_squares(5.0, [1.0, 2.0, 3.0, 4.0, 5.0]) == (5, 55)
    assert alone.calls == 3 + 2 + 1  # Parts, merges, the server's step.


def test_a_part_of_a_lost_worker_is_run_by_another(own, capfd):
    dies, lives = _Counting(own, dies_at=1), _Counting(own)
    with on(rounds.CohortPartsContext([dies, lives])):
        for _ in range(2):
            assert _sum_of_squares(5.0, [1.0, 2.0, 3.0]) == (5, 14)
    assert dies.calls == 1
    assert lives.calls == 2 * (2 + 1 + 1)
    assert capfd.readouterr().err.count("nine:9 was lost (test). The other workers take over its part") == 1


@tff.tensorflow.computation(np.float32)
def _endless(value):
    return tf.while_loop(lambda one: one > 0, lambda one: [one * 1.0], [value])[0]


@tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
def _never(values):
    return tff.federated_sum(tff.federated_map(_endless, values))


@pytest.mark.parametrize(("signum", "reason"), [(signal.SIGKILL, ""), (signal.SIGSTOP, " .no answer in 1 seconds")])
def test_a_worker_that_dies_or_falls_silent_ends_the_round(monkeypatch, signum, reason):
    monkeypatch.setattr(executor, "_PING_SECONDS", 1)
    monkeypatch.setattr(executor, "_PING_EVERY_SECONDS", 0.1)
    with launched(1) as [(address, server)]:
        context = rounds.CohortPartsContext(executor.connect([address]))
        threading.Timer(1, os.kill, (server.pid, signum)).start()
        with on(context), pytest.raises(Failure, match=f"{address} was lost{reason}"):
            _never([1.0, 1.0])
