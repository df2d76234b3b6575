"""Measures rounds of the EMNIST CNN, and of Stack Overflow's tag prediction.

For EMNIST: time against the machine's own matrix-multiply rate, memory, growth with cohort and population, and parts
of a round. For Stack Overflow: time, memory, bytes moved, and the sparse model against the dense one. Data is made
in the data sets' shapes, so that no file is needed. Prints a table and writes JSON.
"""

import dataclasses
import json
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

from data.errors import UsageError
from optimization.runtime import worker_process
from optimization.study import cli, files
from scripts.benchmark import tasks

_USAGE = """
Benchmarks federated bandit rounds on this machine: EMNIST's CNN, 26 to 200 examples a client, batches of 16.

  benchmark                             # cohort 64, then cohorts 8 and 512, then a population of 300,000
  benchmark --rounds=200 --cohorts=64 --populations=3400
  benchmark --task=stackoverflow --rounds=500   # 10,000 words, 50 tags, posts of 5 to 130 words
"""
_MATMUL_SIZE = 2048
_FIRST_LAYER_FLOPS = 2 * 28 * 28 * 25 * 32  # Its input's gradient is not needed.


def define() -> cli.FlagSet:
    """Returns the flags of `benchmark`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Flags")
    flags.choice("task", "emnist", ["emnist", "stackoverflow"], "whose rounds are measured")
    flags.integer("rounds", 10, "measured rounds of the first cohort size; the others take a third", low=3)
    flags.text("cohorts", "64,8,512", "clients per round, separated by commas; the first is measured in depth")
    flags.text("populations", "3400,300000", "clients to sample from, separated by commas")
    flags.integer("max_concurrent_threads", 0, "clients computed at the same time; 0 for as many as cores")
    flags.text("output", "benchmark.json", "JSON file to write")
    return flags


def program(settings: cli.Settings) -> None:
    """Runs the benchmark."""
    files.check_output("output", pathlib.Path(cli.user_path(settings.output)))
    cohorts = cli.whole_numbers("cohorts", settings.cohorts)
    populations = cli.whole_numbers("populations", settings.populations)
    if max(cohorts) > min(populations):
        raise UsageError(f"--cohorts: {max(cohorts)} clients cannot be drawn from {min(populations)}.")
    if settings.task == "stackoverflow":
        results = _tag_prediction(settings, populations[0], cohorts[0])
        _write(results, settings.output)
        return
    bench = _Benchmark(settings, populations[0], "emnist_chars", tasks.emnist, 0.1)
    results = {"machine": _machine(), "main": bench.depth(cohorts[0], settings.rounds)}
    few = max(3, settings.rounds // 3)
    results["dpsgd_seconds_per_round"] = bench.private_seconds(cohorts[0], few)
    results["cohorts"] = {cohorts[0]: results["main"]["seconds_per_round"]}
    results["milliseconds_per_example"] = {cohorts[0]: results["main"]["milliseconds_per_example"]}
    for cohort in cohorts[1:]:
        seconds, examples = bench.seconds_and_examples(cohort, few)
        results["cohorts"][cohort] = seconds
        results["milliseconds_per_example"][cohort] = round(1000 * seconds / examples, 3)
    results["populations"] = {}
    for population in populations:
        results["populations"][population] = bench.population(population, cohorts[0], few)
    _print(results, cohorts[0])
    _write(results, settings.output)


def _write(results: dict, output: str) -> None:
    path = pathlib.Path(cli.user_path(output))
    files.replace(path, json.dumps(results, indent=2).encode() + b"\n")
    print(f"\nWritten to {path}.")


class _Benchmark:
    """One worker and everything that is measured on it."""

    def __init__(self, settings: cli.Settings, population: int, task_type: str, make_task, client_learning_rate: float):
        import psutil

        worker_process.own(settings.max_concurrent_threads)

        from bandits import experiment, flags, registry
        from optimization.runtime import worker

        self._experiment = experiment
        self._main = psutil.Process()
        own = worker.start(settings.max_concurrent_threads)
        # The worker, and what passes messages between them.
        self._processes = [self._main, *(psutil.Process(pid) for pid in {own.pid, own.process.pid})]
        arguments = ["benchmark", f"--task_type={task_type}", "--max_examples_per_client=0"]
        self._settings = flags.resolve(flags.define().parse(arguments))
        self._make_task = make_task
        self._task = make_task(population)
        self._settings = self._settings.replace(max_validation_samples=100)
        self._phase = experiment.Phase(
            bandit=registry.BANDITS["softmax"],
            population=range(population),
            rewards="exact",
            total_rounds=10**6,  # As in a run, the next round's clients are always prepared ahead.
            cohort_size=1,
            deploy_every=10,
            server_optimizer="adam",
            server_learning_rate=0.002,
            client_learning_rate=client_learning_rate,
        )

    def _rounds(self, cohort: int, population: int | None = None):
        task, phase = self._task, dataclasses.replace(self._phase, cohort_size=cohort)
        if population:
            task = self._make_task(population)
            phase = dataclasses.replace(phase, population=range(population))
        return self._experiment.build(self._settings, task, phase, self._mechanism(phase), None)

    def _mechanism(self, phase):
        from optimization.study import aggregation_flags

        return aggregation_flags.mechanism(self._settings, len(phase.population), phase.cohort_size, 1)

    def _cpu(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self._processes)

    def _peak_mb(self) -> float:
        return sum(_status_mb(process.pid, "VmHWM") for process in self._processes)

    def _resident_mb(self) -> float:
        return sum(_status_mb(process.pid, "VmRSS") for process in self._processes)

    def seconds(self, cohort: int, rounds: int, population: int | None = None) -> float:
        """Returns the median seconds of a round."""
        return self.seconds_and_examples(cohort, rounds, population)[0]

    def seconds_and_examples(self, cohort: int, rounds: int, population: int | None = None) -> tuple[float, float]:
        """Returns the median seconds of a round, and the mean of their examples."""
        from bandits import metrics

        experiment = self._rounds(cohort, population)
        state, _ = experiment.play_round(experiment.initial_state(), 1)
        times, examples = [], []
        for round_num in range(2, rounds + 2):
            start = time.perf_counter()
            state, row = experiment.play_round(state, round_num)
            times.append(time.perf_counter() - start)
            examples.append(int(row[metrics.EXAMPLES]))
        return round(statistics.median(times), 3), statistics.mean(examples)

    def population(self, population: int, cohort: int, rounds: int) -> dict:
        """Returns seconds of a round and resident memory with a population of this size."""
        seconds = self.seconds(cohort, rounds, population)
        return {"seconds_per_round": seconds, "resident_mb": round(self._resident_mb())}

    def private_seconds(self, cohort: int, rounds: int) -> float:
        """Returns the median seconds of a round of DP-FedAvg."""
        private = {"aggregator_type": "dpsgd", "adaptive_clipping": False, "noise_multiplier": 0.1}
        with mock.patch.object(self, "_settings", self._settings.replace(**private)):
            return self.seconds(cohort, rounds)

    def seconds_with(self, forward, cohort: int, rounds: int) -> float:
        """Returns the median seconds of a round with another forward function of the model."""
        from optimization import task_model
        from optimization.study import compiled

        build = task_model.build
        replaced = mock.patch.object(
            task_model, "build", lambda task: dataclasses.replace(build(task), forward=forward, terms=None)
        )
        with replaced, mock.patch.dict(compiled._kept, clear=True):  # The model is no part of a run's flags.
            return self.seconds(cohort, rounds)

    def inputs(self, cohort: int) -> list:
        """Returns one round's client inputs."""
        phase = dataclasses.replace(self._phase, cohort_size=cohort)
        return self._experiment.cohort_inputs(self._settings, self._task, phase, 1)

    def rounds(
        self, cohort: int, rounds: int, before_each: Callable[[int], None] = lambda round_num: None
    ) -> tuple[dict, list[Mapping[str, Any]]]:
        """Measures start-up, time, processor time and memory of many rounds; returns them, and the rounds' metrics."""
        experiment = self._rounds(cohort)
        state, _ = experiment.play_round(experiment.initial_state(), 1)
        first = time.time() - self._main.create_time()
        times, cpus, memory, rows = [], [], [], []
        for round_num in range(2, rounds + 2):
            before_each(round_num)
            cpu, start = self._cpu(), time.perf_counter()
            state, row = experiment.play_round(state, round_num)
            times.append(time.perf_counter() - start)
            cpus.append(self._cpu() - cpu)
            memory.append(self._resident_mb())
            rows.append(row)
        tenth = max(1, rounds // 10)
        found = {
            "cohort": cohort,
            "rounds": rounds,
            "seconds_per_round": round(statistics.median(times), 3),
            "cpu_seconds_per_round": round(statistics.median(cpus), 3),
            "first_round_after_start_seconds": round(first, 1),
            "peak_memory_mb": round(self._peak_mb()),
            "resident_mb_first_tenth": round(statistics.mean(memory[:tenth])),
            "resident_mb_last_tenth": round(statistics.mean(memory[-tenth:])),
        }
        return found, rows

    def depth(self, cohort: int, rounds: int) -> dict:
        """Measures one cohort size in depth: also the share of the machine's rate, and the parts of a round."""
        from bandits import metrics
        from optimization import task_model

        rates = []

        def measure_rate(round_num: int) -> None:
            # The machine's speed may drift, so its rate is measured beside each round, up to thirty times.
            if (round_num - 2) % max(1, rounds // 30) == 0:
                rates.append(_matmul_rate())

        found, rows = self.rounds(cohort, rounds, measure_rate)
        flops_per_example = 4 * task_model.build(self._task).flops - _FIRST_LAYER_FLOPS
        examples = statistics.mean(int(row[metrics.EXAMPLES]) for row in rows)
        rate, seconds = statistics.median(rates), found["seconds_per_round"]
        return found | {
            "examples_per_round": round(examples),
            "milliseconds_per_example": round(1000 * seconds / examples, 3),
            "gflop_per_round": round(examples * flops_per_example / 1e9),
            "matmul_gflops": round(rate / 1e9),
            "matmul_gflops_range": [round(min(rates) / 1e9), round(max(rates) / 1e9)],
            "share_of_matmul_rate": round(examples * flops_per_example / seconds / rate, 3),
            "parts_seconds": self._parts(cohort, max(3, rounds // 3), seconds),
        }

    def _parts(self, cohort: int, rounds: int, total: float) -> dict[str, float]:
        """Splits a round by leaving parts out: differences of medians, so only as good as the machine is quiet."""
        import tensorflow as tf
        import tensorflow_federated as tff

        phase = dataclasses.replace(self._phase, cohort_size=cohort)
        definition = self._experiment.build_process(self._settings, self._task, phase, self._mechanism(phase))
        model = definition.model
        idle = dataclasses.replace(definition, local_sgd=None)
        blind = dataclasses.replace(
            idle, model=dataclasses.replace(model, forward=lambda _, features: tf.zeros([tf.shape(features)[0], 62]))
        )
        processes = [part.build(model.initial_weights(0)) for part in (blind, idle)]
        state = processes[0].initialize()
        state_type = processes[0].next.type_signature.parameter[0]

        @tff.tensorflow.computation(definition.client_type())
        def count(client):
            return tf.shape(client.features)[0]

        @tff.federated_computation(state_type, tff.FederatedType(definition.client_type(), tff.CLIENTS))
        def send(state, clients):
            return state, tff.federated_sum(tff.federated_map(count, clients))

        calls = [send, *(process.next for process in processes)]
        times: list[list[float]] = [[] for _ in range(len(calls) + 1)]
        for round_num in range(rounds + 1):
            start = time.perf_counter()
            cohort_inputs = self._experiment.cohort_inputs(self._settings, self._task, phase, round_num)
            times[0].append(time.perf_counter() - start)
            for index, call in enumerate(calls):
                start = time.perf_counter()
                call(state, cohort_inputs)
                times[index + 1].append(time.perf_counter() - start)
        python, transfer, aggregation, inference = (statistics.median(values[1:]) for values in times)
        return {
            "python (reading and preparing clients)": round(python, 3),
            "transfer (clients and state to the worker and back)": round(transfer, 3),
            "aggregation and server step": round(aggregation - transfer, 3),
            "inference": round(inference - aggregation, 3),
            "training": round(total - python - inference, 3),
        }


def _tag_prediction(settings: cli.Settings, population: int, cohort: int) -> dict:
    """Measures and prints rounds of Stack Overflow's shapes, sparse and dense."""
    import numpy as np
    import tensorflow as tf

    bench = _Benchmark(settings, population, "stackoverflow_tag", tasks.stackoverflow, 1.0)
    found, _ = bench.rounds(cohort, settings.rounds)

    def dense(weights, features):
        rows = tf.repeat(tf.range(tf.shape(features["ids"])[0]), tf.shape(features["ids"])[1])
        where = tf.stack([rows, tf.reshape(features["ids"], [-1])], axis=1)
        shape = tf.stack([tf.shape(features["ids"])[0], tasks.WORDS])
        return tf.scatter_nd(where, tf.reshape(features["values"], [-1]), shape) @ weights[0] + weights[1]

    found["dense_seconds_per_round"] = bench.seconds_with(dense, cohort, min(5, settings.rounds))
    sent = bench.inputs(cohort)
    model = (tasks.WORDS + 1) * tasks.TAGS * 4
    # The clients on their way there; on its way back the state: the model, the deployed one, and Adam's two moments.
    found["megabytes_moved"] = round(
        (sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(sent)) + 4 * model) / 1e6, 1
    )
    rows = [
        (f"round of {cohort} clients, sparse", f"{found['seconds_per_round']:.3f} s"),
        ("rounds a second", f"{1 / found['seconds_per_round']:.1f}"),
        ("processor time of a round", f"{found['cpu_seconds_per_round']:.2f} s"),
        ("the same, dense", f"{found['dense_seconds_per_round']:.3f} s"),
        ("moved to and from the worker, a round", f"{found['megabytes_moved']} MB"),
        ("peak memory, program and worker", f"{found['peak_memory_mb']} MB"),
        (
            f"resident memory, first and last tenth of {settings.rounds} rounds",
            f"{found['resident_mb_first_tenth']} and {found['resident_mb_last_tenth']} MB",
        ),
    ]
    print("Stack Overflow's shapes: 10,000 words, 50 tags, posts of 5 to 130 words")
    for label, value in rows:
        print(f"{label:<62}{value}")
    return {"machine": _machine(), "stackoverflow": found}


def _matmul_rate() -> float:
    """Returns the floating-point operations a second of the best of ten large fp32 products, on all cores."""
    import tensorflow as tf

    matrix = tf.random.stateless_normal([_MATMUL_SIZE, _MATMUL_SIZE], [0, 0])
    best = float("inf")
    for _ in range(10):
        start = time.perf_counter()
        tf.matmul(matrix, matrix)[0, 0].numpy()
        best = min(best, time.perf_counter() - start)
    return 2 * _MATMUL_SIZE**3 / best


def _status_mb(pid: int, field: str) -> float:
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def _machine() -> dict:
    names = [
        line.partition(":")[2].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg()[0],
    }


def _print(results: dict, cohort: int) -> None:
    main = results["main"]
    rows = [
        (f"round of {cohort} clients, {main['examples_per_round']} examples", f"{main['seconds_per_round']:.2f} s"),
        ("processor time of a round", f"{main['cpu_seconds_per_round']:.2f} s"),
        ("operations of a round", f"{main['gflop_per_round']} GFLOP"),
        ("matrix-multiply rate of the machine", f"{main['matmul_gflops']} GFLOP/s {main['matmul_gflops_range']}"),
        ("share of that rate", f"{main['share_of_matmul_rate']:.0%}"),
        ("first round done after start", f"{main['first_round_after_start_seconds']:.1f} s"),
        ("peak memory, program and worker", f"{main['peak_memory_mb']} MB"),
        (
            f"resident memory, first and last tenth of {main['rounds']} rounds",
            f"{main['resident_mb_first_tenth']} and {main['resident_mb_last_tenth']} MB",
        ),
    ]
    rows += [(f"  of a round: {part}", f"{seconds:.2f} s") for part, seconds in main["parts_seconds"].items()]
    rows.append((f"round of {cohort} clients with DP-FedAvg", f"{results['dpsgd_seconds_per_round']:.2f} s"))
    rows += [
        (f"round of {size} clients", f"{seconds:.2f} s, {results['milliseconds_per_example'][size]:.3f} ms an example")
        for size, seconds in results["cohorts"].items()
    ]
    rows += [
        (f"population of {size:,}", f"{found['seconds_per_round']:.2f} s, {found['resident_mb']} MB")
        for size, found in results["populations"].items()
    ]
    print(f"{results['machine']['processor']}, {results['machine']['cores']} cores")
    for label, value in rows:
        print(f"{label:<62}{value}")
