"""What a grid shows: ranking, `results.csv`, heat maps, comparisons, baselines, and the expected best of a search."""

import dataclasses
import functools
import math
import pathlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bandits import studies
from bandits.plans import plan, sweep
from bandits.plans.plan import Run
from bandits.plans.sweep import Outcome, Point, Sweep
from bandits.results import (
    baselines,
    comparison,
    configuration,
    configurations,
    dynamic_regret,
    phrases,
    runs,
    sections,
)
from bandits.results.comparison import Better
from bandits.results.configuration import Baseline, Configuration
from bandits.results.configurations import ComparableRuns
from data import files
from data.errors import UsageError
from optimization.privacy import mechanisms
from optimization.study import run_folder
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

_MAX_INCHES = 14  # A side of the heat map.
_ROUNDS = "total_rounds"  # The first criterion of the ranking.
_SHOWN = 10  # Points of a configuration, in the terminal.


def comparable(points: Mapping[str, Point], folder: pathlib.Path, metric: Metric) -> ComparableRuns:
    """Points as configurations, with the ranked metric after the planned rounds; those without a round are left out.

    Args:
      points: Outcomes of each point's runs, by its name. An unfinished run has no value; then the point is not tested.
      folder: Folder of all runs.
      metric: Metric of the ranking.
    """
    import pandas as pd

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
    """Verdict of each point against the baselines, in words; empty if no point has enough seeds for a test."""
    summaries = {one.name: points.baseline_summary(one) for one in points.configurations}
    if all(summary in ("", baselines.ONE_SEED) for summary in summaries.values()):
        return {}
    return {one.name: one.role.value if one.role else summaries[one.name] for one in points.configurations}


def short_name(configuration: str) -> str:
    """Name of a configuration by its words, the strategy first, as reports name it."""
    strategies = {studies.load(module).chosen for module in studies.STUDIES.values()}
    chosen = [word.partition("=")[::2] for word in configuration.split()]
    chosen.sort(key=lambda word: word[0] not in strategies)
    return ", ".join(phrases.flag_word(name, value) for name, value in chosen) or "the grid"


