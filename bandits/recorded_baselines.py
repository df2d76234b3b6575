"""Baselines without training: the uniform policy's reward, and the best fixed action's.

Both follow from the labels and the reward matrix. A run records them as `bounds.json`, so that comparisons need no
run of the uniform policy.
"""

import dataclasses
import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.options import BanditOptions, phases
from data import clients, keys, tasks
from optimization.options import Cohorts

MOST_CLIENTS = 2000  # Reading more would take seconds.
_DRAWS = 2000  # Of cohorts.


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Mean rewards of some clients' examples.

    Attributes:
      chance: The uniform policy's mean reward.
      constant: The best fixed action's mean reward.
      action: The best fixed action.
      clients: Number of clients read, sampled at random.
      population: Number of clients in all.
      chance_error: Standard error of `chance` as an estimate for the population; 0 if all clients were read.
      constant_error: Standard error of `constant`, likewise.
    """

    chance: float
    constant: float
    action: int
    clients: int
    population: int
    chance_error: float = 0.0
    constant_error: float = 0.0


class Values(NamedTuple):
    """Mean rewards of actions.

    Attributes:
      mean: float64 [actions]; not numbers, if the clients have no example.
      clients: How many clients were read.
      shares: float64 [clients, actions], how far each of them moves the mean: linear, about 0.
    """

    mean: np.ndarray
    clients: int
    shares: np.ndarray


_last: list[tuple[Any, Any, dict[str, Bounds]]] = []  # Of the task at hand, which seeds share.


def of_run(options: BanditOptions, task: tasks.Task) -> dict[str, Bounds]:
    """Bounds of a run's bandit phase.

    Returns:
      `participating`: of the clients that take part, as rewards of rounds weigh them: each example of a client of n
      counts min(n, cap) / n, the mean over the draws of the cap, and a client as many as it has left; and a round is
      the mean over its cohort's examples, whatever their number (`weights_of_rounds`). The action is the best on these
      very examples, and its value optimistic by that; where rewards drift, over all rounds. Missing where a selector
      prefers some clients, clients may be absent, or rewards late.
      `held_out`: the same action, and the uniform policy, on held-out examples, in the last round's environment.
    """
    phase = phases(options, task)[-1]
    cap = options.max_examples_per_client
    drift, last = phase.drift, phase.total_rounds
    rounds = range(1, last + 1) if drift.kind != "none" else ()
    acted = [phase.acted_in(round_num) for round_num in rounds]
    is_uniform = phase.selection.is_uniform and phase.delay.kind == "none"
    is_uniform = is_uniform and not phase.cohorts.availability.may_be_absent
    key = (phase.population, phase.rewards, cap, is_uniform, phase.cohorts, drift, tuple(acted))
    if _last and _last[0][0]() is task and _last[0][1] == key:
        return _last[0][2]
    matrix = task.rewards[phase.rewards]
    matrix_of: Any = drift.mean_matrix(matrix, acted, None)
    if drift.kind == "client":
        matrix_of = functools.partial(drift.mean_matrix, matrix, acted)
    values = action_values(task.clients, phase.population, matrix_of, cap, phase.cohorts)
    action = int(np.argmax(values.mean))
    in_the_end = drift.mean_matrix(matrix, [last], None)
    held_out = action_values(task.held_out, range(len(task.held_out)), in_the_end, 0)
    bounds = {}
    if is_uniform:
        bounds["participating"] = _bounds(values, action, len(phase.population))
    bounds["held_out"] = _bounds(held_out, action, len(task.held_out))
    _last[:] = [(weakref.ref(task), key, bounds)]
    return bounds


def _bounds(values: Values, action: int, population: int) -> Bounds:
    errors = [_error(shares, population) for shares in (values.shares.mean(axis=1), values.shares[:, action])]
    return Bounds(float(values.mean.mean()), float(values.mean[action]), action, values.clients, population, *errors)


def _error(shares: np.ndarray, population: int) -> float:
    """Standard error of a mean over clients drawn without replacement (Cochran 1977, section 6.4)."""
    count = len(shares)
    if not 1 < count < population:
        return 0.0
    return float(np.sqrt(count * (1 - count / population) * np.var(shares, ddof=1)))


def action_values(
    population: clients.ClientData,
    indices: Sequence[int],
    matrix: np.ndarray | Callable[[int], np.ndarray],
    cap: int,
    cohort: Cohorts | None = None,
) -> Values:
    """Mean reward of each action, over at most `MOST_CLIENTS` clients.

    Args:
      population: The clients.
      indices: Those that count.
      matrix: float [labels, actions], the reward of an action given one label; several labels add up. Or the function
        of a client's index that gives its own one.
      cap: Most examples of a client that count; 0 for all.
      cohort: How a round's clients are drawn, for the mean of rounds; None for that of all examples.
    """
    chosen: Sequence[int] = indices
    if len(indices) > MOST_CLIENTS:
        draw = keys.generator(0, keys.Purpose.EVALUATION, 0, 1)
        chosen = [indices[place] for place in np.sort(draw.choice(len(indices), MOST_CLIENTS, replace=False))]
    matrix_of = matrix if callable(matrix) else lambda _: matrix
    actions = matrix_of(int(chosen[0]) if len(chosen) else 0).shape[1]
    totals, counts = np.zeros((len(chosen), actions)), np.zeros(len(chosen))
    for place, index in enumerate(chosen):
        labels = population.load(int(index)).labels
        if not (count := len(labels)):
            continue
        counts[place] = min(count, cap or count)
        is_single = labels.ndim == 1
        rewards = matrix_of(int(index)).astype(float)
        occur = np.bincount(labels, minlength=len(rewards)) if is_single else labels.sum(axis=0, dtype=float)
        totals[place] = counts[place] / count * (occur @ rewards)
    if not counts.any():
        return Values(np.full(totals.shape[1], np.nan), len(chosen), np.zeros_like(totals))
    overall = totals.sum(axis=0) / counts.sum()
    gaps = totals - counts[:, np.newaxis] * overall  # They sum to 0, as they do times what is usual.
    weights = weights_of_rounds(counts, cohort) if cohort else np.zeros(len(counts))
    shares = (1 / counts.sum() + weights)[:, np.newaxis] * gaps
    return Values(overall + weights @ gaps, len(chosen), shares)


def weights_of_rounds(counts: np.ndarray, cohort: Cohorts) -> np.ndarray:
    """Weight of a client's sums in a round's mean, relative to its weight in the mean of all examples.

    The mean is that over the examples of a round's cohort; of rounds without an example there is none.

    It is not the mean over all examples where clients are unequal: a large one makes its own rounds large, and counts
    less in them. Each client is averaged over drawn others of its round, so that little is left to the draws.

    Args:
      counts: float64 [clients], their examples; not all are 0.
      cohort: How a round's clients are drawn.

    Returns:
      float64 [clients], up to a constant.
    """
    number = len(counts)
    size = min(cohort.size, number)
    usual, weights, rounds = 1 / (size * counts.mean()), np.zeros(number), 0.0
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
        rounds += has_any.sum() / joins.sum()
    if cohort.sampling == "poisson":
        rounds = _DRAWS * (1 - (1 - size / number) ** np.count_nonzero(counts))
    return weights / rounds


def as_json(by_name: Mapping[str, Bounds]) -> dict[str, Any]:
    """Content of `bounds.json`."""
    return {name: dataclasses.asdict(bounds) for name, bounds in by_name.items()}
