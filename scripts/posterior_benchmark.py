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
"""


def define() -> cli.FlagSet:
    """Returns the flags of `posterior_benchmark`."""
    flags = cli.FlagSet(_USAGE)
    flags.group("Flags")
    flags.integer("clients", 100, "models of the cohort", low=1)
    flags.integer("parameters", 1_200_000, "parameters of a model", low=1)
    flags.choice("kernel", "epanechnikov", ["epanechnikov", "gaussian"], "kernel of the density")
    flags.choice("algorithm", "fedkp_cluster_mean", ["fedkp_cluster_mean", "fedkp"], "what is shifted")
    flags.text("output", "posterior_benchmark.json", "JSON file to write")
    return flags


def program(settings: cli.Settings) -> None:
    """Runs the benchmark."""
    path = pathlib.Path(cli.user_path(settings.output))
    files.check_output("output", path)
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
