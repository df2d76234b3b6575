"""A figure's configurations compared with the uniform policy, the best fixed action and the full-feedback baseline."""

import functools
import math
from collections.abc import Hashable, Mapping, Sequence

from bandits import studies, world_flags
from bandits.papers.plan import Figure
from bandits.papers.results import Value, number
from bandits.plans.plan import Configuration
from bandits.results import baselines, configurations, runs
from bandits.results.baselines import Marks, Standing
from bandits.results.comparison import Landmark, Values
from optimization.study.metrics import Metric
from optimization.study.settings import Settings

CHANCE, CEILING = "chance", "ceiling"  # Labels of arms; of several ceilings, how their labels begin.
_UNKNOWN: tuple[Landmark | None, Landmark | None] = (None, None)
# A change permutes the actions' rewards, and uniformly random ones earn the same.
_OF_CHANGE = ("reward_drift", "world_seed", *(name for name in world_flags.NAMES if name.startswith("drift_")))


def column(figure: Figure) -> Metric | None:
    """Returns the metric whose last value the first measure is, if runs record what chance earns there."""
    first = figure.measures[0]
    metric = runs.declared().get(first.column)
    return metric if metric and metric.bounds and (first.at == "last" or first.last_rounds) else None


def is_landmark(arm: Configuration) -> bool:
    """Returns whether an arm is there for others to stand between."""
    return arm.words[0].startswith((CHANCE, CEILING))


def shown(arm: Configuration) -> str:
    """Returns how a page names a configuration."""
    named = {CHANCE: "uniform policy", CEILING: "full-feedback baseline"}
    word = next((word for word in named if is_landmark(arm) and arm.label.startswith(word)), "")
    return arm.label.replace(word, named[word], 1) if word else arm.label


def kind(figure: Figure, arm: Configuration) -> Hashable:
    """Returns what an arm shares with its ceiling: whose rewards are paid, how long, and how often it is deployed."""
    flags = _settings(figure.binary, arm.arguments)
    return (*map(str, configurations.environment(flags)), flags.get("bandits_deploy_freq"))


def _kind_of_chance(figure: Figure, arm: Configuration) -> Hashable:
    """Returns what an arm shares with uniformly random actions that bound it."""
    flags = _settings(figure.binary, arm.arguments)
    return tuple(map(str, configurations.environment({**flags, **dict.fromkeys(_OF_CHANGE)})))


def _stays(figure: Figure, arm: Configuration) -> bool:
    """Returns whether all rounds are of one world."""
    flags = _settings(figure.binary, arm.arguments)
    return not flags.get("reward_drift") or flags.get("drift_world") is not None


def _plays_one_world(figure: Figure, arm: Configuration) -> bool:
    """Returns whether the first measure's rounds are all of one world.

    Each world's actions are another's in other places (`bandits.worlds.drift`), so that its best earns the same.
    """
    flags, rounds = _settings(figure.binary, arm.arguments), figure.measures[0].last_rounds
    if _stays(figure, arm):
        return True
    is_one_change = flags["reward_drift"] == "abrupt" and not flags.get("drift_every")
    keeps = flags.get("cache") == "persistent"  # Of what may be the world before.
    if not is_one_change or not rounds or keeps:
        return False
    return bool(flags["total_rounds"] - rounds + 1 >= flags["drift_start"])


@functools.cache
def _settings(binary: str, arguments: tuple[str, ...]) -> Settings:
    return studies.resolve(studies.STUDIES[binary], arguments)


def ceilings(figure: Figure, values: Values) -> dict[Hashable, Mapping[int, float]]:
    """Returns what ceilings earned, by the kind of arm that each bounds.

    Who learns from all rewards, but acts with older models, is no ceiling of what is deployed more often; nor is one of
    another world.
    """
    some = [arm for arm in figure.arms if arm.label in values and arm.words[0].startswith(CEILING)]
    return {kind(figure, arm): values[arm.label] for arm in some}


def stands(
    figure: Figure, rows: Sequence[Value], recorded: Mapping[str, tuple[Landmark | None, Landmark | None]]
) -> dict[str, Standing]:
    """Returns where arms stand, one family of all that have the same baselines.

    Chance and the best fixed action are what runs recorded, which is exact, of all their rounds. Where that is
    missing, or of the last rounds alone, those of chance recorded it, on the same clients and data in one world. Where
    nobody recorded it, chance is the arm that played it.

    Args:
      figure: The figure.
      rows: Its numbers.
      recorded: Rewards of the uniform policy and the best fixed action, by arm.

    Returns:
      By arm; without those of which nothing is known.
    """
    first = figure.measures[0]
    own = {row.arm: row for row in rows if row.measure == first.name and not row.is_picked}
    values = {label: row.sound for label, row in own.items()}
    bounds = ceilings(figure, values)
    uniform = [arm for arm in figure.arms if arm.label == CHANCE and arm.label in values]
    played = {_kind_of_chance(figure, arm): values[CHANCE] for arm in uniform}
    witness = {_kind_of_chance(figure, arm): recorded.get(CHANCE, _UNKNOWN) for arm in uniform if _stays(figure, arm)}
    marks: dict[str, Marks] = {}
    for arm in figure.arms:
        if arm.label in values and not is_landmark(arm):
            kind_of_chance = _kind_of_chance(figure, arm) if played else None
            own_chance, own_constant = recorded.get(arm.label, _UNKNOWN)
            chance, constant = witness.get(kind_of_chance, _UNKNOWN)
            if own_constant is not None and (not first.last_rounds or _stays(figure, arm)):
                constant = own_constant
            elif constant is not None and not _plays_one_world(figure, arm):
                constant = None
            known = (own_chance, chance, played.get(kind_of_chance))
            chance = next((one for one in known if one is not None), None)
            marks[arm.label] = Marks(chance, constant, bounds.get(kind(figure, arm)) if bounds else None)
    found = baselines.compare_each(
        {label: values[label] for label in marks},
        marks,
        unpaired=[label for label in marks if own[label].is_unpaired],
        better="down" if first.smallest else "up",
    )
    return {label: stand for label, stand in found.items() if stand.word}


def constants(rows: Sequence[Value]) -> dict[str, list[str]]:
    """Returns the reward of the best fixed action, as text, and the arms whose world it is of."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.stand and row.stand.fixed and math.isfinite(row.stand.fixed.reference_mean):
            found.setdefault(number(row.stand.fixed.reference_mean), []).append(row.arm)
    return found
