"""Configurations over several tasks: the interquartile mean of normalized scores."""

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bandits.results import baselines, comparison, runs, tables
from bandits.results.baselines import Baselines
from bandits.results.comparison import Better
from bandits.results.configuration import Baseline, Configuration
from bandits.results.configurations import ComparableRuns
from bandits.results.tables import Section
from optimization.study import intervals
from optimization.study.intervals import CONFIDENCE, Interval
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import numpy as np

LEAST_SEEDS = 5  # The interval of nominally 95% holds the true value in 91% of trials with five seeds, 81% with three.
_SAMPLES = 2000
_WHAT_IT_IS = (
    "Normalized scores are 0 at the uniform policy's mean reward on a task and 1 at that of the full-feedback "
    "baseline. Shown is the interquartile mean over all tasks and seeds, with a 95% interval by a bootstrap of "
    "the seeds within each task: it is about other seeds, not other tasks."
)

Result = tuple[str, Configuration, Baselines]  # Name of the task, configuration, and its known baselines.


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


def over(results: Sequence[Result], metric: str, better: Better | None = None) -> OverTasks | None:
    """Scores of configurations over several tasks; None if no configuration is on two of them.

    If tasks have different numbers of seeds, the first ones count. Diverged configurations and those with fewer than
    `LEAST_SEEDS` seeds are left out. So are those whose baselines overlap, or whose full-feedback baseline lies below
    the whole interval of a configuration with the same baselines.

    Args:
      results: The configurations of all tasks, with their uniform policy and full-feedback baseline.
      metric: The metric.
      better: Whether more or less is better (default: `comparison.direction`).
    """
    tasks_of = runs.grouped({(one.name, task) for task, one, _ in results}, lambda pair: pair[0])
    if max(map(len, tasks_of.values()), default=0) < 2:
        return None
    better = comparison.direction(metric, better)
    scores: dict[str, dict[str, dict[int, float]]] = {}  # By task, configuration and seed.
    left_out: list[str] = []
    few: dict[str, None] = {}  # Configurations with too few seeds on a task.
    families = runs.grouped(results, lambda result: (result[0], baselines.family_key(result[2], metric)))
    for (task, _), family in families.items():
        try:
            normalized = _normalized(family, metric, better)
        except ValueError as error:
            left_out.append(f"{task}: {str(error).rstrip('.')}")
            continue
        of_task = scores.setdefault(task, {})
        for name, by_seed in normalized.items():
            if len(by_seed) < LEAST_SEEDS:
                few[name] = None
            elif why := _diverged(name, by_seed):
                left_out.append(f"{task}: {why}")
            else:
                of_task[name] = by_seed
    if few:
        left_out.append(f"fewer than {LEAST_SEEDS} seeds: {' / '.join(few)}")
    if len(scores) < 2:
        return OverTasks((), {}, {}, (*dict.fromkeys(left_out), "fewer than two tasks are left"))
    seeds: dict[str, int] = {}
    first: dict[str, list[list[float]]] = {}
    for name in dict.fromkeys(name for of_task in scores.values() for name in of_task):
        if lacking := [task for task, of_task in scores.items() if name not in of_task]:
            left_out.append(f"{name} is not on {', '.join(lacking)}")
            continue
        columns = [of_task[name] for of_task in scores.values()]
        seeds[name] = min(map(len, columns))
        first[name] = [[by_seed[seed] for seed in sorted(by_seed)[: seeds[name]]] for by_seed in columns]
    estimates = interquartile_means(first)
    ranked = sorted(estimates, key=lambda name: -estimates[name].mean)
    return OverTasks(tuple(scores), {name: estimates[name] for name in ranked}, seeds, tuple(dict.fromkeys(left_out)))


def _normalized(family: Sequence[Result], metric: str, better: Better) -> dict[str, dict[int, float]]:
    """Normalized scores, by name and seed, of configurations with the same baselines.

    Raises:
      ValueError: If the baselines give no scale.
    """
    known = family[0][2]
    for baseline in (Baseline.uniform_policy, Baseline.full_feedback):
        reference = known[baseline]
        if isinstance(reference, Configuration) and (why := _diverged(str(baseline), reference.by_seed(metric))):
            raise ValueError(why)
    normalized = {one.name: baselines.normalized(one, known, metric, better) for _, one, _ in family}
    for name, scores in normalized.items():
        if intervals.of_mean(list(scores.values())).low > 1:
            raise ValueError(f"{name} is beyond {Baseline.full_feedback}, which may be deployed less often")
    return normalized


def interquartile_means(scores: "Mapping[str, Sequence[Sequence[float]] | np.ndarray]") -> dict[str, Interval]:
    """Interquartile mean of each configuration's scores, with a 95% interval by the stratified bootstrap.

    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021, section 4: seeds are
    resampled with replacement within each task; the ends are percentiles. It is about other seeds, not other tasks.

    Args:
      scores: By configuration: scores [tasks, seeds].
    """
    import numpy as np
    from rliable import library, metrics

    estimates = {}
    state = np.random.get_state()
    try:
        for name, columns in scores.items():
            matrix = np.array(columns, float).T
            np.random.seed(0)  # rliable samples from the global generator.
            means, ends = library.get_interval_estimates(
                {name: matrix},
                lambda sample: np.array([metrics.aggregate_iqm(sample)]),
                reps=_SAMPLES,
                confidence_interval_size=CONFIDENCE,
            )
            low, high = ends[name].ravel()
            estimates[name] = Interval(float(means[name][0]), float(low), float(high), matrix.size)
    finally:
        np.random.set_state(state)
    return estimates


def sections(groups: Sequence[ComparableRuns]) -> list[Section]:
    """Scores over tasks of a report's configurations, by the metric that ranks them."""
    titles = Counter(group.title for group in groups)
    results: dict[Metric, list[Result]] = {}
    for number, group in enumerate(groups, 1):
        # Tables of different content can share a name.
        task = group.title if titles[group.title] == 1 else f"{group.title}, {number}"
        for one in group.configurations if group.columns else ():
            known = group.baselines(one)
            if {Baseline.uniform_policy, Baseline.full_feedback} <= known.keys() and not one.role:
                results.setdefault(group.columns[0], []).append((task, one, known))
    found = ((metric, over(some, metric)) for metric, some in results.items())
    return [section(metric.about, one) for metric, one in found if one]


def section(metric: str, found: OverTasks) -> Section:
    """Section about scores over tasks; without a row if there are none."""
    rows = [[name, found.seeds[name], tables.estimate(score)] for name, score in found.scores.items()]
    notes = [f"Metric: {metric}. {_WHAT_IT_IS}"] if rows else []
    notes += [f"Left out: {'; '.join(found.left_out)}."] if found.left_out else []
    title = f"Over {len(found.tasks)} tasks ({'; '.join(found.tasks)})" if rows else "No interquartile mean over tasks"
    return Section(title, ("Configuration", "Seeds of each task", "Normalized score"), rows, notes)


def _diverged(name: str, by_seed: Mapping[int, float]) -> str:
    """Seeds whose numbers are not finite, in words; empty if all are."""
    lost = [str(seed) for seed, value in by_seed.items() if not math.isfinite(value)]
    return f"{name} diverged with seed{'s' * (len(lost) > 1)} {', '.join(lost)}" if lost else ""
