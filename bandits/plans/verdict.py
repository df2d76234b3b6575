"""Statistics of a grid beyond its ranking: comparisons, baselines, and the expected best of a search."""

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
from bandits.results import baselines, comparison, configurations, dynamic_regret, runs, sections
from bandits.results import names as naming
from bandits.results.comparison import Better
from data import files
from data.errors import UsageError
from optimization.study import intervals
from optimization.study.intervals import Interval
from optimization.study.metrics import Metric

_ROUNDS = "total_rounds"  # The first criterion of the ranking.
_SHOWN = 10  # Points of a configuration, in the terminal.


@dataclasses.dataclass(frozen=True)
class PointResults(configurations.ConfigurationResults):
    """Results of a point's seeds.

    Attributes:
      outcomes: Outcomes of its runs. An unfinished run has no value; then the point is not tested.
    """

    outcomes: tuple[Outcome, ...] = dataclasses.field(default=(), compare=False)

    @property
    def point(self) -> str:
        """Name of the point, with the key of its flags."""
        return self.outcomes[0].run.point

    @property
    def label(self) -> str:
        """Name for users, without the key of the flags."""
        return outcomes.label(self.name) if self.name == self.point else self.name

    def values(self, column: str) -> dict[int, float]:
        """Ranked metric by seed, after the planned rounds."""
        return {outcome.run.seed: outcome.value for outcome in self.outcomes}

    def estimate(self, column: str) -> Interval | None:
        """Mean of the ranked metric; None if no seed has a finite value."""
        values = [value for value in self.values(column).values() if math.isfinite(value)]
        return configurations.estimate(values, configurations.range_of(self.runs, column))


@dataclasses.dataclass(frozen=True)
class Points(configurations.Part):
    """Points of a grid.

    Attributes:
      configurations: Points with finished rounds.
      metric: Metric of the ranking, with the requested direction.
    """

    configurations: tuple[PointResults, ...]
    metric: Metric = dataclasses.field(kw_only=True)

    @property
    def columns(self) -> tuple[Metric, ...]:
        """The ranked metric."""
        return (self.metric,)

    def verdicts_by_point(self) -> dict[str, str]:
        """Verdict of each point against the baselines, in words; empty if no point has enough seeds for a test."""
        verdicts = {
            point.point: configurations.ROLES.get(point.role) or self.baseline_summary(point)
            for point in self.configurations
        }
        is_tested = any(
            not point.role and self.baseline_summary(point) not in ("", baselines.ONE_SEED)
            for point in self.configurations
        )
        return verdicts if is_tested else {}

    def not_above_uniform(self) -> set[str]:
        """Names of the points that are not significantly above the uniform policy."""
        return {point.point for point in self.configurations if self.uniform_note(point)}


def of(points: Mapping[str, Sequence[Outcome]], folder: pathlib.Path, metric: Metric, *, smallest: bool) -> Points:
    """Reads the results of points; points without a finished round are left out.

    Args:
      points: Outcomes of each point's runs, by its name.
      folder: Folder of all runs.
      metric: Metric of the ranking.
      smallest: Whether smaller is better.
    """
    ranked_by = copy.copy(metric)
    ranked_by.better = "down" if smallest else "up"
    results = []
    for name, seeds in points.items():
        read = tuple(runs.read(folder / outcome.run.name) for outcome in seeds if outcome.rounds)
        if read:
            results.append(PointResults(name, read, configurations.role(read[0]), outcomes=tuple(seeds)))
    study = studies.load(results[0].outcomes[0].run.module) if results else None
    return Points("", study, tuple(results), metric=ranked_by, only_alike=True)


def short_name(configuration: str) -> str:
    """Name of a configuration by its words, the strategy first, as reports name it."""
    strategies = {studies.load(module).chosen for module in studies.STUDIES.values()}
    chosen = [word.partition("=")[::2] for word in configuration.split()]
    chosen.sort(key=lambda word: word[0] not in strategies)
    return ", ".join(naming.word(name, value) for name, value in chosen) or "the grid"


