"""Benchmarks on this machine: `python -m scripts.benchmark --what=...`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import importlib
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from data import files
from data.errors import UsageError
from optimization.study import cli, interruption
from optimization.study.settings import Numbers, setting
from scripts.benchmark import measuring

_USAGE = """
Benchmarks this machine. Prints a table and writes JSON.

  benchmark                                  # EMNIST's CNN: cohort 64, then 8 and 512, then a population of 300,000
  benchmark --rounds=200 --cohorts=64 --populations=3400
  benchmark --task=stackoverflow --rounds=500     # 10,000 words, 50 tags, at most 256 posts a client, of 5 to 130 words
  benchmark --what=selection --population=10000000
  benchmark --what=posterior                        # cluster mean of 100 clients x 1.2 million parameters
  benchmark --what=posterior --round_model=cnn --cohorts=20,100   # whole rounds: seconds, peak memory with the worker
  benchmark --what=posterior --round_model=resnet18 --samples=20  # FedKPPA's: each client's chain has 20 samples
  benchmark --what=evaluation --rows=100000 --clients=1000 --draws=10000
  benchmark --what=flags --change=--reward_drift=abrupt --change=--reset=model --task_type=digits
  benchmark --what=federation --task_type=digits    # alone, pooled, personalized: seconds and bytes of a round

With --what=flags and --what=federation, all other flags are those of every run; `run_federated --helpfull` lists them.
"""
# Defaults by measurement. The module of this package with that name measures it.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "rounds": {"rounds": 10, "cohorts": (64, 8, 512), "output": "benchmark.json"},
    "selection": {"rounds": 30},
    "posterior": {"clients": 100, "cohorts": (10, 20)},
    "evaluation": {"clients": 10_000},
    "flags": {"rounds": 200},
    "federation": {"rounds": 50},
}
_OF_RUNS = ("flags", "federation")


class _Measured:
    """Flags.

    Attributes:
      what: Measurement.
      output: JSON file to write (default: benchmark.json, or WHAT_benchmark.json).
    """

    what: str = setting("rounds", list(_DEFAULTS))
    output: pathlib.Path = setting()


class _Several:
    """Flags of several measurements.

    Attributes:
      rounds: Measured rounds (default: 10, 30, 200, 50); of rounds, the first cohort size's.
      cohorts: Clients per round, separated by commas (default: 64,8,512, or 10,20).
      clients: Models of the cohort (default: 100), or clients of the log (default: 10000).
    """

    rounds: int = setting(low=3, only={"what": ("rounds", "selection", *_OF_RUNS)})
    cohorts: tuple = setting(words=Numbers(whole=True), only={"what": ("rounds", "posterior")})
    clients: int = setting(low=1, only={"what": ("posterior", "evaluation")})


class _Rounds:
    """Rounds.

    Attributes:
      task: Task of the measured rounds.
      populations: Clients to sample from, separated by commas.
      max_concurrent_threads: Clients computed at the same time; 0 for as many as cores.
    """

    task: str = setting("emnist", ["emnist", "stackoverflow"])
    populations: tuple = setting("3400,300000", Numbers(whole=True))
    max_concurrent_threads: int = setting(0)


class _Selection:
    """Selection.

    Attributes:
      population: Clients to select from.
      cohort: Clients to select.
    """

    population: int = setting(1_000_000, low=1)
    cohort: int = setting(64, low=1)


class _Posterior:
    """Posterior.

    Attributes:
      round_model: Measure whole rounds of this model instead.
      mean_shift_weights: Weight of a client in a step.
      samples: Samples of a client's chain in whole rounds (FedKPPA); 0 for plain SGD.
    """

    round_model: str = setting(words=list(measuring.ROUND_MODELS))
    mean_shift_weights: str = setting("kernel", ["kernel", "profile"])
    samples: int = setting(0, only={"round_model": True})


class _Evaluation:
    """Evaluation.

    Attributes:
      rows: Rows of the log.
      actions: Actions.
      draws: Draws of the bootstrap.
    """

    rows: int = setting(1_000_000, low=1)
    actions: int = setting(50, low=2)
    draws: int = setting(1000, low=1)


class _Changes:
    """Flags of run_federated.

    Attributes:
      change: Flags of run_federated to measure the cost of, as one word; may be given several times (--what=flags).
      warmup: Rounds before the measured ones.
    """

    change: list = setting(only={"what": ("flags",)})
    warmup: int = setting(30, low=1)


def define() -> cli.FlagSet:
    """Flags of `benchmark`; with `--what=flags` or `federation`, those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    flags.group(_Measured)
    flags.group(_Several)
    groups = {"rounds": _Rounds, "selection": _Selection, "posterior": _Posterior, "evaluation": _Evaluation}
    for what, group in groups.items():
        flags.group(group, what=(what,))
    flags.group(_Changes, what=_OF_RUNS)
    return flags


def program(settings: cli.Settings) -> None:
    """Measures, prints, and writes JSON.

    Raises:
      UsageError: If flags conflict.
    """
    settings = settings.settled()
    if settings.run_flags and settings.what not in _OF_RUNS:
        raise UsageError(f"{settings.run_flags[0]} is no flag of --what={settings.what}; --helpfull lists all flags.")
    defaults = {"output": f"{settings.what}_benchmark.json", **_DEFAULTS[settings.what]}
    settings = settings.replace(**{name: value for name, value in defaults.items() if settings[name] is None})
    files.check_output("output", pathlib.Path(settings.output))
    measure = importlib.import_module(f"scripts.benchmark.{settings.what}").measure
    with interruption.answered(lambda signum: sys.exit(128 + signum)):  # Temporary folders are deleted.
        measuring.report(measure(settings), settings.output)


if __name__ == "__main__":
    cli.main(define(), program)
