"""How long rounds of two checkouts take: measured in turns, since a machine's speed drifts."""

import json
import os
import pathlib
import shutil
import statistics

from data import files
from scripts import version_runs

_TURNS = 5
# Key of the benchmark's JSON -> its flags.
_BENCHMARKS = {
    "main": ("--rounds=10", "--cohorts=64", "--populations=3400"),
    "stackoverflow": ("--task=stackoverflow", "--rounds=40", "--cohorts=64", "--populations=3400"),
}
_FIGURES = ("seconds_per_round", "cpu_seconds_per_round", "first_round_after_start_seconds")


def measure(old: version_runs.Side, new: version_runs.Side, output: pathlib.Path) -> None:
    """Measures both in turns, prints medians and ratios, and writes all values to `speed.json`.

    Raises:
      Failure: If a program ends in an error.
    """
    values: dict[str, tuple[list[float], list[float]]] = {}
    for turn in range(_TURNS):
        for place, side in sorted(enumerate((old, new)), reverse=bool(turn % 2)):
            for what, value in _measure_once(side, output / "speed").items():
                values.setdefault(what, ([], []))[place].append(value)
        files.replace(output / "speed.json", json.dumps(values, indent=2).encode() + b"\n")
        print(f"Turn {turn + 1} of {_TURNS} is done; load average {os.getloadavg()[0]:.1f}.", flush=True)
    print(f"{'median':<50}{'old':>9}{'new':>9}{'ratio':>9}")
    for what, both in values.items():
        before, after = map(statistics.median, both)
        print(f"{what:<50}{before:>9.3f}{after:>9.3f}{after / before:>9.3f}")


def _measure_once(side: version_runs.Side, folder: pathlib.Path) -> dict[str, float]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    measured: dict[str, float] = {}
    for key, flags in _BENCHMARKS.items():
        result = folder / f"{key}.json"
        version_runs.run(side.command("scripts.benchmark", *flags, f"--output={result}"), folder / f"{key}.txt")
        seconds = json.loads(result.read_text())[key]
        measured |= {f"{key.replace('main', 'emnist')} {name}": seconds[name] for name in _FIGURES}
    return measured
