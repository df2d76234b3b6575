"""Arms: runs that differ in their seed alone, what they gave, and what they lie between."""

import dataclasses
import functools
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from bandits import world_flags
from bandits.results import comparison, landmarks, names, of_runs, runs, tasks, words
from bandits.results.comparison import Comparison, Landmark, Pair
from bandits.results.landmarks import Stand
from data.tasks.options import TaskOptions
from optimization.study import intervals, run_folder
from optimization.study.frame import Study
from optimization.study.metrics import Metric

CHANCE, CEILING = "chance", "ceiling"
ROLES = {CHANCE: "uniform policy", CEILING: "full feedback"}  # As pages call them.
GREEDY = "greedy"  # What arms are compared with, if nothing else is said.
# Flags that say where, with which seed and how runs are executed, not what an arm is.
_FREE = run_folder.FREE_FLAGS | {"seed", "repeat", "list_presets"}
# Options of the task without those of the model and of where files lie.
_OF_DATA = sorted(
    {field.name for field in dataclasses.fields(TaskOptions)}
    - {"cache_dir", "data_dir", "init_labels", "initial_weights", "model", "norm", "public_statistics"}
)
# Others that change the mean of the rewards that are paid for the same actions, or how long there was to learn.
_OF_PLAY = (
    *world_flags.NAMES,
    "total_rounds",
    "clients_per_round",
    "cohort_sampling",
    "client_selection",
    "population_client_selection",
    "init_clients",
    "max_examples_per_client",
)
_DEPLOYMENT = ("bandits_deploy_freq", "bandits_deploy_delay")  # A bound may differ in them, and is then named.
_WORLD = "drift_world"
CONTENT = "content"  # In a data report: the digest of a table.


class Estimate(NamedTuple):
    """The mean over an arm's seeds.

    Attributes:
      mean: The mean.
      low: Lower end of its interval of confidence; the mean, if there is one seed.
      high: Upper end.
      seeds: How many seeds there are; of one, there is no interval.
    """

    mean: float
    low: float
    high: float
    seeds: int


