"""Where a figure's arms stand between chance, the best constant action and the ceiling, by its first measure."""

from collections.abc import Hashable, Mapping, Sequence

from optimization.study.metrics import Metric
from scripts import runs
from scripts.reproduce.plan import Arm, Figure
from scripts.reproduce.results import Value
from scripts.verdicts import landmarks, of_runs
from scripts.verdicts.comparison import Landmark, Values
from scripts.verdicts.landmarks import Stand

CHANCE, CEILING = "chance", "ceiling"  # Labels of arms; of several ceilings, how their labels begin.
BOUNDS = (of_runs.CHANCE, of_runs.CONSTANT)  # What records keep of a run's `bounds.json`.
_DEPLOYED = "--bandits_deploy_freq="
_CHANGES = "--reward_drift"


def column(figure: Figure) -> Metric | None:
    """Returns the metric whose last value the first measure is, if runs record what chance earns there."""
    first = figure.measures[0]
    metric = runs.declared().get(first.column)
    return metric if metric and metric.bounds and first.at == "last" else None


def is_landmark(arm: Arm) -> bool:
    """Returns whether an arm is there for others to stand between."""
    return arm.words[0].startswith((CHANCE, CEILING))


def kind(arm: Arm) -> tuple[str, ...]:
    """Returns the flags that say how often an arm is deployed and how its world changes; "" for defaults."""
    last_first = arm.arguments[::-1]
    return tuple(next((flag for flag in last_first if flag.startswith(start)), "") for start in (_DEPLOYED, _CHANGES))


def ceilings(figure: Figure, values: Values) -> dict[tuple[str, ...], Mapping[int, float]]:
    """Returns what ceilings earned, by the kind of arm that each bounds.

    Who learns from all rewards, but acts with older models, is no ceiling of what is deployed more often; nor is one of
    another world.
    """
    return {
        kind(arm): values[arm.label] for arm in figure.arms if arm.label in values and arm.words[0].startswith(CEILING)
    }


def stands(
    figure: Figure, rows: Sequence[Value], recorded: Mapping[str, tuple[Landmark | None, Landmark | None]]
) -> dict[str, Stand]:
    """Returns where arms stand, one family of all that have the same landmarks.

    Chance is the arm that played it, or what runs recorded.

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
    bounds, played = ceilings(figure, values), values.get(CHANCE)
    groups: dict[Hashable, tuple[list[Landmark | None], list[str]]] = {}
    for arm in figure.arms:
        if arm.label in values and not is_landmark(arm):
            chance, constant = recorded.get(arm.label, (None, None))
            known = [played or chance, constant, bounds.get(kind(arm))]
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
