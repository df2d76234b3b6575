"""An experiment binary without TensorFlow, for tests of what plays experiments.

Its score after R rounds is R - log10(rate / peak)^2 + seed / 1000, summed up round by round through checkpoints.
"""

import math
import os
import pathlib
import signal
import time
import types

import numpy as np

from data.errors import UsageError
from optimization.study import cli, metrics_file, run_folder


def define() -> cli.FlagSet:
    """Returns its flags."""
    defined = cli.FlagSet("toy")
    defined.group("Flags")
    defined.number("rate", 0.1, "a number to search", high=100.0, above=True)
    defined.number("server_learning_rate", 0.1, "another one")
    defined.number("client_learning_rate", 0.1, "another one")
    defined.choice("kind", "plain", ["plain", "odd"], "a word")
    defined.number("peak", 0.1, "rate of the best score")
    defined.integer("total_rounds", 4, "rounds", low=1)
    defined.integer("seed", 0, "seed")
    defined.text("preset", None, "big, for 100 rounds of rate 2")
    defined.integer("burn_in_rounds", None, "half of the rounds, unless given")
    defined.text("waits_for", None, "file without which no round after the second is played")
    defined.number("fails_at", None, "rate that fails")
    defined.number("diverges_at", None, "rate whose score is not a number")
    defined.text("dies_in", None, "folder of marks: the process kills itself in round 2, once a run")
    defined.text("root_output_dir", "runs", "output")
    defined.text("experiment_name", "toy", "output")
    defined.integer("repeat", 1, "runs")
    defined.integer("max_concurrent_threads", 0, "threads")
    return defined


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in what the preset sets."""
    if settings.preset:
        settings = settings.with_defaults({"total_rounds": 100, "rate": 2.0})
    if settings.kind == "odd" and "fails_at" in settings.given:
        raise UsageError("--fails_at has no effect with --kind=odd.")
    return settings


flags = types.SimpleNamespace(define=define, resolve=resolve)


def program(settings: cli.Settings) -> int:
    """Plays a run, from its last checkpoint on."""
    settings = resolve(settings)
    folder = run_folder.RunFolder(f"{settings.root_output_dir}/{settings.experiment_name}")
    folder.open(settings, "digest")
    if settings.rate == settings.fails_at:
        raise ValueError("this rate fails")
    total = np.float64(0)
    first = 0
    if found := folder.newest_checkpoint([total], settings.total_rounds):
        first, (total,) = found
        print(f"Continuing after round {first}")
    metrics = metrics_file.MetricsFile(folder.metrics_path, ["round_num", "score", "threads"], first)
    step = 1 + (settings.seed / 1000 - math.log10(settings.rate / settings.peak) ** 2) / settings.total_rounds
    for round_num in range(first + 1, settings.total_rounds + 1):
        while settings.waits_for and round_num > 2 and not os.path.exists(settings.waits_for):
            time.sleep(0.02)
        total = np.float64(total + step)
        if settings.dies_in and round_num == 2:
            _die_once(pathlib.Path(settings.dies_in) / f"{settings.experiment_name.replace('/', '_')}.died")
        score = math.nan if settings.rate == settings.diverges_at else total
        metrics.write({"round_num": round_num, "score": score, "threads": settings.max_concurrent_threads})
        folder.save_checkpoint(round_num, [total])
    metrics.close()
    print(f"pid {os.getpid()}")
    return 0


def _die_once(mark: pathlib.Path) -> None:
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
