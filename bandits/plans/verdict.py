"""Results of a grid: ranking, `results.csv`, comparisons and baselines."""

import dataclasses
import functools
import itertools
import math
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from bandits import studies
from bandits.plans import plan, sweep
from bandits.plans.plan import Run
from bandits.plans.sweep import Outcome, Point, Sweep
from bandits.results import comparison, configuration, configurations, phrases, runs, sections
from bandits.results.configurations import ComparableRuns
from data import files
from data.errors import UsageError, counted
from optimization.privacy import mechanisms
from optimization.study import run_folder
from optimization.study.metrics import Metric

_ROUNDS = "total_rounds"  # The first criterion of the ranking.
_SHOWN = 10  # Maximum number of points to show per configuration.


def comparable(points: Mapping[str, Point], folder: pathlib.Path, metric: Metric) -> ComparableRuns:
    """Returns the points as configurations, with the values of the ranking's metric after the planned rounds.

    Points without a finished round are left out.

    Args:
      points: Outcomes of each point's runs, by the point's name. If a run is unfinished, it has no value and its point
        is not tested.
      folder: Folder that contains all runs.
      metric: Metric to rank by.
    """
    some, study = [], None
    for name, point in points.items():
        read = [runs.read(folder / outcome.run.name) for outcome in point if outcome.rounds]
        if read:
            study = study or studies.load(point[0].run.module)
            flags, role = configurations.shared_flags(read[0]), configurations.role(read[0])
            one = configuration.of_runs(name, read, (), flags, role)
            rows = [[outcome.value, outcome.rounds] for outcome in point]
            seeds = [outcome.run.seed for outcome in point]
            values = pd.DataFrame(rows, seeds, [str(metric), _ROUNDS], dtype=float)
            lost = frozenset(outcome.run.seed for outcome in point if outcome.status == sweep.DIVERGED)
            some.append(dataclasses.replace(one, values=values, diverged=lost))
    return ComparableRuns("", study, tuple(some), (metric,), only_alike=True)


def verdicts_by_point(points: ComparableRuns) -> dict[str, str]:
    """Returns how each point compares with the baselines, or which baseline it is, in words; empty if unknown."""
    return {one.name: one.role.value if one.role else points.baseline_summary(one) for one in points.configurations}


def short_name(configuration: str) -> str:
    """Returns the name that reports use for a configuration, with the strategy first."""
    strategies = {studies.load(module).chosen for module in studies.STUDIES.values()}
    chosen = [word.partition("=")[::2] for word in configuration.split()]
    chosen.sort(key=lambda word: word[0] not in strategies)
    return ", ".join(phrases.flag_word(name, value) for name, value in chosen) or "the grid"


def check_reference(wanted: str, planned: Sequence[Run], *, has_fresh_seeds: bool) -> None:
    """Refuses a reference that cannot be compared with anything.

    Args:
      wanted: Name of a configuration or of a strategy; see `ComparableRuns.compared`.
      planned: All planned runs.
      has_fresh_seeds: Whether the best point of each configuration is also run with fresh seeds.

    Raises:
      UsageError: If `wanted` is not a configuration, or if there is nothing to compare.
    """
    first = {run.configuration: run for run in planned}
    names = [short_name(configuration) for configuration in first]
    strategies = {str(run.settings.get(studies.load(run.module).chosen)) for run in first.values()}
    if wanted not in {*names, *strategies}:
        raise UsageError(f"--reference={wanted} matches no configuration. Choose one of: {'; '.join(names)}.")
    if len(names) < 2 or (not has_fresh_seeds and len({run.point for run in planned}) > len(names)):
        raise UsageError(
            "--reference has no effect, because nothing is compared: there is only one configuration, or the best "
            "points have no fresh seeds. Leave it out, or give --reporting_repeat=8 for several configurations."
        )


