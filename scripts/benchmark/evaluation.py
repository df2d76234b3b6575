"""Measures off-policy evaluation of a large log: reading Parquet, estimates and bootstrap by NumPy, and sums by TFF.

Generating the log is not measured. The log contains the predictions of a reward model, so none is trained.
"""

import os
import pathlib
import tempfile
import time
from typing import Any

from data.errors import UsageError
from optimization.study import cli
from scripts.benchmark import measuring


def measure(settings: cli.Settings) -> dict[str, Any]:
    """Measures the evaluation of a generated log.

    Raises:
      UsageError: If there are more clients than rows.
    """
    if not 2 <= settings.clients <= settings.rows:
        raise UsageError(f"--clients={settings.clients} must be at least 2 and at most --rows={settings.rows}.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "log.parquet"
        _write(path, settings.rows, settings.clients, settings.actions)
        return _measured(path, settings.draws)


def _write(path: pathlib.Path, rows: int, clients: int, actions: int) -> None:
    """Writes a log whose contexts are predicted rewards of each action, with a target policy's probabilities."""
    import numpy as np

    from data import interaction_log

    generator = np.random.default_rng(0)
    client_of_row = np.concatenate([np.arange(clients), generator.integers(clients, size=rows - clients)])
    target = generator.random((rows, actions))
    target /= target.sum(axis=1, keepdims=True)
    log = interaction_log.ordered(
        [f"client {number}" for number in range(clients)],
        client_of_row,
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
    """Seconds and megabytes of each step."""
    import numpy as np

    from bandits.evaluation import bootstrap, estimators, terms, totals
    from data import interaction_log

    layout = totals.Layout((estimators.Logged(), estimators.Ips(), estimators.Snips(), estimators.DoublyRobust()))
    measured: dict[str, Any] = {}
    start = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal start
        measured[f"{name}_seconds"] = round(time.perf_counter() - start, 2)
        start = time.perf_counter()

    log = interaction_log.read(path)
    lap("read_parquet")
    rows = terms.of_rows(
        log.clients, log.actions, log.rewards, log.propensities, np.asarray(log.probabilities), np.asarray(log.contexts)
    )
    by_client = totals.of_clients(rows.clients, layout.columns(rows))
    sums = totals.summed(by_client, layout.ratios)
    for estimator in layout.estimators:
        totals.interval(sums, layout.ratio(estimator))
    lap("estimates")
    names = totals.present(log.clients, log.client_ids)
    for count in (draws, 10 * draws):
        before = measuring.memory_mb([os.getpid()], "VmRSS")
        bootstrap.drawn_totals(by_client, names, 0, count)
        lap(f"{count}_draws")
        measured[f"{count}_draws_more_mb"] = round(measuring.memory_mb([os.getpid()], "VmRSS") - before, 1)
    measured["numpy_peak_mb"] = round(measuring.memory_mb([os.getpid()], "VmHWM"))

    from bandits.evaluation import federated
    from optimization.runtime import worker

    worker.start()
    lap("import_and_start_tff")
    by_tff, _ = federated.sums(federated.client_inputs(rows), layout)
    lap("tff")
    # The second call reuses compiled rounds; its time includes the bootstrap.
    federated.sums(federated.client_inputs(rows, log.client_ids, draws=draws), layout)
    lap(f"tff_with_{draws}_draws")
    scale = np.abs(sums.products).max()
    measured["tff_largest_difference"] = float(np.abs(by_tff.products - sums.products).max() / scale)
    return measured
