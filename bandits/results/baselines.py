"""The baselines of a result, and its normalized score: 0 is the uniform policy, 1 the full-feedback baseline.

The uniform policy and the best fixed action are exact or of a sample where a run's folder records them
(`bounds.json`); the full-feedback baseline is trained, so a configuration can exceed it.
"""

import dataclasses
import math
import pathlib
import statistics
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from bandits.results import comparison, runs
from bandits.results.comparison import Better, Comparison, Landmark, Sampled, Values
from bandits.results.runs import Run
from optimization.study import intervals, run_folder
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

UNIFORM, FIXED, FULL_FEEDBACK = "the uniform policy", "the best fixed action", "the full-feedback baseline"
RECORDED = RECORDED_UNIFORM, RECORDED_FIXED = "chance", "constant"  # In `bounds.json`.
ONE_SEED, NOT_JUDGED = "one seed: not judged", "not judged"
_SAME = 1e-9  # Relative: what floating point makes of equal numbers.


@dataclasses.dataclass(frozen=True)
class BaselineComparison:
    """A configuration compared with its baselines.

    Attributes:
      configuration: Name of the configuration.
      uniform: Compared with the uniform policy; None where that is unknown.
      fixed: With the best fixed action; likewise.
      full_feedback: With the full-feedback baseline; likewise.
      score: The normalized score; NaN if the two baselines overlap, or one is unknown.
      summary: The result in words; empty if no baseline is known.
    """

    configuration: str
    uniform: Comparison | None
    fixed: Comparison | None
    full_feedback: Comparison | None
    score: float
    summary: str

    @property
    def beats_uniform(self) -> bool | None:
        """Whether it is significantly better than the uniform policy; None where that is unknown."""
        return self.uniform.wins if self.uniform else None

    def regret(self, better: Better = "up") -> Interval | None:
        """Regret to the full-feedback baseline, which can be negative; None if that is unknown.

        Agarwal et al. 2023, equation 4, with the sign of regret and of a mean instead of a sum.
        """
        return regret(self.full_feedback, better) if self.full_feedback else None


def compare(
    values: Values,
    *,
    uniform: Landmark | None = None,
    fixed: Landmark | None = None,
    full_feedback: Landmark | None = None,
    unpaired: Collection[str] = (),
    better: Better = "up",
) -> dict[str, BaselineComparison]:
    """Compares each configuration with the baselines; Holm corrects for all configurations of one baseline.

    Args:
      values: A number for each configuration and seed, as in `comparison.compare`; without the baselines.
      uniform: Reward of the uniform policy; None if it is unknown, here and below.
      fixed: Reward of the best fixed action.
      full_feedback: Reward of the model that observes all rewards.
      unpaired: Configurations whose runs no seed determines; a baseline that was run pairs with the others alone.
      better: Whether more or less is better.
    """
    compared = {
        name: {} if baseline is None else comparison.against(values, name, baseline, unpaired=unpaired, better=better)
        for name, baseline in ((UNIFORM, uniform), (FIXED, fixed), (FULL_FEEDBACK, full_feedback))
    }
    scale = None if uniform is None or full_feedback is None else _scale(uniform, full_feedback, better)
    comparisons = {}
    for configuration in values:
        first, second, third = (compared[name].get(configuration) for name in (UNIFORM, FIXED, FULL_FEEDBACK))
        score = (first.mean - scale[0]) / (scale[1] - scale[0]) if first and scale else math.nan
        comparisons[configuration] = BaselineComparison(
            configuration, first, second, third, score, _word(first, second, third, score)
        )
    return comparisons


def regret(against: Comparison, better: Better = "up") -> Interval | None:
    """Reference's reward minus the configuration's, with its interval; None without a common seed."""
    if math.isnan(against.difference):
        return None
    sign = 1 if better == "down" else -1
    low, high = sorted(sign * end for end in (against.low, against.high))
    return Interval(sign * against.difference + 0.0, low, high, against.pairs)  # No -0.


def interval(baseline: Landmark) -> Interval:
    """A baseline's mean and interval: over its seeds, or by its sample's error; a point for an exact baseline."""
    if isinstance(baseline, Sampled):
        half = float(intervals.half_width(baseline.error * baseline.clients**0.5, baseline.clients))
        return Interval(baseline.mean, baseline.mean - half, baseline.mean + half, 1)
    if isinstance(baseline, Mapping):
        return intervals.of_mean([value for value in baseline.values() if math.isfinite(value)])
    return Interval(baseline, baseline, baseline, 1)


def normalized(
    values: Values, uniform: Landmark, full_feedback: Landmark, better: Better = "up"
) -> dict[str, dict[int, float]]:
    """Normalized scores by configuration and seed.

    Raises:
      ValueError: If the baselines' intervals overlap, or the full-feedback baseline is worse.
    """
    scale = _scale(uniform, full_feedback, better)
    if scale is None:
        first, second = (_shown(interval(one)) for one in (uniform, full_feedback))
        raise ValueError(f"{first} for {UNIFORM} and {second} for {FULL_FEEDBACK} leave no scale between them.")
    low, high = scale
    return {
        configuration: {seed: (value - low) / (high - low) for seed, value in seeds.items()}
        for configuration, seeds in values.items()
    }