def text(
    best: ComparableRuns, ranked: Mapping[str, Sequence[Point]], reported: Mapping[str, Point], reference: str | None
) -> str:
    """Returns the statistics that are printed to the terminal.

    Args:
      best: The best point of each configuration, with its fresh seeds if there are any.
      ranked: The points of each configuration, best first.
      reported: Outcomes of each configuration's best point on fresh seeds; empty if there are no fresh seeds.
      reference: Configuration to compare the others with; see `ComparableRuns.compared`.
    """
    is_selected = any(len(several) > 1 for several in ranked.values())
    parts = []
    if is_selected and not reported:
        parts.append(
            "These results are optimistically biased, because the points were selected on the same seeds. Give "
            "--reporting_repeat=8 to run the best point of each configuration with fresh seeds."
        )
    else:
        parts += [_reported(reported, best)] if reported else []
        parts += _compared(best, reference)
    return "\n".join([*parts, *edges(ranked)])


def _reported(reported: Mapping[str, Point], best: ComparableRuns) -> str:
    known, verdicts = {one.name: one for one in best.configurations}, verdicts_by_point(best)
    seeds = [outcome.run.seed for outcome in next(iter(reported.values()))]
    lines = [f"Best point of each configuration on fresh seeds, {seeds[0]} to {seeds[-1]}:"]
    for words, point in reported.items():
        name = short_name(words)
        is_whole = name in known and known[name].values[best.columns[0]].notna().all()
        shown = known[name].estimate(best.columns[0]).text() if is_whole else "-"
        verdict = f", {verdicts[name]}" if verdicts.get(name) else ""
        lines.append(f"  {name}: {shown}{verdict}; {sweep.label(point[0].run.point)}")
    return "\n".join(lines)


def _compared(best: ComparableRuns, reference: str | None) -> list[str]:
    """Returns the lines that compare the configurations with a reference."""
    if reference and not best.named(reference):
        return [f"--reference={reference} has no finished run, so nothing is compared."]
    compared, lines = best.compared(reference), []
    section = sections.comparisons(best, compared, is_narrow=True)
    if section is None:
        return []
    if section.rows and not (reference or best.named(configurations.GREEDY)):
        first = section.rows[0][1]
        lines.append(f"No configuration is greedy, so {first} (the first) is the reference; --reference sets another.")
    if section.rows:
        lines.append(sections.finding(best, compared))
    return lines + section.lines()


def report(
    runner: Sweep, swept: Sequence[str], folder: pathlib.Path, reported: Mapping[str, Point], reference: str | None
) -> int:
    """Writes and prints a grid's results; returns the exit status.

    Args:
      runner: The executed sweep.
      swept: Names of swept flags.
      folder: The grid's folder.
      reported: Outcomes of each configuration's best point on fresh seeds, if there are any.
      reference: See `text`.
    """
    all_outcomes, ranked = list(runner.outcomes.values()), runner.ranked()
    table = results_table(all_outcomes, swept, runner.metric)
    files.replace(folder / "results.csv", files.as_csv(table))
    fresh = {name: seeds for name, seeds in reported.items() if seeds}
    read_points = functools.partial(comparable, folder=folder / "runs", metric=runner.metric)
    points = read_points({point[0].run.point: point for several in ranked.values() for point in several})
    best = read_points({short_name(name): fresh.get(name) or several[0] for name, several in ranked.items()})
    print(ranking(ranked, swept, runner.metric, verdicts_by_point(points)))
    if lines := text(best, ranked, fresh, reference):
        print(f"\n{lines}\n")
    if privacy := privacy_summary(all_outcomes, folder / "runs"):
        print(privacy)
    print(f"Results in {folder}: results.csv; each run's folder in {folder / 'runs'}")
    failed = [outcome for outcome in all_outcomes if outcome.status == sweep.FAILED]
    if failed:
        print(f"{len(failed)} of {len(all_outcomes)} runs failed:", file=sys.stderr)
        for outcome in failed:
            print(f"  {folder / 'runs' / outcome.run.name}: {outcome.error}", file=sys.stderr)
    return 1 if failed else 0


