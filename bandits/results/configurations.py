"""Configurations of finished runs: runs that differ in their seed alone, their results, and their baselines."""

import dataclasses
import functools
import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import registry, studies, world_flags
from bandits.results import baselines, comparison, names, runs, words
from bandits.results.baselines import Marks, Standing
from bandits.results.comparison import Comparison, Pair
from data import frames
from data.tasks.options import TaskOptions
from optimization.study import intervals, run_folder
from optimization.study.frame import Study
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

UNIFORM, FULL_FEEDBACK = "chance", "ceiling"  # Roles.
ROLES = {UNIFORM: "uniform policy", FULL_FEEDBACK: "full feedback"}  # As pages call them.
GREEDY = "greedy"  # The default reference of comparisons.
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
_FRAME = "DataFrame"


@dataclasses.dataclass(frozen=True)
class ConfigurationResults:
    """The results of a configuration: its runs, which differ in their seed alone.

    Attributes:
      name: What it is called: the flags in which it differs from the others of its part.
      runs: Its runs, by seed.
      role: `UNIFORM` for the uniform policy, `FULL_FEEDBACK` where all rewards are observed, else empty.
    """

    name: str
    runs: tuple[runs.Run, ...]
    role: str = ""
    _known: dict[str, Interval | None] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def flags(self) -> dict[str, Any]:
        """Flags that all its runs share and that are set."""
        return shared_flags(self.runs[0])

    def estimate(self, column: str) -> Interval | None:
        """Returns the mean of what its runs gave; None where none has a finite value."""
        if column not in self._known:
            values = [value for run in self.runs if (value := runs.final_value(run, column)) is not None]
            self._known[column] = estimate(values, is_share=getattr(column, "share", False))
        return self._known[column]

    def values(self, column: str) -> dict[int, float]:
        """Returns what its runs gave, by seed; not a number where training diverged."""
        return runs.by_seed(self.runs, column)

    @property
    def is_finished(self) -> bool:
        """Whether its runs have played all their rounds."""
        planned = self.flags.get("total_rounds") or 0
        return all(run.metrics["round_num"].iloc[-1] >= planned for run in self.runs)

    @property
    def is_unpaired(self) -> bool:
        """Whether no seed determines its runs; see `runs.is_unpaired`."""
        return runs.is_unpaired(self.runs)


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
    arms: tuple[ConfigurationResults, ...]
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

    def ranked(self) -> list[ConfigurationResults]:
        """Returns the arms, the best first; those without a value last."""
        if not self.columns:
            return list(self.arms)
        first = self.columns[0]
        sign = 1 if first.better == "down" else -1
        found = {id(arm): arm.estimate(first) for arm in self.arms}
        return sorted(self.arms, key=lambda arm: sign * one.mean if (one := found[id(arm)]) else math.inf)

    def reference(self, arm: ConfigurationResults, role: str) -> ConfigurationResults | None:
        """Returns the arm of a role whose flags differ least from an arm's, of those on the same data and rewards.

        None, if there is none that played as many rounds with cohorts of the same kind.
        """
        others = [one for one in self.arms if one.role == role and environment(one.flags) == environment(arm.flags)]
        return _nearest(arm, others) if others else None

    def ceilings_of_worlds(self, arm: ConfigurationResults) -> dict[int, ConfigurationResults]:
        """Returns, by world, the finished ceilings of an arm's drift that were played in one of its worlds alone."""
        found: dict[int, list[ConfigurationResults]] = {}
        for other in self.arms:
            world = other.flags.get(_WORLD)
            if world is None or other.role != FULL_FEEDBACK or not other.is_finished:
                continue
            if environment(other.flags, _WORLD) == environment(arm.flags, _WORLD):
                found.setdefault(int(world), []).append(other)
        return {world: _nearest(arm, others) for world, others in sorted(found.items())}

    def bounds(self, arm: ConfigurationResults) -> str:
        """Returns in words which arms bound an arm, of those that are deployed otherwise than it; empty for none."""
        told = []
        for role in (UNIFORM, FULL_FEEDBACK):
            other = None if arm.role else self.reference(arm, role)
            if other and (differ := deployed_otherwise(other, arm)):
                told.append(f"{ROLES[role]}: {other.name} ({differ})")
        return "; ".join(told)

    def place(self, arm: ConfigurationResults) -> str:
        """Returns an arm's normalized score in words, by the first result; empty if unknown."""
        return self.stands[arm].word if self.is_judged and arm in self.stands else ""

    def is_at_chance(self, arm: ConfigurationResults) -> str:
        """Returns what a name in a picture has after it, if the seeds do not tell its arm from chance; else nothing."""
        return baselines.note(self.stands[arm]) if self.is_judged and arm in self.stands else ""

    @functools.cached_property
    def stands(self) -> dict[ConfigurationResults, Standing]:
        """Where arms stand; those that have the same bounds are one family."""
        if not self.columns:
            return {}
        column, arms = self.columns[0], [arm for arm in self.arms if not arm.role]
        unpaired = []
        for arm in arms:
            related = [arm, *filter(None, (self.reference(arm, role) for role in ROLES))]
            unpaired += [arm.name] * any(one.is_unpaired for one in related)
        found = baselines.compare_each(
            {arm.name: arm.values(column) for arm in arms},
            {arm.name: self.baselines(arm) for arm in arms},
            unpaired=unpaired,
            better=column.better or "up",
        )
        return {arm: found[arm.name] for arm in arms}

    def baselines(self, arm: ConfigurationResults) -> Marks:
        """Returns the baselines of a configuration: those that were run, and those that its own runs recorded.

        The recorded uniform policy is exact, or of a sample. One that was run with several seeds takes precedence: it
        has the cohorts of the configuration.
        """
        column = self.columns[0]
        uniform, full_feedback = (self.reference(arm, role) for role in ROLES)
        exact, fixed = (baselines.recorded(arm.runs, column, which) for which in baselines.RECORDED)
        if uniform and (exact is None or len(uniform.runs) > 1):
            exact = uniform.values(column)
        return Marks(exact, fixed, full_feedback.values(column) if full_feedback else None)

    def marks(self, arm: ConfigurationResults) -> dict[str, float]:
        """Returns the known rewards of an arm's uniform policy, best fixed action and full-feedback baseline."""
        column = self.columns[0]
        found = {
            which: baselines.interval(value).mean
            for which in baselines.RECORDED
            if (value := baselines.recorded(arm.runs, column, which)) is not None
        }
        for role in (UNIFORM, FULL_FEEDBACK):
            if (other := self.reference(arm, role)) and (mean := other.estimate(column)):
                found[role] = mean.mean
        return found

    @property
    def has_exact_bounds(self) -> bool:
        """Whether a run recorded what chance earns."""
        column = self.columns[0] if self.columns else ""
        return any(baselines.recorded(arm.runs, column, baselines.RECORDED_UNIFORM) is not None for arm in self.arms)

    def compared(
        self, wanted: str | None = None
    ) -> list[tuple[ConfigurationResults, ConfigurationResults, Comparison]]:
        """Returns every arm with a policy, its reference, and their comparison over seeds; one family.

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

    def named(self, wanted: str) -> list[ConfigurationResults]:
        """Returns the arm of this name; or those whose flag says so by which the study's arms are known."""
        named = [arm for arm in self.arms if arm.name == wanted]
        chosen = self.study.chosen if self.study else ""
        return named or [arm for arm in self.arms if arm.flags.get(chosen) == wanted]


