"""Results of a figure: measures of its runs, what records hold of them, and the baselines of its configurations."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bandits import environment_flags, studies
from bandits.papers.plan import Figure, Measure, parse_operand
from bandits.plans import plan
from bandits.results import baselines, comparison, configurations, runs
from bandits.results.baselines import BaselineComparison, Baselines
from bandits.results.comparison import Comparison, Reference
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from data.errors import UsageError
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric
from optimization.study.results import Run
from optimization.study.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

UNIFORM, FULL_FEEDBACK = "chance", "ceiling"  # Labels of configurations; labels of several baselines begin so.
PICKED = "picked:"  # Before the name of a searched flag: its selected value.
EDGE = "edge:"  # Likewise: whether that lies on an edge of the grid that ran; the declared grid may change later.
DIVERGED, UNPAIRED, ROUNDS = "diverged", "unpaired", "rounds"  # The first two are 0 or 1, and missing where all are 0.
_VALUE = "value"  # The metric of an operand.
_SAMPLE = "sampled_clients"  # Clients that baselines were computed on, if these are a sample.
_CHANGE_FLAGS = (
    "reward_drift",
    "environment_seed",
    *(name for name in environment_flags.NAMES if name.startswith("drift_")),
)


class MissingError(Exception):
    """A number that a claim needs is missing."""


@dataclasses.dataclass(frozen=True)
class Operand:
    """A measure of a configuration, or a difference of two.

    Attributes:
      label: Label of the configuration.
      measure: The measure.
      configuration: The configuration, with the single metric `_VALUE`; never reached values are infinite.
      late: What counts in place of an infinite value: one round after the last.
    """

    label: str
    measure: Measure
    configuration: Configuration
    late: float = math.inf

    @property
    def finite(self) -> "pd.Series":
        """Values by seed; what is never reached counts as reached one round after the last."""
        return self.configuration.values[_VALUE].replace(np.inf, self.late)

    @property
    def mean(self) -> float:
        """Mean over seeds; infinite if a seed never reaches the value."""
        return float(self.configuration.values[_VALUE].mean())

    @property
    def size(self) -> float:
        """Absolute mean of `finite`, to which tolerances are relative."""
        return abs(float(self.finite.mean()))

    @property
    def lost(self) -> str:
        """Diverged runs, in words; empty for none."""
        count = len(self.configuration.diverged)
        return f"{self.label} diverged in {count} of {len(self.finite)} seeds" if count else ""

    def minus(self, other: "Operand | None", shift: float = 0.0) -> Comparison:
        """Compares it with another plus a shift, or with the shift alone; not judged if that decides nothing."""
        reference: Reference = ReferenceValue("limit", shift)
        is_never = False
        if other:
            reference = other._with_values(other.finite + shift)
            common = self.configuration.values.join(other.configuration.values, how="inner", rsuffix=" of the other")
            is_never = bool((common == math.inf).all(axis=1).any())
        (test,) = comparison.compare([(self._with_values(self.finite), reference)], _VALUE)
        return test if test.is_judged and not is_never else dataclasses.replace(test, is_judged=False, p=math.nan)

    def _with_values(self, values: "pd.Series") -> Configuration:
        return dataclasses.replace(self.configuration, values=values.to_frame(_VALUE))

    def lead(self, other: "Operand") -> "Operand":
        """It minus another, by common seed."""
        first, second = self.configuration, other.configuration
        is_same = self.label == other.label
        names = (f"{self.label}: {self.measure.name}", other.measure.name) if is_same else (self.label, other.label)
        lead = dataclasses.replace(
            self._with_values((self.finite - other.finite).dropna()),
            diverged=first.diverged | second.diverged,
            unpaired=first.unpaired or second.unpaired,
        )
        return Operand(" minus ".join(names), self.measure, lead)


@dataclasses.dataclass(frozen=True)
class Results:
    """Results of a figure.

    Attributes:
      figure: The figure.
      configurations: Configurations with records, by label, in the figure's order. The metrics are the measures, and
        the other numbers of records.
    """

    figure: Figure
    configurations: Mapping[str, Configuration]

    @functools.cached_property
    def baselines(self) -> Mapping[str, BaselineComparison]:
        """First measures compared with the baselines, by label; without configurations that have no baseline."""
        first = self.figure.measures[0]
        pairs = [(self.configurations[label], known) for label, known in self.known_baselines.items()]
        compared = baselines.compare(pairs, first.name, "down" if first.smallest else "up")
        return {label: against for label, against in compared.items() if against.summary}

    @functools.cached_property
    def known_baselines(self) -> Mapping[str, Baselines]:
        """Baselines of the configurations that are none, by label."""
        return _known_baselines(self.figure, self.configurations)

    @property
    def measures(self) -> list[str]:
        """Names of the measures that the records have."""
        known = next(iter(self.configurations.values())).values if self.configurations else ()
        return [measure.name for measure in self.figure.measures if measure.name in known]

    def picked(self, label: str) -> dict[str, float]:
        """Values that a search selected, by flag."""
        values = self.configurations[label].values
        columns = [name for name in values if name.startswith(PICKED) and values[name].notna().any()]
        return {name.removeprefix(PICKED): float(values[name].iloc[0]) for name in columns}

    def edges(self, label: str) -> list[str]:
        """Flags whose selected value lies on an edge of the grid, with their values.

        The grid is the one that ran. Where records do not say whether a pick was on its edge, it is the declared one.
        """
        if label not in self.configurations:
            return []
        values, picked = self.configurations[label].values, self.picked(label)
        declared = next(one for one in self.figure.configurations if one.label == label).edges(picked)
        on_edge = []
        for flag, value in picked.items():
            column = f"{EDGE}{flag}"
            is_recorded = column in values and values[column].notna().all()
            if values[column].iloc[0] if is_recorded else flag in declared:
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
        return Operand(label, measure, single, float(configuration.values[ROUNDS].max()) + 1)

    def against_baselines(self, label: str, name: str) -> BaselineComparison | None:
        """A configuration compared with its baselines, if the measure is the first."""
        return self.baselines.get(label) if name == self.figure.measures[0].name else None

    def best_fixed(self) -> dict[str, list[str]]:
        """Rewards of best fixed actions, as text, with the configurations of each."""
        rewards = {label: against.fixed.reference_mean for label, against in self.baselines.items() if against.fixed}
        finite = {label: number(reward) for label, reward in rewards.items() if math.isfinite(reward)}
        return runs.grouped(finite, finite.__getitem__)


def interval_of(test: Comparison) -> Interval:
    """A difference with its interval: a point if it is the same in every seed, and the mean alone without a test."""
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
    if against and against.beats_uniform and against.fixed and against.fixed.is_judged and not against.fixed.wins:
        return f" ({against.summary.rpartition(', ')[2]})"
    return baselines.note(against) if against else ""


def value_words(label: str, name: str, results: Results) -> str:
    """Number with its interval; for rounds to a value, how many seeds reach it if not all do."""
    estimate, measure = results.estimate(label, name), results.figure.measure_of(f"{label} @ {name}")
    if measure.rounds_to is not None and math.isinf(estimate.mean):
        values = results.configurations[label].values[name]
        return f"reached by {sum(map(math.isfinite, values))} of {len(values)} seeds"
    return estimate.text()


def of_records(figure: Figure, table: "pd.DataFrame | None") -> Results:
    """Results of a figure's records; without records there are no configurations."""
    found = {}
    if table is not None and any(measure.name in table for measure in figure.measures):
        numbers = table.select_dtypes("number").set_index("seed")
        for planned in figure.configurations:
            values = numbers[(table["arm"] == planned.label).to_numpy()]
            if len(values):
                lost = values.index[values[DIVERGED] > 0] if DIVERGED in values else ()
                is_unpaired = UNPAIRED in values and bool(values[UNPAIRED].any())
                found[planned.label] = Configuration(
                    planned.label, values.astype(float), diverged=frozenset(map(int, lost)), unpaired=is_unpaired
                )
    return Results(figure, found)


