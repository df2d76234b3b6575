"""Results of a figure: the records of its runs, and the baselines of its configurations.

Records are a CSV file for each figure and scale, with one row per configuration and seed. A row has all measures, the
values that a search selected, the number of rounds, the data's checksum, the project's commit and the machine. Pages
and verdicts are generated from the records, without running anything.
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bandits import environments, studies
from bandits.papers.plan import STAND_IN, Figure, Measure, parse_operand
from bandits.plans import plan
from bandits.results import baselines, comparison, configurations, runs
from bandits.results.baselines import BaselineComparison, Baselines
from bandits.results.comparison import Comparison, Reference
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from data.clients import OTHER_SIZE
from data.errors import UsageError
from data.settings import names
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric
from optimization.study.results import Run
from optimization.study.settings import Settings

REHEARSAL = "rehearsal"  # Column with the maximum number of rounds in a rehearsal; also the suffix of its folder.
# Labels of baselines; prefixes of the labels if there are several of a kind.
UNIFORM, FULL_FEEDBACK = "chance", "ceiling"
_PICKED = "picked:"  # Prefix of the column with the value that a search selected for a flag.
# Prefix of the column that records whether that value lies on an edge of the grid that was run. The declared grid may
# change later.
_EDGE = "edge:"
# The first three are 0 or 1, and left out if all are 0.
_DIVERGED, _UNPAIRED, _OTHER_DATA, _ROUNDS = "diverged", "unpaired", "other_data", "rounds"
_WORDS = ("arm", "data", "commit", "machine")  # Columns with text; all others are numeric.
_LAST_COLUMNS = (_ROUNDS, "data", "commit", "machine")
_COMMIT_LENGTH = 12
_VALUE = "value"  # The metric of an operand.
_SAMPLE = "sampled_clients"  # Clients that baselines were computed on, if not on all.
_CHANGE_FLAGS = names(environments.Drift)


class MissingError(Exception):
    """A number that a claim needs is missing."""


@dataclasses.dataclass(frozen=True)
class Operand:
    """A measure of a configuration, or the difference between two of them.

    Attributes:
      label: Label of the configuration.
      measure: The measure.
      configuration: The configuration, with the single metric `_VALUE`, infinite for seeds that never reach the target.
      late: Value that replaces an infinite one: one round after the last.
    """

    label: str
    measure: Measure
    configuration: Configuration
    late: float = math.inf

    @property
    def finite(self) -> pd.Series:
        """Values by seed. A target that is never reached counts as reached one round after the last."""
        return self.configuration.values[_VALUE].replace(np.inf, self.late)

    @property
    def estimate(self) -> Interval:
        """Mean over all its seeds, as tables show it; infinite if a seed never reaches the target."""
        return self.configuration.estimate(_VALUE)

    @property
    def size(self) -> float:
        """Absolute mean of `finite`, to which tolerances are relative."""
        return abs(float(self.finite.mean()))

    @property
    def lost(self) -> str:
        """Number of diverged runs, as text; empty if no run diverged."""
        count = len(self.configuration.diverged)
        return f"{self.label} diverged in {count} of {len(self.finite)} seeds" if count else ""

    def minus(self, other: "Operand | None", shift: float = 0.0) -> Comparison:
        """Compares this operand with another one plus a shift, or only with the shift.

        The comparison is not judged if there is a seed with which neither operand reaches its target.
        """
        reference: Reference = ReferenceValue("limit", shift)
        is_never = False
        if other:
            reference = other._with_values(other.finite + shift)
            common = self.configuration.values.join(other.configuration.values, how="inner", rsuffix=" of the other")
            is_never = bool((common == math.inf).all(axis=1).any())
        (test,) = comparison.compare([(self._with_values(self.finite), reference)], _VALUE)
        return test if test.is_judged and not is_never else dataclasses.replace(test, is_judged=False, p=math.nan)

    def _with_values(self, values: pd.Series) -> Configuration:
        return dataclasses.replace(self.configuration, values=values.to_frame(_VALUE))

    def lead(self, other: "Operand") -> "Operand":
        """Difference from another operand, for each common seed."""
        first, second = self.configuration, other.configuration
        is_same = self.label == other.label
        labels = (f"{self.label}: {self.measure.name}", other.measure.name) if is_same else (self.label, other.label)
        lead = dataclasses.replace(
            self._with_values((self.finite - other.finite).dropna()),
            diverged=first.diverged | second.diverged,
            unpaired=first.unpaired or second.unpaired,
        )
        return Operand(" minus ".join(labels), self.measure, lead)


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of a figure.

    Attributes:
      figure: The figure.
      table: Records of the figure; None if there are none.
    """

    figure: Figure
    table: pd.DataFrame | None = None

    @functools.cached_property
    def configurations(self) -> Mapping[str, Configuration]:
        """Configurations with records, by label, in the figure's order. Their metrics are the numeric columns."""
        if self.table is None or not any(measure.name in self.table for measure in self.figure.measures):
            return {}
        numbers = self.table.select_dtypes("number").set_index("seed").astype(float)
        by_label = dict(list(numbers.groupby(self.table["arm"].to_numpy())))
        found = {}
        for label in (planned.label for planned in self.figure.configurations if planned.label in by_label):
            values = by_label[label]
            diverged = values.index[values[_DIVERGED] > 0] if _DIVERGED in values else ()
            unpaired = _UNPAIRED in values and bool(values[_UNPAIRED].any())
            found[label] = Configuration(label, values, diverged=frozenset(map(int, diverged)), unpaired=unpaired)
        return found

    @functools.cached_property
    def baselines(self) -> Mapping[str, BaselineComparison]:
        """Comparison of the first measure with the baselines, by label, for configurations that have baselines."""
        first = self.figure.measures[0]
        pairs = [(self.configurations[label], known) for label, known in self.known_baselines.items()]
        compared = baselines.compare(pairs, first.name, "down" if first.smallest else "up")
        return {label: against for label, against in compared.items() if against.summary}

    @functools.cached_property
    def known_baselines(self) -> Mapping[str, Baselines]:
        """Baselines of each configuration that is not a baseline itself, by label."""
        return _known_baselines(self.figure, self.configurations)

    @property
    def measures(self) -> list[str]:
        """Names of the measures that the records have."""
        known = next(iter(self.configurations.values())).values if self.configurations else ()
        return [measure.name for measure in self.figure.measures if measure.name in known]

    def picked(self, label: str) -> dict[str, float]:
        """Values that a search selected, by flag."""
        values = self.configurations[label].values
        columns = [name for name in values if name.startswith(_PICKED) and values[name].notna().any()]
        return {name.removeprefix(_PICKED): float(values[name].iloc[0]) for name in columns}

    def edges(self, label: str) -> list[str]:
        """Flags whose selected value lies on an edge of the grid, with their values.

        The grid is the one that ran, or the declared one if the records do not have a column for edges.
        """
        if label not in self.configurations:
            return []
        values, picked = self.configurations[label].values, self.picked(label)
        declared = next(one for one in self.figure.configurations if one.label == label).edges(picked)
        on_edge = []
        for flag, value in picked.items():
            recorded = values.get(f"{_EDGE}{flag}")
            if flag in declared if recorded is None or recorded.isna().any() else recorded.iloc[0]:
                on_edge.append(f"{flag.replace('_', ' ')} {number(value)}")
        return on_edge

    def estimate(self, label: str, name: str) -> Interval:
        """A measure's mean and interval; a selected value has no interval."""
        picked = self.picked(label)
        if name in picked:
            return Interval(picked[name], math.nan, math.nan, 0)
        return self.configurations[label].estimate(name)

    def operands(self, operand: str) -> list[Operand]:
        """Measures of the alternatives that an operand of a claim names.

        Raises:
          MissingError: If one is missing.
        """
        measure = self.figure.measure_of(operand)
        return [self.operand(label, measure.name) for label in parse_operand(operand)[0]]

    def operand(self, label: str, name: str) -> Operand:
        """A measure of a configuration.

        Raises:
          MissingError: If it is missing.
        """
        configuration, measure = self.configurations.get(label), self.figure.measure_of(f"{label} @ {name}")
        if configuration is None or name not in configuration.values or configuration.values[name].isna().all():
            raise MissingError(f"{name} of {label}")
        values = configuration.values[[name]].set_axis([_VALUE], axis=1)
        values = values.dropna() if measure.is_of_some_seeds else values
        single = dataclasses.replace(configuration, values=values)
        return Operand(label, measure, single, float(configuration.values[_ROUNDS].max()) + 1)

    def against_baselines(self, label: str, name: str) -> BaselineComparison | None:
        """Comparison of a configuration with its baselines, if the measure is the figure's first."""
        return self.baselines.get(label) if name == self.figure.measures[0].name else None

    def best_fixed(self) -> dict[str, list[str]]:
        """Rewards of best fixed actions, as text, each with its configurations."""
        rewards = {label: against.fixed.reference_mean for label, against in self.baselines.items() if against.fixed}
        finite = {label: number(reward) for label, reward in rewards.items() if math.isfinite(reward)}
        return runs.grouped(finite, finite.__getitem__)


