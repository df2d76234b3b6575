"""What a grid's runs say beyond their ranking: how sure it is, and what the search itself is worth."""

import copy
import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence

from bandits import studies
from bandits.plans import outcomes
from bandits.plans.outcomes import Outcome, Point
from bandits.plans.plan import Run
from bandits.plans.sweep import Sweep
from bandits.results import baselines, comparison, configurations, dynamic_regret, runs, sections, words
from bandits.results.comparison import Better
from data import files
from data.errors import UsageError
from optimization.study import intervals
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

_ROUNDS = "total_rounds"  # Points are ranked by them before all else.
_SHOWN = 10  # Points of a configuration, in the terminal.
_MARKS = {
    baselines.RECORDED_UNIFORM: "chance earns",
    baselines.RECORDED_FIXED: "the best fixed action",
    configurations.FULL_FEEDBACK: "the ceiling",
}


@dataclasses.dataclass(frozen=True)
class PointResults(configurations.ConfigurationResults):
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
        return outcomes.label(self.name) if self.name == self.point else self.name

    def values(self, column: str) -> dict[int, float]:
        """Returns what the grid ranked, by seed: values after the rounds that were asked for."""
        return {one.run.seed: one.value for one in self.outcomes}

    def estimate(self, column: str) -> Interval | None:
        """Returns the mean of what the grid ranked; None where no seed has a number."""
        return configurations.estimate([value for value in self.values(column).values() if math.isfinite(value)])


@dataclasses.dataclass(frozen=True)
class Points(configurations.Part):
    """Points of a grid.

    Attributes:
      arms: The points of which a run is finished.
      metric: What ranks them, with the side that is asked for.
    """

    arms: tuple[PointResults, ...]
    metric: Metric = dataclasses.field(kw_only=True)

    @property
    def columns(self) -> tuple[Metric, ...]:
        """That metric."""
        return (self.metric,)

    def stands_by_point(self) -> dict[str, str]:
        """Returns the normalized scores of the points in words; empty where none is judged."""
        told = {arm.point: arm.role or self.place(arm) for arm in self.arms}
        is_judged = any(not arm.role and self.place(arm) not in ("", baselines.ONE_SEED) for arm in self.arms)
        return told if is_judged else {}

    def not_above_chance(self) -> set[str]:
        """Returns the names of the points of which the seeds do not say that they are above chance."""
        return {arm.point for arm in self.arms if self.is_at_chance(arm)}

    def beside(self, wanted: str | None) -> "Points":
        """Returns the arms that have the data, rewards, rounds and cohorts of a reference; see `Part.compared`."""
        references: Sequence[configurations.ConfigurationResults] = self.named(wanted or configurations.GREEDY)
        if not (references or wanted):
            references = [arm for arm in self.arms if not arm.role][:1]
        alike = [configurations.environment(one.flags) for one in references]
        kept = (arm for arm in self.arms if configurations.environment(arm.flags) in alike)
        return dataclasses.replace(self, arms=tuple(kept))


def of(points: Mapping[str, Sequence[Outcome]], folder: pathlib.Path, metric: Metric, *, smallest: bool) -> Points:
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
    for name, seeds in points.items():
        found = tuple(runs.read(folder / one.run.name) for one in seeds if one.rounds)
        if found:
            made.append(PointResults(name, found, configurations.role(found[0]), outcomes=tuple(seeds)))
    study = studies.load(made[0].outcomes[0].run.module) if made else None
    return Points("", study, tuple(made), metric=ranked_by)


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


