"""Configurations of finished runs: runs that differ in their seed alone, their results, and their baselines."""

import dataclasses
import functools
import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits import environment_flags, registry, studies
from bandits.results import baselines, comparison, names, runs, words
from bandits.results.baselines import BaselineComparison, Baselines
from bandits.results.comparison import Comparison, Pair
from data import frames
from data.tasks.options import TaskOptions
from optimization.study import intervals, run_folder
from optimization.study.frame import Study
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

UNIFORM, FIXED, FULL_FEEDBACK = "uniform", "fixed", "full_feedback"  # Baselines; the first and the last are roles.
ROLES = {UNIFORM: "uniform policy", FIXED: "best fixed action", FULL_FEEDBACK: "full-feedback baseline"}
UNBOUNDED = -math.inf, math.inf
GREEDY = "greedy"  # The default reference of comparisons.
# Flags of folders, seeds and execution, which do not define a configuration.
_FREE = run_folder.FREE_FLAGS | {"seed", "repeat", "list_presets"}
# Options of the task without those of the model and of where files lie.
_OF_DATA = sorted(
    {field.name for field in dataclasses.fields(TaskOptions)}
    - {"cache_dir", "data_dir", "hidden", "init_labels", "initial_weights", "model", "norm", "public_statistics"}
)
# Other flags that change the mean reward of the same actions, or the number of rounds.
_OF_ENVIRONMENT = (
    *environment_flags.NAMES,
    "total_rounds",
    "clients_per_round",
    "cohort_sampling",
    "client_selection",
    "population_client_selection",
    "init_clients",
    "max_examples_per_client",
)
_DEPLOYMENT = ("bandits_deploy_freq", "bandits_deploy_delay")  # A baseline may differ in them, and is then named.
_WORLD = "drift_world"
CONTENT = "content"  # In a data report: the digest of a table.
_FRAME = "DataFrame"


@dataclasses.dataclass(frozen=True)
class ConfigurationResults:
    """The results of a configuration: its runs, which differ in their seed alone.

    Attributes:
      name: The flags in which it differs from the other configurations of its part.
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
        """Mean and interval of the runs' final values; None without a finite value."""
        if column not in self._known:
            values = [value for run in self.runs if (value := runs.final_value(run, column)) is not None]
            self._known[column] = estimate(values, range_of(self.runs, column))
        return self._known[column]

    def values(self, column: str) -> dict[int, float]:
        """Final values by seed; NaN where training diverged."""
        return runs.by_seed(self.runs, column)

    @property
    def is_finished(self) -> bool:
        """Whether all runs have finished all their rounds."""
        planned = self.flags.get("total_rounds") or 0
        return all(run.metrics["round_num"].iloc[-1] >= planned for run in self.runs)

    @property
    def is_unpaired(self) -> bool:
        """Whether no seed determines its runs; see `runs.is_unpaired`."""
        return runs.is_unpaired(self.runs)


