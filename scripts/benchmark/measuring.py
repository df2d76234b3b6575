"""What the benchmarks share: medians of alternating rounds, memory, the machine, the report, and generated tasks."""

import json
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bandits.results import runs
from data import clients, files, random_data, tasks, text
from data.tasks import images, rewards

# Models of posterior rounds and their parameters, known before TensorFlow is imported.
ROUND_MODELS = {"cnn": 1_663_370, "resnet18": 11_227_812}
WORDS, TAGS = 10_000, 50
_MOST_WORDS = 256  # Of a post, as the published presets have it.


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


def emnist(population: int) -> tasks.Task:
    """Returns EMNIST's task on a number of clients with 197.5 examples on average, as in the data set."""
    generated, _ = random_data.emnist("chars", population)
    return tasks.Task(
        clients=generated,
        held_out=generated,
        num_actions=62,
        feature_spec=((28, 28, 1), "float32"),
        model="cnn",
        model_arguments={"num_outputs": 62},
        rewards={"exact": rewards.exact(62)},
    )


def fashion_mnist(population: int) -> tasks.Task:
    """Returns Fashion-MNIST's task on clients of 600 examples."""

    def make(draw: np.random.Generator) -> clients.Examples:
        features = draw.random((600, 28, 28, 1), dtype=np.float32)
        return clients.Examples(features, draw.integers(0, 10, 600, dtype=np.int32))

    source = images.TASKS["fashion_mnist"]
    shape, num_actions, hidden = source.shape, source.num_actions, source.hidden
    generated = random_data.RandomClients(population, make)
    return tasks.Task(
        clients=generated,
        held_out=generated,
        num_actions=num_actions,
        feature_spec=(shape, "float32"),
        model="mlp",
        model_arguments={"num_features": 784, "hidden": hidden, "num_outputs": num_actions},
        rewards={"exact": rewards.exact(num_actions)},
    )


def stackoverflow(population: int) -> tasks.Task:
    """Returns Stack Overflow's task on a number of clients with 100 or more posts of 5 to 130 words."""
    generated, _ = random_data.stackoverflow(WORDS, TAGS, _MOST_WORDS, population)
    return tasks.Task(
        clients=generated,
        held_out=generated,
        num_actions=TAGS,
        feature_spec=text.Bags,
        model="bag_of_words",
        model_arguments={"vocabulary_size": WORDS, "num_outputs": TAGS},
        rewards={"exact": rewards.exact(TAGS)},
        multi_label=True,
    )
