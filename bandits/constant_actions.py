"""What needs no training: the reward of uniformly random actions, and of one action that is always chosen.

Both follow from the labels and the reward matrix. A run records them as `bounds.json`, so that whoever compares runs
knows what chance earns without having played it.
"""

import dataclasses
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandits.options import BanditOptions, phases
from data import clients, keys, tasks

MOST_CLIENTS = 2000  # More would take seconds to read.


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Mean rewards of some clients' examples.

    Attributes:
      chance: Of uniformly random actions.
      constant: Of the constant action.
      action: That action.
      clients: How many clients were read.
      population: Of how many, drawn at random.
    """

    chance: float
    constant: float
    action: int
    clients: int
    population: int


_last: list[tuple[Any, Any, dict[str, Bounds]]] = []  # Of the task at hand, which seeds share.


def of_run(options: BanditOptions, task: tasks.Task) -> dict[str, Bounds]:
    """Returns the bounds of a run's bandit phase.

    Returns:
      `participating`: of the clients that take part, as rewards of rounds weigh them: each example of a client of n
      counts min(n, cap) / n, the mean over the draws of the cap, and a client as many as it has left. The action is the
      best on these very examples, and its value optimistic by that. Missing where a selector prefers some clients.
      `held_out`: the same action, and chance, on all held-out examples of as many clients.
    """
    phase = phases(options, task)[-1]
    cap = options.max_examples_per_client
    key = (phase.population, phase.rewards, cap, phase.selection.is_uniform)
    if _last and _last[0][0]() is task and _last[0][1] == key:
        return _last[0][2]
    matrix = task.rewards[phase.rewards]
    values, read = action_values(task.clients, phase.population, matrix, cap)
    action = int(np.argmax(values))
    held_out, others = action_values(task.held_out, range(len(task.held_out)), matrix, 0)
    found = {}
    if phase.selection.is_uniform:
        found["participating"] = _bounds(values, action, read, len(phase.population))
    found["held_out"] = _bounds(held_out, action, others, len(task.held_out))
    _last[:] = [(weakref.ref(task), key, found)]
    return found


def _bounds(values: np.ndarray, action: int, read: int, population: int) -> Bounds:
    return Bounds(float(values.mean()), float(values[action]), action, read, population)


def action_values(
    population: clients.ClientData, indices: Sequence[int], matrix: np.ndarray, cap: int
) -> tuple[np.ndarray, int]:
    """Returns the mean reward of each action, and of how many clients it is: of `MOST_CLIENTS` at most.

    Args:
      population: The clients.
      indices: Those that count.
      matrix: float32 [labels, actions], the reward of an action given one label; several labels add up.
      cap: Most examples of a client that count; 0 for all.

    Returns:
      (float64 [actions], clients); not numbers, if they have no example.
    """
    chosen: Sequence[int] = indices
    if len(indices) > MOST_CLIENTS:
        draw = keys.generator(0, keys.Purpose.EVALUATION, 0, 1)
        chosen = [indices[place] for place in np.sort(draw.choice(len(indices), MOST_CLIENTS, replace=False))]
    totals, examples = np.zeros(len(matrix)), 0.0
    for index in chosen:
        labels = population.load(int(index)).labels
        if not (count := len(labels)):
            continue
        weight = min(count, cap or count) / count
        is_single = labels.ndim == 1
        totals += weight * (
            np.bincount(labels, minlength=len(matrix)) if is_single else labels.sum(axis=0, dtype=float)
        )
        examples += weight * count
    values = totals @ matrix.astype(float)
    return (values / examples if examples else np.full(len(values), np.nan)), len(chosen)


def as_json(found: Mapping[str, Bounds]) -> dict[str, Any]:
    """Returns the content of `bounds.json`."""
    return {name: dataclasses.asdict(bounds) for name, bounds in found.items()}