def of_runs(
    figure: Figure,
    planned: plan.Configuration,
    seed_runs: Sequence[Run],
    searched: Mapping[str, float],
    diverged: frozenset[int] = frozenset(),
) -> Configuration:
    """A configuration with all numbers that records hold.

    Args:
      figure: The figure.
      planned: The configuration.
      seed_runs: Finished runs of the configuration.
      searched: Best value of each searched flag.
      diverged: Seeds whose training diverged.

    Raises:
      UsageError: If a run lacks a measure; the message names the file.
    """
    import pandas as pd

    by_seed = runs.seeds(seed_runs)
    values = pd.DataFrame({one.name: measured(one, by_seed) for one in figure.measures}, index=[*by_seed], dtype=float)
    on_edge = planned.edges(searched)
    for flag, value in searched.items():
        values[f"{PICKED}{flag}"] = value
        if planned.sweeps:
            values[f"{EDGE}{flag}"] = int(flag in on_edge)
    if diverged:
        values[DIVERGED] = [int(seed in diverged) for seed in by_seed]
    if metric := baseline_metric(figure):
        values = values.join(pd.DataFrame([_recorded(run, metric) for run in by_seed.values()], index=[*by_seed]))
    values[ROUNDS] = [int(run.metrics["round_num"].iloc[-1]) for run in by_seed.values()]
    return Configuration(planned.label, values, diverged=diverged, runs=tuple(by_seed.values()))