def check_reference(wanted: str, planned: Sequence[Run], *, has_fresh_seeds: bool) -> None:
    """Refuses a reference that cannot be compared with anything.

    Args:
      wanted: Words of a configuration, or a strategy; see `ComparableRuns.compared`.
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
    points: ComparableRuns,
    best: ComparableRuns,
    ranked: Mapping[str, Sequence[Point]],
    reported: Mapping[str, Point],
    reference: str | None = None,
) -> str:
    """Statistics for the terminal.

    Args:
      points: All points, with the seeds that rank them.
      best: The best of each configuration, with its fresh seeds if there are some.
      ranked: The points of each configuration, the best first.
      reported: Outcomes of the best of each configuration with fresh seeds; empty without such seeds.
      reference: Reference of the comparisons; see `ComparableRuns.compared`.
    """
    is_selected = any(len(several) > 1 for several in ranked.values())
    parts = [_expected(ranked, points.columns[0].better or "up")] if is_selected else []
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
    if len({sweep.rounds_of(one) for some in ranked.values() for one in some if math.isfinite(sweep.mean(one))}) > 1:
        return ""
    least = min(len(points) for points in ranked.values())
    budgets = sorted({*(2**power for power in range(least.bit_length())), least} if least > 1 else {1})
    lines = []
    for name, points in ranked.items():
        values = list(map(sweep.mean, points))
        expected = [(budget, comparison.expected_best(values, budget, better=better)) for budget in budgets]
        texts = ", ".join(f"{value:.4f} of {budget}" for budget, value in expected if math.isfinite(value))
        lines.append(f"  {short_name(name)}: {texts or '-'} ({len(points)} points)")
    return "\n".join(["Expected best of randomly sampled points, with equal numbers per configuration:", *lines])


def _reported(reported: Mapping[str, Point], best: ComparableRuns) -> str:
    known = {one.name: one for one in best.configurations}
    seeds = [outcome.run.seed for outcome in next(iter(reported.values()))]
    lines = [f"Best point of each configuration on fresh seeds, {seeds[0]} to {seeds[-1]}:"]
    for name, point in reported.items():
        one = known.get(short_name(name))
        is_whole = one and one.values[best.columns[0]].notna().all()
        shown = one.estimate(best.columns[0]).text() if one and is_whole else "-"
        lines.append(f"  {short_name(name)}: {shown}; {sweep.label(point[0].run.point)}")
    return "\n".join(lines)


def _compared(best: ComparableRuns, reference: str | None) -> list[str]:
    """Lines of the comparison with a reference."""
    if reference and not best.named(reference):
        return [f"--reference={reference} has no finished run: nothing is compared."]
    compared, lines = best.compared(reference), []
    section = sections.comparisons(best, compared, is_narrow=True)
    if section is None:
        return []
    if section.rows and not (reference or best.named(configurations.GREEDY)):
        first = section.rows[0][1]
        lines.append(f"The reference is {first}, the first: no configuration is greedy. Choose another by --reference.")
    if section.rows:
        lines.append(sections.finding(best, compared))
    return lines + section.lines()


def _winners(points: ComparableRuns) -> list[str]:
    """Whether the best point beats the uniform policy, for each combination of data, rewards and cohorts."""
    others = [one for one in points.configurations if not one.role]
    groups = runs.grouped(others, lambda one: str(configurations.environment_key(one.flags, _ROUNDS)))
    lines = [
        _winner(points, max(group, key=lambda one: _goodness(one, points.columns[0]))) for group in groups.values()
    ]
    if len(groups) > 1:
        lines.insert(0, "Data, rewards or cohorts differ, so each combination has its own line.")
    return lines


def _winner(points: ComparableRuns, best: Configuration) -> str:
    standing = points.against_baselines[best.name]
    if standing.uniform is None:
        return ""
    means = points.baseline_means(best)
    rewards = ", ".join(f"{baseline.value} {mean:.4g}" for baseline, mean in means.items())
    if Baseline.full_feedback not in means and "bandits_type" in best.flags:
        rewards += f"; no full-feedback baseline: add bandits_type={dynamic_regret.FULL_FEEDBACK} to --sweep"
    extreme = "Lowest" if points.columns[0].better == "down" else "Highest"
    name = re.sub(f"-[0-9a-f]{{{plan.KEY_LENGTH}}}$", "", best.name)
    return f"{extreme} reward: {name}, {standing.summary} ({rewards})."


def _goodness(one: Configuration, metric: Metric) -> tuple[float, float]:
    values = one.values[metric].tolist()
    return one.values[_ROUNDS].min(), sweep.goodness(values, smallest=metric.better == "down")


def report(
    played: Sweep,
    swept: Sequence[str],
    folder: pathlib.Path,
    reported: Mapping[str, Point],
    reference: str | None = None,
) -> int:
    """Writes and prints a grid's results; returns the exit status.

    Args:
      played: The runs.
      swept: Names of swept flags.
      folder: The grid's folder.
      reported: Outcomes of the best point of each configuration with fresh seeds, if there are any.
      reference: See `text`.
    """
    all_outcomes, ranked = list(played.outcomes.values()), played.ranked()
    table = results_table(all_outcomes, swept, played.metric)
    files.replace(folder / "results.csv", files.as_csv(table))
    fresh = {name: seeds for name, seeds in reported.items() if seeds}
    read_points = functools.partial(comparable, folder=folder / "runs", metric=played.metric)
    points = read_points({point[0].run.point: point for several in ranked.values() for point in several})
    best = read_points({short_name(name): fresh.get(name) or several[0] for name, several in ranked.items()})
    verdicts = verdicts_by_point(points)
    print(ranking(ranked, swept, played.metric, smallest=played.smallest, shown=_SHOWN, verdicts=verdicts))
    if lines := text(points, best, ranked, fresh, reference):
        print(f"\n{lines}\n")
    written = ["results.csv"]
    if axes := learning_rates(swept):
        for configuration, several in ranked.items():
            suffix = "".join(f"_{word.partition('=')[2]}" for word in configuration.split())
            name = f"heat_map{suffix}.png".replace("/", "_")
            title = (configuration or folder.name).replace("_", " ")
            if other := set(several[0][0].run.numbers) - set(axes):
                title += f"; best over {', '.join(sorted(other))}".replace("_", " ")
            heat_map(several, axes, folder / name, metric=played.metric, title=title, smallest=played.smallest)
            written.append(name)
    if privacy := privacy_summary(all_outcomes, folder / "runs"):
        print(privacy)
    print(f"Results in {folder}: {', '.join(written)}; each run's folder in {folder / 'runs'}")
    failed = [outcome for outcome in all_outcomes if outcome.status == sweep.FAILED]
    if failed:
        print(f"{len(failed)} of {len(all_outcomes)} runs failed:", file=sys.stderr)
        for outcome in failed:
            print(f"  {folder / 'runs' / outcome.run.name}: {outcome.error}", file=sys.stderr)
    return 1 if failed else 0


def results_table(outcomes: Sequence[Outcome], swept: Sequence[str], metric: str) -> "pd.DataFrame":
    """A row per run: its folder, status, and flags, the swept ones first.

    Args:
      outcomes: Outcomes of the runs.
      swept: Names of swept flags.
      metric: Name of the metric.
    """
    import pandas as pd

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
    ranked: Mapping[str, Sequence[Point]],
    swept: Sequence[str],
    metric: str,
    *,
    smallest: bool,
    shown: int,
    verdicts: Mapping[str, str] | None = None,
) -> str:
    """The ranking as a table for the terminal: the first points of each configuration.

    Args:
      ranked: The points of each configuration, the best first.
      swept: Names of swept flags.
      metric: Metric of the ranking.
      smallest: Whether smaller is better.
      shown: Points shown per configuration.
      verdicts: Verdict of each point against the baselines; empty or None if it is unknown.
    """
    import pandas as pd

    if all(len(points) == 1 for points in ranked.values()):  # Only configurations are compared.
        ranked, shown = _merged_by_environment(ranked, smallest=smallest), len(ranked)
    parts = []
    for name, points in ranked.items():
        words = {word.partition("=")[0] for word in name.split()}
        rows = []
        has_diverged = any(outcome.status == sweep.DIVERGED for point in points[:shown] for outcome in point)
        for place, point in enumerate(points[:shown], 1):
            values, settings = [outcome.value for outcome in point], point[0].run.settings
            numbers = {name: plan.as_text(settings[name]) for name in swept if name not in words}
            row: dict[str, Any] = {"rank": place, **numbers, metric: sweep.mean(point)}
            if len(values) > 1:
                row |= {"lowest": min(values), "highest": max(values), "seeds": len(values)}
            if has_diverged:
                row["status"] = sweep.DIVERGED if any(one.status == sweep.DIVERGED for one in point) else ""
            row["rounds"] = sweep.rounds_of(point)
            if verdicts:
                row["against the baselines"] = verdicts.get(point[0].run.point, "-")
            rows.append(row)
        lines = [name] if name else []
        lines.append(pd.DataFrame(rows).to_string(index=False, float_format="{:.4f}".format, na_rep="-"))
        if len(points) > shown:
            lines.append(f"... and {len(points) - shown} more, see results.csv")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _merged_by_environment(ranked: Mapping[str, Sequence[Point]], *, smallest: bool) -> dict[str, list[Point]]:
    """Points in one list for each combination of data, rewards and cohorts, by the words that they share."""
    every = [outcome for points in ranked.values() for point in points for outcome in point]
    groups = runs.grouped(
        every, lambda outcome: str(configurations.environment_key(outcome.run.settings, "total_rounds"))
    )
    merged: dict[str, list[Point]] = {}
    for group in groups.values():
        first, *others = (outcome.run.configuration.split() for outcome in group)
        words = [word for word in first if all(word in other for other in others)] if len(groups) > 1 else []
        merged.setdefault(" ".join(words), []).extend(sweep.rank(group, smallest=smallest, apart=False)[""])
    return merged


def privacy_summary(outcomes: Sequence[Outcome], folder: pathlib.Path) -> str:
    """Privacy loss of all runs that recorded it; empty if none did."""
    from optimization.privacy import ledger

    paths = [folder / outcome.run.name / run_folder.PRIVACY_FILE for outcome in outcomes]
    reports = [mechanisms.load(path) for path in paths if path.exists()]
    summary, missing = ledger.describe(reports), len(paths) - len(reports)
    return summary + f" Not counted: {missing} runs without a {run_folder.PRIVACY_FILE}." * bool(summary and missing)


def learning_rates(swept: Sequence[str]) -> tuple[str, str] | None:
    """The two swept learning rates, the server's first; None unless there are two."""
    rates = sorted((name for name in swept if name.endswith("learning_rate")), key=lambda name: "server" not in name)
    return (rates[0], rates[1]) if len(rates) == 2 else None


