"""Measures time and memory of mean shift over a cohort's models, and of whole rounds."""

import os
import pathlib
import resource
import time
from collections.abc import Iterable
from typing import Any

from data.errors import UsageError
from optimization.study import cli
from scripts.benchmark import measuring

_EXAMPLES = 20
_PARAMETERS = 1_200_000  # Of a model, if mean shift is measured alone.
# Beside the cohort's models: two TensorFlow processes, models in transfer, the worker's own.
_ROUND_BYTES = 2_500_000_000


def measure(settings: cli.Settings) -> dict[str, Any]:
    """Measures whole rounds, or mean shift alone.

    Raises:
      UsageError: If flags conflict, or memory is too small.
    """
    import psutil

    for flag, alone in (("cohorts", False), ("clients", True)):
        if flag in settings.set_by_user and bool(settings.round_model) == alone:
            need = "does not go with" if alone else "belongs to"
            raise UsageError(f"--{flag} {need} --round_model: {'leave one out' if alone else 'give both, or neither'}.")
    cohorts = settings.cohorts if settings.round_model else []
    clients = max(cohorts, default=settings.clients)
    parameters = measuring.ROUND_MODELS.get(settings.round_model, _PARAMETERS)
    # Python's integers cannot overflow.
    needed = 4 * clients * parameters + (_ROUND_BYTES + 4 * settings.samples * parameters if cohorts else 0)
    if needed > (free := psutil.virtual_memory().available):
        raise UsageError(
            f"--{'cohorts' if cohorts else 'clients'}: {clients:,} models of {parameters:,} parameters need "
            f"{needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free: give fewer."
        )
    return _rounds(settings, cohorts) if cohorts else _mean_shift(settings)


def measure_round(model, local_work, clients: int, shape: tuple[int, ...], outputs: int, aggregate) -> dict[str, float]:
    """Seconds and peak memory of a round, of the program and its worker together.

    Args:
      model: The `models.Model`.
      local_work: The clients' training.
      clients: Clients of the cohort.
      shape: Shape of an example's features.
      outputs: Number of labels.
      aggregate: Aggregates the deltas, float32 [clients, parameters], to one update.
    """
    import numpy as np
    import tensorflow as tf
    import tensorflow_federated as tff

    from data import clients as data_clients
    from optimization import supervised
    from optimization.posterior import process
    from optimization.runtime import worker

    processes = (os.getpid(), worker.start().pid)  # type: ignore[union-attr]  # Its own.
    definition = supervised.SupervisedProcess(
        model=model,
        local_work=local_work,
        aggregator=tff.aggregators.MeanFactory(),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        feature_spec=tf.TensorSpec((None, *shape)),
        label_spec=tf.TensorSpec((None,), tf.int32),
        cohort_size=clients,
    )
    generator = np.random.default_rng(0)
    features = generator.normal(size=(clients, _EXAMPLES, *shape)).astype(np.float32)
    labels = generator.integers(0, outputs, (clients, _EXAMPLES)).astype(np.int32)
    examples = [data_clients.Examples(*one) for one in zip(features, labels, strict=True)]
    cohort = supervised.inputs(examples, np.arange(clients), 0, 1, 0.01)
    weights = model.initial_weights(0)
    for pid in processes:
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")  # Resets the peak of earlier rounds.
    start = time.perf_counter()
    updates = process.build_collection(definition)(weights, cohort)
    collected = time.perf_counter()
    aggregate(updates.deltas)
    end = time.perf_counter()
    models_mb = updates.deltas.nbytes / 2**20
    return {
        "clients": clients,
        "seconds": round(end - start, 2),
        "collecting_seconds": round(collected - start, 2),
        "models_mb": round(models_mb),
        "peak_mb_beyond_models": round(measuring.memory_mb(processes, "VmHWM") - models_mb),
    }


def _aggregate(settings: cli.Settings):
    """Mean-shift aggregation of a cohort's models."""
    from optimization.posterior import kernels, mean_shift

    kernel = kernels.KERNELS["epanechnikov"]
    return mean_shift.MeanShift(kernel, step_weights=settings.mean_shift_weights).fedkp_cluster_mean


def _rounds(settings: cli.Settings, cohorts: Iterable[int]) -> dict[str, Any]:
    """Measures a round of FedKP, or FedKPPA, of each cohort."""
    from optimization import client_work, models
    from optimization.posterior import samplers

    shape, outputs = ((28, 28, 1), 10) if settings.round_model == "cnn" else ((32, 32, 3), 100)
    model = models.cnn(outputs) if settings.round_model == "cnn" else models.resnet18(shape, outputs)
    work: client_work.ClientWork = client_work.LocalSgd(0.01, _EXAMPLES, epochs=1)
    if settings.samples:
        work = samplers.ChainSgd(client_work.LocalSgd(0.01, _EXAMPLES, settings.samples), shrinkage=0.01)
    aggregate = _aggregate(settings)
    measured = [measure_round(model, work, clients, shape, outputs, aggregate) for clients in cohorts]
    return {f"{settings.round_model} {result['clients']} clients": result for result in measured}


def _mean_shift(settings: cli.Settings) -> dict[str, Any]:
    """Measures mean shift alone."""
    import numpy as np
    import psutil

    shape = (settings.clients, _PARAMETERS)
    models = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    aggregate = _aggregate(settings)
    before = psutil.Process().memory_info().rss
    start, cpu = time.perf_counter(), time.process_time()
    aggregate(models)
    return {
        "mean_shift_weights": settings.mean_shift_weights,
        "clients": settings.clients,
        "parameters": _PARAMETERS,
        "seconds": round(time.perf_counter() - start, 2),
        "cpu_seconds": round(time.process_time() - cpu, 2),
        "models_mb": round(models.nbytes / 2**20),
        "peak_mb_beyond_models": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10 - before / 2**20),
    }
