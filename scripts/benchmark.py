"""Measures whole rounds, and the evaluation of a log, on this machine; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import dataclasses
import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from data.errors import UsageError
from data.settings import setting
from optimization.study import cli, frame, interruption, loggers, run_folder

if TYPE_CHECKING:
    from optimization.study import runner

_USAGE = """
Measures whole rounds, or the evaluation of a log: seconds, and the peak memory of the program and TFF's worker.

  benchmark                                         # rounds of EMNIST's CNN, 64 clients
  benchmark --what=stackoverflow --aggregator_type=dpsgd --noise_multiplier=1 --clip_norm=0.1
  benchmark --what=fedkp --clients_per_round=20     # FedKP with EMNIST-62's model
  benchmark --what=sets                             # sets of 25 actions with 50 features, bilinear model
  benchmark --what=dense                            # 25 actions and 1,250 features, linear model
  benchmark --what=evaluation                       # IPS, SNIPS and DR with intervals, on a million rows

Random data in the shapes of the data sets replaces downloads. Other flags are passed on to the measured runs (of
run_federated, or of run_posterior for fedkp).
"""
_COMMON = ("--max_validation_samples=100", "--total_rounds=100000", "--seed=0")
_DOWNLOADED = ("--random_data", "--server_learning_rate=0.002")
_SYNTHETIC = ("--clients_per_round=64", "--client_learning_rate=0.1")
_FEDKP = "fedkp"
# Flags of each run that can be measured.
_RUNS = {
    "emnist": ("--task_type=emnist_chars", "--client_learning_rate=0.1", *_DOWNLOADED),
    "stackoverflow": (
        *("--task_type=stackoverflow_tag", "--vocabulary_size=10000", "--num_tags=50", "--max_words=256"),
        *("--max_examples_per_client=256", "--client_learning_rate=1", *_DOWNLOADED),
    ),
    _FEDKP: ("--preset=emnist62_alpha_1", "--random_data", "--algorithm=fedkp_cluster_mean"),
    "sets": (
        *("--task_type=linear_synthetic", "--partition_clients=64", "--partition_examples=200"),
        *("--context_features=50", "--action_features=50", "--largest_set=25", "--model=bilinear", *_SYNTHETIC),
    ),
    "dense": ("--data=scripts.benchmark:DenseClients()", "--reward_bounds=0,1", *_SYNTHETIC),
}


@dataclasses.dataclass(frozen=True)
class DenseClients:
    """80 clients, each with 200 random contexts of 1,250 features, and rewards of 25 actions."""

    client_ids: Sequence[int] = range(80)

    def __call__(self, client_id: int) -> tuple[np.ndarray, np.ndarray]:
        draw = np.random.default_rng(client_id)
        return draw.random((200, 1250), np.float32), draw.random((200, 25), np.float32)


_EVALUATION = "evaluation"
_ROWS, _CLIENTS, _ACTIONS = 1_000_000, 10_000, 50  # Size of the log.


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    what: str = setting("emnist", "Measurement", [*_RUNS, _EVALUATION])
    rounds: int = setting(
        10, "Rounds to measure after the first, which compiles and is reported apart", low=1, only={"what": (*_RUNS,)}
    )


def define() -> cli.FlagSet:
    """Flags of `benchmark`. Unknown flags are passed on to the measured runs."""
    return cli.FlagSet(_USAGE, "run_flags", known_only=True).group("Flags", _Flags)


def program(settings: cli.Settings) -> None:
    """Runs the benchmark, and prints one number per line.

    Raises:
      UsageError: If flags conflict.
    """
    settings = settings.checked()
    if settings.what == _EVALUATION:
        if settings.run_flags:
            raise UsageError(f"{settings.run_flags[0]} has no effect with --what={_EVALUATION}: leave it out.")
        measured = _evaluation()
    else:
        with interruption.answered(lambda signum: sys.exit(128 + signum)):  # Deletes the temporary folder.
            measured = _rounds(settings.what, settings.run_flags, settings.rounds)
    for name, value in ({"what": settings.what} | _machine() | measured).items():
        print(f"{name.replace('_', ' '):<40}{value}")


def _rounds(what: str, run_flags: Iterable[str], rounds: int) -> dict[str, Any]:
    """Measures the seconds, the processor time and the memory that the rounds of a run take."""
    from bandits import studies

    study = studies.load("optimization.posterior.run_posterior" if what == _FEDKP else "bandits.run_federated")
    (planned,) = frame.plan(study, frame.flag_set(study).parse(["", *_COMMON, *_RUNS[what], *run_flags]))
    ((planned, options, data),) = frame.checked(study, [planned], warns=False)
    study.start_worker(planned)

    import tensorflow as tf

    with tempfile.TemporaryDirectory(prefix="benchmark_") as folder:
        run = frame.Run(planned, options, data, run_folder.RunFolder(folder), loggers.OwnCallbacks(()))
        measured_rounds = _of_study(study, run)
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        state, seconds, processor = measured_rounds.initial_state(), [], []
        parameters = sum(weights.size for weights in measured_rounds.model(state).values())
        for round_num in range(1, rounds + 2):
            start, cpu = time.perf_counter(), _cpu_seconds(processes)
            state, _ = measured_rounds.run_round(state, round_num)
            seconds.append(time.perf_counter() - start)
            processor.append(_cpu_seconds(processes) - cpu)
        state_mb = sum(leaf.nbytes for leaf in tf.nest.flatten(state) if hasattr(leaf, "nbytes")) / 1e6
    return {
        "parameters": parameters,
        "first_round_seconds": round(seconds[0], 2),
        "seconds_per_round": round(statistics.median(seconds[1:]), 4),
        "cpu_seconds_per_round": round(statistics.median(processor[1:]), 4),
        "peak_memory_mb": round(_peak_mb(processes)),
        "state_mb": round(state_mb, 1),
    }


def _of_study(study: frame.Study, run: frame.Run) -> "runner.Rounds":
    if isinstance(study, frame.PlainStudy):
        return study.rounds(run)
    from bandits import experiment, phase_privacy
    from bandits.options import phases

    (phase,) = phases(run.options, run.data)
    return experiment.BanditRounds(run.data, phase, phase_privacy.mechanism(phase), None, run.folder)


def _evaluation() -> dict[str, Any]:
    """Measures the seconds from reading a Parquet file to estimates with intervals, and of a bootstrap.

    Before that, the log is generated, which counts in the peak memory but not in the seconds.
    """
    from bandits.evaluation import estimators
    from data import interaction_log

    generator = np.random.default_rng(0)
    client_of_row = np.concatenate([np.arange(_CLIENTS), generator.integers(_CLIENTS, size=_ROWS - _CLIENTS)])
    target = generator.dirichlet(np.ones(_ACTIONS), size=_ROWS)
    log = interaction_log.ordered(
        [f"client {number}" for number in range(_CLIENTS)],
        client_of_row,
        generator.random((_ROWS, _ACTIONS), np.float32),  # Predicted rewards, so that no model is trained.
        [str(number) for number in range(_ACTIONS)],
        {
            "actions": generator.integers(_ACTIONS, size=_ROWS),
            "rewards": generator.integers(2, size=_ROWS),
            "propensities": np.full(_ROWS, 1 / _ACTIONS),
            "probabilities": target,
        },
    )
    with tempfile.TemporaryDirectory(prefix="benchmark_") as folder:
        path = pathlib.Path(folder) / "log.parquet"
        interaction_log.write(log, path)
        start = time.perf_counter()
        log = interaction_log.read(path)
    terms = estimators.terms_of_log(log, np.asarray(log.probabilities), np.asarray(log.contexts))
    totals = [estimators.Estimator(name).totals(terms) for name in ("logged", "ips", "snips", "dr")]
    for by_client in totals:
        estimators.interval(by_client)
    estimated = time.perf_counter()
    estimators.resampled(np.stack(totals, axis=1), log.client_ids, 0, 1000)
    return {
        "rows": _ROWS,
        "clients": _CLIENTS,
        "estimates_seconds": round(estimated - start, 2),
        "bootstrap_seconds": round(time.perf_counter() - estimated, 2),
        "peak_memory_mb": round(_peak_mb([psutil.Process()])),
    }


def _cpu_seconds(processes: Iterable[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def _peak_mb(processes: Iterable[psutil.Process]) -> float:
    """Sum of the peak resident memory (VmHWM) of the processes."""
    texts = [pathlib.Path(f"/proc/{process.pid}/status").read_text() for process in processes]
    return sum(int(text.partition("VmHWM:")[2].split()[0]) for text in texts) / 2**10


def _machine() -> dict[str, Any]:
    from bandits.results import runs

    return {"processor": runs.processor(), "cores": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()[0]}


if __name__ == "__main__":
    cli.main(define(), program)
