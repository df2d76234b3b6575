"""Arms over several tasks: scores of which 0 is chance and 1 the ceiling, and their interquartile mean."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bandits.results import bootstrap, landmarks, words
from bandits.results.comparison import Landmark, Values
from bandits.results.significance import Better
from optimization.study import intervals
from optimization.study.intervals import Interval

LEAST_SEEDS = 5  # The interval of nominally 95% holds the true value in 91% of trials with five seeds, 81% with three.
WHAT_IT_IS = (
    "Normalized scores are 0 at the uniform policy's mean reward on a task and 1 at that of the full-feedback "
    "baseline. Shown is the interquartile mean over all tasks and seeds, with a 95% interval by a bootstrap of "
    "the seeds within each task: it is about other seeds, not other tasks."
)


class Scale(NamedTuple):
    """Arms that lie between one chance and one ceiling.

    Attributes:
      task: Name of the task; it may have several scales, for arms of its own each.
      values: A number an arm and seed; not a number where a run diverged.
      chance: What uniformly random actions earn.
      ceiling: What the model that is shown all rewards earns.
    """

    task: str
    values: Values
    chance: Landmark
    ceiling: Landmark


@dataclasses.dataclass(frozen=True)
class OverTasks:
    """Arms over several tasks.

    Attributes:
      tasks: Those that count.
      scores: By arm that all of these have: its interquartile mean and interval, the best first.
      seeds: By arm, how many seeds of each task count.
      left_out: Which tasks and arms do not count, and why, in words.
    """

    tasks: tuple[str, ...]
    scores: Mapping[str, Interval]
    seeds: Mapping[str, int]
    left_out: tuple[str, ...]


def over(scales: Sequence[Scale], better: Better = "up") -> OverTasks | None:
    """Returns what arms reach over several tasks; None, if no arm has numbers on two of them.

    Of an arm with more seeds on one task than on another, the first so many count. What diverged, or has fewer than
    `LEAST_SEEDS`, is left out, and so is a task whose chance and ceiling meet, or whose ceiling an arm exceeds with its
    whole interval.

    Args:
      scales: The arms, between their chance and ceiling.
      better: Whether more or less is better.
    """
    played: dict[str, set[str]] = {}
    for scale in scales:
        played.setdefault(scale.task, set()).update(scale.values)
    if not any(arm in other for task, some in played.items() for arm in some for other in _others(played, task)):
        return None
    normal: dict[str, dict[str, dict[int, float]]] = {}
    left_out: list[str] = []
    for scale in scales:
        why = _diverged((landmarks.CHANCE, scale.chance), (landmarks.CEILING, scale.ceiling))
        try:
            if why:
                raise ValueError(why)
            found = landmarks.normalised(scale.values, scale.chance, scale.ceiling, better)
            if above := [arm for arm, values in found.items() if intervals.of_mean(list(values.values())).low > 1]:
                raise ValueError(f"{above[0]} is beyond {landmarks.CEILING}, which may be deployed less often")
        except ValueError as error:
            left_out.append(f"{scale.task}: {str(error).rstrip('.')}")
            continue
        own = normal.setdefault(scale.task, {})
        for arm, values in found.items():
            if why := _diverged((arm, values)) or _too_few(arm, len(values)):
                left_out.append(f"{scale.task}: {why}")
            else:
                own[arm] = values
    everything = dict.fromkeys(arm for some in normal.values() for arm in some)
    if len(normal) < 2:
        return OverTasks((), {}, {}, (*dict.fromkeys(left_out), "fewer than two tasks are left"))
    common = [arm for arm in everything if all(arm in some for some in normal.values())]
    lacking = [arm for arm in everything if arm not in common]
    for arm in lacking:
        left_out.append(f"{arm} is not on {', '.join(task for task, some in normal.items() if arm not in some)}")
    seeds = {arm: min(len(some[arm]) for some in normal.values()) for arm in common}
    first = {
        task: {arm: {seed: some[arm][seed] for seed in sorted(some[arm])[: seeds[arm]]} for arm in common}
        for task, some in normal.items()
    }
    scores = bootstrap.over_tasks(first)
    ordered = dict(sorted(scores.items(), key=lambda one: -one[1].mean))
    return OverTasks(tuple(normal), ordered, seeds, tuple(dict.fromkeys(left_out)))


def _too_few(arm: str, seeds: int) -> str:
    if seeds >= LEAST_SEEDS:
        return ""
    return f"{arm} has {words.seeds(seeds)}, and an interquartile mean needs {LEAST_SEEDS}"


def lines(found: OverTasks) -> list[str]:
    """Returns what arms reach over tasks, for a terminal."""
    told = []
    if found.scores:
        width = max(map(len, found.scores))
        told.append(f"Over {len(found.tasks)} tasks ({'; '.join(found.tasks)}). {WHAT_IT_IS}")
        told += [
            f"  {arm:<{width}}  {words.interval(one)}, {words.seeds(found.seeds[arm])} of each"
            for arm, one in found.scores.items()
        ]
    if found.left_out:
        told.append(
            f"{'Left out' if found.scores else 'No interquartile mean over tasks'}: {'; '.join(found.left_out)}."
        )
    return told


def _others(played: Mapping[str, set[str]], task: str) -> Iterable[set[str]]:
    return (some for other, some in played.items() if other != task)


def _diverged(*known: tuple[str, Landmark]) -> str:
    """Returns which of some numbers by seed are not finite, in words; empty if all are."""
    for name, values in known:
        numbers = values.items() if isinstance(values, Mapping) else ()
        if lost := [str(seed) for seed, value in numbers if not math.isfinite(value)]:
            return f"{name} diverged with seed{'s' * (len(lost) > 1)} {', '.join(lost)}"
    return ""