def estimate(values: Sequence[float], *, is_share: bool = False) -> Interval | None:
    """Returns the mean of values and its 95% interval by Student's t, of shares within 0 and 1; None of no value."""
    found = intervals.of_mean(values)
    if not found.size:
        return None
    return found._replace(low=max(found.low, 0.0), high=min(found.high, 1.0)) if is_share and found.size > 1 else found


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
        noise=runs.has_noise(found),
    )


def deployed_otherwise(bound: ConfigurationResults, arm: ConfigurationResults) -> str:
    """Returns in words how a bound of an arm is deployed, if otherwise than the arm; else nothing."""
    both = [(name, bound.flags.get(name), arm.flags.get(name)) for name in _DEPLOYMENT]
    return ", ".join(f"{names.word(name, one)}, not {other}" for name, one, other in both if one != other)


def shared_flags(run: runs.Run) -> dict[str, Any]:
    """Returns the flags of a run that are set and that the other runs of its arm have, too."""
    # With `resplit`, the seed of the clients is the run's.
    left_out = _FREE | ({"partition_seed"} if run.flags.get("resplit") else set())
    left_out |= {"data_file"} if CONTENT in run.data_report else set()  # Files and frames of one content are one table.
    return {name: value for name, value in run.flags.items() if value is not None and name not in left_out}


