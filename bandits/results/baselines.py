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
class Standing:
    """A configuration compared with its baselines.

    Attributes:
      arm: Name of the configuration.
      uniform: Compared with the uniform policy; None where that is unknown.
      fixed: With the best fixed action; likewise.
      full_feedback: With the full-feedback baseline; likewise.
      score: The normalized score; not a number where the two ends meet or one is unknown.
      word: All this in words; empty where nothing is known.
    """

    arm: str
    uniform: Comparison | None
    fixed: Comparison | None
    full_feedback: Comparison | None
    score: float
    word: str

    @property
    def beats_uniform(self) -> bool | None:
        """Whether it is significantly better than the uniform policy; None where that is unknown."""
        return self.uniform.wins if self.uniform else None

    def regret(self, better: Better = "up") -> Interval | None:
        """Returns the regret to the full-feedback baseline, which can be negative; None where that is unknown.

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
) -> dict[str, Standing]:
    """Returns each configuration compared with the baselines: one family by Holm for each baseline.

    Args:
      values: A number for each configuration and seed, as in `comparison.compare`; without the baselines.
      uniform: Reward of the uniform policy; None if it is unknown, here and below.
      fixed: Reward of the best fixed action.
      full_feedback: Reward of the model that observes all rewards.
      unpaired: Configurations whose runs no seed determines; a baseline that was run pairs with the others alone.
      better: Whether more or less is better.
    """
    compared = {
        name: {} if one is None else comparison.against(values, name, one, unpaired=unpaired, better=better)
        for name, one in ((UNIFORM, uniform), (FIXED, fixed), (FULL_FEEDBACK, full_feedback))
    }
    scale = None if uniform is None or full_feedback is None else _scale(uniform, full_feedback, better)
    found = {}
    for arm in values:
        first, second, third = (compared[name].get(arm) for name in (UNIFORM, FIXED, FULL_FEEDBACK))
        score = (first.mean - scale[0]) / (scale[1] - scale[0]) if first and scale else math.nan
        found[arm] = Standing(arm, first, second, third, score, _word(first, second, third, score))
    return found


def regret(against: Comparison, better: Better = "up") -> Interval | None:
    """Returns how much less a configuration earns than its reference; None where no seed is common."""
    if math.isnan(against.difference):
        return None
    sign = 1 if better == "down" else -1
    low, high = sorted(sign * end for end in (against.low, against.high))
    return Interval(sign * against.difference + 0.0, low, high, against.pairs)  # No -0.


def interval(baseline: Landmark) -> Interval:
    """Returns a baseline's mean and interval: over its seeds, or by its sample's error; an exact one is a point."""
    if isinstance(baseline, Sampled):
        half = float(intervals.half_width(baseline.error * baseline.clients**0.5, baseline.clients))
        return Interval(baseline.mean, baseline.mean - half, baseline.mean + half, 1)
    if isinstance(baseline, Mapping):
        return intervals.of_mean([value for value in baseline.values() if math.isfinite(value)])
    return Interval(baseline, baseline, baseline, 1)


def normalized(
    values: Values, uniform: Landmark, full_feedback: Landmark, better: Better = "up"
) -> dict[str, dict[int, float]]:
    """Returns normalized scores by configuration and seed.

    Raises:
      ValueError: If the baselines' intervals meet, or the full-feedback one is worse: there is no scale then.
    """
    scale = _scale(uniform, full_feedback, better)
    if scale is None:
        first, second = (_shown(interval(one)) for one in (uniform, full_feedback))
        raise ValueError(f"{first} for {UNIFORM} and {second} for {FULL_FEEDBACK} leave no scale between them.")
    low, high = scale
    return {arm: {seed: (value - low) / (high - low) for seed, value in seeds.items()} for arm, seeds in values.items()}


def _scale(uniform: Landmark, full_feedback: Landmark, better: Better) -> tuple[float, float] | None:
    """Returns the ends of the normalized score; None if there is no such scale."""
    low, high = interval(uniform), interval(full_feedback)
    is_above = high.mean > low.mean if better == "up" else high.mean < low.mean
    return None if low.meets(high) or not is_above else (low.mean, high.mean)


def _shown(found: Interval) -> str:
    return f"{found.mean:.4g}" + (f" ({found.low:.4g} to {found.high:.4g})" if found.low <= found.high else "")


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


def recorded(found: Sequence[Run], column: str, which: str) -> Landmark | None:
    """Returns the baseline that a configuration's runs recorded; None if they did not.

    It is by seed, where seeds have data of their own. Of a sample of the clients it has an error.

    Args:
      found: The runs.
      column: The metric; it names the clients whose rewards it is about.
      which: `RECORDED_UNIFORM` or `RECORDED_FIXED`.
    """
    clients = column.bounds if isinstance(column, Metric) else ""
    by_seed = runs.seeds(found)
    records = [run.bounds.get(clients, {}) for run in by_seed.values()]
    values = [_number(one.get(which)) for one in records]
    errors = [_number(one.get(f"{which}_error", math.nan if _is_sample(one) else 0.0)) for one in records]
    if not found or not all(map(math.isfinite, [*values, *errors])):
        return None
    one = of_seeds(dict(zip(by_seed, values, strict=True)))
    if isinstance(one, float) and (error := max(errors)) > _SAME * abs(one):
        return Sampled(one, error, int(records[0]["clients"]))
    return one


def of_seeds(values: Mapping[int, float]) -> float | Mapping[int, float]:
    """Returns the number that all seeds recorded; where seeds have data of their own, all of them."""
    mean = statistics.mean(values.values())
    return values if max(abs(value - mean) for value in values.values()) > _SAME * abs(mean) else mean


def _key(baseline: Landmark | None) -> Hashable:
    """Returns a key that equal baselines share."""
    return tuple(sorted(baseline.items())) if isinstance(baseline, Mapping) else baseline


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _is_sample(record: Mapping[str, Any]) -> bool:
    return record.get("clients", 0) < record.get("population", 0)


class Marks(NamedTuple):
    """The baselines of a configuration; None for those that are unknown."""

    uniform: Landmark | None = None
    fixed: Landmark | None = None
    full_feedback: Landmark | None = None


def compare_each(
    values: Values, marks: Mapping[str, Marks], *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, Standing]:
    """Returns configurations compared with baselines of their own: one family of all that share the three.

    Args:
      values: As in `compare`.
      marks: The baselines of each configuration.
      unpaired: As in `compare`.
      better: Whether more or less is better.
    """
    groups: dict[Hashable, list[str]] = {}
    for name in values:
        groups.setdefault(tuple(map(_key, marks[name])), []).append(name)
    compared: dict[str, Standing] = {}
    for names in groups.values():
        some = {name: values[name] for name in names}
        alone = [name for name in names if name in unpaired]
        compared |= compare(some, **marks[names[0]]._asdict(), unpaired=alone, better=better)
    return {name: compared[name] for name in values}


def compare_runs(found: Mapping[str, Sequence[Run]], column: str, better: Better = "up") -> dict[str, Standing]:
    """Returns configurations compared with the baselines that their runs recorded.

    Args:
      found: Runs by configuration.
      column: The metric.
      better: Whether more or less of it is better.
    """
    marks = {name: Marks(*(recorded(some, column, which) for which in RECORDED)) for name, some in found.items()}
    return compare_each({name: runs.by_seed(some, column) for name, some in found.items()}, marks, better=better)


def note(standing: Standing) -> str:
    """Returns what follows a name in a picture if the configuration does not beat the uniform policy; else nothing."""
    uniform = standing.uniform
    return f" ({standing.word})" if uniform and uniform.is_judged and not uniform.wins else ""


def notes(folders: Mapping[str, Sequence[pathlib.Path]], column: str) -> dict[str, str]:
    """Returns `note` for each configuration whose runs' folders recorded the uniform policy's reward."""
    if not isinstance(column, Metric) or not column.bounds:
        return {}
    known = {
        arm: [runs.read(path) for path in paths]
        for arm, paths in folders.items()
        if all((path / run_folder.BOUNDS_FILE).is_file() for path in paths)
    }
    return {arm: text for arm, one in compare_runs(known, column, column.better or "up").items() if (text := note(one))}