def interval_of(test: Comparison) -> Interval:
    """A difference with its interval, which has width 0 if all seeds are equal, and is NaN if there is no test."""
    if not test.is_judged:
        return Interval(test.difference, math.nan, math.nan, test.pairs)
    if test.deviation == 0:
        return Interval(test.difference, test.difference, test.difference, test.pairs)
    return test.interval


def minus(label: str, reference: str, name: str, results: Results) -> str:
    """Difference of two configurations' measures over their common seeds, with its interval, as text."""
    if reference not in results.configurations:
        return ""
    try:
        first, second = (results.operand(one, name) for one in (label, reference))
    except MissingError:
        return number(math.nan)
    return interval_of(first.minus(second)).text(signed=True)


def baseline_note(label: str, name: str, results: Results) -> str:
    """Note on a first measure that is not significantly above the uniform policy or the best fixed action."""
    against = results.against_baselines(label, name)
    if not against or not against.uniform or not against.uniform.is_judged:
        return ""
    if not against.uniform.wins:
        return f" ({against.summary})"
    fixed = against.fixed
    return f" ({against.summary.rpartition(', ')[2]})" if fixed and fixed.is_judged and not fixed.wins else ""


def value_words(label: str, name: str, results: Results) -> str:
    """Number with its interval, as text; or, if some seeds never reach the target, how many seeds do."""
    estimate, measure = results.estimate(label, name), results.figure.measure_of(f"{label} @ {name}")
    if measure.rounds_to is not None and math.isinf(estimate.mean):
        values = results.configurations[label].values[name]
        return f"reached by {sum(map(math.isfinite, values))} of {len(values)} seeds"
    return estimate.text()


