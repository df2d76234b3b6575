"""Measures the time that flags add to a round, by alternating rounds of runs with and without them.

The plain run is measured twice; its second time shows the measurement error of this machine.
"""

import math
import pathlib
import shlex
import tempfile
import time
from typing import TYPE_CHECKING, Any

from bandits.results import runs as results
from data import files
from data.errors import UsageError
from optimization.study import aggregation_flags, cli, frame, run_folder
from scripts.benchmark import measuring

if TYPE_CHECKING:
    from bandits.experiment import BanditRounds

_AGAIN = "nothing"
_FEWEST_ROUNDS = 10
_folders: list[tempfile.TemporaryDirectory] = []  # Of runs whose clients keep their models; deleted at exit.


def measure(settings: cli.Settings) -> dict[str, Any]:
    """Measures runs with and without the flags.

    Raises:
      UsageError: If there is nothing to compare, or flags are wrong.
    """
    if not settings.change:
        raise UsageError("--change is missing: flags whose cost is measured, as --change=--reward_drift=abrupt.")
    if settings.rounds < _FEWEST_ROUNDS:
        raise UsageError(f"--rounds={settings.rounds}: --what={settings.what} needs at least {_FEWEST_ROUNDS}.")
    rounds = settings.warmup + settings.rounds
    resolved = {name: _resolved(settings.run_flags, name, rounds) for name in dict.fromkeys(settings.change)}
    plain = _resolved(settings.run_flags, "", rounds)

    from optimization.runtime import worker

    worker.start()
    runs = {"plain": _rounds(plain), _AGAIN: _rounds(plain)} | {
        name: _rounds(flags) for name, flags in resolved.items()
    }
    return _measured(runs, settings.warmup, settings.rounds)


def _resolved(run_flags: tuple[str, ...], change: str, rounds: int) -> cli.Settings:
    """Resolved flags of a run with enough rounds."""
    from bandits import flags, run_federated

    words = ["benchmark", f"--total_rounds={rounds}", *run_flags, *shlex.split(change)]
    settings = flags.resolve(frame.flag_set(run_federated.STUDY).parse(words))
    if settings.total_rounds < rounds:
        raise UsageError(
            f"--total_rounds={settings.total_rounds} is less than --warmup and --rounds together: {rounds}."
        )
    return settings


def _rounds(settings: cli.Settings) -> "BanditRounds":
    """Rounds of a run."""
    from bandits import experiment, flags, guarantees, options, run_federated
    from optimization import models

    chosen = flags.options(settings)
    task = run_federated.STUDY.open(chosen)
    *_, phase = options.phases(chosen, task)
    shapes = models.of_task(task, phase.heads).shapes.values()
    if plan := guarantees.plan(phase, sum(map(math.prod, shapes))):
        phase = guarantees.planned(phase, plan.mechanism)
    mechanism = aggregation_flags.mechanism(phase.aggregation, phase.cohorts, len(phase.population), 1)
    _folders.append(tempfile.TemporaryDirectory(prefix="benchmark_"))
    return experiment.BanditRounds(task, phase, mechanism, None, run_folder.RunFolder(_folders[-1].name))


def _measured(runs: "dict[str, BanditRounds]", warmup: int, rounds: int) -> dict[str, Any]:
    """Alternates rounds of all runs in random order; gives the time that each adds to the first run's."""
    import numpy as np
    import scipy.stats

    states = {name: run.initial_state() for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    payload = dict.fromkeys(runs, 0.0)
    generator = np.random.default_rng(0)  # In a fixed order, each run would always have the caches of the same run.
    for round_num in range(1, warmup + rounds + 1):
        for name in generator.permutation(list(runs)):
            states[name], row = measuring.timed(seconds[name], runs[name].run_round, states[name], round_num)
            payload[name] += sum(row.get(column, 0) for column in results.PAYLOAD) / 1e6 / (warmup + rounds)
    plain, *others = ((name, np.array(times[warmup:])) for name, times in seconds.items())
    usual = np.median(plain[1])
    added = {}
    for name, times in others:
        interval = scipy.stats.bootstrap(
            (times - plain[1],), np.median, n_resamples=2000, method="percentile", random_state=0
        ).confidence_interval
        bounds = [round(100 * float(bound / usual), 1) for bound in interval]
        added[name] = {
            "milliseconds": round(1000 * float(np.median(times)), 2),
            "plain_rounds": round(float(np.median(times) / usual), 2),
            "percent_added": round(100 * float(np.median(times - plain[1]) / usual), 1),
            "95% interval": bounds,
            "payload_mb": round(payload[name], 4),
            **_checkpoint(states[name]),
        }
    plain_row = {"plain_milliseconds": round(1000 * float(usual), 2), "plain_payload_mb": round(payload[plain[0]], 4)}
    return {"rounds": rounds, **plain_row, "added_by": added}


def _checkpoint(state: Any) -> dict[str, float]:
    """Returns the megabytes of a state's checkpoint, and the seconds that it takes to write."""
    import tensorflow as tf

    with tempfile.TemporaryDirectory() as folder:
        path, start = pathlib.Path(folder) / "checkpoint.npz", time.perf_counter()
        files.save_arrays(path, {str(index): leaf for index, leaf in enumerate(tf.nest.flatten(state))})
        seconds = time.perf_counter() - start
        return {"checkpoint_mb": round(path.stat().st_size / 1e6, 1), "checkpoint_seconds": round(seconds, 2)}
