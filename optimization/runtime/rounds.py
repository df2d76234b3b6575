"""How rounds are compiled and run, once TFF is imported; `worker.start` says by which workers.

A round runs on parts of its cohort: on several workers, or one after the other to save memory. TFF's mergeable form of
a round says how: clients' work and the sums over a part; merging two sums; the server's step after the last. Parts are
merged in their order, whoever computed them, so that equal runs are equal bit for bit; against a cohort in one piece,
sums differ in their last bits.
"""

import collections
import functools
import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import executor, kept_rounds, serialization

# A worker holds what each client returns until the part is summed, which grows like the server's state: with Adam, that
# is two thirds of it. 64 clients of EMNIST's CNN (27 MB of state) are one part, 512 are seven.
_PART_BYTES = 2 * 1000**3
# What the clients of a part return to the program; more, up to a bound, if clients computed at the same time do. On its
# way it is there about eight times: at the worker, in messages, in the program.
_RESULT_BYTES = 64 * 1000**2
_MOST_RESULT_BYTES = 1000**3
_ASSUMED_CALLS = 16  # A worker elsewhere does not say how many clients it computes at the same time.


class Worker(Protocol):
    """What computes: runs a compiled computation on an argument; raises `WorkerLostError` when it is gone."""

    def invoke(self, computation: tff.framework.ConcreteComputation, argument: Any) -> Any: ...


class CohortPartsContext(tff.framework.SyncContext):
    """Runs computations on workers, those over many clients in parts.

    The number of parts depends on the workers at the start, the cohort and the state's size. A part of a worker that
    is lost is played again by another; when the last is lost, `Failure` names it.

    Attributes:
      computing: Set whenever a worker has all that it needs for a call; who waits for that clears it before.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        concurrent_calls: int = _ASSUMED_CALLS,
        computing: threading.Event | None = None,
    ):
        """Takes the workers.

        Args:
          workers: At least one.
          concurrent_calls: Clients that a worker computes at the same time.
          computing: What the workers set when they have all that they need for a call; None if they do not.
        """
        self._workers = list(workers)
        self._concurrent_calls = concurrent_calls
        self._least_parts = len(workers)
        self.computing = computing or threading.Event()

    @property
    def has_workers(self) -> bool:
        """Whether one is left."""
        return bool(self._workers)

    @property
    def concurrent_clients(self) -> int:
        """Clients that the workers at the start compute at the same time."""
        return self._concurrent_calls * self._least_parts

    def invoke(self, comp: tff.framework.ConcreteComputation, arg: Any) -> Any:
        """Runs a computation."""
        parameter = comp.type_signature.parameter
        clients = serialization.num_clients(arg, parameter) if parameter else 0
        wanted = max(self._least_parts, math.ceil(clients * _server_bytes(parameter) / _PART_BYTES))
        parts = min(wanted, clients)
        form = _compile_mergeable(comp) if parts > 1 else None
        if form is None:
            return self._on_one(_compile(comp), arg)
        cohorts = [_take(arg, parameter, slice(*pair)) for pair in _bounds(clients, parts)]
        sums: dict[int, Any] = {}

        def play(worker: Worker, part: int) -> None:
            sums[part] = worker.invoke(form.up_to_merge, cohorts[part])

        self._on_all(play, parts)
        merged = sums[0]
        for part in range(1, parts):
            merged = self._on_one(form.merge, tff.structure.Struct.unnamed(merged, sums[part]))
        # The server's step needs no client any more.
        server = _take(arg, parameter, slice(0))
        return self._on_one(form.after_merge, tff.structure.Struct.unnamed(server, merged))

    def each_client(
        self,
        computation: tff.Computation,
        shared: Sequence[Any],
        clients: Sequence[Any],
        take: Callable[[int, Any], None],
    ) -> None:
        """Computes on every client of a cohort, a bounded part at a time.

        TFF's aggregations copy what they collect for every client, and return it in one message of at most 2 GB.

        Args:
          computation: (*shared at the server, values at clients) -> results at clients.
          shared: What all clients are given.
          clients: The cohort.
          take: Called with each client's index and its result, in any order and thread.
        """
        compiled = _compile(computation)
        bytes_of_one = max(1, _server_bytes(computation.type_signature.result.member))
        size = max(1, _RESULT_BYTES // bytes_of_one, min(self._concurrent_calls, _MOST_RESULT_BYTES // bytes_of_one))
        bounds = _bounds(len(clients), max(min(self._least_parts, len(clients)), math.ceil(len(clients) / size)))

        def play(worker: Worker, part: int) -> None:
            first, end = bounds[part]
            found = worker.invoke(compiled, tff.structure.Struct.unnamed(*shared, clients[first:end]))
            for index, result in enumerate(found, first):
                take(index, result)

        self._on_all(play, len(bounds))

    def _on_one(self, computation, argument):
        while True:
            worker = self._workers[0]
            try:
                return worker.invoke(computation, argument)
            except executor.WorkerLostError as error:
                self._drop(worker, error)

    def _on_all(self, play: Callable[[Worker, int], None], count: int) -> None:
        """Plays parts 0, 1, ..., each with the worker that is free first."""
        waiting = collections.deque(range(count))
        while waiting:
            failures: dict[Worker, Exception] = {}
            # No pool of threads: a program that is interrupted would wait for those.
            threads = [
                threading.Thread(target=_work, args=(play, worker, waiting, failures), daemon=True)
                for worker in self._workers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for worker, error in failures.items():
                self._drop(worker, error)

    def _drop(self, worker: Worker, error: Exception) -> None:
        """Goes on without a worker that is lost; raises every other error."""
        if not isinstance(error, executor.WorkerLostError):
            raise error
        self._workers.remove(worker)
        if not self._workers:
            raise Failure(
                f"{error} No other is left. Checkpoints are kept: the same command continues after the last."
            ) from error
        print(f"Warning: {error} The others play its part of the cohort from now on.", file=sys.stderr, flush=True)


def _work(play: Callable[[Worker, int], None], worker: Worker, waiting: collections.deque, failures: dict) -> None:
    """Plays parts that wait until none is left or the worker fails."""
    while True:
        try:
            part = waiting.popleft()
        except IndexError:
            return
        try:
            play(worker, part)
        except Exception as error:
            waiting.append(part)
            failures[worker] = error
            return


def _bounds(clients: int, parts: int) -> list[tuple[int, int]]:
    """Start and end of each of this many parts of a cohort, about equal in size."""
    return list(itertools.pairwise(clients * part // parts for part in range(parts + 1))) if parts else []


def _once(compile_one: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a compiler so that it compiles a computation once, and drops the result with the computation."""
    known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(compile_one)
    def compiled(computation: tff.framework.ConcreteComputation) -> Any:
        if computation not in known:
            known[computation] = compile_one(computation)
        return known[computation]

    return compiled


