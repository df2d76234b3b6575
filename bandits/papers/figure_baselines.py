"""A figure's configurations compared with the uniform policy, the best fixed action and the full-feedback baseline."""

import functools
import math
from collections.abc import Hashable, Mapping, Sequence

from bandits import environment_flags, studies
from bandits.papers.plan import Figure
from bandits.papers.results import Value, number
from bandits.plans.plan import Configuration
from bandits.results import configurations, former, runs
from bandits.results.baselines import BaselineComparison
from bandits.results.former import Baselines, Landmark, Values
from optimization.study.metrics import Metric
from optimization.study.settings import Settings

UNIFORM, FULL_FEEDBACK = "chance", "ceiling"  # Labels of configurations; labels of several baselines begin so.
_UNKNOWN: tuple[Landmark | None, Landmark | None] = (None, None)
# A change permutes the actions' rewards, so the uniform policy earns the same.
_CHANGE_FLAGS = ("reward_drift", "world_seed", *(name for name in environment_flags.NAMES if name.startswith("drift_")))


def column(figure: Figure) -> Metric | None:
    """Metric of the first measure, if runs record its baselines."""
    first = figure.measures[0]
    metric = runs.declared().get(first.column)
    return metric if metric and metric.bounds and (first.at == "last" or first.last_rounds) else None


def is_baseline(configuration: Configuration) -> bool:
    """Whether a configuration is a baseline."""
    return configuration.words[0].startswith((UNIFORM, FULL_FEEDBACK))


def display_name(configuration: Configuration) -> str:
    """Name of a configuration on a page."""
    named = {UNIFORM: "uniform policy", FULL_FEEDBACK: "full-feedback baseline"}
    word = next((word for word in named if is_baseline(configuration) and configuration.label.startswith(word)), "")
    return configuration.label.replace(word, named[word], 1) if word else configuration.label


def baseline_key(figure: Figure, configuration: Configuration) -> Hashable:
    """Key that a configuration shares with its full-feedback baseline: environment, rounds and deployment period."""
    flags = _settings(figure.binary, configuration.arguments)
    return (*map(str, configurations.environment_key(flags)), flags.get("bandits_deploy_freq"))


def _uniform_key(figure: Figure, configuration: Configuration) -> Hashable:

    flags = _settings(figure.binary, configuration.arguments)
    return tuple(map(str, configurations.environment_key({**flags, **dict.fromkeys(_CHANGE_FLAGS)})))


def _is_stationary(figure: Figure, configuration: Configuration) -> bool:

    flags = _settings(figure.binary, configuration.arguments)
    return not flags.get("reward_drift") or flags.get("drift_world") is not None


def _has_one_environment(figure: Figure, configuration: Configuration) -> bool:
    """Whether all rounds of the first measure belong to one environment.

    Environments permute the same actions (`bandits.environments`), so all have the same best fixed reward.
    """
    flags, rounds = _settings(figure.binary, configuration.arguments), figure.measures[0].last_rounds
    if _is_stationary(figure, configuration):
        return True
    is_one_change = flags["reward_drift"] == "abrupt" and not flags.get("drift_every")
    keeps = flags.get("cache") == "persistent"  # Cached rewards may belong to the environment before.
    if not is_one_change or not rounds or keeps:
        return False
    return bool(flags["total_rounds"] - rounds + 1 >= flags["drift_start"])


@functools.cache
def _settings(binary: str, arguments: tuple[str, ...]) -> Settings:
    return studies.resolve(studies.STUDIES[binary], arguments)


def full_feedback_rewards(figure: Figure, values: Values) -> dict[Hashable, Mapping[int, float]]:
    """Rewards of full-feedback baselines, by `baseline_key` of the configurations that each belongs to.

    A baseline with another deployment period or environment does not count.
    """
    some = [
        configuration
        for configuration in figure.configurations
        if configuration.label in values and configuration.words[0].startswith(FULL_FEEDBACK)
    ]
    return {baseline_key(figure, configuration): values[configuration.label] for configuration in some}


def compare(
    figure: Figure, rows: Sequence[Value], recorded: Mapping[str, tuple[Landmark | None, Landmark | None]]
) -> dict[str, BaselineComparison]:
    """Compares configurations with their baselines; those that share baselines are one family.

    The rewards of the uniform policy and of the best fixed action are exact: runs recorded them, over all their rounds.
    If a configuration has no such record, or the measure covers the last rounds alone, the record of the uniform
    policy's runs counts, with the same clients and data in one environment. Without any record, the uniform policy's
    reward is measured by its own runs.

    Args:
      figure: The figure.
      rows: Its numbers.
      recorded: Rewards of the uniform policy and of the best fixed action, by configuration.

    Returns:
      Comparisons by configuration; without configurations that have no baseline.
    """
    first = figure.measures[0]
    first_measure = {row.configuration: row for row in rows if row.measure == first.name and not row.is_picked}
    values = {label: row.sound for label, row in first_measure.items()}
    full_feedback = full_feedback_rewards(figure, values)
    uniform = [
        configuration
        for configuration in figure.configurations
        if configuration.label == UNIFORM and configuration.label in values
    ]
    uniform_rewards = {_uniform_key(figure, configuration): values[UNIFORM] for configuration in uniform}
    witness = {
        _uniform_key(figure, configuration): recorded.get(UNIFORM, _UNKNOWN)
        for configuration in uniform
        if _is_stationary(figure, configuration)
    }
    bounds: dict[str, Baselines] = {}
    for configuration in figure.configurations:
        if configuration.label in values and not is_baseline(configuration):
            uniform_key = _uniform_key(figure, configuration) if uniform_rewards else None
            recorded_uniform, recorded_fixed = recorded.get(configuration.label, _UNKNOWN)
            uniform_reward, fixed_reward = witness.get(uniform_key, _UNKNOWN)
            if recorded_fixed is not None and (not first.last_rounds or _is_stationary(figure, configuration)):
                fixed_reward = recorded_fixed
            elif fixed_reward is not None and not _has_one_environment(figure, configuration):
                fixed_reward = None
            candidates = (recorded_uniform, uniform_reward, uniform_rewards.get(uniform_key))
            uniform_reward = next((candidate for candidate in candidates if candidate is not None), None)
            bounds[configuration.label] = Baselines(
                uniform_reward,
                fixed_reward,
                full_feedback.get(baseline_key(figure, configuration)) if full_feedback else None,
            )
    found = former.compare_with_own(
        {label: values[label] for label in bounds},
        bounds,
        unpaired=[label for label in bounds if first_measure[label].is_unpaired],
        better="down" if first.smallest else "up",
    )
    return {label: against for label, against in found.items() if against.summary}


def best_fixed_rewards(rows: Sequence[Value]) -> dict[str, list[str]]:
    """Rewards of best fixed actions, as text, with the configurations of each."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.baselines and row.baselines.fixed and math.isfinite(row.baselines.fixed.reference_mean):
            found.setdefault(number(row.baselines.fixed.reference_mean), []).append(row.configuration)
    return found
