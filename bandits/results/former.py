"""Comparisons of plain dictionaries, for callers that do not hold configurations yet."""

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bandits.results import baselines, comparison, configuration
from bandits.results.baselines import BaselineComparison
from bandits.results.comparison import Better, Comparison, Reference
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from bandits.results.runs import Run
from optimization.study.intervals import Interval

_VALUE = "value"


@dataclasses.dataclass(frozen=True)
class Sampled:
    """A mean over a sample of clients."""

    mean: float
    error: float
    clients: int


Values = Mapping[str, Mapping[int, float]]
Landmark = float | Sampled | Mapping[int, float]


class Pair(NamedTuple):
    """A configuration and its reference."""

    configuration: str
    values: Mapping[int, float]
    reference: str
    landmark: Landmark
    is_paired: bool = True


class Baselines(NamedTuple):
    """The baselines of a configuration; None for those that are unknown."""

    uniform: Landmark | None = None
    fixed: Landmark | None = None
    full_feedback: Landmark | None = None


class Scale(NamedTuple):
    """Configurations that share their uniform policy and full-feedback baseline."""

    task: str
    values: Values
    uniform: Landmark
    full_feedback: Landmark


def compare(
    values: Values, reference: str, *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, Comparison]:
    """Compares every other configuration with the reference, in their order."""
    alone = set(values) if reference in unpaired else unpaired
    pairs = [
        Pair(name, own, reference, values[reference], name not in alone)
        for name, own in values.items()
        if name != reference
    ]
    return {one.configuration: one for one in family(pairs, better)}


def family(pairs: Iterable[Pair], better: Better = "up") -> list[Comparison]:
    """Compares pairs, as one family of Holm's step-down."""
    converted = [
        (_configuration(pair.configuration, pair.values, not pair.is_paired), _reference(pair.reference, pair.landmark))
        for pair in pairs
    ]
    return comparison.compare(converted, _VALUE, better)


def compare_with_own(
    values: Values, marks: Mapping[str, Baselines], *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, BaselineComparison]:
    """Compares each configuration with its own baselines; configurations that share all three form one family."""
    results = [(_configuration(name, own, name in unpaired), _baselines(marks[name])) for name, own in values.items()]
    return baselines.compare(results, _VALUE, better)


def compare_with_baselines(
    values: Values,
    *,
    uniform: Landmark | None = None,
    fixed: Landmark | None = None,
    full_feedback: Landmark | None = None,
    unpaired: Collection[str] = (),
) -> dict[str, BaselineComparison]:
    """Compares each configuration with the same baselines."""
    return compare_with_own(values, dict.fromkeys(values, Baselines(uniform, fixed, full_feedback)), unpaired=unpaired)


def over(scales: Sequence[Scale], better: Better = "up") -> baselines.OverTasks | None:
    """Scores of configurations over several tasks."""
    results = [
        (one.task, _configuration(name, own), _baselines(Baselines(one.uniform, None, one.full_feedback)))
        for one in scales
        for name, own in one.values.items()
    ]
    return baselines.over_tasks(results, _VALUE, better)


def interval(landmark: Landmark) -> Interval:
    """A baseline's mean and interval."""
    return baselines.interval(_reference("", landmark), _VALUE)


def recorded(seed_runs: Sequence[Run], column: str, which: str) -> Landmark | None:
    """Baseline that a configuration's runs recorded; None if they did not."""
    baseline = next(baseline for baseline, name in baselines.RECORDED.items() if name == which)
    found = baselines.recorded(seed_runs, column).get(baseline)
    if isinstance(found, Configuration):
        return found.by_seed(column)
    if found is None:
        return None
    if not found.clients:
        return found.mean
    return Sampled(found.mean, found.error, found.clients)


def of_seeds(values: Mapping[int, float]) -> Landmark:
    """The number that all seeds recorded; by seed if seeds have different data."""
    found = baselines.of_records({seed: {"chance": one} for seed, one in values.items()}, Baseline.uniform_policy, "")
    return found.mean if isinstance(found, ReferenceValue) else values


def _baselines(known: Baselines) -> dict[Baseline, Reference]:
    pairs = zip(Baseline, known, strict=True)
    return {baseline: _reference(str(baseline), one) for baseline, one in pairs if one is not None}


def _reference(name: str, landmark: Landmark) -> Reference:
    if isinstance(landmark, Mapping):
        return _configuration(name, landmark)
    if isinstance(landmark, Sampled):
        return ReferenceValue(name, landmark.mean, landmark.error, landmark.clients)
    return ReferenceValue(name, landmark)


def _configuration(name: str, values: Mapping[int, float], is_unpaired: bool = False) -> Configuration:
    lost = frozenset(seed for seed, value in values.items() if not math.isfinite(value))
    one = configuration.of_values(name, _VALUE, values)
    return dataclasses.replace(one, diverged=lost, unpaired=is_unpaired)
