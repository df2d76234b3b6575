"""A grid's points as the arms of a report: where they stand, and what they are compared with."""

import copy
import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

from bandits import studies
from bandits.plans import results
from bandits.plans.plan import Run
from bandits.plans.results import Outcome
from bandits.results import arms, grouping, landmarks, runs
from data.errors import UsageError
from optimization.study.metrics import Metric


@dataclasses.dataclass(frozen=True)
class Arm(arms.Arm):
    """The seeds of a point.

    Attributes:
      outcomes: What became of its runs; those that are not finished have no number, and then it is not judged.
    """

    outcomes: tuple[Outcome, ...] = dataclasses.field(default=(), compare=False)

    @property
    def point(self) -> str:
        """Name of its point."""
        return self.outcomes[0].run.point

    @property
    def label(self) -> str:
        """What it is called for users, without the key of its flags."""
        return results.label(self.name) if self.name == self.point else self.name

    def values(self, column: str) -> dict[int, float]:
        """Returns what the grid ranked, by seed: values after the rounds that were asked for."""
        return {one.run.seed: one.value for one in self.outcomes}

    def estimate(self, column: str) -> arms.Estimate | None:
        """Returns the mean of what the grid ranked; None where no seed has a number."""
        return arms.estimate([value for value in self.values(column).values() if math.isfinite(value)])


@dataclasses.dataclass(frozen=True)
class Arms(arms.Part):
    """Points of a grid.

    Attributes:
      arms: The points of which a run is finished.
      metric: What ranks them, with the side that is asked for.
    """

    arms: tuple[Arm, ...]
    metric: Metric = dataclasses.field(kw_only=True)

    @property
    def columns(self) -> tuple[Metric, ...]:
        """That metric."""
        return (self.metric,)

    def stands_by_point(self) -> dict[str, str]:
        """Returns in words where points stand between chance and ceiling; nothing where no seeds judge any."""
        told = {arm.point: arm.role or self.place(arm) for arm in self.arms}
        is_judged = any(not arm.role and self.place(arm) not in ("", landmarks.ONE_SEED) for arm in self.arms)
        return told if is_judged else {}

    def not_above_chance(self) -> set[str]:
        """Returns the names of the points of which the seeds do not say that they are above chance."""
        return {arm.point for arm in self.arms if self.is_at_chance(arm)}

    def beside(self, wanted: str | None) -> "Arms":
        """Returns the arms that have the data, rewards, rounds and cohorts of a reference; see `Part.compared`."""
        references: Sequence[arms.Arm] = self.named(wanted or arms.GREEDY)
        if not (references or wanted):
            references = [arm for arm in self.arms if not arm.role][:1]
        alike = [arms.environment(one.flags) for one in references]
        return dataclasses.replace(self, arms=tuple(arm for arm in self.arms if arms.environment(arm.flags) in alike))


def of(points: Mapping[str, Sequence[Outcome]], folder: pathlib.Path, metric: Metric, *, smallest: bool) -> Arms:
    """Returns points as arms; those of which no run has finished a round are left out.

    Args:
      points: What became of each point's runs, by what it is called.
      folder: Folder of all runs.
      metric: What ranks them.
      smallest: Whether less of it is better.
    """
    ranked_by = copy.copy(metric)
    ranked_by.better = "down" if smallest else "up"
    made = []
    for name, outcomes in points.items():
        found = tuple(runs.read(folder / one.run.name) for one in outcomes if one.rounds)
        if found:
            made.append(Arm(name, found, grouping.role(found[0]), outcomes=tuple(outcomes)))
    study = studies.load(made[0].outcomes[0].run.module) if made else None
    return Arms("", study, tuple(made), metric=ranked_by)


def short(configuration: str) -> str:
    """Returns what a configuration is called: its words."""
    return " ".join(word.partition("=")[2] for word in configuration.split()) or "the grid"


def check_reference(wanted: str, some: Sequence[Run], *, has_fresh_seeds: bool) -> None:
    """Refuses a reference with which nothing can be compared.

    Args:
      wanted: Words of a configuration, or a strategy; see `Part.compared`.
      some: All runs.
      has_fresh_seeds: Whether the best point of each configuration is played again.

    Raises:
      UsageError: If it is no arm, or nothing is compared.
    """
    first = {run.configuration: run for run in some}
    names = [short(configuration) for configuration in first]
    strategies = {str(run.settings.get(studies.load(run.module).chosen)) for run in first.values()}
    if wanted not in {*names, *strategies}:
        raise UsageError(f"--reference={wanted} is no arm of these runs: {', '.join(names)}.")
    if len(names) < 2:
        raise UsageError("--reference has no effect: --sweep has one combination of words, with nothing beside it.")
    if not has_fresh_seeds and len({run.point for run in some}) > len(names):
        raise UsageError(
            "--reference has no effect without --reporting_repeat: values of the seeds that picked points are not "
            "compared."
        )
