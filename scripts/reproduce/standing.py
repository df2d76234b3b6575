"""Where a figure's arms stand between chance, the best constant action and the ceiling, by its first measure."""

import functools
import math
from collections.abc import Hashable, Mapping, Sequence

from bandits import studies, world_flags
from optimization.study.metrics import Metric
from optimization.study.settings import Settings
from scripts import runs
from scripts.grid import binaries
from scripts.report import arms as report_arms
from scripts.reproduce.plan import Arm, Figure
from scripts.reproduce.results import Value
from scripts.verdicts import landmarks, of_runs
from scripts.verdicts.comparison import Landmark, Values
from scripts.verdicts.landmarks import Stand

CHANCE, CEILING = "chance", "ceiling"  # Labels of arms; of several ceilings, how their labels begin.
BOUNDS = (of_runs.CHANCE, of_runs.CONSTANT)  # What records keep of a run's `bounds.json`.
# A change permutes the actions' rewards, and uniformly random ones earn the same.
_OF_CHANGE = ("reward_drift", "world_seed", *(name for name in world_flags.NAMES if name.startswith("drift_")))


def column(figure: Figure) -> Metric | None:
    """Returns the metric whose last value the first measure is, if runs record what chance earns there."""
    first = figure.measures[0]
    metric = runs.declared().get(first.column)
    return metric if metric and metric.bounds and (first.at == "last" or first.last_rounds) else None


def is_landmark(arm: Arm) -> bool:
    """Returns whether an arm is there for others to stand between."""
    return arm.words[0].startswith((CHANCE, CEILING))


def kind(figure: Figure, arm: Arm) -> Hashable:
    """Returns what an arm shares with its ceiling: whose rewards are paid, how long, and how often it is deployed."""
    flags = _settings(figure.binary, arm.arguments)
    return (*map(str, report_arms.environment(flags)), flags.get("bandits_deploy_freq"))


def _kind_of_chance(figure: Figure, arm: Arm) -> Hashable:
    """Returns what an arm shares with uniformly random actions that bound it."""
    flags = _settings(figure.binary, arm.arguments)
    return tuple(map(str, report_arms.environment({**flags, **dict.fromkeys(_OF_CHANGE)})))


def _plays_one_world(figure: Figure, arm: Arm) -> bool:
    """Returns whether the first measure's rounds are all of one world.

    Each world's actions are another's in other places (`bandits.worlds.drift`), so that its best earns the same.
    """
    flags, rounds = _settings(figure.binary, arm.arguments), figure.measures[0].last_rounds
    if not flags.get("reward_drift"):
        return True
    is_one_change = flags["reward_drift"] == "abrupt" and not flags.get("drift_every")
    return bool(is_one_change and rounds and flags["total_rounds"] - rounds + 1 >= flags["drift_start"])


@functools.cache
def _settings(binary: str, arguments: tuple[str, ...]) -> Settings:
    return binaries.resolve(studies.STUDIES[binary], arguments)


def ceilings(figure: Figure, values: Values) -> dict[Hashable, Mapping[int, float]]:
    """Returns what ceilings earned, by the kind of arm that each bounds.

    Who learns from all rewards, but acts with older models, is no ceiling of what is deployed more often; nor is one of
    another world.
    """
    some = [arm for arm in figure.arms if arm.label in values and arm.words[0].startswith(CEILING)]
    return {kind(figure, arm): values[arm.label] for arm in some}


def stands(
    figure: Figure, rows: Sequence[Value], recorded: Mapping[str, tuple[Landmark | None, Landmark | None]]
) -> dict[str, Stand]:
    """Returns where arms stand, one family of all that have the same landmarks.

    Chance is the arm that played it on the same clients and data, or what runs recorded. The best constant action is
    what runs recorded of all rounds; of the last ones alone, what those of chance recorded, in a world that stays.

    Args:
      figure: The figure.
      rows: Its numbers.
      recorded: Chance and the best constant action, by arm.

    Returns:
      By arm; without those of which nothing is known.
    """
    first = figure.measures[0]
    own = {row.arm: row for row in rows if row.measure == first.name and not row.is_picked}
    values = {label: row.sound for label, row in own.items()}
    bounds = ceilings(figure, values)
    played = {
        _kind_of_chance(figure, arm): (values[CHANCE], recorded.get(CHANCE, (None, None))[1])
        for arm in figure.arms
        if arm.label == CHANCE and arm.label in values
    }
    groups: dict[Hashable, tuple[list[Landmark | None], list[str]]] = {}
    for arm in figure.arms:
        if arm.label in values and not is_landmark(arm):
            chance, constant = recorded.get(arm.label, (None, None))
            uniform, of_its_world = played.get(_kind_of_chance(figure, arm), (None, None)) if played else (None, None)
            if first.last_rounds:
                constant = of_its_world if _plays_one_world(figure, arm) else None
            known = [uniform or chance, constant, bounds.get(kind(figure, arm)) if bounds else None]
            groups.setdefault(tuple(map(of_runs.key, known)), (known, []))[1].append(arm.label)
    found: dict[str, Stand] = {}
    for (chance, constant, ceiling), labels in groups.values():
        found |= landmarks.stand(
            {label: values[label] for label in labels},
            chance=chance,
            constant=constant,
            ceiling=ceiling,
            unpaired=[label for label in labels if own[label].is_unpaired],
            better="down" if first.smallest else "up",
        )
    return {label: stand for label, stand in found.items() if stand.word}


def constants(rows: Sequence[Value]) -> list[float]:
    """Returns what the best constant action earns, of the worlds that a figure's arms are in."""
    found = [row.stand.constant.reference_mean for row in rows if row.stand and row.stand.constant]
    return list(dict.fromkeys(value for value in found if math.isfinite(value)))
