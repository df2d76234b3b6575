"""Compilation and execution of rounds on workers.

A round can split its cohort into parts, which run on several workers, or one after another to save memory. TFF's
mergeable form of a round has three steps: the clients of a part do their work and their results are summed, sums are
merged in pairs, and the server updates its state. Parts are always merged in the same order, no matter which worker
computed them, so repeated runs are identical bit for bit. The sums differ in their last bits from those of an undivided
cohort.
"""

import collections
import functools
import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from data.errors import Failure
from optimization.runtime import cached_rounds, executor

# Maximum size of the clients' results in one part, which a worker holds in memory until they are summed. A client's
# result is assumed to be at most as large as the server state. With EMNIST's CNN (27 MB of state), 64 clients are one
# part, and 512 clients are seven parts.
_PART_BYTES = 2 * 1000**3
# Target size of the results that a part returns to the program. A part still has all the clients that a worker computes
# at the same time, unless their results exceed `_MOST_RESULT_BYTES`. While results are sent, there are about eight
# copies of them: at the worker, in messages, and in the program.
_RESULT_BYTES = 64 * 1000**2
_MOST_RESULT_BYTES = 1000**3
_ASSUMED_CALLS = 16  # A remote worker does not report how many clients it computes in parallel.


class CohortPartsContext(tff.framework.SyncContext):
    """Runs computations on workers, and splits large cohorts into parts.

    The number of parts depends on the number of workers at the start, the cohort size and the size of the server state.
    If a worker is lost, another one reruns its part. If the last worker is lost, a `Failure` that names it is raised.

    Attributes:
      workers: The workers that are left.
    """

    def __init__(self, workers: Sequence[executor.Executor], concurrent_calls: int = _ASSUMED_CALLS):
        """Stores the workers.

        Args:
          workers: The workers. The first one also runs the server's steps.
          concurrent_calls: Number of clients that a worker computes at the same time.
        """
        self.workers = list(workers)
        self._concurrent_calls = concurrent_calls
        self._least_parts = len(workers)

    def invoke(self, comp: tff.framework.ConcreteComputation, arg: Any) -> Any:
        """Runs a computation."""
        parameter = comp.type_signature.parameter
        clients = executor.num_clients(arg, parameter) if parameter else 0
        wanted = max(self._least_parts, math.ceil(clients * _server_bytes(parameter) / _PART_BYTES))
        parts = min(wanted, clients)
        form = _compile_mergeable(comp) if parts > 1 else None
        if form and _collects_clients(form.up_to_merge.type_signature.result):
            # Here, parts would save no memory, and would have to be sent as messages to be merged.
            parts = parts if wanted == self._least_parts else 1
        if form is None or parts == 1:
            return self._on_first_worker(_compile(comp), arg)
        cohorts = [_take(arg, parameter, slice(*pair)) for pair in _bounds(clients, parts)]
        sums: dict[int, Any] = {}

        def run_part(worker: executor.Executor, part: int) -> None:
            sums[part] = worker.invoke(form.up_to_merge, cohorts[part])

        self._on_all(run_part, parts)
        merged = sums[0]
        for part in range(1, parts):
            merged = self._on_first_worker(form.merge, tff.structure.Struct.unnamed(merged, sums[part]))
        # The server's step does not use the clients' values.
        server = _take(arg, parameter, slice(0))
        return self._on_first_worker(form.after_merge, tff.structure.Struct.unnamed(server, merged))

    def each_client(
        self,
        computation: tff.Computation,
        shared: Sequence[Any],
        clients: Sequence[Any],
        take: Callable[[int, Any], None],
    ) -> None:
        """Runs a computation on every client of a cohort, in parts of bounded size.

        In contrast, a TFF aggregation that collects results would copy them all for every client, and return them in a
        single message, which is limited to 2 GB.

        Args:
          computation: (*shared at the server, values at clients) -> results at clients.
          shared: Values that every client receives.
          clients: Values of each client of the cohort.
          take: Called with the index and the result of each client, in any order and from any thread.
        """
        compiled = _compile(computation)
        bytes_of_one = max(1, _server_bytes(computation.type_signature.result.member))
        size = max(1, _RESULT_BYTES // bytes_of_one, min(self._concurrent_calls, _MOST_RESULT_BYTES // bytes_of_one))
        bounds = _bounds(len(clients), max(min(self._least_parts, len(clients)), math.ceil(len(clients) / size)))

        def run_part(worker: executor.Executor, part: int) -> None:
            first, end = bounds[part]
            results = worker.invoke(compiled, tff.structure.Struct.unnamed(*shared, clients[first:end]))
            for index, result in enumerate(results, first):
                take(index, result)

        self._on_all(run_part, len(bounds))

    def _on_first_worker(self, computation, argument):
        while True:
            worker = self.workers[0]
            try:
                return worker.invoke(computation, argument)
            except executor.WorkerLostError as error:
                self._drop(worker, error)

    def _on_all(self, run_part: Callable[[executor.Executor, int], None], count: int) -> None:
        """Runs parts 0, 1, ..., each on the first worker that is free."""
        waiting = collections.deque(range(count))
        while waiting:
            failures: dict[executor.Executor, Exception] = {}
            # A thread pool would make an interrupted program wait for its threads.
            threads = [
                threading.Thread(target=_work, args=(run_part, worker, waiting, failures), daemon=True)
                for worker in self.workers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for worker, error in failures.items():
                self._drop(worker, error)

    def _drop(self, worker: executor.Executor, error: Exception) -> None:
        """Removes a lost worker; raises `Failure` if it was the last. Re-raises any error but `WorkerLostError`."""
        if not isinstance(error, executor.WorkerLostError):
            raise error
        self.workers.remove(worker)
        if not self.workers:
            raise Failure(
                f"{error} No other worker is left. Run the same command again to continue from the last checkpoint."
            ) from error
        print(f"Warning: {error} The other workers take over its part of the cohort.", file=sys.stderr, flush=True)


def _work(run_part: Callable, worker: executor.Executor, waiting: collections.deque, failures: dict) -> None:
    """Runs waiting parts until none is left or the worker fails."""
    while True:
        try:
            part = waiting.popleft()
        except IndexError:
            return
        try:
            run_part(worker, part)
        except Exception as error:
            waiting.append(part)
            failures[worker] = error
            return


def _bounds(clients: int, parts: int) -> list[tuple[int, int]]:
    """Splits a cohort into parts of about equal size; returns the start and the end of each part."""
    return list(itertools.pairwise(clients * part // parts for part in range(parts + 1))) if parts else []


def _once(compile_one: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a compiler so that it compiles each computation once, and keeps the result as long as the computation."""
    known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(compile_one)
    def compiled(computation: tff.framework.ConcreteComputation) -> Any:
        if computation not in known:
            known[computation] = compile_one(computation)
        return known[computation]

    return compiled


@_once
def _compile(computation: tff.framework.ConcreteComputation) -> tff.framework.ConcreteComputation:
    """Compiles a computation for workers. Plain sums simulate secure sums, which workers do not support."""

    def native() -> list[tff.framework.ConcreteComputation]:
        compiled = tff.backends.native.desugar_and_transform_to_native(_without_secure_sums(computation))
        return [tff.framework.ConcreteComputation.with_type(compiled, computation.type_signature)]

    return cached_rounds.derived(computation, "native", native)[0]


@_once
def _compile_mergeable(computation: tff.framework.ConcreteComputation) -> tff.framework.MergeableCompForm | None:
    """Compiles a computation for parts of a cohort. If one of its sums depends on another, warns and returns None."""

    def parts() -> list[tff.framework.ConcreteComputation]:
        try:
            form = tff.backends.native.compile_to_mergeable_comp_form(_without_secure_sums(computation))
        except ValueError as error:
            why = str(error).partition(". Examples")[0]  # The examples would fill a page.
            print(f"Warning: rounds cannot be split ({why}), so one worker runs each cohort.", file=sys.stderr)
            return []
        return [_compile(form.up_to_merge), _compile(form.merge), _compile(form.after_merge)]

    form = cached_rounds.derived(computation, "mergeable", parts)
    return tff.framework.MergeableCompForm(up_to_merge=form[0], merge=form[1], after_merge=form[2]) if form else None


def _without_secure_sums(computation):
    plain = tff.backends.test.replace_secure_intrinsics_with_bodies(computation)
    return tff.framework.ConcreteComputation.with_type(plain, computation.type_signature)  # Keeps Python containers.


def _take(value: Any, type_spec: tff.Type, clients: slice) -> Any:
    """Returns an argument with only some of its clients."""
    if isinstance(type_spec, tff.StructType):
        parts = executor.parts(value, type_spec)
        return tff.structure.Struct((name, _take(part, part_type, clients)) for name, part, part_type in parts)
    if isinstance(type_spec, tff.FederatedType) and type_spec.placement is tff.CLIENTS and not type_spec.all_equal:
        return value[clients]
    return value


def _collects_clients(type_spec: tff.Type) -> bool:
    """Whether a sum over a part grows with its number of clients, as FedKP's collection of updates does."""
    if isinstance(type_spec, tff.StructType):
        return any(map(_collects_clients, type_spec))
    if isinstance(type_spec, tff.FederatedType):
        return _collects_clients(type_spec.member)
    return isinstance(type_spec, tff.TensorType) and None in (type_spec.shape or ())


def _server_bytes(type_spec: tff.Type | None) -> int:
    """Size of an argument's values at the server, in bytes. Axes of unknown length count as length 1."""
    if isinstance(type_spec, tff.StructType):
        return sum(_server_bytes(part) for part in type_spec)
    if isinstance(type_spec, tff.FederatedType):
        return 0 if type_spec.placement is tff.CLIENTS else _server_bytes(type_spec.member)
    if isinstance(type_spec, tff.TensorType):
        return math.prod(size or 1 for size in type_spec.shape or ()) * np.dtype(type_spec.dtype).itemsize
    return 0


def fused(process: tff.templates.IterativeProcess) -> tff.templates.IterativeProcess:
    """Returns a process whose rounds have MapReduce form, in which each client does all its work in one computation.

    In its original form, a round consists of many small computations: training, a norm, clipping, a sum for each
    metric. TFF's worker calls them one by one for each client, and keeps all results. The MapReduce form has only a few
    computations: a client's work, the sum of two clients' results, and the server's work.

    Args:
      process: A process whose rounds, (state, clients) -> (state, metrics), broadcast, map, aggregate and update.
    """
    # Do not optimize graphs here: the worker optimizes them when it first runs them.
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    form = tff.backends.mapreduce.get_map_reduce_form_for_computation(process.next, config)
    next_round = tff.backends.mapreduce.get_computation_for_map_reduce_form(form)
    # Conversion to MapReduce form drops the Python containers of structures, such as named tuples.
    next_round = tff.framework.ConcreteComputation.with_type(next_round, process.next.type_signature)
    return tff.templates.IterativeProcess(process.initialize, next_round)


@_once
def each_alone(next_round: tff.Computation) -> tff.Computation:
    """Returns a computation that runs a round for each client as if it were the whole cohort.

    It maps (state, input) to (state, metrics), both at clients.

    Args:
      next_round: `next` of a `fused` process without secure sums.
    """

    def derive() -> list[tff.Computation]:
        form = tff.backends.mapreduce.get_map_reduce_form_for_computation(next_round)
        pair = tff.StructType([part.member for part in next_round.type_signature.parameter])

        @tff.federated_computation(pair)
        def one(pair):
            state, client = pair
            own, *secure = form.work((client, form.prepare(state)))
            return form.update((state, (form.report(form.accumulate((form.zero(), own))), *secure)))

        parameter = tff.StructType([tff.FederatedType(pair, tff.CLIENTS)])
        each = tff.federated_computation(lambda pairs: tff.federated_map(one, pairs[0]), parameter)
        # Restore the Python containers of structures, which MapReduce form does not keep.
        result = tff.StructType([part.member for part in next_round.type_signature.result])
        type_spec = tff.FunctionType(parameter, tff.FederatedType(result, tff.CLIENTS))
        return [tff.framework.ConcreteComputation.with_type(each, type_spec)]

    return cached_rounds.derived(next_round, "alone", derive)[0]


def current_context() -> CohortPartsContext:
    """Returns the context that executes rounds in this thread."""
    return tff.framework.get_context_stack().current