def results_table(outcomes: Sequence[Outcome], swept: Sequence[str], metric: str) -> pd.DataFrame:
    """Returns a table with one row per run: its folder, status, metric, rounds and flags, swept flags first."""
    rows: list[dict[str, Any]] = []
    has_reporting = any(outcome.is_reporting for outcome in outcomes)
    for outcome in outcomes:
        settings = outcome.run.settings
        names = [*swept, "seed", *sorted(set(settings) - run_folder.FREE_FLAGS - {*swept, "seed", "list_presets"})]
        rows.append(
            {"run": outcome.run.name, "status": outcome.status, metric: outcome.value, "rounds": outcome.rounds}
            | ({"used_for": "reporting" if outcome.is_reporting else "tuning"} if has_reporting else {})
            | {name: settings[name] for name in names if name != "repeat"}
            | {"error": outcome.error}
        )
    table = pd.DataFrame(rows)
    return table.drop(columns=[name for name in table if name not in (metric, "error") and table[name].isna().all()])


def ranking(
    ranked: Mapping[str, Sequence[Point]], swept: Sequence[str], metric: str, verdicts: Mapping[str, str]
) -> str:
    """Returns the ranking as a table for the terminal, with the best points of each configuration.

    Args:
      ranked: The points of each configuration, best first.
      swept: Names of swept flags.
      metric: Metric to rank by.
      verdicts: How each point compares with the baselines; empty where this is unknown.
    """
    blocks, shown = list(ranked.items()), _SHOWN
    if all(len(points) == 1 for points in ranked.values()):
        # Each configuration has one point. Configurations with other data, rewards or cohorts are ranked separately.
        outcomes, smallest = itertools.chain(*itertools.chain(*ranked.values())), comparison.direction(metric) == "down"
        every = sweep.rank(outcomes, smallest=smallest, apart=False)
        groups = runs.grouped(
            every.get("", ()), lambda point: str(configurations.environment_key(point[0].run.settings, _ROUNDS))
        )
        blocks, shown = [("", points) for points in groups.values()], len(ranked)
    parts = []
    for name, points in blocks:
        words = {word.partition("=")[0] for word in name.split()}
        rows = []
        for place, point in enumerate(points[:shown], 1):
            values, settings = [outcome.value for outcome in point], point[0].run.settings
            has_diverged = any(outcome.status == sweep.DIVERGED for outcome in point)
            rows.append(
                {"rank": place}
                | {name: plan.as_text(settings[name]) for name in swept if name not in words}
                | {metric: sweep.mean(point)}
                | ({"lowest": min(values), "highest": max(values), "seeds": len(values)} if len(values) > 1 else {})
                | {"status": sweep.DIVERGED * has_diverged, "rounds": sweep.rounds_of(point)}
                | {"against the baselines": verdicts.get(point[0].run.point, "")}
            )
        table = pd.DataFrame(rows)
        table = table.drop(columns=[column for column in table if (table[column] == "").all()])
        shown_table = table.to_string(index=False, float_format="{:.4f}".format, na_rep="-")
        lines = [name, shown_table] if name else [shown_table]
        if len(points) > shown:
            lines.append(f"... and {len(points) - shown} more, see results.csv")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def edges(ranked: Mapping[str, Sequence[Point]]) -> list[str]:
    """Advises sweeping more values of a flag if the best point has its smallest or largest value."""
    lines = []
    for name, points in ranked.items():
        best = points[0][0].run
        for flag in best.numbers if math.isfinite(sweep.mean(points[0])) else ():
            if plan.is_edge([point[0].run.settings[flag] for point in points], best.settings[flag]):
                value = f"--{flag}={plan.as_text(best.settings[flag])}"
                lines.append(f"The best point of {short_name(name)} lies on an edge, {value}: sweep more values.")
    return lines


def privacy_summary(outcomes: Sequence[Outcome], folder: pathlib.Path) -> str:
    """Describes the privacy loss of all runs that recorded it; empty if none did."""
    from optimization.privacy import ledger

    paths = [folder / outcome.run.name / run_folder.PRIVACY_FILE for outcome in outcomes]
    reports = [mechanisms.load(path) for path in paths if path.exists()]
    summary, missing = ledger.describe(reports), len(paths) - len(reports)
    left_out = f" Not counted: {counted(missing, 'run')} without a {run_folder.PRIVACY_FILE}."
    return summary + left_out * bool(summary and missing)