@dataclasses.dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed alone.

    Attributes:
      name: What it is called: the flags in which it differs from the others of its part.
      runs: Its runs, by seed.
      role: `CHANCE` for uniformly random actions, `CEILING` where all rewards are shown, else empty.
    """

    name: str
    runs: tuple[runs.Run, ...]
    role: str = ""
    _known: dict[str, Estimate | None] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def flags(self) -> dict[str, Any]:
        """Flags that all its runs share and that are set."""
        return shared_flags(self.runs[0])

    def estimate(self, column: str) -> Estimate | None:
        """Returns the mean of what its runs gave; None where none has a finite value."""
        if column not in self._known:
            values = [value for run in self.runs if (value := of_runs.outcome(run, column)) is not None]
            self._known[column] = estimate(values, is_share=getattr(column, "share", False))
        return self._known[column]

    def values(self, column: str) -> dict[int, float]:
        """Returns what its runs gave, by seed; not a number where training diverged."""
        return of_runs.by_seed(self.runs, column)

    @property
    def is_finished(self) -> bool:
        """Whether its runs have played all their rounds."""
        planned = self.flags.get("total_rounds") or 0
        return all(run.metrics["round_num"].iloc[-1] >= planned for run in self.runs)

    @property
    def is_unpaired(self) -> bool:
        """Whether no seed determines its runs; see `of_runs.is_unpaired`."""
        return of_runs.is_unpaired(self.runs)


class _Landmarks(NamedTuple):
    """Between what an arm lies: arms that were played, and what its own runs recorded of the data."""

    chance: Arm | None
    ceiling: Arm | None
    exact_chance: Landmark | None
    constant: Landmark | None

    @property
    def key(self) -> Hashable:
        """What equal ones have in common."""
        return self.chance, self.ceiling, of_runs.key(self.exact_chance), of_runs.key(self.constant)


@dataclasses.dataclass(frozen=True)
class Part:
    """Arms of one study and task, which can be compared.

    Attributes:
      title: The study and the task.
      study: The study; None for tables of other programs.
      arms: The arms, in the order of their folders.
      is_judged: Whether there are verdicts; without them, what the study ranks by comes first.
    """

    title: str
    study: Study | None
    arms: tuple[Arm, ...]
    is_judged: bool = dataclasses.field(default=True, kw_only=True)

    @property
    def columns(self) -> tuple[Metric, ...]:
        """What is told of arms, the one by which they are ranked first."""
        first = [self.study.ranked_by] if self.study else []
        known = self.study.columns if self.study else runs.declared().values()
        asked = [metric for metric in known if metric.recent]
        asked = asked + first if self.is_judged else first + asked
        asked += [metric for metric in known if metric.told]
        found = dict.fromkeys(metric for metric in asked if metric not in self.equal)
        return tuple(metric for metric in found if any(arm.estimate(metric) for arm in self.arms))

    @functools.cached_property
    def equal(self) -> dict[Metric, Metric]:
        """Evaluated metrics that are told but say nothing new, with the metric that has their very numbers."""
        told = [metric for metric in self.study.columns if metric.told and metric.evaluated] if self.study else []
        told.sort(key=lambda metric: not metric.drawn)
        tables = [run.metrics for arm in self.arms for run in arm.runs]
        found: dict[Metric, Metric] = {}
        for place, metric in enumerate(told):
            for other in told[:place]:
                both = [table for table in tables if metric in table and other in table]
                if len(both) == len(tables) and all(table[metric].equals(table[other]) for table in both):
                    found.setdefault(metric, other)
        return found

    def ranked(self) -> list[Arm]:
        """Returns the arms, the best first; those without a value last."""
        if not self.columns:
            return list(self.arms)
        first = self.columns[0]
        sign = 1 if first.better == "down" else -1
        found = {id(arm): arm.estimate(first) for arm in self.arms}
        return sorted(self.arms, key=lambda arm: sign * one.mean if (one := found[id(arm)]) else math.inf)

    def reference(self, arm: Arm, role: str) -> Arm | None:
        """Returns the arm of a role whose flags differ least from an arm's, of those on the same data and rewards.

        None, if there is none that played as many rounds with cohorts of the same kind.
        """
        others = [one for one in self.arms if one.role == role and environment(one.flags) == environment(arm.flags)]
        return _nearest(arm, others) if others else None

    def ceilings_of_worlds(self, arm: Arm) -> dict[int, Arm]:
        """Returns, by world, the finished ceilings of an arm's drift that were played in one of its worlds alone."""
        found: dict[int, list[Arm]] = {}
        for other in self.arms:
            world = other.flags.get(_WORLD)
            if world is None or other.role != CEILING or not other.is_finished:
                continue
            if environment(other.flags, _WORLD) == environment(arm.flags, _WORLD):
                found.setdefault(int(world), []).append(other)
        return {world: _nearest(arm, others) for world, others in sorted(found.items())}

    def bounds(self, arm: Arm) -> str:
        """Returns in words which arms bound an arm, of those that are deployed otherwise than it; empty for none."""
        told = []
        for role in (CHANCE, CEILING):
            other = None if arm.role else self.reference(arm, role)
            if other and (differ := deployed_otherwise(other, arm)):
                told.append(f"{ROLES[role]}: {other.name} ({differ})")
        return "; ".join(told)

    def place(self, arm: Arm) -> str:
        """Returns in words where an arm stands between chance and ceiling, by the first result; empty if unknown."""
        return self.stands[arm].word if self.is_judged and arm in self.stands else ""

    def is_at_chance(self, arm: Arm) -> str:
        """Returns what a name in a picture has after it, if the seeds do not tell its arm from chance; else nothing."""
        return of_runs.chance_note(self.stands[arm]) if self.is_judged and arm in self.stands else ""

    @functools.cached_property
    def stands(self) -> dict[Arm, Stand]:
        """Where arms stand; those that have the same bounds are one family."""
        if not self.columns:
            return {}
        column = self.columns[0]
        families: dict[Hashable, tuple[_Landmarks, list[Arm]]] = {}
        for arm in self.arms:
            if not arm.role:
                known = self._landmarks(arm)
                families.setdefault(known.key, (known, []))[1].append(arm)
        found: dict[Arm, Stand] = {}
        for (chance, ceiling, exact, constant), some in families.values():
            is_unpaired = any(one and one.is_unpaired for one in (chance, ceiling))
            told = landmarks.stand(
                {arm.name: arm.values(column) for arm in some},
                chance=chance.values(column) if chance else exact,
                constant=constant,
                ceiling=ceiling.values(column) if ceiling else None,
                unpaired=[arm.name for arm in some if is_unpaired or arm.is_unpaired],
                better=column.better or "up",
            )
            found |= {arm: told[arm.name] for arm in some}
        return found

    def _landmarks(self, arm: Arm) -> "_Landmarks":
        """Returns an arm's chance and ceiling as they were played, and what its own runs recorded without training.

        That is chance and the best constant action, of the data alone. A chance that was played counts more, where it
        has more than one seed: its cohorts are the arm's.
        """
        chance, ceiling = (self.reference(arm, role) for role in (CHANCE, CEILING))
        exact, constant = (of_runs.bound(arm.runs, self.columns[0], one) for one in (of_runs.CHANCE, of_runs.CONSTANT))
        if chance and len(chance.runs) == 1 and exact is not None:
            chance = None
        return _Landmarks(chance, ceiling, exact, constant)

    def scales(self) -> list[tasks.Scale]:
        """Returns the arms between their chance and ceiling, by the first result; without those that lack one."""
        column = self.columns[0] if self.columns else ""
        found = []
        for arm in self.arms if self.columns else ():
            chance, ceiling, exact, _ = self._landmarks(arm)
            low = chance.values(column) if chance else exact
            if ceiling and low is not None and not arm.role:
                found.append(tasks.Scale(self.title, {arm.name: arm.values(column)}, low, ceiling.values(column)))
        return found

    def marks(self, arm: Arm) -> dict[str, float]:
        """Returns what chance, the best constant action and the ceiling of an arm earn, those that are known."""
        column = self.columns[0]
        found = {
            which: landmarks.interval(value).mean
            for which in (of_runs.CHANCE, of_runs.CONSTANT)
            if (value := of_runs.bound(arm.runs, column, which)) is not None
        }
        for role in (CHANCE, CEILING):
            if (other := self.reference(arm, role)) and (mean := other.estimate(column)):
                found[role] = mean.mean
        return found

    @property
    def has_exact_bounds(self) -> bool:
        """Whether a run recorded what chance earns."""
        column = self.columns[0] if self.columns else ""
        return any(of_runs.bound(arm.runs, column, of_runs.CHANCE) is not None for arm in self.arms)

    def compared(self, wanted: str | None = None) -> list[tuple[Arm, Arm, Comparison]]:
        """Returns every arm that plays, the reference that it is compared with, and what the seeds say; one family.

        Args:
          wanted: Name of the reference, or what its flag says by which the study's arms are known, as `greedy`; of
            several such arms each arm is compared with that of the most equal flags, of the same data, rewards, rounds
            and cohorts if there is one. By default `greedy`, and without one the first arm; then what had others is
            left out.
        """
        others = [arm for arm in self.arms if not arm.role]
        references = self.named(wanted or GREEDY) or ([] if wanted else others[:1])
        pairs = []
        for arm in others if self.columns else ():
            alike = [one for one in references if environment(one.flags) == environment(arm.flags)]
            alike = alike or (references if wanted else [])
            if arm not in references and alike:
                pairs.append((arm, _nearest(arm, alike)))
        if not pairs:
            return []
        column = self.columns[0]
        family = [
            Pair(
                arm.name,
                arm.values(column),
                other.name,
                other.values(column),
                not (arm.is_unpaired or other.is_unpaired),
            )
            for arm, other in pairs
        ]
        found = comparison.family(family, column.better or "up")
        return [(*pair, one) for pair, one in zip(pairs, found, strict=True)]

    def named(self, wanted: str) -> list[Arm]:
        """Returns the arm of this name; or those whose flag says so by which the study's arms are known."""
        named = [arm for arm in self.arms if arm.name == wanted]
        chosen = self.study.chosen if self.study else ""
        return named or [arm for arm in self.arms if arm.flags.get(chosen) == wanted]


