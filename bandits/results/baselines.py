"""Baselines and normalized scores: the uniform policy has score 0, and the full-feedback baseline has score 1.

The scores of a configuration on several tasks are summarized by their interquartile mean.

A run's folder can record the rewards of the uniform policy and of the best fixed action (`bounds.json`). They are
exact, or estimated from a sample of the clients. The full-feedback baseline is trained, so it can be exceeded.
"""

import dataclasses
import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bandits.results import comparison, configuration, runs
from bandits.results.comparison import Better, Comparison, Reference
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from bandits.results.runs import Run
from optimization.study import intervals
from optimization.study.intervals import CONFIDENCE, Interval
from optimization.study.metrics import Metric

UNIFORM, FIXED, FULL_FEEDBACK = map(str, Baseline)
RECORDED = {Baseline.uniform_policy: "chance", Baseline.best_fixed_action: "constant"}  # Keys of `bounds.json`.
ONE_SEED, NOT_JUDGED = "one seed: not judged", "not judged"
LEAST_SEEDS = 5  # With five seeds, a nominal 95% interval covers the true value in 91% of trials; with three, in 81%.
_SAMPLES = 2000
_SAME = 1e-9  # Relative rounding error up to which two numbers count as equal.

Baselines = Mapping[Baseline, Reference]  # The known baselines of a configuration.
Result = tuple[str, Configuration, Baselines]  # Name of the task, configuration, and its known baselines.


@dataclasses.dataclass(frozen=True)
class BaselineComparison:
    """A configuration compared with its baselines.

    Attributes:
      configuration: Name of the configuration.
      uniform: Comparison with the uniform policy; None if that is unknown.
      fixed: Comparison with the best fixed action; None if that is unknown.
      full_feedback: Comparison with the full-feedback baseline; None if that is unknown.
      score: The normalized score; NaN if the baselines that define it are unknown, overlap or are reversed.
      summary: The result in words; empty if no baseline is known.
    """

    configuration: str
    uniform: Comparison | None
    fixed: Comparison | None
    full_feedback: Comparison | None
    score: float
    summary: str


def compare(
    results: Iterable[tuple[Configuration, Baselines]], metric: str, better: Better | None = None
) -> dict[str, BaselineComparison]:
    """Compares configurations with their own baselines.

    For each baseline, the configurations that share all baselines are one family of tests.

    Args:
      results: The configurations (excluding the baselines themselves) and their known baselines.
      metric: The metric.
      better: Whether larger or smaller values are better (default: as in `comparison.compare`).

    Returns:
      The comparisons, by name of the configuration.
    """
    better, results = comparison.direction(metric, better), list(results)
    compared = {}
    for family in runs.grouped(results, lambda result: family_key(result[1], metric)).values():
        known = {baseline: dataclasses.replace(one, name=str(baseline)) for baseline, one in family[0][1].items()}
        against = {
            baseline: comparison.compare([(one, reference) for one, _ in family], metric, better)
            for baseline, reference in known.items()
        }
        scale = _scale(known, metric, better)
        for place, (one, _) in enumerate(family):
            uniform, fixed, full = (against[baseline][place] if baseline in known else None for baseline in Baseline)
            score = (uniform.mean - scale[0]) / (scale[1] - scale[0]) if uniform and scale else math.nan
            summary = _summary(uniform, fixed, full, score)
            compared[one.name] = BaselineComparison(one.name, uniform, fixed, full, score, summary)
    return {one.name: compared[one.name] for one, _ in results}


def family_key(known: Baselines, metric: str) -> Hashable:
    """Returns a key that configurations with equal baselines share."""
    return tuple(
        tuple(sorted(one.by_seed(metric).items())) if isinstance(one, Configuration) else one
        for one in map(known.get, Baseline)
    )


def regret(against: Comparison, better: Better = "up") -> Interval | None:
    """Returns by how much the reference is better on average, with an interval; None without a common seed.

    This is equation 4 of Agarwal et al. 2023, as a mean instead of a sum and with the sign of a regret. It can be
    negative.
    """
    if math.isnan(against.difference):
        return None
    sign = 1 if better == "down" else -1
    low, high = sorted(sign * end for end in (against.low, against.high))
    return Interval(sign * against.difference + 0.0, low, high, against.pairs)  # Avoids -0.


