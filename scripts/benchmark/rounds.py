"""Measures rounds of the EMNIST CNN, and of Stack Overflow's tag prediction.

For EMNIST: time relative to the machine's matrix-multiply rate, memory, growth with cohort and population, and parts
of a round. For Stack Overflow: time, memory, transferred bytes, and the sparse and the dense model. Data is generated
in the data sets' shapes, so no file is needed.
"""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from data import random_data
from data.errors import UsageError
from optimization import options
from optimization.runtime import worker_process
from optimization.study import aggregation_flags, cli, frame
from scripts.benchmark import measuring

if TYPE_CHECKING:
    from bandits.process import BanditProcess

_MATMUL_SIZE = 2048
_WORDS, _MAX_WORDS = 10_000, 256
_STACKOVERFLOW = (  # The published settings.
    "--task_type=stackoverflow_tag",
    f"--vocabulary_size={_WORDS}",
    "--num_tags=50",
    f"--max_words={_MAX_WORDS}",
    "--max_examples_per_client=256",
    "--client_learning_rate=1",
)
_FIRST_LAYER_FLOPS = 2 * 28 * 28 * 25 * 32  # The gradient of its input is not needed.


def measure(settings: cli.Settings) -> dict[str, Any]:
    """Measures rounds of the task.

    Raises:
      UsageError: If a cohort is larger than a population.
    """
    cohorts, populations = settings.cohorts, settings.populations
    if max(cohorts) > min(populations):
        raise UsageError(f"--cohorts: {max(cohorts)} clients cannot be sampled from {min(populations)}.")
    return (_emnist if settings.task == "emnist" else _stackoverflow)(settings, cohorts, populations)


def _emnist(settings: cli.Settings, cohorts: Sequence[int], populations: Sequence[int]) -> dict[str, Any]:
    """Measures rounds of EMNIST's shapes: in depth, with privacy, and with other cohorts and populations."""
    bench = _Benchmark(settings, "--task_type=emnist_chars", "--client_learning_rate=0.1")
    main = bench.depth(cohorts[0], settings.rounds)
    few = max(3, settings.rounds // 3)
    private = bench.rounds(cohorts[0], few, kind="dpsgd", unclip_quantile=None, noise_multiplier=0.1)
    results = {"main": main, "dpsgd_seconds_per_round": private["seconds_per_round"], "cohorts": {}, "populations": {}}
    for cohort in cohorts:
        measured = main if cohort == cohorts[0] else bench.rounds(cohort, few)
        names = ("seconds_per_round", "milliseconds_per_example")
        results["cohorts"][str(cohort)] = {name: measured[name] for name in names}
    for population in populations:
        bench.population(population)
        measured = bench.rounds(cohorts[0], few)
        names = ("seconds_per_round", "resident_mb_last_tenth")
        results["populations"][str(population)] = {name: measured[name] for name in names}
    return results


def _stackoverflow(settings: cli.Settings, cohorts: Sequence[int], populations: Sequence[int]) -> dict[str, Any]:
    """Measures rounds of Stack Overflow's shapes, sparse and dense."""
    import numpy as np
    import tensorflow as tf

    bench = _Benchmark(settings, *_STACKOVERFLOW)
    measured = bench.rounds(cohorts[0], settings.rounds)

    def dense(weights, features):
        rows = tf.repeat(tf.range(tf.shape(features["ids"])[0]), tf.shape(features["ids"])[1])
        indices = tf.stack([rows, tf.reshape(features["ids"], [-1])], axis=1)
        shape = tf.stack([tf.shape(features["ids"])[0], weights[0].shape[0]])
        return tf.scatter_nd(indices, tf.reshape(features["values"], [-1]), shape) @ weights[0] + weights[1]

    definition = bench.definition(cohorts[0])
    model = dataclasses.replace(definition.model, forward=dense, terms=None)
    process = dataclasses.replace(definition, model=model).build(model.initial_weights(0))
    state = process.initialize()
    inputs = bench.inputs(cohorts[0])
    ways = {"dense_seconds_per_round": lambda: process.next(state, inputs)}
    sent = sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(inputs))
    # To the worker: the clients. Back: the state, which is the model, the deployed model, and Adam's two moments.
    transferred = sent + 4 * sum(weight.nbytes for weight in model.initial_weights(0))
    slow = measuring.seconds_in_turns(ways, min(5, settings.rounds))
    return {"stackoverflow": measured | slow | {"megabytes_moved": round(transferred / 1e6, 1)}}