def estimate(values: Sequence[float], *, is_share: bool = False) -> Estimate | None:
    """Returns the mean of values and its 95% interval by Student's t, of shares within 0 and 1; None of no value."""
    mean, low, high, seeds = intervals.of_mean(values)
    if not seeds:
        return None
    low, high = (max(low, 0.0), min(high, 1.0)) if is_share else (low, high)
    return Estimate(mean, low, high, seeds) if seeds > 1 else Estimate(mean, mean, mean, 1)


def differing(part: Part) -> list[str]:
    """Returns the flags in which the arms of a part differ."""
    return names.differing([arm.flags for arm in part.arms])


def environment(flags: Mapping[str, Any], left_out: str = "") -> list[Any]:
    """Returns what says whose rewards are paid, and how long: of arms in which it differs, none bounds another.

    Args:
      flags: The flags of an arm.
      left_out: One that may differ.
    """
    shift = flags.get("dist_shift_type") or ("bandits" if flags.get("scenario") == "init_shift" else None)
    return [shift, *(flags.get(name) for name in (*_OF_DATA, *_OF_PLAY) if name != left_out)]


def what_seeds_vary(found: Sequence[runs.Run]) -> str:
    """Returns in words what differs between the seeds of runs."""
    return words.what_seeds_vary(
        partition=any(run.flags.get("resplit") for run in found),
        initial_model=not all(run.flags.get("initial_model_path") for run in found),
        noise=of_runs.has_noise(found),
    )


def deployed_otherwise(bound: Arm, arm: Arm) -> str:
    """Returns in words how a bound of an arm is deployed, if otherwise than the arm; else nothing."""
    both = [(name, bound.flags.get(name), arm.flags.get(name)) for name in _DEPLOYMENT]
    return ", ".join(f"{names.word(name, one)}, not {other}" for name, one, other in both if one != other)


def shared_flags(run: runs.Run) -> dict[str, Any]:
    """Returns the flags of a run that are set and that the other runs of its arm have, too."""
    # With `resplit`, the seed of the clients is the run's.
    left_out = _FREE | ({"partition_seed"} if run.flags.get("resplit") else set())
    left_out |= {"data_file"} if CONTENT in run.data_report else set()  # Files and frames of one content are one table.
    return {name: value for name, value in run.flags.items() if value is not None and name not in left_out}


def _nearest(arm: Arm, others: Sequence[Arm]) -> Arm:
    """Returns the one of the most equal flags."""
    return min(others, key=lambda other: _differing(arm.flags, other.flags))


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> int:
    return sum(first.get(name) != second.get(name) for name in {*first, *second})
