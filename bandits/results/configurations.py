"""Groups finished runs into configurations, whose runs differ only in their seed, and finds comparable ones."""

import dataclasses
import functools
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from bandits import environment_flags, registry, studies
from bandits.results import baselines, comparison, configuration, phrases, runs
from bandits.results.baselines import BaselineComparison, Baselines
from bandits.results.comparison import Comparison
from bandits.results.configuration import Baseline, Configuration
from data import frames
from data.errors import UsageError
from data.tasks.options import TaskOptions
from optimization.study import run_folder
from optimization.study.frame import Study
from optimization.study.metrics import Metric

ROLES = Baseline.uniform_policy, Baseline.full_feedback  # Baselines that are runs themselves.
GREEDY = "greedy"  # The default reference of comparisons.
# Flags for folders, seeds and execution, which do not define a configuration.
_FREE = run_folder.FREE_FLAGS | {"seed", "repeat", "list_presets", "metrics"}
# Options of the task, except for those of the model, of the initial training's rewards, and of files.
_OF_DATA = sorted(
    {field.name for field in dataclasses.fields(TaskOptions)}
    - {"cache_dir", "data_dir", "hidden", "init_labels", "initial_weights", "model", "norm", "public_statistics"}
)
# Other flags that change the number of rounds, or the mean reward of the same actions.
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
_DRIFT_ENVIRONMENT = "drift_environment"
CONTENT = "content"  # Key in a data report for the digest of a table.
_FRAME = "DataFrame"


@dataclasses.dataclass(frozen=True)
class ComparableRuns:
    """Configurations of one study and task that can be compared.

    Attributes:
      title: Names of the study and the task.
      study: The study; None for tables from other programs.
      configurations: The configurations, in the order of their folders.
      columns: Metrics to show in tables; the first one ranks configurations. Empty if there are no known metrics.
      is_judged: Whether to give verdicts.
      only_alike: Whether even a requested reference must have the same data, rewards, rounds and cohorts.
    """

    title: str
    study: Study | None
    configurations: tuple[Configuration, ...]
    columns: tuple[Metric, ...]
    is_judged: bool = True
    only_alike: bool = False

    def ranked(self) -> list[Configuration]:
        """Returns the configurations, best first. Those without a value come last."""
        if not self.columns:
            return list(self.configurations)
        sign = 1 if self.columns[0].better == "down" else -1
        means = {one: sign * one.estimate(self.columns[0]).mean for one in self.configurations}
        return sorted(self.configurations, key=lambda one: math.inf if math.isnan(means[one]) else means[one])

    def reference(self, one: Configuration, role: Baseline) -> Configuration | None:
        """Returns the most similar baseline of this role with the same data, rewards, rounds and cohorts, or None."""
        key, others = environment_key(one.flags), [other for other in self.configurations if other.role is role]
        return _nearest(one, [other for other in others if environment_key(other.flags) == key])

    def full_feedback_by_environment(self, one: Configuration) -> dict[int, Configuration]:
        """Finished full-feedback baselines that were trained in one environment of a drift, by environment."""
        key = environment_key(one.flags, _DRIFT_ENVIRONMENT)
        alike = [
            other
            for other in self.configurations
            if other.role is Baseline.full_feedback and other.flags.get(_DRIFT_ENVIRONMENT) is not None
            if other.finished_rounds >= (other.flags.get("total_rounds") or 0)
            if environment_key(other.flags, _DRIFT_ENVIRONMENT) == key
        ]
        groups = runs.grouped(alike, lambda other: int(other.flags[_DRIFT_ENVIRONMENT]))
        nearest = ((environment, _nearest(one, others)) for environment, others in sorted(groups.items()))
        return {environment: other for environment, other in nearest if other}

    def baseline_summary(self, one: Configuration) -> str:
        """Describes how a configuration compares with its baselines on the first metric; empty if this is unknown."""
        standing = self.against_baselines.get(one.name) if self.is_judged else None
        return standing.summary if standing else ""

    @functools.cached_property
    def against_baselines(self) -> dict[str, BaselineComparison]:
        """Compares configurations with their baselines, by name. Those that share baselines are one family of tests."""
        if not self.columns:
            return {}
        others = [(one, self.baselines(one)) for one in self.configurations if not one.role]
        return baselines.compare(others, self.columns[0])

    def baselines(self, one: Configuration) -> Baselines:
        """Returns a configuration's baselines: those that were run, and those that its own runs recorded.

        The recorded reward of the uniform policy is exact, or estimated from a sample of the clients. A uniform policy
        that was run with several seeds takes precedence, because its cohorts are the same as the configuration's.
        """
        known = baselines.recorded(one.runs, self.columns[0])
        for role in ROLES:
            reference = self.reference(one, role)
            if reference and (role not in known or len(reference.runs) > 1):
                known[role] = reference
        return known

    def compared(self, wanted: str | None = None) -> list[tuple[Configuration, Configuration, Comparison]]:
        """Compares every configuration except the baselines with its reference, as one family of tests.

        Args:
          wanted: Name of the reference, or a strategy such as `greedy`. If there are several references, each
            configuration is compared with the most similar one, preferably one with the same data, rewards, rounds and
            cohorts. The default is `greedy`, or the first configuration if there is no `greedy`; the data, rewards,
            rounds and cohorts of a default reference must be the same.
        """
        others = [one for one in self.configurations if not one.role]
        references = self.named(wanted or GREEDY) or ([] if wanted else others[:1])
        pairs = []
        for one in others if self.columns else ():
            alike = [other for other in references if environment_key(other.flags) == environment_key(one.flags)]
            reference = _nearest(one, alike or (references if wanted and not self.only_alike else []))
            if one not in references and reference:
                pairs.append((one, reference))
        comparisons = comparison.compare(pairs, self.columns[0]) if pairs else []
        return [(*pair, compared) for pair, compared in zip(pairs, comparisons, strict=True)]

    def named(self, wanted: str) -> list[Configuration]:
        """Returns the configuration with this name, or all that use this strategy if the study has strategies."""
        named = [one for one in self.configurations if one.name == wanted]
        chosen = self.study.chosen if self.study else ""
        by_strategy = [one for one in self.configurations if not one.flags.get("policy")]
        return named or [one for one in by_strategy if one.flags.get(chosen) == wanted]


