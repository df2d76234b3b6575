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
from optimization.options import Cohorts

MOST_CLIENTS = 2000  # More would take seconds to read.
_DRAWS = 2000  # Of cohorts.


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
      counts min(n, cap) / n, the mean over the draws of the cap, and a client as many as it has left; and a round is
      the mean over its cohort's examples, whatever their number (`mean_of_rounds`). The action is the best on these
      very examples, and its value optimistic by that. Missing where a selector prefers some clients.
      `held_out`: the same action, and chance, on all held-out examples of as many clients.
    """
    phase = phases(options, task)[-1]
    cap = options.max_examples_per_client
    key = (phase.population, phase.rewards, cap, phase.selection.is_uniform, phase.cohorts)
    if _last and _last[0][0]() is task and _last[0][1] == key:
        return _last[0][2]
    matrix = task.rewards[phase.rewards]
    values, read = action_values(task.clients, phase.population, matrix, cap, phase.cohorts)
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
    population: clients.ClientData,
    indices: Sequence[int],
    matrix: np.ndarray,
    cap: int,
    cohort: Cohorts | None = None,
) -> tuple[np.ndarray, int]:
    """Returns the mean reward of each action, and of how many clients it is: of `MOST_CLIENTS` at most.

    Args:
      population: The clients.
      indices: Those that count.
      matrix: float32 [labels, actions], the reward of an action given one label; several labels add up.
      cap: Most examples of a client that count; 0 for all.
      cohort: How a round's clients are drawn, for the mean of rounds; None for that of all examples.

    Returns:
      (float64 [actions], clients); not numbers, if they have no example.
    """
    chosen: Sequence[int] = indices
    if len(indices) > MOST_CLIENTS:
        draw = keys.generator(0, keys.Purpose.EVALUATION, 0, 1)
        chosen = [indices[place] for place in np.sort(draw.choice(len(indices), MOST_CLIENTS, replace=False))]
    totals, counts = np.zeros((len(chosen), matrix.shape[1])), np.zeros(len(chosen))
    for place, index in enumerate(chosen):
        labels = population.load(int(index)).labels
        if not (count := len(labels)):
            continue
        counts[place] = min(count, cap or count)
        is_single = labels.ndim == 1
        occur = np.bincount(labels, minlength=len(matrix)) if is_single else labels.sum(axis=0, dtype=float)
        totals[place] = counts[place] / count * (occur @ matrix.astype(float))
    if not counts.any():
        return np.full(matrix.shape[1], np.nan), len(chosen)
    return mean_of_rounds(totals, counts, cohort) if cohort else totals.sum(axis=0) / counts.sum(), len(chosen)


def mean_of_rounds(totals: np.ndarray, counts: np.ndarray, cohort: Cohorts) -> np.ndarray:
    """Returns the expected mean over the examples of a round's cohort; of rounds without an example there is none.

    It is not the mean over all examples where clients are unequal: a large one makes its own rounds large, and counts
    less in them. Each client is averaged over drawn others of its round, so that little is left to the draws.

    Args:
      totals: float64 [clients, actions], sums over a client's examples.
      counts: float64 [clients], how many those are; not all are 0.
      cohort: How a round's clients are drawn.

    Returns:
      float64 [actions].
    """
    number, overall = len(counts), totals.sum(axis=0) / counts.sum()
    size = min(cohort.size, number)
    gaps = totals - counts[:, np.newaxis] * overall  # They sum to 0, as they do times what is usual.
    usual, weights, played = 1 / (size * counts.mean()), np.zeros(number), 0.0
    draw = keys.generator(0, keys.Purpose.EVALUATION, 0, 2)
    for _ in range(_DRAWS):
        if cohort.sampling == "poisson":
            is_other, joins = draw.random(number) < size / number, np.ones(number, bool)
        else:
            is_other = np.zeros(number, bool)
            is_other[draw.choice(number, size - 1, replace=False)] = True
            joins = ~is_other
        examples = counts @ is_other + np.where(is_other, 0.0, counts)
        has_any = joins & (examples > 0)
        inverse = np.divide(1.0, examples, out=np.full(number, usual), where=has_any)
        weights += size / joins.sum() * joins * (inverse - usual)
        played += has_any.sum() / joins.sum()
    if cohort.sampling == "poisson":
        played = _DRAWS * (1 - (1 - size / number) ** np.count_nonzero(counts))
    return overall + weights @ gaps / played


def as_json(found: Mapping[str, Bounds]) -> dict[str, Any]:
    """Returns the content of `bounds.json`."""
    return {name: dataclasses.asdict(bounds) for name, bounds in found.items()}