def cells(points: Sequence[Point], axes: tuple[str, str]) -> "pd.DataFrame":
    """The best mean of ranked points by the values of two flags, float [first flag, second flag]."""
    import pandas as pd

    settings = [point[0].run.settings for point in points]
    table = pd.DataFrame([{axis: flags[axis] for axis in axes} for flags in settings])
    best = table.assign(mean=list(map(sweep.mean, points))).drop_duplicates(list(axes))  # The best comes first.
    return best.pivot(index=axes[0], columns=axes[1], values="mean")


def heat_map(
    points: Sequence[Point], axes: tuple[str, str], path: pathlib.Path, *, metric: str, title: str, smallest: bool
) -> None:
    """Draws the metric over two flags, with its values in the cells; for other flags, at their best values.

    Args:
      points: Ranked points of one configuration.
      axes: The flags of the rows and of the columns.
      path: The picture.
      metric: Name of the metric.
      title: Title.
      smallest: Whether smaller is better.
    """
    from matplotlib import figure

    table = cells(points, axes)
    size = (min(_MAX_INCHES, 2.5 + 0.8 * len(table.columns)), min(_MAX_INCHES, 1.6 + 0.55 * len(table)))
    picture = figure.Figure(figsize=size, layout="constrained")
    plot = picture.subplots()
    # Cividis looks the same with and without colour blindness; light is good.
    image = plot.imshow(table, cmap="cividis_r" if smallest else "cividis", aspect="auto", origin="lower")
    norms = np.asarray(image.norm(table.to_numpy()))
    for (row, column), value in np.ndenumerate(table.to_numpy()):
        is_light = np.isnan(value) or (norms[row, column] < 0.5) == smallest
        shown, colour = "-" if np.isnan(value) else f"{value:.3g}", "black" if is_light else "white"
        plot.text(column, row, shown, ha="center", va="center", color=colour, fontsize=9)
    plot.set_xticks(range(len(table.columns)), table.columns.map("{:g}".format))
    plot.set_yticks(range(len(table)), table.index.map("{:g}".format))
    plot.set(xlabel=axes[1].replace("_", " "), ylabel=axes[0].replace("_", " "), title=title)
    picture.colorbar(image, label=metric)
    files.save_picture(picture, path, dpi=150)