def _recorded(run: Run, column: Metric) -> dict[str, float]:
    """Recorded rewards of the uniform policy and the best fixed action, with errors if from a sample."""
    row: dict[str, float] = {UNPAIRED: 1} if runs.is_unpaired([run]) else {}
    for baseline, reward in baselines.recorded([run], column).items():
        if isinstance(reward, ReferenceValue):
            name = baselines.RECORDED[baseline]
            row |= {name: reward.mean}
            row |= {f"{name}_error": reward.error, _SAMPLE: reward.clients} if reward.clients else {}
    return row


def measured(measure: Measure, by_seed: Mapping[int, Run]) -> list[float]:
    """A measure of each run.

    Raises:
      UsageError: If a run lacks it; the message names the file.
    """
    if ".npz:" in measure.column:
        name, _, field = measure.column.partition(":")
        folders = [run.folder for run in by_seed.values()]
        return [_of_file(next(iter(sorted(folder.glob(name))), folder / name), field) for folder in folders]
    curves = []
    for run in by_seed.values():
        if measure.column not in run.metrics:
            raise UsageError(f"{run.folder / 'metrics.csv'} has no column {measure.column}.")
        curves.append(run.metrics.set_index("round_num")[measure.column].dropna())
    if measure.at == "deviation":
        return _residual_deviations(curves)
    if measure.at == "chosen peak":
        return _at_chosen_peak(curves, list(by_seed))
    return [_at(curve, measure) for curve in curves]


def _residual_deviations(curves: "Sequence[pd.Series]") -> list[float]:
    """Standard deviation of each seed's residuals to the mean curve over seeds; NaN of a single seed.

    The mean curve includes each seed, which n / (n - 1) corrects: the mean square over seeds is the variance
    over seeds with n - 1, mean over rounds.
    """
    import pandas as pd

    together, count = pd.concat(curves, axis=1), len(curves)
    squares = (together.sub(together.mean(axis=1), axis=0) ** 2).mean()
    return [math.sqrt(square * count / (count - 1)) if count > 1 else math.nan for square in squares]


def _at_chosen_peak(curves: "Sequence[pd.Series]", seeds: Sequence[int]) -> list[float]:
    """Each odd seed's value in the round where the mean over the even seeds is highest; NaN for even seeds."""
    import pandas as pd

    chosen = [curve for curve, seed in zip(curves, seeds, strict=True) if seed % 2 == 0]
    if not chosen:
        return [math.nan] * len(curves)
    peak = pd.concat(chosen, axis=1).mean(axis=1).idxmax()
    pairs = zip(curves, seeds, strict=True)
    return [float(curve.get(peak, math.nan)) if seed % 2 else math.nan for curve, seed in pairs]


