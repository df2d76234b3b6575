"""Results of a figure: measures of its runs, what records hold of them, and the baselines of its configurations."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bandits import environment_flags, studies
from bandits.papers.plan import Figure, Measure
from bandits.plans import plan
from bandits.results import baselines, configurations, runs
from bandits.results.baselines import BaselineComparison, Baselines
from bandits.results.comparison import Landmark, Sampled, Values
from bandits.results.configuration import Configuration
from data.errors import UsageError
from optimization.study import curves as curves_lib
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric
from optimization.study.results import Run
from optimization.study.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

UNIFORM, FULL_FEEDBACK = "chance", "ceiling"  # Labels of configurations; labels of several baselines begin so.
BEST_FIXED = baselines.FIXED  # Name on pages.
PICKED = "picked:"  # Before the name of a searched flag: its selected value.
EDGE = "edge:"  # Likewise: whether that lies on an edge of the grid that ran; the declared grid may change later.
DIVERGED, UNPAIRED, ROUNDS = "diverged", "unpaired", "rounds"  # The first two are 0 or 1, and missing where all are 0.
_ERROR, _SAMPLE = "_error", "sampled_clients"  # Of baselines that were computed on a sample of the clients.
# A change permutes the actions' rewards, so the uniform policy earns the same.
_CHANGE_FLAGS = ("reward_drift", "world_seed", *(name for name in environment_flags.NAMES if name.startswith("drift_")))


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
        return _compare(self.figure, self.configurations)

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

    def best_fixed(self) -> dict[str, list[str]]:
        """Rewards of best fixed actions, as text, with the configurations of each."""
        rewards = {label: against.fixed.reference_mean for label, against in self.baselines.items() if against.fixed}
        finite = {label: number(reward) for label, reward in rewards.items() if math.isfinite(reward)}
        return runs.grouped(finite, finite.__getitem__)


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
      seed_runs: Its finished runs.
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
    for name in baselines.RECORDED:
        reward = baselines.recorded([run], column, name)
        if isinstance(reward, Sampled):
            row |= {name: reward.mean, f"{name}{_ERROR}": reward.error, _SAMPLE: reward.clients}
        elif isinstance(reward, float):
            row[name] = reward
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
        return curves_lib.residual_deviations(curves)
    if measure.at == "chosen peak":
        return _at_chosen_peak(curves, list(by_seed))
    return [_at(curve, measure) for curve in curves]


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


def baseline_key(figure: Figure, planned: plan.Configuration) -> Hashable:
    """Key that a configuration shares with its full-feedback baseline: environment, rounds and deployment period."""
    flags = _settings(figure.binary, planned.arguments)
    return (*map(str, configurations.environment_key(flags)), flags.get("bandits_deploy_freq"))


def _uniform_key(figure: Figure, planned: plan.Configuration) -> Hashable:
    flags = _settings(figure.binary, planned.arguments)
    return tuple(map(str, configurations.environment_key({**flags, **dict.fromkeys(_CHANGE_FLAGS)})))


def _is_stationary(figure: Figure, planned: plan.Configuration) -> bool:
    flags = _settings(figure.binary, planned.arguments)
    return not flags.get("reward_drift") or flags.get("drift_world") is not None


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


def full_feedback_rewards(figure: Figure, values: Values) -> dict[Hashable, Mapping[int, float]]:
    """Rewards of full-feedback baselines, by `baseline_key` of the configurations that each belongs to.

    A baseline with another deployment period or environment does not count.
    """
    return {
        baseline_key(figure, planned): values[planned.label]
        for planned in figure.configurations
        if planned.label in values and planned.words[0].startswith(FULL_FEEDBACK)
    }


def _compare(figure: Figure, found: Mapping[str, Configuration]) -> dict[str, BaselineComparison]:
    """Compares configurations with their baselines; those that share baselines are one family.

    The rewards of the uniform policy and of the best fixed action are exact: runs recorded them, over all their rounds.
    If a configuration has no such record, or the measure covers the last rounds alone, the record of the uniform
    policy's runs counts, with the same clients and data in one environment. Without any record, the uniform policy's
    reward is measured by its own runs.
    """
    first = figure.measures[0]
    values = {label: one.by_seed(first.name) for label, one in found.items() if first.name in one.values}
    full_feedback = full_feedback_rewards(figure, values)
    uniform_rewards: dict[Hashable, Landmark] = {}
    witness: dict[Hashable, Sequence[Landmark | None]] = {}
    for planned in figure.configurations:
        if planned.label == UNIFORM and UNIFORM in values:
            uniform_rewards[_uniform_key(figure, planned)] = values[UNIFORM]
            if _is_stationary(figure, planned):
                witness[_uniform_key(figure, planned)] = _landmarks(found[UNIFORM])
    bounds: dict[str, Baselines] = {}
    for planned in figure.configurations:
        if planned.label in values and not is_baseline(planned):
            uniform_key = _uniform_key(figure, planned) if uniform_rewards else None
            recorded_uniform, recorded_fixed = _landmarks(found[planned.label])
            uniform_reward, fixed_reward = witness.get(uniform_key, (None, None))
            if recorded_fixed is not None and (not first.last_rounds or _is_stationary(figure, planned)):
                fixed_reward = recorded_fixed
            elif fixed_reward is not None and not _has_one_environment(figure, planned):
                fixed_reward = None
            candidates = (recorded_uniform, uniform_reward, uniform_rewards.get(uniform_key))
            uniform_reward = next((candidate for candidate in candidates if candidate is not None), None)
            full = full_feedback.get(baseline_key(figure, planned)) if full_feedback else None
            bounds[planned.label] = Baselines(uniform_reward, fixed_reward, full)
    against = baselines.compare_with_own(
        {label: values[label] for label in bounds},
        bounds,
        unpaired=[label for label in bounds if found[label].unpaired],
        better="down" if first.smallest else "up",
    )
    return {label: one for label, one in against.items() if one.summary}


def _landmarks(configuration: Configuration) -> list[Landmark | None]:
    """Recorded rewards of the uniform policy and the best fixed action; None where there is no record."""
    found: list[Landmark | None] = []
    for name in baselines.RECORDED:
        values, error = configuration.values, f"{name}{_ERROR}"
        if name not in values or values[name].isna().any():
            found.append(None)
        elif error in values and values[error].notna().any():
            found.append(Sampled(float(values[name].mean()), float(values[error].max()), int(values[_SAMPLE].max())))
        else:
            found.append(baselines.of_seeds({int(seed): float(value) for seed, value in values[name].items()}))
    return found