def path_of(figure: Figure, folder: pathlib.Path) -> pathlib.Path:
    """Path of a figure's records below a folder of records; rehearsals have their own folders."""
    return folder / (figure.scale + f"_{REHEARSAL}" * bool(figure.rehearsal)) / f"{figure.name}.csv"


def read(figure: Figure, path: pathlib.Path) -> "Results":
    """Results from a figure's records; see `figure_of`. Without a file, they are empty.

    Raises:
      UsageError: If the file has no records; the message names the file.
    """
    if not path.exists():
        return Results(figure, None)
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(_WORDS, str)).astype({"seed": int, _ROUNDS: int})
        if missing := {*_WORDS}.difference(table):
            raise KeyError(f"no column {min(missing)}")
        if table.empty or table["arm"].isna().any():
            raise ValueError("no row, or a row without a configuration")
        table.drop(columns=[*_WORDS]).astype(float)
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(f"{path} holds no records ({error}).") from error
    return Results(figure_of(figure, table), table)


def figure_of(figure: Figure, table: pd.DataFrame) -> Figure:
    """The figure as its records mark it: as a rehearsal, or as run on data with the paper's format but another size."""
    if REHEARSAL in table and not figure.rehearsal:
        figure = figure.marked(int(table[REHEARSAL].max()))
    if _OTHER_DATA in table and table[_OTHER_DATA].eq(1).any():
        data = (
            "a file in the format of the paper's data, but of a different size; the runs' config.json states both sizes"
        )
        figure = dataclasses.replace(figure, data_kind=STAND_IN, data=data)
    return figure


