"""Configurations over several tasks: the interquartile mean of normalized scores."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bandits.results import baselines, bootstrap, tables
from bandits.results.comparison import Better, Landmark, Values
from bandits.results.configurations import Part
from bandits.results.tables import Section
from optimization.study import intervals
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

LEAST_SEEDS = 5  # The interval of nominally 95% holds the true value in 91% of trials with five seeds, 81% with three.
_WHAT_IT_IS = (
    "Normalized scores are 0 at the uniform policy's mean reward on a task and 1 at that of the full-feedback "
    "baseline. Shown is the interquartile mean over all tasks and seeds, with a 95% interval by a bootstrap of "
    "the seeds within each task: it is about other seeds, not other tasks."
)


class Scale(NamedTuple):
    """Configurations that share their uniform policy and full-feedback baseline.

    Attributes:
      task: Name of the task; it may have several scales, for configurations of its own each.
      values: A number for each configuration and seed; not a number where a run diverged.
      uniform: Reward of the uniform policy.
      full_feedback: Reward of the full-feedback baseline.
    """

    task: str
    values: Values
    uniform: Landmark
    full_feedback: Landmark


@dataclasses.dataclass(frozen=True)
class OverTasks:
    """Configurations over several tasks.

    Attributes:
      tasks: Tasks that count.
      scores: Interquartile mean and interval by configuration that all tasks have, the best first.
      seeds: By configuration, how many seeds of each task count.
      left_out: Which tasks and configurations do not count, and why, in words.
    """

    tasks: tuple[str, ...]
    scores: Mapping[str, Interval]
    seeds: Mapping[str, int]
    left_out: tuple[str, ...]


def over(scales: Sequence[Scale], better: Better = "up") -> OverTasks | None:
    """Scores of configurations over several tasks; None if no configuration has numbers on two of them.

    If tasks have different numbers of seeds, the first ones count. Diverged configurations and those with fewer than
    `LEAST_SEEDS` seeds are left out. So are tasks whose baselines overlap, or whose full-feedback baseline lies below a
    configuration's whole interval.

    Args:
      scales: The configurations with their baselines.
      better: Whether more or less is better.
    """
    of_tasks = Counter(
        configuration
        for configuration, _ in {(configuration, scale.task) for scale in scales for configuration in scale.values}
    )
    if not of_tasks or max(of_tasks.values()) < 2:
        return None
    normal: dict[str, dict[str, dict[int, float]]] = {}
    left_out: list[str] = []
    few: dict[str, None] = {}  # Configurations with too few seeds on a task.
    for scale in scales:
        why = _diverged((baselines.UNIFORM, scale.uniform), (baselines.FULL_FEEDBACK, scale.full_feedback))
        try:
            if why:
                raise ValueError(why)
            found = baselines.normalized(scale.values, scale.uniform, scale.full_feedback, better)
            if above := [
                configuration
                for configuration, values in found.items()
                if intervals.of_mean(list(values.values())).low > 1
            ]:
                raise ValueError(f"{above[0]} is beyond {baselines.FULL_FEEDBACK}, which may be deployed less often")
        except ValueError as error:
            left_out.append(f"{scale.task}: {str(error).rstrip('.')}")
            continue
        own = normal.setdefault(scale.task, {})
        for configuration, values in found.items():
            if len(values) < LEAST_SEEDS:
                few[configuration] = None
            elif why := _diverged((configuration, values)):
                left_out.append(f"{scale.task}: {why}")
            else:
                own[configuration] = values
    if few:
        left_out.append(f"fewer than {LEAST_SEEDS} seeds: {' / '.join(few)}")
    everything = dict.fromkeys(configuration for some in normal.values() for configuration in some)
    if len(normal) < 2:
        return OverTasks((), {}, {}, (*dict.fromkeys(left_out), "fewer than two tasks are left"))
    common = [configuration for configuration in everything if all(configuration in some for some in normal.values())]
    lacking = [configuration for configuration in everything if configuration not in common]
    for configuration in lacking:
        left_out.append(
            f"{configuration} is not on {', '.join(task for task, some in normal.items() if configuration not in some)}"
        )
    seeds = {configuration: min(len(some[configuration]) for some in normal.values()) for configuration in common}
    first = {
        task: {
            configuration: {
                seed: some[configuration][seed] for seed in sorted(some[configuration])[: seeds[configuration]]
            }
            for configuration in common
        }
        for task, some in normal.items()
    }
    scores = bootstrap.over_tasks(first)
    ordered = dict(sorted(scores.items(), key=lambda one: -one[1].mean))
    return OverTasks(tuple(normal), ordered, seeds, tuple(dict.fromkeys(left_out)))


def sections(parts: Sequence[Part]) -> list[Section]:
    """Scores over tasks of a report's configurations, by the metric that ranks them."""
    titles = Counter(part.title for part in parts)
    together: dict[Metric, list[Scale]] = {}
    for number, part in enumerate(parts, 1):
        # Tables of different content can share a name.
        task = part.title if titles[part.title] == 1 else f"{part.title}, {number}"
        for configuration in part.configurations if part.columns else ():
            column, known = part.columns[0], part.baselines(configuration)
            if known.uniform is not None and known.full_feedback is not None and not configuration.role:
                scale = Scale(
                    task, {configuration.name: configuration.values(column)}, known.uniform, known.full_feedback
                )
                together.setdefault(column, []).append(scale)
    every = ((column, over(scales, column.better or "up")) for column, scales in together.items())
    return [section(column.about, one) for column, one in every if one]


def section(metric: str, found: OverTasks) -> Section:
    """Section about scores over tasks; without a row if there are none."""
    rows = [
        [configuration, found.seeds[configuration], tables.estimate(score)]
        for configuration, score in found.scores.items()
    ]
    notes = [f"Metric: {metric}. {_WHAT_IT_IS}"] if rows else []
    notes += [f"Left out: {'; '.join(found.left_out)}."] if found.left_out else []
    title = f"Over {len(found.tasks)} tasks ({'; '.join(found.tasks)})" if rows else "No interquartile mean over tasks"
    return Section(title, ("Configuration", "Seeds of each task", "Normalized score"), rows, notes)


def _diverged(*known: tuple[str, Landmark]) -> str:
    """Seeds whose numbers are not finite, in words; empty if all are."""
    for name, values in known:
        numbers = values.items() if isinstance(values, Mapping) else ()
        if lost := [str(seed) for seed, value in numbers if not math.isfinite(value)]:
            return f"{name} diverged with seed{'s' * (len(lost) > 1)} {', '.join(lost)}"
    return ""
