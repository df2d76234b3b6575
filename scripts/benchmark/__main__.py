"""Benchmarks on this machine: `python -m scripts.benchmark --what=...`; see `--help`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import importlib
import pathlib
from collections.abc import Mapping
from typing import Any

from data import files
from data.errors import UsageError
from optimization.study import cli
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

With --what=flags, all other flags are those of every run; `run_federated --helpfull` lists them.
"""
# What is measured -> defaults that are its own. A module of this package of that name measures it.
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "rounds": {"rounds": 10, "cohorts": "64,8,512", "output": "benchmark.json"},
    "selection": {"rounds": 30},
    "posterior": {"clients": 100, "cohorts": "10,20"},
    "evaluation": {"clients": 10_000},
    "flags": {"rounds": 200},
}


def define() -> cli.FlagSet:
    """Returns the flags of `benchmark`; with `--what=flags`, those of its runs are passed on."""
    flags = cli.FlagSet(_USAGE, "run_flags", known_only=True)
    flags.group("Flags")
    flags.choice("what", "rounds", list(_DEFAULTS), "what is measured")
    flags.path("output", None, "JSON file to write (default: benchmark.json, or WHAT_benchmark.json)")
    flags.group("Rounds, selection, flags", what=("rounds", "selection", "flags"))
    flags.integer("rounds", None, "measured rounds (default: 10, 30, 200); of rounds, the first cohort size's", low=3)
    flags.group("Rounds", what=("rounds",))
    flags.choice("task", "emnist", ["emnist", "stackoverflow"], "whose rounds are measured")
    flags.text("populations", "3400,300000", "clients to sample from, separated by commas")
    flags.integer("max_concurrent_threads", 0, "clients computed at the same time; 0 for as many as cores")
    flags.group("Rounds, posterior", what=("rounds", "posterior"))
    flags.text("cohorts", None, "clients per round, separated by commas (default: 64,8,512, or 10,20)")
    flags.group("Selection", what=("selection",))
    flags.integer("population", 1_000_000, "clients to select from", low=1)
    flags.integer("cohort", 64, "clients to select", low=1)
    flags.group("Posterior", what=("posterior",))
    flags.choice("round_model", None, list(measuring.ROUND_MODELS), "measure whole rounds of this model instead")
    flags.integer("parameters", 1_200_000, "parameters of a model", low=1)
    flags.choice("kernel", "epanechnikov", ["epanechnikov", "gaussian"], "kernel of the density")
    flags.choice("algorithm", "fedkp_cluster_mean", ["fedkp_cluster_mean", "fedkp"], "what is shifted")
    flags.choice("mean_shift_weights", "kernel", ["kernel", "profile"], "weight of a client in a step")
    flags.integer("samples", 0, "samples of a client's chain in whole rounds (FedKPPA); 0 for plain SGD", low=0)
    flags.belong("parameters", round_model=False)
    flags.belong("samples", round_model=True)
    flags.group("Posterior, evaluation", what=("posterior", "evaluation"))
    flags.integer("clients", None, "models of the cohort (default: 100), or clients of the log (default: 10000)", low=1)
    flags.group("Evaluation", what=("evaluation",))
    flags.integer("rows", 1_000_000, "rows of the log", low=1)
    flags.integer("actions", 50, "actions", low=2)
    flags.integer("draws", 1000, "draws of the bootstrap", low=1)
    flags.group("Flags of run_federated", what=("flags",))
    flags.texts("change", "flags of run_federated whose cost is measured, as one word; may be given several times")
    flags.integer("warmup", 30, "rounds before the measured ones", low=1)
    return flags


def program(settings: cli.Settings) -> None:
    """Measures, prints, and writes JSON.

    Raises:
      UsageError: If flags do not fit together.
    """
    settings = settings.settled()
    if settings.run_flags and settings.what != "flags":
        raise UsageError(f"{settings.run_flags[0]} is no flag of --what={settings.what}; --helpfull lists all flags.")
    defaults = {"output": f"{settings.what}_benchmark.json", **_DEFAULTS[settings.what]}
    settings = settings.replace(**{name: value for name, value in defaults.items() if settings[name] is None})
    files.check_output("output", pathlib.Path(settings.output))
    measure = importlib.import_module(f"scripts.benchmark.{settings.what}").measure
    measuring.report(measure(settings), settings.output)


if __name__ == "__main__":
    cli.main(define(), program)