def _nearest(arm: ConfigurationResults, others: Sequence[ConfigurationResults]) -> ConfigurationResults:
    """Returns the one of the most equal flags."""
    return min(others, key=lambda other: _differing(arm.flags, other.flags))


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> int:
    return sum(first.get(name) != second.get(name) for name in {*first, *second})


def parts(found: Iterable[runs.Run]) -> list[Part]:
    """Returns the arms of runs, by study and task."""
    together: dict[tuple, list[runs.Run]] = {}
    for run in found:
        data = run.data_report.get(CONTENT) or run.flags.get("data_file")
        together.setdefault((_study(run), names.task(run.flags), data), []).append(run)
    made = []
    for (module, task, _), some in together.items():
        program = next((name for name, known in studies.STUDIES.items() if known == module), "")
        words = filter(None, (task, min(map(_table_name, some), key=lambda name: (name == _FRAME, name))))
        title = ": ".join(filter(None, (program, " ".join(words))))
        study = studies.load(module) if module else None
        groups = _groups(some)
        named = zip(_named(groups, study), groups, strict=True)
        some_arms = (ConfigurationResults(name, tuple(group), role(group[0])) for name, group in named)
        made.append(Part(title or "Runs", study, tuple(some_arms)))
    return made


def _table_name(run: runs.Run) -> str:
    """Returns what the table of a run's data is called; empty if it has none."""
    name = str(run.flags.get("data_file") or "")
    return _FRAME if name.startswith(frames.PREFIX) else pathlib.Path(name).name


def _study(run: runs.Run) -> str | None:
    """Returns the module of the study that wrote a run's metrics."""
    found = (module for module in studies.STUDIES.values() if studies.load(module).ranked_by in run.metrics)
    return next(found, None)


def _seed(run: runs.Run) -> str:
    return str(run.flags.get("seed"))


def _owner(run: runs.Run) -> pathlib.Path:
    """Returns the folder that a run's seeds share."""
    return run.folder.parent if run.folder.name == f"seed_{_seed(run)}" else run.folder


def _groups(found: Iterable[runs.Run]) -> list[list[runs.Run]]:
    """Returns runs that differ in their seed alone; where a seed was played twice, by folder."""
    together: dict[str, list[runs.Run]] = {}
    for run in found:
        together.setdefault(json.dumps(shared_flags(run), sort_keys=True, default=str), []).append(run)
    groups = []
    for group in together.values():
        if max(Counter(map(_seed, group)).values()) == 1:
            groups.append(group)
            continue
        by_folder: dict[pathlib.Path, list[runs.Run]] = {}
        for run in group:
            by_folder.setdefault(_owner(run), []).append(run)
        groups += by_folder.values()
    return [sorted(group, key=lambda run: (len(_seed(run)), _seed(run))) for group in groups]


def role(run: runs.Run) -> str:
    """Returns what a run bounds others as: `UNIFORM`, `FULL_FEEDBACK`, or empty for neither."""
    entry = registry.BANDITS.get(str(run.flags.get("bandits_type")))
    if entry is None:
        return ""
    return FULL_FEEDBACK if entry.supervised else UNIFORM if entry.policy == "uniform" else ""


def _named(groups: Sequence[Sequence[runs.Run]], study: Study | None) -> list[str]:
    """Returns what arms are called."""
    shown = study.shown_in_presets if study else ()
    return names.of([shared_flags(group[0]) for group in groups], [_owner(group[0]) for group in groups], shown)