def interval(reference: Reference, metric: str) -> Interval:
    """Returns a baseline's mean and interval.

    The interval is over seeds, or over sampled clients. An exact baseline has an interval of width 0.
    """
    if isinstance(reference, Configuration):
        return intervals.of_mean([value for value in reference.by_seed(metric).values() if math.isfinite(value)])
    half = 0.0
    if reference.clients:
        half = float(intervals.half_width(reference.error * reference.clients**0.5, reference.clients))
    return Interval(reference.mean, reference.mean - half, reference.mean + half, 1)


def normalized_scores(one: Configuration, known: Baselines, metric: str, better: Better = "up") -> dict[int, float]:
    """Returns a configuration's normalized score for each seed.

    Both the uniform policy and the full-feedback baseline must be known.

    Raises:
      ValueError: If the baselines' intervals overlap, or the full-feedback baseline is worse.
    """
    scale = _scale(known, metric, better)
    if scale is None:
        first, second = (_shown(interval(known[which], metric)) for which in _SCALE)
        raise ValueError(f"no score, as {first} for {UNIFORM} is not clearly worse than {second} for {FULL_FEEDBACK}")
    low, high = scale
    return {seed: (value - low) / (high - low) for seed, value in one.by_seed(metric).items()}


_SCALE = Baseline.uniform_policy, Baseline.full_feedback  # Baselines with the scores 0 and 1.


def _scale(known: Baselines, metric: str, better: Better) -> tuple[float, float] | None:
    """Values with the scores 0 and 1; None if a baseline is unknown, or if the two overlap or are reversed."""
    if not all(baseline in known for baseline in _SCALE):
        return None
    low, high = (interval(known[baseline], metric) for baseline in _SCALE)
    is_worse = low.high < high.low if better == "up" else high.high < low.low
    return (low.mean, high.mean) if is_worse else None


def _shown(estimate: Interval) -> str:
    has_interval = estimate.low <= estimate.high
    return f"{estimate.mean:.4g}" + f" ({estimate.low:.4g} to {estimate.high:.4g})" * has_interval


def _summary(uniform: Comparison | None, fixed: Comparison | None, full: Comparison | None, score: float) -> str:
    known = [one for one in (uniform, fixed, full) if one]
    if not known:
        return ""
    uniform, fixed, full = (one if one and one.is_judged else None for one in (uniform, fixed, full))
    if not (uniform or fixed or full):
        return ONE_SEED if max(one.pairs for one in known) == 1 else NOT_JUDGED
    same = comparison.NOT_SIGNIFICANT
    if uniform and not uniform.is_significant:
        return f"{same} from {UNIFORM}"
    if uniform and not uniform.wins:
        return f"below {UNIFORM}"
    words = []
    if full and not full.is_significant:
        words.append(f"{same} from {FULL_FEEDBACK}")
    elif full and full.wins:
        words.append(f"above {FULL_FEEDBACK}")
    elif math.isfinite(score) and uniform:
        words.append(f"at a normalized score of {score:.2f}")
    elif uniform:
        words.append(f"above {UNIFORM}")
    if fixed and not fixed.wins:
        words.append(f"{'below' if fixed.loses else f'{same} from'} {FIXED}")
    elif fixed and not uniform:
        words.append(f"above {FIXED}")
    return ", ".join(words)


def recorded(seed_runs: Sequence[Run], metric: str) -> dict[Baseline, Reference]:
    """Returns the baselines that all runs of a configuration recorded; see `of_records`.

    Args:
      seed_runs: The runs.
      metric: The metric, which defines the clients whose rewards are measured.
    """
    clients = metric.bounds if isinstance(metric, Metric) else ""
    records = {seed: run.bounds.get(clients, {}) for seed, run in runs.seeds(seed_runs).items()}
    found = {baseline: of_records(records, baseline, metric) for baseline in RECORDED}
    return {baseline: reference for baseline, reference in found.items() if reference}


def of_records(records: Mapping[int, Mapping[str, Any]], baseline: Baseline, metric: str) -> Reference | None:
    """Returns a baseline that the runs of a configuration recorded in `bounds.json`; None unless all recorded it.

    The baseline is a configuration if the data depends on the seed, and a number otherwise. The number has a standard
    error if it was estimated from a sample of the clients.

    Args:
      records: The recorded numbers of each seed, by name: the mean reward, its standard error, and the number of
        clients.
      baseline: The baseline.
      metric: The metric.
    """
    name = RECORDED[baseline]
    values = {seed: _number(record.get(name)) for seed, record in records.items()}
    errors = []
    for record in records.values():
        is_exact = record.get("clients", 0) >= record.get("population", 0)
        errors.append(_number(record.get(f"{name}_error", 0.0 if is_exact else math.nan)))
    if not records or not all(map(math.isfinite, [*values.values(), *errors])):
        return None
    mean = statistics.mean(values.values())
    if max(abs(value - mean) for value in values.values()) > _SAME * abs(mean):
        return configuration.of_values(str(baseline), metric, values)
    if (error := max(errors)) > _SAME * abs(mean):
        return ReferenceValue(str(baseline), mean, error, int(max(record["clients"] for record in records.values())))
    return ReferenceValue(str(baseline), mean)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