@_once
def _compile(computation: tff.framework.ConcreteComputation) -> tff.framework.ConcreteComputation:
    """Compiles for workers, which have no secure aggregation: it is simulated, sum for sum, in the clear."""

    def native() -> list[tff.framework.ConcreteComputation]:
        compiled = tff.backends.native.desugar_and_transform_to_native(_without_secure_sums(computation))
        return [tff.framework.ConcreteComputation.with_type(compiled, computation.type_signature)]

    return kept_rounds.derived(computation, "native", native)[0]


@_once
def _compile_mergeable(computation: tff.framework.ConcreteComputation) -> tff.framework.MergeableCompForm | None:
    """Compiles for parts of a cohort; None, with a warning, if a sum in it depends on another."""

    def parts() -> list[tff.framework.ConcreteComputation]:
        try:
            form = tff.backends.native.compile_to_mergeable_comp_form(_without_secure_sums(computation))
        except ValueError as error:
            why = str(error).partition(". Examples")[0]  # They would fill a page.
            print(f"Warning: one worker plays whole cohorts, which no sums of parts express ({why}).", file=sys.stderr)
            return []
        return [_compile(form.up_to_merge), _compile(form.merge), _compile(form.after_merge)]

    form = kept_rounds.derived(computation, "mergeable", parts)
    return tff.framework.MergeableCompForm(up_to_merge=form[0], merge=form[1], after_merge=form[2]) if form else None


def _without_secure_sums(computation):
    plain = tff.backends.test.replace_secure_intrinsics_with_bodies(computation)
    return tff.framework.ConcreteComputation.with_type(plain, computation.type_signature)  # Keeps Python's containers.


def _take(value: Any, type_spec: tff.Type, clients: slice) -> Any:
    """Argument with only these of its clients."""
    if isinstance(type_spec, tff.StructType):
        parts = serialization.parts(value, type_spec)
        return tff.structure.Struct((name, _take(part, part_type, clients)) for name, part, part_type in parts)
    if isinstance(type_spec, tff.FederatedType) and type_spec.placement is tff.CLIENTS and not type_spec.all_equal:
        return value[clients]
    return value


def _server_bytes(type_spec: tff.Type | None) -> int:
    """Size of an argument's values at the server, in bytes; axes without a size count as one."""
    if isinstance(type_spec, tff.StructType):
        return sum(_server_bytes(part) for part in type_spec)
    if isinstance(type_spec, tff.FederatedType):
        return 0 if type_spec.placement is tff.CLIENTS else _server_bytes(type_spec.member)
    if isinstance(type_spec, tff.TensorType):
        return math.prod(size or 1 for size in type_spec.shape or ()) * np.dtype(type_spec.dtype).itemsize
    return 0


written_ahead = serialization.written_ahead


def fused(process: tff.templates.IterativeProcess) -> tff.templates.IterativeProcess:
    """Process with its rounds in MapReduce form: each client does all its work in one computation.

    As written, a round is many small computations: training, a norm, clipping, weighing, a sum for each metric. TFF's
    worker calls them one by one for every client and keeps what each returns. In TFF's MapReduce form they are few: all
    that a client computes, how two clients' results are summed, and all that the server computes.

    Args:
      process: A process of rounds (state, clients) -> (state, metrics) that broadcast, map, aggregate and update.
    """
    # The worker optimizes graphs itself when it first runs them.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    form = tff.backends.mapreduce.get_map_reduce_form_for_computation(process.next, config)
    next_round = tff.backends.mapreduce.get_computation_for_map_reduce_form(form)
    # The form forgets which Python containers, such as named tuples, the structures are.
    next_round = tff.framework.ConcreteComputation.with_type(next_round, process.next.type_signature)
    return tff.templates.IterativeProcess(process.initialize, next_round)


def at_hand() -> CohortPartsContext:
    """Executor of rounds in this thread."""
    return tff.framework.get_context_stack().current
