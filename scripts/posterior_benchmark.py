"""Measures the time and memory of mean shift over a cohort's models. Prints them and writes JSON."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization import interruption

    interruption.install()

import json
import os
import pathlib
import resource
import time

from optimization import cli, files

_USAGE = """
Benchmarks FedKP on this machine: normal values, Silverman's bandwidth, at most 20 steps.

  posterior_benchmark                               # cluster mean of 100 clients x 1.2 million parameters
  posterior_benchmark --kernel=gaussian --clients=20
  posterior_benchmark --round_model=cnn --cohorts=20,100       # whole rounds: seconds, peak memory with the worker
"""


def define() -> cli.FlagSet:
    """Returns the flags of `posterior_benchmark`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Flags")
    flags.integer("clients", 100, "models of the cohort", low=1)
    flags.integer("parameters", 1_200_000, "parameters of a model", low=1)
    flags.choice("kernel", "epanechnikov", ["epanechnikov", "gaussian"], "kernel of the density")
    flags.choice("algorithm", "fedkp_cluster_mean", ["fedkp_cluster_mean", "fedkp"], "what is shifted")
    flags.choice("round_model", None, ["cnn", "resnet18"], "measure a whole round of this model, for each of --cohorts")
    flags.text("cohorts", "10,20", "with --round_model: clients of a cohort, separated by commas; each has 20 examples")
    flags.text("output", "posterior_benchmark.json", "JSON file to write")
    return flags


def _round(settings: cli.Settings, clients: int) -> dict[str, float]:
    """Returns seconds of a round of FedKP, and the peak memory so far of the program and its worker."""
    import numpy as np
    import tensorflow as tf
    import tensorflow_federated as tff

    from optimization import client_work, models, supervised, worker
    from optimization.posterior import kernels, mean_shift, process

    own = worker.start()
    shape, outputs = ((28, 28, 1), 10) if settings.round_model == "cnn" else ((32, 32, 3), 100)
    model = models.cnn(outputs) if settings.round_model == "cnn" else models.resnet18(shape, outputs)
    definition = supervised.SupervisedProcess(
        model=model,
        local_work=client_work.LocalSgd(0.01, 20, epochs=1),
        aggregator=tff.aggregators.MeanFactory(),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        feature_spec=tf.TensorSpec((None, *shape)),
        label_spec=tf.TensorSpec((None,), tf.int32),
        cohort_size=clients,
    )
    draw = np.random.default_rng(0)
    cohort = [
        supervised.ClientInput(
            features=draw.normal(size=(20, *shape)).astype(np.float32),
            labels=draw.integers(0, outputs, 20).astype(np.int32),
            key=np.array([0, position], np.int32),
            position=np.int32(position),
            weight=np.float32(20),
            learning_rate=np.float32(0.01),
        )
        for position in range(clients)
    ]
    start = time.perf_counter()
    updates = process.build_collection(definition)(model.initial_weights(0), cohort)
    collected = time.perf_counter()
    getattr(mean_shift.MeanShift(kernels.KERNELS[settings.kernel]), settings.algorithm)(updates.deltas)
    end = time.perf_counter()
    peaks = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in (os.getpid(), own.pid)]
    peak = sum(int(text.partition("VmHWM:")[2].split()[0]) for text in peaks) / 2**10
    return {
        "clients": clients,
        "seconds": round(end - start, 2),
        "collecting_seconds": round(collected - start, 2),
        "models_mb": round(updates.deltas.nbytes / 2**20),
        "peak_mb_beyond_models": round(peak - updates.deltas.nbytes / 2**20),
    }


def program(settings: cli.Settings) -> None:
    """Runs the benchmark."""
    path = pathlib.Path(cli.user_path(settings.output))
    files.check_output("output", path)
    if settings.round_model:
        rounds = [_round(settings, int(clients)) for clients in settings.cohorts.split(",")]
        for found in rounds:
            print(", ".join(f"{name} {value}" for name, value in found.items()))
        path.write_text(json.dumps(rounds, indent=2) + "\n")
        return
    import numpy as np
    import psutil

    from optimization.posterior import kernels, mean_shift

    shape = (settings.clients, settings.parameters)
    models = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    aggregate = getattr(mean_shift.MeanShift(kernels.KERNELS[settings.kernel]), settings.algorithm)
    before = psutil.Process().memory_info().rss
    start, cpu = time.perf_counter(), time.process_time()
    aggregate(models)
    results = {
        "algorithm": settings.algorithm,
        "kernel": settings.kernel,
        "clients": settings.clients,
        "parameters": settings.parameters,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "models_mb": round(models.nbytes / 2**20),
        "peak_mb_beyond_models": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before / 2**20),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
    }
    files.replace(path, json.dumps(results, indent=2).encode() + b"\n")
    for name, value in results.items():
        print(f"{name:<24}{value}")
    print(f"\nWritten to {path}.")


if __name__ == "__main__":
    cli.main(define(), program)