@dataclasses.dataclass(frozen=True)
class OverTasks:
    """Normalized scores of configurations over several tasks.

    Attributes:
      tasks: Tasks that are included.
      scores: Interquartile mean and interval of each configuration that was run on all these tasks, best first.
      seeds: For each configuration, the number of seeds per task that are included.
      left_out: Sentences that say which tasks and configurations are left out, and why.
    """

    tasks: tuple[str, ...]
    scores: Mapping[str, Interval]
    seeds: Mapping[str, int]
    left_out: tuple[str, ...]


def over_tasks(results: Sequence[Result], metric: str, better: Better | None = None) -> OverTasks | None:
    """Summarizes scores over several tasks; returns None if no configuration was run on two of them.

    If the number of seeds differs between tasks, each task contributes only its first seeds, as many as the task with
    the fewest. Configurations that diverged or have fewer than `LEAST_SEEDS` seeds are left out. So are configurations
    whose baselines overlap, or whose full-feedback baseline lies below the whole interval of a configuration with the
    same baselines.

    Args:
      results: The configurations of all tasks. Their uniform policy and full-feedback baseline must be known.
      metric: The metric.
      better: Whether larger or smaller values are better (default: see `comparison.direction`).
    """
    tasks_of = runs.grouped({(one.name, task) for task, one, _ in results}, lambda pair: pair[0])
    if max(map(len, tasks_of.values()), default=0) < 2:
        return None
    better = comparison.direction(metric, better)
    scores: dict[str, dict[str, dict[int, float]]] = {}  # By task, configuration and seed.
    left_out: list[str] = []
    few: dict[str, None] = {}  # Configurations with too few seeds on a task.
    families = runs.grouped(results, lambda result: (result[0], family_key(result[2], metric)))
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
            left_out.append(f"{name} has no score on {', '.join(lacking)}")
            continue
        columns = [of_task[name] for of_task in scores.values()]
        seeds[name] = min(map(len, columns))
        first[name] = [[by_seed[seed] for seed in sorted(by_seed)[: seeds[name]]] for by_seed in columns]
    estimates = interquartile_means(first)
    ranked = sorted(estimates, key=lambda name: -estimates[name].mean)
    return OverTasks(tuple(scores), {name: estimates[name] for name in ranked}, seeds, tuple(dict.fromkeys(left_out)))


def _normalized(family: Sequence[Result], metric: str, better: Better) -> dict[str, dict[int, float]]:
    """Returns the normalized scores, by name and seed, of configurations with the same baselines.

    Raises:
      ValueError: If the baselines do not define a scale.
    """
    known = family[0][2]
    for baseline in (Baseline.uniform_policy, Baseline.full_feedback):
        reference = known[baseline]
        if isinstance(reference, Configuration) and (why := _diverged(str(baseline), reference.by_seed(metric))):
            raise ValueError(why)
    normalized = {one.name: normalized_scores(one, known, metric, better) for _, one, _ in family}
    for name, scores in normalized.items():
        if intervals.of_mean(list(scores.values())).low > 1:
            raise ValueError(f"{name} is above {Baseline.full_feedback}, which may have been deployed less often")
    return normalized


def interquartile_means(scores: Mapping[str, Sequence[Sequence[float]] | np.ndarray]) -> dict[str, Interval]:
    """Returns the interquartile mean of each configuration's scores, with a 95% stratified bootstrap interval.

    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021, section 4: seeds are
    resampled with replacement within each task, and the interval's ends are percentiles. The interval describes the
    variation between seeds, not between tasks.

    Args:
      scores: For each configuration, its scores, [tasks, seeds].
    """
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


def _diverged(name: str, by_seed: Mapping[int, float]) -> str:
    """Names the seeds whose values are not finite, in words; empty if all are finite."""
    lost = [str(seed) for seed, value in by_seed.items() if not math.isfinite(value)]
    return f"{name} diverged with seed{'s' * (len(lost) > 1)} {', '.join(lost)}" if lost else ""