def compare(several: runs.Several, reference: str | None = None) -> pd.DataFrame:
    """Compares configurations with a reference by t tests over seeds, Holm-adjusted within a task.

    Runs that differ only in their seed form one configuration. See `comparison.Comparison` for the statistics.

    Example:
      >>> greedy = bandits.run(bandits_type="greedy", repeat=5)
      >>> softmax = bandits.run(bandits_type="softmax", repeat=5)
      >>> bandits.compare([greedy, softmax], reference="greedy")

    Args:
      several: Runs, or sequences of runs, of one or several tasks.
      reference: Name of a configuration or a strategy. The default is greedy, or the first configuration if none is
        greedy.

    Returns:
      A table with one row for each configuration except the reference and the baselines. Its columns are `task`,
      `metric`, `configuration`, `mean`, `reference`, `reference_mean`, `difference`, `low` and `high` (the 95% interval
      of the difference, not adjusted), `p` (adjusted), `seeds` (number of compared seeds) and `verdict`.

    Raises:
      UsageError: If there are no runs, or if no configuration matches the reference.
    """
    parts = comparable(runs.flat(several))
    names = [one.name for part in parts for one in part.configurations]
    if reference and not any(part.named(reference) for part in parts):
        raise UsageError(f"reference={reference!r} matches no configuration. Choose one of: {', '.join(names)}.")
    rows = [
        (
            *(part.title, part.columns[0], one.configuration, one.mean, one.reference, one.reference_mean),
            *(one.difference, one.low, one.high, one.adjusted_p, one.pairs),
            one.significance if one.is_judged else "; ".join(one.notes),
        )
        for part in parts
        for *_, one in part.compared(reference)
    ]
    columns = "task metric configuration mean reference reference_mean difference low high p seeds verdict"
    return pd.DataFrame(rows, columns=columns.split())


def environment_key(flags: Mapping[str, Any], left_out: str = "") -> list[Any]:
    """Returns a key for data, rewards, rounds and cohorts. Only configurations with equal keys share baselines.

    Args:
      flags: The flags of a configuration.
      left_out: A flag that is allowed to differ.
    """
    shift = flags.get("dist_shift_type") or ("bandits" if flags.get("scenario") == "init_shift" else None)
    return [shift, *(flags.get(name) for name in (*_OF_DATA, *_OF_ENVIRONMENT) if name != left_out)]