def rows_of(
    figure: Figure,
    planned: plan.Configuration,
    seed_runs: Sequence[Run],
    searched: Mapping[str, float],
    diverged: frozenset[int] = frozenset(),
) -> pd.DataFrame:
    """Records of a configuration, one row per seed.

    Args:
      figure: The figure.
      planned: The configuration.
      seed_runs: Finished runs of the configuration.
      searched: Best value of each searched flag.
      diverged: Seeds whose training diverged.

    Raises:
      UsageError: If a run lacks a measure; the message names the file.
    """
    by_seed = runs.seeds(seed_runs)
    table = pd.DataFrame({"arm": planned.label, "seed": [*by_seed]})
    table = table.assign(**{measure.name: measure.values(by_seed) for measure in figure.measures})
    for flag, value in searched.items():
        table[f"{_PICKED}{flag}"] = value
        if planned.sweeps:
            table[f"{_EDGE}{flag}"] = int(flag in planned.edges(searched))
    if figure.rehearsal:
        table[REHEARSAL] = figure.rehearsal
    if diverged:
        table[_DIVERGED] = [int(seed in diverged) for seed in by_seed]
    if metric := _baseline_metric(figure):
        table = table.join(pd.DataFrame([_recorded(run, metric) for run in by_seed.values()]))
    table[_ROUNDS] = [int(run.metrics["round_num"].iloc[-1]) for run in by_seed.values()]
    return table.join(pd.DataFrame([_provenance(run.folder) for run in by_seed.values()]))


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Records of several configurations as one table."""
    table = pd.concat(tables, ignore_index=True)
    return table[[*(name for name in table if name not in _LAST_COLUMNS), *_LAST_COLUMNS]]


def _provenance(folder: pathlib.Path) -> dict[str, Any]:
    """A run's data checksum, whether the data's size differs from the published one, the commit, and this machine."""
    content = runs.read_json(folder / "config.json") if (folder / "config.json").exists() else {}
    commit = (content.get("git_commit") or "")[:_COMMIT_LENGTH]
    other = {_OTHER_DATA: 1} if OTHER_SIZE in (content.get("data_report") or {}) else {}
    return {"data": content.get("data_checksum") or "", "commit": commit, "machine": runs.machine()} | other


def _recorded(run: Run, column: Metric) -> dict[str, float]:
    """Recorded rewards of the uniform policy and the best fixed action, with errors if computed on a sample."""
    row: dict[str, float] = {_UNPAIRED: 1} if runs.is_unpaired([run]) else {}
    for baseline, reward in baselines.recorded([run], column).items():
        if isinstance(reward, ReferenceValue):
            name = baselines.RECORDED[baseline]
            row |= {name: reward.mean}
            row |= {f"{name}_error": reward.error, _SAMPLE: reward.clients} if reward.clients else {}
    return row


def number(value: float) -> str:
    """Number as text."""
    if math.isinf(value):
        return "infinite"
    return "-" if math.isnan(value) else f"{value:.3g}"


def _baseline_metric(figure: Figure) -> Metric | None:
    """Metric of the first measure, if runs record its baselines."""
    first = figure.measures[0]
    metric = runs.declared().get(first.column)
    return metric if metric and metric.bounds and (first.at == "last" or first.last_rounds) else None


def display_name(planned: plan.Configuration) -> str:
    """Name of a configuration on a page."""
    for label, name in ((UNIFORM, "uniform policy"), (FULL_FEEDBACK, "full-feedback baseline")):
        if planned.words[0].startswith(label):
            return planned.label.replace(label, name, 1)
    return planned.label


@functools.cache
def _settings(binary: str, arguments: tuple[str, ...]) -> Settings:
    return studies.resolve(studies.STUDIES[binary], arguments)


def _key(figure: Figure, planned: plan.Configuration, *, is_uniform: bool = False) -> Hashable:
    """Key that a configuration shares with its uniform policy or full-feedback baseline.

    The key has the environment and the rounds; for the full-feedback baseline, also the deployment period. Changes of
    the environment permute the actions' rewards, so they do not affect the uniform policy's reward.
    """
    flags: dict[str, Any] = {**_settings(figure.binary, planned.arguments)}
    if is_uniform:
        flags |= dict.fromkeys(_CHANGE_FLAGS)
    period = None if is_uniform else flags.get("bandits_deploy_freq")
    return (*map(str, configurations.environment_key(flags)), period)


def _is_stationary(figure: Figure, planned: plan.Configuration) -> bool:
    flags = _settings(figure.binary, planned.arguments)
    return not flags.get("reward_drift") or flags.get("drift_environment") is not None


def _has_one_environment(figure: Figure, planned: plan.Configuration) -> bool:
    """Whether all rounds of the first measure are in the same environment.

    Environments only permute the actions (`bandits.environments.Drift`), so the best fixed action has the same reward
    in all of them.
    """
    flags, rounds = _settings(figure.binary, planned.arguments), figure.measures[0].last_rounds
    if _is_stationary(figure, planned):
        return True
    is_one_change = flags["reward_drift"] == "abrupt" and not flags.get("drift_every")
    keeps = flags.get("cache") == "persistent"  # Cached rewards may be from the previous environment.
    if not is_one_change or not rounds or keeps:
        return False
    return bool(flags["total_rounds"] - rounds + 1 >= flags["drift_start"])


def _known_baselines(figure: Figure, found: Mapping[str, Configuration]) -> dict[str, Baselines]:
    """Baselines of each configuration, by label.

    The rewards of the uniform policy and of the best fixed action are those that runs recorded over all their rounds.
    They are exact, or estimated from a sample of the clients. If a configuration has no such record, the record of the
    uniform policy's runs is used; for the best fixed action in a changing environment, also if the measure covers only
    the last rounds. They have the same clients and data, and a single environment. Without any record, the uniform
    policy's reward is measured in its runs. A full-feedback baseline has the same deployment period and environment as
    the configuration.
    """
    first = figure.measures[0]
    planned = [one for one in figure.configurations if one.label in found and first.name in found[one.label].values]
    full_feedback = {_key(figure, one): found[one.label] for one in planned if one.words[0].startswith(FULL_FEEDBACK)}
    uniform = {_key(figure, one, is_uniform=True): one for one in planned if one.label == UNIFORM}
    known: dict[str, Baselines] = {}
    for one in planned:
        if one.words[0].startswith((UNIFORM, FULL_FEEDBACK)):  # A baseline itself.
            continue
        rewards = _recorded_rewards(found[one.label], first.name)
        if first.last_rounds and not _is_stationary(figure, one):
            rewards.pop(Baseline.best_fixed_action, None)
        if policy := uniform.get(_key(figure, one, is_uniform=True)) if uniform else None:
            recorded = _recorded_rewards(found[UNIFORM], first.name) if _is_stationary(figure, policy) else {}
            if not _has_one_environment(figure, one):
                recorded.pop(Baseline.best_fixed_action, None)
            rewards = {Baseline.uniform_policy: found[UNIFORM]} | recorded | rewards
        if full := full_feedback.get(_key(figure, one)) if full_feedback else None:
            rewards[Baseline.full_feedback] = full
        known[one.label] = rewards
    return known


def _recorded_rewards(one: Configuration, name: str) -> dict[Baseline, Reference]:
    """Recorded rewards of the uniform policy and the best fixed action; without those that have no record."""
    rows = one.values.rename(columns={_SAMPLE: "clients"}).to_dict("index")
    records = {int(seed): {key: value for key, value in row.items() if value == value} for seed, row in rows.items()}
    found = {baseline: baselines.of_records(records, baseline, name) for baseline in baselines.RECORDED}
    return {baseline: reference for baseline, reference in found.items() if reference}