def _at(curve: "pd.Series", measure: Measure) -> float:
    at = measure.at
    if measure.rounds_to is not None:
        reached = curve.index[curve >= measure.rounds_to]
        return float(reached[0]) if len(reached) else math.inf
    if measure.share_of is not None:
        curve = curve[curve >= 0]
        return float((curve == measure.share_of).mean())
    if curve.empty:
        return math.nan
    if isinstance(at, int):
        return float(curve.get(at, math.nan))
    if measure.last_rounds is not None:
        return float(curve.tail(measure.last_rounds).mean())
    return float({"last": curve.iloc[-1], "first": curve.iloc[0], "mean": curve.mean(), "max": curve.max()}[at])


def _of_file(path: pathlib.Path, field: str) -> float:
    """Mean of an array; for `|field|`, of its absolute values."""
    name = field.strip("|")
    try:
        with np.load(path) as archive:
            values = archive[name]
            return float(np.nanmean(values if name == field else np.abs(values)))
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(f"{path} holds no {field} ({error}).") from error


def number(value: float) -> str:
    """Number as text."""
    if math.isinf(value):
        return "infinite"
    return "-" if math.isnan(value) else f"{value:.3g}"


def baseline_metric(figure: Figure) -> Metric | None:
    """Metric of the first measure, if runs record its baselines."""
    first = figure.measures[0]
    metric = runs.declared().get(first.column)
    return metric if metric and metric.bounds and (first.at == "last" or first.last_rounds) else None


def is_baseline(planned: plan.Configuration) -> bool:
    """Whether a configuration is a baseline."""
    return planned.words[0].startswith((UNIFORM, FULL_FEEDBACK))


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

    It has the environment and the rounds, and that of full feedback the deployment period. A change permutes the
    actions' rewards, so the uniform policy earns the same.
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
    """Whether all rounds of the first measure belong to one environment.

    Environments permute the same actions (`bandits.environments.drift`), so all have the same best fixed reward.
    """
    flags, rounds = _settings(figure.binary, planned.arguments), figure.measures[0].last_rounds
    if _is_stationary(figure, planned):
        return True
    is_one_change = flags["reward_drift"] == "abrupt" and not flags.get("drift_every")
    keeps = flags.get("cache") == "persistent"  # Cached rewards may belong to the environment before.
    if not is_one_change or not rounds or keeps:
        return False
    return bool(flags["total_rounds"] - rounds + 1 >= flags["drift_start"])


def _known_baselines(figure: Figure, found: Mapping[str, Configuration]) -> dict[str, Baselines]:
    """Baselines of each configuration, by label.

    The rewards of the uniform policy and of the best fixed action are exact: runs recorded them, over all their rounds.
    If a configuration has no such record, or the measure covers the last rounds alone, the record of the uniform
    policy's runs counts, with the same clients and data in one environment. Without any record, the uniform policy's
    reward is measured by its own runs. A full-feedback baseline has the same deployment period and environment.
    """
    first = figure.measures[0]
    planned = [one for one in figure.configurations if one.label in found and first.name in found[one.label].values]
    full_feedback = {_key(figure, one): found[one.label] for one in planned if one.words[0].startswith(FULL_FEEDBACK)}
    uniform = {_key(figure, one, is_uniform=True): one for one in planned if one.label == UNIFORM}
    known: dict[str, Baselines] = {}
    for one in planned:
        if is_baseline(one):
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
    """Recorded rewards of the uniform policy and the best fixed action, as far as there are records."""
    rows = one.values.rename(columns={_SAMPLE: "clients"}).to_dict("index")
    records = {int(seed): {key: value for key, value in row.items() if value == value} for seed, row in rows.items()}
    found = {baseline: baselines.of_records(records, baseline, name) for baseline in baselines.RECORDED}
    return {baseline: reference for baseline, reference in found.items() if reference}