@dataclasses.dataclass(frozen=True)
class Part:
    """Configurations of one study and task, which can be compared.

    Attributes:
      title: The study and the task.
      study: The study; None for tables of other programs.
      configurations: The configurations, in the order of their folders.
      is_judged: Whether there are verdicts; without them, what the study ranks by comes first.
      only_alike: Whether even a requested reference is compared only with equal data, rewards, rounds and cohorts.
    """

    title: str
    study: Study | None
    configurations: tuple[ConfigurationResults, ...]
    is_judged: bool = dataclasses.field(default=True, kw_only=True)
    only_alike: bool = dataclasses.field(default=False, kw_only=True)

    @property
    def columns(self) -> tuple[Metric, ...]:
        """Metrics that tables show; the first one ranks configurations."""
        first = [self.study.ranked_by] if self.study else []
        known = self.study.columns if self.study else runs.declared().values()
        wanted = [metric for metric in known if metric.recent]
        wanted = wanted + first if self.is_judged else first + wanted
        wanted += [metric for metric in known if metric.in_summary]
        metrics = dict.fromkeys(metric for metric in wanted if metric not in self.equal)
        return tuple(
            metric for metric in metrics if any(configuration.estimate(metric) for configuration in self.configurations)
        )

    @functools.cached_property
    def equal(self) -> dict[Metric, Metric]:
        """Evaluated metrics with the same numbers as another metric, which tables omit, with that metric."""
        evaluated = (
            [metric for metric in self.study.columns if metric.in_summary and metric.evaluated] if self.study else []
        )
        evaluated.sort(key=lambda metric: not metric.drawn)
        tables = [run.metrics for configuration in self.configurations for run in configuration.runs]
        equal: dict[Metric, Metric] = {}
        for index, metric in enumerate(evaluated):
            for other in evaluated[:index]:
                both = [table for table in tables if metric in table and other in table]
                if len(both) == len(tables) and all(table[metric].equals(table[other]) for table in both):
                    equal.setdefault(metric, other)
        return equal

    def ranked(self) -> list[ConfigurationResults]:
        """Configurations, the best first; those without a value last."""
        if not self.columns:
            return list(self.configurations)
        first = self.columns[0]
        sign = 1 if first.better == "down" else -1
        estimates = {id(configuration): configuration.estimate(first) for configuration in self.configurations}
        return sorted(
            self.configurations,
            key=lambda configuration: sign * one.mean if (one := estimates[id(configuration)]) else math.inf,
        )

    def reference(self, configuration: ConfigurationResults, role: str) -> ConfigurationResults | None:
        """The most similar baseline of a role with the same data, rewards, rounds and cohorts; None without one."""
        others = [
            one
            for one in self.configurations
            if one.role == role and environment_key(one.flags) == environment_key(configuration.flags)
        ]
        return _nearest(configuration, others) if others else None

    def full_feedback_by_environment(self, configuration: ConfigurationResults) -> dict[int, ConfigurationResults]:
        """Finished full-feedback baselines that were trained in a single environment of a drift, by environment."""
        by_environment: dict[int, list[ConfigurationResults]] = {}
        for other in self.configurations:
            world = other.flags.get(_WORLD)
            if world is None or other.role != FULL_FEEDBACK or not other.is_finished:
                continue
            if environment_key(other.flags, _WORLD) == environment_key(configuration.flags, _WORLD):
                by_environment.setdefault(int(world), []).append(other)
        return {world: _nearest(configuration, others) for world, others in sorted(by_environment.items())}

    def deployment_note(self, configuration: ConfigurationResults) -> str:
        """Baselines with another deployment period than a configuration, in words; empty without such."""
        notes = []
        for role in (UNIFORM, FULL_FEEDBACK):
            other = None if configuration.role else self.reference(configuration, role)
            if other and (differ := deployed_otherwise(other, configuration)):
                notes.append(f"{ROLES[role]}: {other.name} ({differ})")
        return "; ".join(notes)

    def baseline_summary(self, configuration: ConfigurationResults) -> str:
        """A configuration's normalized score in words, by the first result; empty if unknown."""
        standing = self.against_baselines.get(configuration) if self.is_judged else None
        return standing.summary if standing else ""

    def uniform_note(self, configuration: ConfigurationResults) -> str:
        """Note for a picture's legend if a configuration does not beat the uniform policy; else empty."""
        standing = self.against_baselines.get(configuration) if self.is_judged else None
        return baselines.note(standing) if standing else ""

    @functools.cached_property
    def against_baselines(self) -> dict[ConfigurationResults, BaselineComparison]:
        """Configurations compared with their baselines; those that share baselines are one family."""
        if not self.columns:
            return {}
        column = self.columns[0]
        configurations = [configuration for configuration in self.configurations if not configuration.role]
        unpaired = []
        for configuration in configurations:
            related = [configuration, *filter(None, (self.reference(configuration, role) for role in ROLES))]
            unpaired += [configuration.name] * any(one.is_unpaired for one in related)
        comparisons = baselines.compare_with_own(
            {configuration.name: configuration.values(column) for configuration in configurations},
            {configuration.name: self.baselines(configuration) for configuration in configurations},
            unpaired=unpaired,
            better=column.better or "up",
        )
        return {configuration: comparisons[configuration.name] for configuration in configurations}

    def baselines(self, configuration: ConfigurationResults) -> Baselines:
        """Baselines of a configuration: those that were run, and those that its own runs recorded.

        The recorded uniform policy is exact, or of a sample. A uniform policy that was run with several seeds takes
        precedence, because it has the cohorts of the configuration.
        """
        column = self.columns[0]
        uniform, full_feedback = (self.reference(configuration, role) for role in (UNIFORM, FULL_FEEDBACK))
        exact, fixed = (baselines.recorded(configuration.runs, column, which) for which in baselines.RECORDED)
        if uniform and (exact is None or len(uniform.runs) > 1):
            exact = uniform.values(column)
        return Baselines(exact, fixed, full_feedback.values(column) if full_feedback else None)

    def baseline_means(self, configuration: ConfigurationResults) -> dict[str, float]:
        """Mean rewards of a configuration's known baselines."""
        column = self.columns[0]
        means = {
            baseline: baselines.interval(value).mean
            for baseline, key in zip((UNIFORM, FIXED), baselines.RECORDED, strict=True)
            if (value := baselines.recorded(configuration.runs, column, key)) is not None
        }
        for role in (UNIFORM, FULL_FEEDBACK):
            if (other := self.reference(configuration, role)) and (mean := other.estimate(column)):
                means[role] = mean.mean
        return means

    @property
    def has_exact_bounds(self) -> bool:
        """Whether a run recorded the uniform policy's reward."""
        column = self.columns[0] if self.columns else ""
        return any(
            baselines.recorded(configuration.runs, column, baselines.RECORDED_UNIFORM) is not None
            for configuration in self.configurations
        )

    def compared(
        self, wanted: str | None = None
    ) -> list[tuple[ConfigurationResults, ConfigurationResults, Comparison]]:
        """Every configuration but the baselines, its reference, and their comparison over seeds; one family.

        Args:
          wanted: Name of the reference, or a strategy such as `greedy`. Of several references each configuration is
            compared with the most similar one, preferably of the same data, rewards, rounds and cohorts. By default
            `greedy`, else the first configuration; then only equal data, rewards, rounds and cohorts are compared.
        """
        others = [configuration for configuration in self.configurations if not configuration.role]
        references = self.named(wanted or GREEDY) or ([] if wanted else others[:1])
        pairs = []
        for configuration in others if self.columns else ():
            alike = [one for one in references if environment_key(one.flags) == environment_key(configuration.flags)]
            alike = alike or (references if wanted and not self.only_alike else [])
            if configuration not in references and alike:
                pairs.append((configuration, _nearest(configuration, alike)))
        if not pairs:
            return []
        column = self.columns[0]
        family = [
            Pair(
                configuration.name,
                configuration.values(column),
                other.name,
                other.values(column),
                not (configuration.is_unpaired or other.is_unpaired),
            )
            for configuration, other in pairs
        ]
        comparisons = comparison.family(family, column.better or "up")
        least, largest = range_of([run for pair in pairs for one in pair for run in one.runs], column)
        return [(*pair, one.within(largest - least)) for pair, one in zip(pairs, comparisons, strict=True)]

    def named(self, wanted: str) -> list[ConfigurationResults]:
        """Configuration of this name; or those of this strategy, for studies that have a flag for strategies."""
        named = [configuration for configuration in self.configurations if configuration.name == wanted]
        chosen = self.study.chosen if self.study else ""
        return named or [
            configuration for configuration in self.configurations if configuration.flags.get(chosen) == wanted
        ]