def check_reference(wanted: str, planned: Sequence[Run], *, has_fresh_seeds: bool) -> None:
    """Refuses a reference that cannot be compared with anything.

    Args:
      wanted: Words of a configuration, or a strategy; see `Part.compared`.
      planned: All runs.
      has_fresh_seeds: Whether the best point of each configuration runs with fresh seeds, too.

    Raises:
      UsageError: If it is no configuration, or nothing is compared.
    """
    first = {run.configuration: run for run in planned}
    names = [short_name(configuration) for configuration in first]
    strategies = {str(run.settings.get(studies.load(run.module).chosen)) for run in first.values()}
    if wanted not in {*names, *strategies}:
        raise UsageError(f"--reference={wanted} is no configuration of these runs: {'; '.join(names)}.")
    if len(names) < 2:
        raise UsageError(
            "--reference has no effect: --sweep has a single combination of words, so there is nothing to compare."
        )
    if not has_fresh_seeds and len({run.point for run in planned}) > len(names):
        raise UsageError(
            "--reference has no effect without --reporting_repeat: seeds that selected points are not compared."
        )


def text(
    points: Points,
    best: Points,
    ranked: Mapping[str, Sequence[Point]],
    reported: Mapping[str, Sequence[Outcome]],
    reference: str | None = None,
) -> str:
    """Statistics for the terminal.

    Args:
      points: All points, with the seeds that rank them.
      best: The best of each configuration, with its fresh seeds if there are some.
      ranked: The points of each configuration, the best first.
      reported: Outcomes of the best of each configuration with fresh seeds; empty without such seeds.
      reference: Reference of the comparisons; see `configurations.Part.compared`.
    """
    better = points.metric.better or "up"
    is_selected = any(len(several) > 1 for several in ranked.values())
    parts = [_expected(ranked, better)] if is_selected else []
    if reported:
        parts.append(_reported(reported, best))
    elif is_selected:
        parts.append(
            "Optimistically biased: the same seeds selected these points. Give --reporting_repeat=8 to run the best of "
            "each configuration with fresh seeds."
        )
    parts += [] if is_selected and not reported else _compared(best, reference)
    parts += _winners(best if reported else points)
    return "\n".join(filter(None, parts))


def _expected(ranked: Mapping[str, Sequence[Point]], better: Better) -> str:
    """Expected best of equal numbers of points, which gives no advantage to a larger search.

    Empty if points were stopped early: values after different numbers of rounds are no samples of one search.
    """
    if len({point.rounds for points in ranked.values() for point in points if math.isfinite(point.mean)}) > 1:
        return ""
    least = min(len(points) for points in ranked.values())
    budgets = sorted({*(2**power for power in range(least.bit_length())), least} if least > 1 else {1})
    lines = []
    for name, points in ranked.items():
        values = [point.mean for point in points]
        expected = [(budget, comparison.expected_best(values, budget, better=better)) for budget in budgets]
        texts = ", ".join(f"{value:.4f} of {budget}" for budget, value in expected if math.isfinite(value))
        lines.append(f"  {short_name(name)}: {texts or '-'} ({len(points)} points)")
    return "\n".join(["Expected best of randomly sampled points, with equal numbers per configuration:", *lines])


def _reported(reported: Mapping[str, Sequence[Outcome]], best: Points) -> str:
    ranges = {point.name: configurations.range_of(point.runs, best.metric) for point in best.configurations}
    seeds = [outcome.run.seed for outcome in next(iter(reported.values()))]
    lines = [f"Best point of each configuration on fresh seeds, {seeds[0]} to {seeds[-1]}:"]
    for name, point in reported.items():
        mean = intervals.of_finite([outcome.value for outcome in point])
        mean = mean.within(*ranges.get(short_name(name), configurations.UNBOUNDED))
        lines.append(f"  {short_name(name)}: {mean.text()}; {outcomes.label(point[0].run.point)}")
    return "\n".join(lines)


