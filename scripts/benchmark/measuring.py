"""What the benchmarks share: medians of alternating rounds, memory, the machine, and the report."""

import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from bandits.results import runs
from data import files

# Models of posterior rounds and their parameters, known before TensorFlow is imported.
ROUND_MODELS = {"cnn": 1_663_370, "resnet18": 11_227_812}


def seconds_in_turns(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Returns the median seconds of each of several ways, taken in turns: a machine that slows slows all alike.

    Args:
      ways: What is measured. Each is begun once beforehand, and not measured then.
      rounds: How often each is.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - start)
    return {name: round(statistics.median(values[1:]), 4) for name, values in times.items()}


def memory_mb(pids: Iterable[int], field: str) -> float:
    """Returns the megabytes of processes together: `VmRSS` of their memory is what they hold, `VmHWM` the peak."""
    texts = [pathlib.Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(text.partition(f"{field}:")[2].split()[0]) for text in texts) / 2**10


def machine() -> dict[str, Any]:
    """Returns what this machine is, and how busy."""
    return {
        "processor": runs.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
    }


def report(results: Mapping[str, Any], output: str) -> None:
    """Prints results, a number a line, and writes them with the machine's description as JSON."""
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