def text(
    points: Points,
    best: Points,
    ranked: Mapping[str, Sequence[Point]],
    reported: Mapping[str, Sequence[Outcome]],
    reference: str | None = None,
) -> str:
    """Returns it for the terminal.

    Args:
      points: All points, with the seeds that rank them.
      best: The best of each configuration; with fresh seeds, where there are some.
      ranked: The points of each configuration, the best first.
      reported: What the best of each gave with fresh seeds; empty without such.
      reference: What the best are compared with; see `report.configurations.Part.compared`.
    """
    better = points.metric.better or "up"
    is_picked = any(len(several) > 1 for several in ranked.values())
    parts = [_expected(ranked, better)] if is_picked else []
    if reported:
        parts.append(_reported(reported))
    elif is_picked:
        parts.append(
            "These values come from the seeds that picked the points, and are too good by that: --reporting_repeat=8 "
            "plays the best of each configuration with fresh seeds."
        )
    compared, has_table = ([], False) if is_picked and not reported else _compared(best, reference)
    told = best if reported else points
    if not has_table:  # Which says it.
        compared.append(_seeds(told, has_intervals=bool(reported)))
    parts += [*compared, *_firsts(told)]
    return "\n".join(filter(None, parts))


def _expected(ranked: Mapping[str, Sequence[Point]], better: Better) -> str:
    """Returns the expected best of so many points of each configuration: more parameters give no advantage there.

    Nothing, where points were stopped early: values after other numbers of rounds are no draws of one search.
    """
    if len({point.rounds for points in ranked.values() for point in points if math.isfinite(point.mean)}) > 1:
        return ""
    least = min(len(points) for points in ranked.values())
    budgets = sorted({*(2**power for power in range(least.bit_length())), least} if least > 1 else {1})
    lines = []
    for name, points in ranked.items():
        values = [point.mean for point in points]
        found = [(budget, comparison.expected_best(values, budget, better=better)) for budget in budgets]
        told = ", ".join(f"{value:.4f} of {budget}" for budget, value in found if math.isfinite(value))
        lines.append(f"  {short(name)}: {told or '-'} ({len(points)} points)")
    return "\n".join(["Expected best of points drawn at random, the same number of each configuration:", *lines])


def _reported(reported: Mapping[str, Sequence[Outcome]]) -> str:
    seeds = [one.run.seed for one in next(iter(reported.values()))]
    lines = [f"The best point of each configuration with fresh seeds, {seeds[0]} to {seeds[-1]}:"]
    for name, some in reported.items():
        found = intervals.of_finite([one.value for one in some]).text()
        lines.append(f"  {short(name)}: {found}; {outcomes.label(some[0].run.point)}")
    return "\n".join(lines)


def _compared(best: Points, reference: str | None) -> tuple[list[str], bool]:
    """Returns the comparison of configurations with one of them in words, and whether that has a table."""
    if reference and not best.named(reference):
        return [f"--reference={reference} has no finished run: nothing is compared."], False
    beside = best.beside(reference)
    lines = []
    section = sections.comparisons(beside, reference)
    if section:
        if section.rows and not (reference or best.named(configurations.GREEDY)):
            first = section.rows[0][1]
            lines.append(f"Compared with {first}, the first: there is no greedy configuration, and no --reference.")
        lines += section.lines()
    if left := [arm.name for arm in best.arms if not arm.role and arm not in beside.arms]:
        lines.append(f"Not compared, of other data, rewards, rounds or cohorts: {', '.join(left)}.")
    return lines, bool(section and section.rows)


def _seeds(told: Points, *, has_intervals: bool) -> str:
    """Returns what differs between seeds, and what intervals are over; nothing of single seeds."""
    if all(len(arm.runs) < 2 for arm in told.arms):
        return ""
    varied = configurations.what_seeds_vary([run for arm in told.arms for run in arm.runs])
    return " ".join([varied, *[words.what_intervals_are_over()] * has_intervals])


def _firsts(told: Points) -> list[str]:
    """Returns how the best of equal data, rewards and cohorts compares with the uniform policy, as one of all."""
    groups: dict[str, list[PointResults]] = {}
    for arm in told.arms:
        if not arm.role:
            groups.setdefault(str(configurations.environment(arm.flags, _ROUNDS)), []).append(arm)
    lines = [_first(told, max(some, key=lambda arm: _goodness(arm, told))) for some in groups.values()]
    if len(groups) > 1:
        lines.insert(0, "Values of other data, rewards or cohorts are not compared: each has a first of its own.")
    return lines