def _scale(uniform: Landmark, full_feedback: Landmark, better: Better) -> tuple[float, float] | None:
    """Rewards at the normalized scores 0 and 1; None if the baselines overlap."""
    low, high = interval(uniform), interval(full_feedback)
    is_above = high.mean > low.mean if better == "up" else high.mean < low.mean
    return None if low.meets(high) or not is_above else (low.mean, high.mean)


def _shown(estimate: Interval) -> str:
    return f"{estimate.mean:.4g}" + (
        f" ({estimate.low:.4g} to {estimate.high:.4g})" if estimate.low <= estimate.high else ""
    )


def _word(uniform: Comparison | None, fixed: Comparison | None, full: Comparison | None, score: float) -> str:
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


def recorded(seed_runs: Sequence[Run], column: str, which: str) -> Landmark | None:
    """Baseline that a configuration's runs recorded; None if they did not.

    It is by seed if seeds have different data. A baseline over a sample of the clients has an error.

    Args:
      seed_runs: The runs.
      column: The metric; it names the clients whose rewards it measures.
      which: `RECORDED_UNIFORM` or `RECORDED_FIXED`.
    """
    clients = column.bounds if isinstance(column, Metric) else ""
    by_seed = runs.seeds(seed_runs)
    records = [run.bounds.get(clients, {}) for run in by_seed.values()]
    values = [_number(record.get(which)) for record in records]
    errors = [_number(record.get(f"{which}_error", math.nan if _is_sample(record) else 0.0)) for record in records]
    if not seed_runs or not all(map(math.isfinite, [*values, *errors])):
        return None
    mean = of_seeds(dict(zip(by_seed, values, strict=True)))
    if isinstance(mean, float) and (error := max(errors)) > _SAME * abs(mean):
        return Sampled(mean, error, int(records[0]["clients"]))
    return mean


def of_seeds(values: Mapping[int, float]) -> float | Mapping[int, float]:
    """The number that all seeds recorded; by seed if seeds have different data."""
    mean = statistics.mean(values.values())
    return values if max(abs(value - mean) for value in values.values()) > _SAME * abs(mean) else mean


def _key(baseline: Landmark | None) -> Hashable:

    return tuple(sorted(baseline.items())) if isinstance(baseline, Mapping) else baseline


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _is_sample(record: Mapping[str, Any]) -> bool:
    return record.get("clients", 0) < record.get("population", 0)


class Baselines(NamedTuple):
    """The baselines of a configuration; None for those that are unknown."""

    uniform: Landmark | None = None
    fixed: Landmark | None = None
    full_feedback: Landmark | None = None


def compare_with_own(
    values: Values, marks: Mapping[str, Baselines], *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, BaselineComparison]:
    """Compares each configuration with its own baselines; configurations that share all three form one family.

    Args:
      values: As in `compare`.
      marks: The baselines of each configuration.
      unpaired: As in `compare`.
      better: Whether more or less is better.
    """
    compared: dict[str, BaselineComparison] = {}
    for names in runs.grouped(values, lambda name: tuple(map(_key, marks[name]))).values():
        some = {name: values[name] for name in names}
        alone = [name for name in names if name in unpaired]
        compared |= compare(some, **marks[names[0]]._asdict(), unpaired=alone, better=better)
    return {name: compared[name] for name in values}


def compare_runs(
    found: Mapping[str, Sequence[Run]], column: str, better: Better = "up"
) -> dict[str, BaselineComparison]:
    """Compares configurations with the baselines that their runs recorded.

    Args:
      found: Runs by configuration.
      column: The metric.
      better: Whether more or less of it is better.
    """
    marks = {name: Baselines(*(recorded(some, column, which) for which in RECORDED)) for name, some in found.items()}
    return compare_with_own({name: runs.by_seed(some, column) for name, some in found.items()}, marks, better=better)


def note(standing: BaselineComparison) -> str:
    """Note for a picture's legend if the configuration does not beat the uniform policy; else empty."""
    uniform = standing.uniform
    return f" ({standing.summary})" if uniform and uniform.is_judged and not uniform.wins else ""


def notes(folders: Mapping[str, Sequence[pathlib.Path]], column: str) -> dict[str, str]:
    """`note` of each configuration whose runs' folders recorded the uniform policy's reward."""
    if not isinstance(column, Metric) or not column.bounds:
        return {}
    known = {
        configuration: [runs.read(path) for path in paths]
        for configuration, paths in folders.items()
        if all((path / run_folder.BOUNDS_FILE).is_file() for path in paths)
    }
    return {
        configuration: text
        for configuration, one in compare_runs(known, column, column.better or "up").items()
        if (text := note(one))
    }
