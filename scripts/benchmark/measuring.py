"""Shared parts of the benchmarks: medians of alternating calls, memory, the machine, and the report."""

import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from bandits.results import runs
from data import files

Result = TypeVar("Result")
# Models of posterior rounds and their parameters, known before TensorFlow is imported.
ROUND_MODELS = {"cnn": 1_663_370, "resnet18": 11_227_812}


def seconds_in_turns(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of several functions, called alternately, so that a drift of the machine's speed affects all.

    Args:
      ways: Functions by name. A first call of each is not measured.
      rounds: Number of measured calls.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            timed(times[name], way)
    return {name: round(statistics.median(values[1:]), 4) for name, values in times.items()}


def timed(times: list[float], call: Callable[..., Result], *arguments: Any) -> Result:
    """Calls a function, and appends its seconds to `times`."""
    start = time.perf_counter()
    result = call(*arguments)
    times.append(time.perf_counter() - start)
    return result


def memory_mb(pids: Iterable[int], field: str) -> float:
    """Total megabytes of processes: `VmRSS` for current memory, `VmHWM` for its peak."""
    texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(text.partition(f"{field}:")[2].split()[0]) for text in texts) / 2**10


def machine() -> dict[str, Any]:
    """Description and load of this machine."""
    return {
        "processor": runs.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
    }


def report(results: Mapping[str, Any], output: str) -> None:
    """Prints results, a number per line, and writes them as JSON with the machine's description."""
    results = {"machine": machine(), **results}
    files.replace(pathlib.Path(output), json.dumps(results, indent=2).encode() + b"\n")
    for words, value in _leaves(results):
        print(f"{words:<80}{value}")
    print(f"\nWritten to {output}.")


def _leaves(value: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield words, value
        return
    for name, part in value.items():
        shown = name if name.startswith("--") else name.replace("_", " ")
        yield from _leaves(part, f"{words} {shown}".strip())