def _compared(best: Points, reference: str | None) -> list[str]:
    """Lines of the comparison with a reference."""
    if reference and not best.named(reference):
        return [f"--reference={reference} has no finished run: nothing is compared."]
    section, lines = sections.comparisons(best, reference, is_narrow=True), []
    if section is None:
        return []
    if section.rows and not (reference or best.named(configurations.GREEDY)):
        first = section.rows[0][1]
        lines.append(f"The reference is {first}, the first: no configuration is greedy. Choose another by --reference.")
    if section.rows:
        lines.append(sections.finding(best, best.compared(reference)))
    return lines + section.lines()


def _winners(points: Points) -> list[str]:
    """Whether the best point beats the uniform policy, for each combination of data, rewards and cohorts."""
    compared = [point for point in points.configurations if not point.role]
    groups = runs.grouped(compared, lambda point: str(configurations.environment_key(point.flags, _ROUNDS)))
    lines = [_winner(points, max(group, key=lambda point: _goodness(point, points))) for group in groups.values()]
    if len(groups) > 1:
        lines.insert(0, "Data, rewards or cohorts differ, so each combination has its own line.")
    return lines


def _winner(points: Points, best: PointResults) -> str:
    standing = points.against_baselines[best]
    if standing.uniform is None:
        return ""
    marks = points.baseline_means(best)
    rewards = ", ".join(f"{name} {marks[key]:.4g}" for key, name in configurations.ROLES.items() if key in marks)
    if configurations.FULL_FEEDBACK not in marks and "bandits_type" in best.flags:
        sweep = f"bandits_type={dynamic_regret.FULL_FEEDBACK}"
        rewards += f"; no full-feedback baseline: add {sweep} to --sweep"
    extreme = "Lowest" if points.metric.better == "down" else "Highest"
    return f"{extreme} reward: {best.label}, {standing.summary} ({rewards})."


def _goodness(point: PointResults, points: Points) -> tuple[int, float]:
    values = list(point.values(points.metric).values())
    rounds = min(outcome.rounds for outcome in point.outcomes)
    return rounds, outcomes.goodness(values, smallest=points.metric.better == "down")


def report(
    sweep: Sweep,
    swept: Sequence[str],
    folder: pathlib.Path,
    reported: Mapping[str, Sequence[Outcome]],
    reference: str | None = None,
) -> int:
    """Writes and prints a grid's results; returns the exit status.

    Args:
      sweep: The runs.
      swept: Names of swept flags.
      folder: The grid's folder.
      reported: Outcomes of the best point of each configuration with fresh seeds, if there are any.
      reference: See `text`.
    """
    all_outcomes, ranked = list(sweep.outcomes.values()), sweep.ranked()
    table = outcomes.table(all_outcomes, swept, sweep.metric, folder / "runs")
    files.replace(folder / "results.csv", files.as_csv(table))
    fresh = {name: seeds for name, seeds in reported.items() if seeds}
    read_points = functools.partial(of, folder=folder / "runs", metric=sweep.metric, smallest=sweep.smallest)
    points = read_points({point.name: point.outcomes for several in ranked.values() for point in several})
    best = read_points({short_name(name): fresh.get(name) or several[0].outcomes for name, several in ranked.items()})
    verdicts = points.verdicts_by_point()
    print(outcomes.text(ranked, swept, sweep.metric, smallest=sweep.smallest, shown=_SHOWN, verdicts=verdicts))
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
                marked=points.not_above_uniform(),
            )
            written.append(name)
    if privacy := outcomes.privacy_summary(all_outcomes, folder / "runs"):
        print(privacy)
    print(f"Results in {folder}: {', '.join(written)}; each run's folder in {folder / 'runs'}")
    failed = [outcome for outcome in all_outcomes if outcome.status == outcomes.FAILED]
    if failed:
        print(f"{len(failed)} of {len(all_outcomes)} runs failed:", file=sys.stderr)
        for outcome in failed:
            print(f"  {folder / 'runs' / outcome.run.name}: {outcome.error}", file=sys.stderr)
    return 1 if failed else 0
