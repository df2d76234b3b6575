"""A study without TensorFlow and without a worker, for tests of what runs studies.

Its score after R rounds is R - log10(rate / peak)^2 + seed / 1000, summed up round by round through checkpoints.
"""

import dataclasses
import math
import os
import pathlib
import signal
import time
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from data.errors import UsageError
from data.settings import Setting
from optimization.study import cli, frame, interruption, loggers
from optimization.study.metrics import Metric

SCORE = Metric("score", "Score", better="up")


@dataclasses.dataclass(frozen=True)
class ToyOptions:
    """What the flags mean: `step` is what a round adds to the score."""

    step: float
    total_rounds: int
    seed: int


class ToyData(NamedTuple):
    """No data."""

    checksum: str = "digest"
    report: Mapping[str, Any] = types.MappingProxyType({})
    statistics: Mapping[str, Any] = types.MappingProxyType({})


class ToyStudy(frame.Study[ToyOptions, ToyData]):
    """Executes its rounds itself."""

    usage = "toy"
    presets = pathlib.Path(__file__).parent / "toy_presets"
    shown_in_presets = ("rate",)
    chosen = "kind"
    columns = (SCORE,)
    headline = ranked_by = SCORE
    rounds_per_checkpoint = 1
    name_help = "toy"

    def define(self, flags: cli.FlagSet) -> None:
        of_rates = ("server_learning_rate", "client_learning_rate", "peak")
        flags.add(
            Setting("rate", float, "a number to search", 0.1, high=100.0, above=True),
            *(Setting(name, float, "another one", 0.1) for name in of_rates),
            Setting("kind", ["plain", "odd"], "a word", "plain"),
            Setting("total_rounds", int, "rounds", 4, low=1),
            Setting("burn_in_rounds", int, "half of the rounds, unless given"),
            Setting("waits_for", str, "file without which no round after the second begins"),
            Setting("finishes", bool, "a signal lets the round in progress finish, as in the loop", False),
            Setting("fails_at", float, "rate that fails"),
            Setting("dies_in", str, "folder for marker files; each run kills its own process once, in round 2"),
        )

    def resolve(self, settings: cli.Settings) -> cli.Settings:
        if settings.kind == "odd" and "fails_at" in settings.set_by_user:
            raise UsageError("--fails_at has no effect with --kind=odd.")
        return settings.with_defaults({"experiment_name": "toy"})

    def options(self, settings: cli.Settings) -> ToyOptions:
        gain = settings.seed / 1000 - math.log10(settings.rate / settings.peak) ** 2
        return ToyOptions(1 + gain / settings.total_rounds, settings.total_rounds, settings.seed)

    def open(self, options: ToyOptions) -> ToyData:
        return ToyData()

    def start_worker(self, settings: cli.Settings) -> None:
        pass

    def execute(self, run: frame.Run) -> int | None:
        settings, options, folder = run.settings, run.options, run.folder
        if settings.rate == settings.fails_at:
            raise ValueError("this rate fails")
        total, first = np.float64(0), 0
        if checkpoint := folder.newest_checkpoint([total], options.total_rounds):
            first, (total,) = checkpoint
            print(f"Continuing after round {first}")
        log = loggers.CsvFile()
        length = options.total_rounds
        log.on_start(observed := loggers.ObservedRun(folder, folder.path, {}, "toy", self.columns, length, first))
        received = interruption.hold("stopping") if settings.finishes else []
        for round_num in range(first + 1, options.total_rounds + 1):
            if received:
                return received[0]
            while settings.waits_for and round_num > 2 and not os.path.exists(settings.waits_for):
                time.sleep(0.02)
            total = np.float64(total + options.step)
            mark = pathlib.Path(settings.dies_in or ".", f"{settings.experiment_name.replace('/', '_')}.died")
            if settings.dies_in and round_num == 2 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            log.on_round({"round_num": round_num, SCORE: total, "seconds": 0})
            folder.save_checkpoint(round_num, [total])
        log.on_end(observed)
        print(f"pid {os.getpid()}")
        return None


STUDY = ToyStudy()

if __name__ == "__main__":
    frame.main(STUDY)