def estimate(values: Sequence[float], bounds: tuple[float, float] = UNBOUNDED) -> Interval | None:
    """Mean and 95% interval by Student's t, cut at the values' bounds (`Interval.within`); None without values."""
    return intervals.of_mean(values).within(*bounds) if len(values) else None


def range_of(seed_runs: Sequence[runs.Run], column: str) -> tuple[float, float]:
    """Smallest and largest possible value of a metric; infinite if the runs did not record their range of rewards."""
    if getattr(column, "share", False):
        return 0.0, 1.0
    if not getattr(column, "reward", False):
        return UNBOUNDED
    ranges = [run.bounds.get("rewards", {}) for run in seed_runs]
    least = min(one.get("least", -math.inf) for one in ranges)
    return least, max(one.get("largest", math.inf) for one in ranges)


def environment_key(flags: Mapping[str, Any], left_out: str = "") -> list[Any]:
    """Key of data, rewards, rounds and cohorts; configurations with different keys are not each other's baselines.

    Args:
      flags: The flags of a configuration.
      left_out: A flag that may differ.
    """
    shift = flags.get("dist_shift_type") or ("bandits" if flags.get("scenario") == "init_shift" else None)
    return [shift, *(flags.get(name) for name in (*_OF_DATA, *_OF_ENVIRONMENT) if name != left_out)]