class _Benchmark:
    """A worker and its measurements."""

    def __init__(self, benchmark: cli.Settings, *flags_of_task: str):
        import psutil

        threads = benchmark.max_concurrent_threads
        worker_process.local_worker(threads)

        with worker_process.importing():
            from bandits import experiment, flags, run_federated
            from bandits.options import phases
            from optimization.runtime import worker

        self._experiment = experiment
        self._main = psutil.Process()
        started = worker.start(threads)
        # The worker, and the process that passes messages.
        self._processes = [self._main, *(psutil.Process(pid) for pid in {started.pid, started.process.pid})]  # type: ignore[union-attr]
        arguments = [
            *flags_of_task,
            "--random_data",
            "--max_validation_samples=100",
            "--total_rounds=1000000",  # Many, so that the next round's clients are always prepared ahead, as in a run.
            "--clients_per_round=1",
            "--bandits_deploy_freq=10",
            "--server_learning_rate=0.002",
        ]
        settings = frame.flag_set(run_federated.STUDY).parse(["benchmark", *arguments])
        chosen = flags.options(flags.resolve(settings))
        self._task = run_federated.STUDY.open(chosen)
        (self._phase,) = phases(chosen, self._task)
        self.population(benchmark.populations[0])

    def population(self, population: int) -> None:
        """Samples clients from a population of this size from now on."""
        if self._task.multi_label:
            generated, _ = random_data.stackoverflow(_WORDS, self._task.num_actions, _MAX_WORDS, population)
        else:
            generated, _ = random_data.emnist("chars", population)
        self._task = dataclasses.replace(self._task, clients=generated)
        self._phase = dataclasses.replace(self._phase, population=range(population))

    def _definition_parts(self, cohort: int, **private: Any) -> tuple[Any, Any, Any]:
        """Task, phase and mechanism of rounds."""
        aggregation = dataclasses.replace(self._phase.aggregation, **private)
        phase = dataclasses.replace(self._phase, cohorts=options.Cohorts(cohort), aggregation=aggregation)
        mechanism = aggregation_flags.mechanism(aggregation, phase.cohorts, len(phase.population), 1)
        return self._task, phase, mechanism

    def definition(self, cohort: int) -> "BanditProcess":
        """Process of rounds with `cohort` clients."""
        return self._experiment.build_process(*self._definition_parts(cohort))

    def inputs(self, cohort: int, round_num: int = 1) -> list:
        """Client inputs of one round."""
        rounds = self._experiment.BanditRounds(*self._definition_parts(cohort), None)
        return rounds.inputs(rounds.cohort(round_num), round_num)

    def _memory_mb(self, field: str) -> float:
        return measuring.memory_mb([process.pid for process in self._processes], field)

    def _cpu(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self._processes)

    def rounds(
        self, cohort: int, rounds: int, before_each: Callable[[int], None] = lambda round_num: None, **private: Any
    ) -> dict[str, Any]:
        """Measures start-up, time, processor time and memory of many rounds.

        Args:
          cohort: Clients of a round.
          rounds: Number of measured rounds.
          before_each: Called with the number of each round before it.
          **private: Replaced options of the aggregation.
        """
        from bandits import metrics

        experiment = self._experiment.BanditRounds(*self._definition_parts(cohort, **private), None)
        state, _ = experiment.run_round(experiment.initial_state(), 1)
        first = time.time() - self._main.create_time()
        times: list[float] = []
        cpus, memory, examples = [], [], []
        for round_num in range(2, rounds + 2):
            before_each(round_num)
            cpu = self._cpu()
            state, row = measuring.timed(times, experiment.run_round, state, round_num)
            cpus.append(self._cpu() - cpu)
            memory.append(self._memory_mb("VmRSS"))
            examples.append(int(row[metrics.EXAMPLES]))
        tenth = max(1, rounds // 10)
        seconds = statistics.median(times)
        return {
            "cohort": cohort,
            "rounds": rounds,
            "seconds_per_round": round(seconds, 3),
            "cpu_seconds_per_round": round(statistics.median(cpus), 3),
            "first_round_after_start_seconds": round(first, 1),
            "peak_memory_mb": round(self._memory_mb("VmHWM")),
            "resident_mb_first_tenth": round(statistics.mean(memory[:tenth])),
            "resident_mb_last_tenth": round(statistics.mean(memory[-tenth:])),
            "examples_per_round": round(statistics.mean(examples)),
            "milliseconds_per_example": round(1000 * seconds / statistics.mean(examples), 3),
        }

    def depth(self, cohort: int, rounds: int) -> dict[str, Any]:
        """Measures one cohort size in depth, with the share of the machine's rate and the parts of a round."""
        rates = []

        def measure_rate(round_num: int) -> None:
            # The machine's speed may drift, so its rate is measured between rounds, up to thirty times.
            if (round_num - 2) % max(1, rounds // 30) == 0:
                rates.append(_matmul_rate())

        measured = self.rounds(cohort, rounds, measure_rate)
        flops = measured["examples_per_round"] * (4 * self.definition(cohort).model.flops - _FIRST_LAYER_FLOPS)
        rate, seconds = statistics.median(rates), measured["seconds_per_round"]
        return measured | {
            "gflop_per_round": round(flops / 1e9),
            "matmul_gflops": round(rate / 1e9),
            "matmul_gflops_range": [round(min(rates) / 1e9), round(max(rates) / 1e9)],
            "share_of_matmul_rate": round(flops / seconds / rate, 3),
            "parts_seconds": self._parts(cohort, max(3, rounds // 3), seconds),
        }

    def _parts(self, cohort: int, rounds: int, total: float) -> dict[str, float]:
        """Seconds of a round's parts, as differences of medians without a part; precise only on an idle machine."""
        import tensorflow as tf
        import tensorflow_federated as tff

        definition = self.definition(cohort)
        model = definition.model
        without_training = dataclasses.replace(definition, local_work=None)
        without_model = dataclasses.replace(
            without_training,
            model=dataclasses.replace(model, forward=lambda _, features: tf.zeros([tf.shape(features)[0], 62])),
        )
        processes = [part.build(model.initial_weights(0)) for part in (without_model, without_training)]
        state = processes[0].initialize()
        state_type = processes[0].next.type_signature.parameter[0]

        @tff.tensorflow.computation(definition.client_type)
        def count(client):
            return tf.shape(client.features)[0]

        @tff.federated_computation(state_type, tff.FederatedType(definition.client_type, tff.CLIENTS))
        def send(state, clients):
            return state, tff.federated_sum(tff.federated_map(count, clients))

        clients: list = []
        numbers = itertools.count()

        def read() -> None:
            clients[:] = self.inputs(cohort, next(numbers))

        calls = {"transfer": send, "aggregation": processes[0].next, "inference": processes[1].next}
        ways = {name: lambda call=call: call(state, clients) for name, call in calls.items()}
        measured = measuring.seconds_in_turns({"python": read} | ways, rounds)
        return {
            "python (reading and preparing clients)": measured["python"],
            "transfer (clients and state to the worker and back)": measured["transfer"],
            "aggregation and server step": round(measured["aggregation"] - measured["transfer"], 4),
            "inference": round(measured["inference"] - measured["aggregation"], 4),
            "training": round(total - measured["python"] - measured["inference"], 4),
        }


def _matmul_rate() -> float:
    """Floating-point operations per second of the best of ten large fp32 matrix products, on all cores."""
    import tensorflow as tf

    matrix = tf.random.stateless_normal([_MATMUL_SIZE, _MATMUL_SIZE], [0, 0])
    times: list[float] = []
    for _ in range(10):
        measuring.timed(times, lambda: tf.matmul(matrix, matrix)[0, 0].numpy())
    return 2 * _MATMUL_SIZE**3 / min(times)