def shared_flags(run: runs.Run) -> dict[str, Any]:
    """Returns the flags of a run that are set and define its configuration."""
    # With `resplit`, the run's seed also determines the partition into clients.
    left_out = _FREE | ({"partition_seed"} if run.flags.get("resplit") else set())
    left_out |= {"data_file"} if CONTENT in run.data_report else set()  # Same content, same table.
    return {name: value for name, value in run.flags.items() if value is not None and name not in left_out}


def _nearest(one: Configuration, others: Sequence[Configuration]) -> Configuration | None:
    """Returns the first of the configurations that differ in the fewest flags; None if there are none."""

    def differing(other: Configuration) -> int:
        return sum(one.flags.get(name) != other.flags.get(name) for name in {*one.flags, *other.flags})

    return min(others, key=differing) if others else None


def comparable(all_runs: Iterable[runs.Run], *, is_judged: bool = True) -> list[ComparableRuns]:
    """Groups runs into configurations, by study and task; `is_judged` is that of `ComparableRuns`."""
    groups = runs.grouped(
        all_runs,
        lambda run: (
            _study(run),
            phrases.task_name(run.flags),
            run.data_report.get(CONTENT) or run.flags.get("data_file"),
        ),
    )
    result = []
    for (module, task, _), group_runs in groups.items():
        program = next((name for name, known in studies.STUDIES.items() if known == module), "")
        parts = filter(None, (task, min(map(_table_name, group_runs), key=lambda name: (name == _FRAME, name))))
        title = ": ".join(filter(None, (program, " ".join(parts))))
        study = studies.load(module) if module else None
        own = [metric for run in group_runs for metric in run.columns if metric not in runs.declared()]
        metrics, groups_of_seeds = _shown(study, own), _groups(group_runs)
        flags = [shared_flags(group[0]) for group in groups_of_seeds]
        flag_names = (study.shown_in_presets, study.chosen) if study else ((), "")
        names = phrases.configuration_names(flags, [_owner(group[0]) for group in groups_of_seeds], *flag_names)
        some = tuple(
            configuration.of_runs(name, group, metrics, shared, role(group[0]))
            for name, group, shared in zip(names, groups_of_seeds, flags, strict=True)
        )
        columns = tuple(metric for metric in metrics if any(one.values[metric].notna().any() for one in some))
        result.append(ComparableRuns(title or "Runs", study, some, columns, is_judged))
    return result


def _shown(study: Study | None, own: Sequence[Metric]) -> list[Metric]:
    """Returns the metrics to show in tables, if they were measured. The metric that the study ranks by comes first."""
    known = study.columns if study else runs.declared().values()
    shown = [study.ranked_by] if study else []
    shown += [metric for metric in known if metric.recent]
    return list(dict.fromkeys([*shown, *(metric for metric in [*known, *own] if metric.in_summary)]))


def _table_name(run: runs.Run) -> str:
    name = str(run.flags.get("data_file") or "")
    return _FRAME if name.startswith(frames.PREFIX) else pathlib.Path(name).name


def _study(run: runs.Run) -> str | None:
    """Returns the module of the study that wrote a run's metrics; None if unknown."""
    matching = (module for module in studies.STUDIES.values() if studies.load(module).ranked_by in run.metrics)
    return next(matching, None)


def _owner(run: runs.Run) -> pathlib.Path:
    """Returns the folder that all seeds of a configuration share."""
    return run.folder.parent if run.folder.name == f"seed_{run.flags.get('seed')}" else run.folder


def _groups(all_runs: Iterable[runs.Run]) -> list[list[runs.Run]]:
    """Groups runs that differ only in their seed; if a seed was run twice, each folder is a separate group."""
    together = runs.grouped(all_runs, lambda run: json.dumps(shared_flags(run), sort_keys=True, default=str))
    groups: list[list[runs.Run]] = []
    for group in together.values():
        is_repeated = len({run.flags.get("seed") for run in group}) < len(group)
        groups += runs.grouped(group, _owner).values() if is_repeated else [group]
    # Runs without a seed come first.
    return [sorted(group, key=lambda run: -1 if (seed := run.flags.get("seed")) is None else seed) for group in groups]


def role(run: runs.Run) -> Baseline | None:
    """Returns which baseline a run is, the uniform policy or full feedback; None for other runs."""
    entry = registry.BANDITS.get(str(run.flags.get("bandits_type")))
    if entry and entry.supervised:
        return Baseline.full_feedback
    return Baseline.uniform_policy if entry and entry.policy == "uniform" else None