def what_seeds_vary(seed_runs: Sequence[runs.Run]) -> str:
    """Sentence that says what differs between the seeds of runs."""
    return words.what_seeds_vary(
        partition=any(run.flags.get("resplit") for run in seed_runs),
        initial_model=not all(run.flags.get("initial_model_path") for run in seed_runs),
        noise=runs.has_noise(seed_runs),
    )


def deployed_otherwise(bound: ConfigurationResults, configuration: ConfigurationResults) -> str:
    """How the deployment of a baseline differs from a configuration's, in words; empty if it does not."""
    both = [(name, bound.flags.get(name), configuration.flags.get(name)) for name in _DEPLOYMENT]
    return ", ".join(f"{names.word(name, one)}, not {other}" for name, one, other in both if one != other)


def shared_flags(run: runs.Run) -> dict[str, Any]:
    """Set flags of a run that define its configuration."""
    # With `resplit`, the seed of the clients is the run's.
    left_out = _FREE | ({"partition_seed"} if run.flags.get("resplit") else set())
    left_out |= {"data_file"} if CONTENT in run.data_report else set()  # Files and frames of one content are one table.
    return {name: value for name, value in run.flags.items() if value is not None and name not in left_out}


def _nearest(configuration: ConfigurationResults, others: Sequence[ConfigurationResults]) -> ConfigurationResults:

    return min(others, key=lambda other: _differing(configuration.flags, other.flags))


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> int:
    return sum(first.get(name) != second.get(name) for name in {*first, *second})


def parts(all_runs: Iterable[runs.Run]) -> list[Part]:
    """Groups runs into configurations, by study and task."""
    together = runs.grouped(
        all_runs,
        lambda run: (_study(run), names.task(run.flags), run.data_report.get(CONTENT) or run.flags.get("data_file")),
    )
    result = []
    for (module, task, _), group_runs in together.items():
        program = next((name for name, known in studies.STUDIES.items() if known == module), "")
        words = filter(None, (task, min(map(_table_name, group_runs), key=lambda name: (name == _FRAME, name))))
        title = ": ".join(filter(None, (program, " ".join(words))))
        study = studies.load(module) if module else None
        groups = _groups(group_runs)
        named = zip(_named(groups, study), groups, strict=True)
        some_arms = (ConfigurationResults(name, tuple(group), role(group[0])) for name, group in named)
        result.append(Part(title or "Runs", study, tuple(some_arms)))
    return result


def _table_name(run: runs.Run) -> str:

    name = str(run.flags.get("data_file") or "")
    return _FRAME if name.startswith(frames.PREFIX) else pathlib.Path(name).name


def _study(run: runs.Run) -> str | None:
    """Module of the study that wrote a run's metrics."""
    found = (module for module in studies.STUDIES.values() if studies.load(module).ranked_by in run.metrics)
    return next(found, None)


def _seed(run: runs.Run) -> str:
    return str(run.flags.get("seed"))


def _owner(run: runs.Run) -> pathlib.Path:
    """Folder that a configuration's seeds share."""
    return run.folder.parent if run.folder.name == f"seed_{_seed(run)}" else run.folder


def _groups(all_runs: Iterable[runs.Run]) -> list[list[runs.Run]]:
    """Groups of runs that differ only in their seed; by folder if a seed was run twice."""
    together = runs.grouped(all_runs, lambda run: json.dumps(shared_flags(run), sort_keys=True, default=str))
    groups: list[list[runs.Run]] = []
    for group in together.values():
        if max(Counter(map(_seed, group)).values()) == 1:
            groups.append(group)
        else:
            groups += runs.grouped(group, _owner).values()
    return [sorted(group, key=lambda run: (len(_seed(run)), _seed(run))) for group in groups]


def role(run: runs.Run) -> str:
    """Role as a baseline: `UNIFORM`, `FULL_FEEDBACK`, or empty for neither."""
    entry = registry.BANDITS.get(str(run.flags.get("bandits_type")))
    if entry is None:
        return ""
    return FULL_FEEDBACK if entry.supervised else UNIFORM if entry.policy == "uniform" else ""


def _named(groups: Sequence[Sequence[runs.Run]], study: Study | None) -> list[str]:

    flags, owners = [shared_flags(group[0]) for group in groups], [_owner(group[0]) for group in groups]
    return names.of(flags, owners, study.shown_in_presets, study.chosen) if study else names.of(flags, owners, ())