def _first(told: Points, leader: PointResults) -> str:
    """Returns how it compares with the uniform policy, and the rewards of the three baselines."""
    stand = told.stands[leader]
    if stand.uniform is None:
        return ""
    marks = told.marks(leader)
    what = ", ".join(f"{name} {marks[one]:.4g}" for one, name in _MARKS.items() if one in marks)
    if configurations.FULL_FEEDBACK not in marks and "bandits_type" in leader.flags:
        sweep = f"bandits_type={dynamic_regret.FULL_FEEDBACK}"
        what += f"; no ceiling of its data, rewards and rounds: add {sweep} to --sweep"
    if stand.beats_uniform:
        return f"First: {leader.label}, {stand.word} ({what})."
    reason = f"it was played with {stand.word}" if stand.word.startswith("one seed") else f"it is {stand.word}"
    return f"No winner: {leader.label} is first, but {reason} ({what})."


def _goodness(arm: PointResults, told: Points) -> tuple[int, float]:
    values = list(arm.values(told.metric).values())
    rounds = min(one.rounds for one in arm.outcomes)
    return rounds, outcomes.goodness(values, smallest=told.metric.better == "down")


def report(
    sweep: Sweep,
    swept: Sequence[str],
    folder: pathlib.Path,
    reported: Mapping[str, Sequence[Outcome]],
    reference: str | None = None,
) -> int:
    """Writes and prints what a grid's runs gave; returns the exit status.

    Args:
      sweep: The runs.
      swept: Names of swept flags.
      folder: The grid's.
      reported: What the best point of each configuration gave with fresh seeds; without seeds if there are none.
      reference: See `text`.
    """
    some, ranked = list(sweep.outcomes.values()), sweep.ranked()
    table = outcomes.table(some, swept, sweep.metric, folder / "runs")
    files.replace(folder / "results.csv", table.to_csv(index=False).encode())
    fresh = {name: seeds for name, seeds in reported.items() if seeds}
    as_arms = functools.partial(of, folder=folder / "runs", metric=sweep.metric, smallest=sweep.smallest)
    points = as_arms({point.name: point.outcomes for several in ranked.values() for point in several})
    best = as_arms({short(name): fresh.get(name) or several[0].outcomes for name, several in ranked.items()})
    stands = points.stands_by_point()
    print(outcomes.text(ranked, swept, sweep.metric, smallest=sweep.smallest, shown=_SHOWN, stands=stands))
    if lines := text(points, best, ranked, fresh, reference):
        print(f"\n{lines}\n")
    written = ["results.csv"]
    if axes := outcomes.learning_rates(swept):
        for configuration, several in ranked.items():
            suffix = "".join(f"_{word.partition('=')[2]}" for word in configuration.split())
            name = f"heat_map{suffix}.png".replace("/", "_")
            title = (configuration or folder.name).replace("_", " ")
            if other := set(several[0].outcomes[0].run.numbers) - set(axes):
                title += f"; best over {', '.join(sorted(other))}".replace("_", " ")
            outcomes.heat_map(
                several,
                axes,
                folder / name,
                metric=sweep.metric,
                title=title,
                smallest=sweep.smallest,
                marked=points.not_above_chance(),
            )
            written.append(name)
    if spent := outcomes.privacy_told(some, folder / "runs"):
        print(spent)
    print(f"Results in {folder}: {', '.join(written)}; each run's folder in {folder / 'runs'}")
    failed = [outcome for outcome in some if outcome.status == outcomes.FAILED]
    if failed:
        print(f"{len(failed)} of {len(some)} runs failed:", file=sys.stderr)
        for outcome in failed:
            print(f"  {folder / 'runs' / outcome.run.name}: {outcome.error}", file=sys.stderr)
    return 1 if failed else 0
