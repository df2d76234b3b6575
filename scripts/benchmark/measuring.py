"""What all benchmarks do: medians of what is played in turns, memory of processes, what the machine is, and JSON."""

import json
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from data import files
from optimization.study import cli


def define_output(flags: cli.FlagSet, default: str) -> None:
    """Defines the flag that says where results are written."""
    flags.path("output", default, "JSON file to write")


def flag_set(usage: str, output: str, numbers: Mapping[str, tuple[int, str, int]]) -> cli.FlagSet:
    """Returns the flags of a benchmark that takes whole numbers alone.

    Args:
      usage: How to use it.
      output: Where results are written by default.
      numbers: By flag, its default, its help and the least that it may be.
    """
    flags = cli.FlagSet(usage)
    flags.group("Flags")
    for name, (default, help_text, low) in numbers.items():
        flags.integer(name, default, help_text, low=low)
    define_output(flags, output)
    return flags


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
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
    }


def tell(results: Mapping[str, Any], output: str) -> None:
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
