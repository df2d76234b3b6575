"""Measures off-policy evaluation of a large log: from Parquet by NumPy, the bootstrap, and the same through TFF.

The log is made and written first, and that is not measured. Models are not: the log holds what one predicted.
"""

import os
import pathlib
import tempfile
import time
from typing import Any

from data import files
from data.errors import UsageError
from optimization.study import cli
from scripts.benchmark import measuring

_USAGE = """
Benchmarks off-policy evaluation on this machine: IPS, SNIPS and DR of a log that says what a model predicted.

  evaluation_benchmark
  evaluation_benchmark --rows=100000 --clients=1000 --draws=10000
"""


def define() -> cli.FlagSet:
    """Returns the flags of `evaluation_benchmark`."""
    numbers = {
        "rows": (1_000_000, "rows of the log", 1),
        "clients": (10_000, "clients that they are of", 2),
        "actions": (50, "actions", 2),
        "draws": (1000, "draws of the bootstrap", 1),
    }
    return measuring.flag_set(_USAGE, "evaluation_benchmark.json", numbers)


def program(settings: cli.Settings) -> None:
    """Runs the benchmark."""
    files.check_output("output", pathlib.Path(settings.output))
    if settings.clients > settings.rows:
        raise UsageError(f"--clients={settings.clients} cannot all have one of --rows={settings.rows}.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log.parquet"
        _write(path, settings.rows, settings.clients, settings.actions)
        measuring.tell(_measured(path, settings.draws), settings.output)


def _write(path: pathlib.Path, rows: int, clients: int, actions: int) -> None:
    """Writes a log whose contexts are what a model predicts of each action, with a target's probabilities."""
    import numpy as np

    from data import interaction_log

    generator = np.random.default_rng(0)
    own = np.concatenate([np.arange(clients), generator.integers(clients, size=rows - clients)])
    target = generator.random((rows, actions))
    target /= target.sum(axis=1, keepdims=True)
    log = interaction_log.ordered(
        [f"client {number}" for number in range(clients)],
        own,
        generator.random((rows, actions), np.float32),
        [str(number) for number in range(actions)],
        {
            "actions": generator.integers(actions, size=rows),
            "rewards": generator.integers(2, size=rows),
            "propensities": np.full(rows, 1 / actions),
            "probabilities": target,
        },
    )
    interaction_log.write(log, path)


def _measured(path: pathlib.Path, draws: int) -> dict[str, Any]:
    """Returns seconds and megabytes of each step."""
    import numpy as np

    from bandits.evaluation import bootstrap, estimators, terms, totals
    from data import interaction_log

    layout = totals.Layout((estimators.Logged(), estimators.Ips(), estimators.Snips(), estimators.DoublyRobust()))
    found: dict[str, Any] = {}
    start = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal start
        found[f"{name}_seconds"] = round(time.perf_counter() - start, 2)
        start = time.perf_counter()

    log = interaction_log.read(path)
    lap("read_parquet")
    rows = terms.of_rows(
        log.clients,
        log.actions,
        log.rewards,
        log.propensities,
        np.asarray(log.probabilities),
        np.asarray(log.contexts),
    )
    own = totals.of_clients(rows.clients, layout.columns(rows))
    sums = totals.summed(own, layout.ratios)
    for estimator in layout.estimators:
        totals.interval(sums, layout.ratio(estimator))
    lap("estimates")
    names = totals.present(log.clients, log.client_ids)
    for count in (draws, 10 * draws):
        before = measuring.memory_mb([os.getpid()], "VmRSS")
        bootstrap.drawn_totals(own, names, 0, count)
        lap(f"{count}_draws")
        found[f"{count}_draws_more_mb"] = round(measuring.memory_mb([os.getpid()], "VmRSS") - before, 1)
    found["numpy_peak_mb"] = round(measuring.memory_mb([os.getpid()], "VmHWM"))

    from bandits.evaluation import federated
    from optimization.runtime import worker

    worker.start()
    lap("import_and_start_tff")
    by_tff, _ = federated.sums(federated.client_inputs(rows), layout)
    lap("tff")
    # The second time, compiled rounds are there; draws are counted in.
    federated.sums(federated.client_inputs(rows, log.client_ids, draws=draws), layout)
    lap(f"tff_with_{draws}_draws")
    scale = np.abs(sums.products).max()
    found["tff_largest_difference"] = float(np.abs(by_tff.products - sums.products).max() / scale)
    return found
