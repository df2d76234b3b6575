"""Outcomes of a plan's runs: the state of each folder, the ranking, `results.csv` and heat maps."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits.plans import executors, plan
from bandits.results import configurations, runs
from data import files
from data.errors import UsageError
from optimization.privacy import mechanisms
from optimization.study import divergence, run_folder

if TYPE_CHECKING:
    import pandas as pd

FINISHED, FAILED, STOPPED_EARLY, UNFINISHED = "finished", "failed", "stopped early", "unfinished"
DIVERGED = "diverged"
_MAX_INCHES = 14  # A side of the heat map.


@dataclasses.dataclass
class Outcome:
    """Outcome of a run.

    Attributes:
      run: The run.
      status: One of the words above.
      rounds: Finished rounds, after which the metric is `value`.
      value: The metric; NaN if it is missing or not finite, or if the run diverged.
      error: Reason of a failure.
      is_reporting: Whether its seed is fresh: it selects no point, and is not ranked.
    """

    run: plan.Run
    status: str = UNFINISHED
    rounds: int = 0
    value: float = math.nan
    error: str = ""
    is_reporting: bool = False


def finished_rounds(folder: pathlib.Path) -> int:
    """Rounds after which a run's folder was marked as finished; 0 for an unfinished or missing run.

    Raises:
      UsageError: If the folder is damaged, of another format, or was made with other versions of the packages; it
        names the folder.
    """
    config = folder / "config.json"
    mark = folder / executors.FINISHED_FILE
    if not config.exists():
        if mark.exists() or (folder / "metrics.csv").exists():
            raise UsageError(f"{folder} is damaged: it has no config.json. Delete the folder, and it is run again.")
        return 0
    content = runs.read_json(config)
    before = content.get("versions")
    if not isinstance(before, dict):
        raise UsageError(f"{config} is damaged: it names no versions. Delete the folder, and it is run again.")
    run_folder.check_format(folder, content)
    for name, now in _versions().items():
        if before.get(name) != now and name != "python":
            raise UsageError(
                f"{folder} was made with {name} {before.get(name)}; this is {now}. One grid must not mix "
                "versions: delete the folder, or choose another --experiment_name."
            )
    if not mark.exists():
        return 0
    rounds = runs.read_json(mark).get("total_rounds")
    if not isinstance(rounds, int):
        raise UsageError(f"{mark} is damaged. Delete the folder, and it is run again.")
    return rounds


_versions = functools.cache(run_folder.versions)


def unfinished(runs_of_plan: Iterable[plan.Run], folder: pathlib.Path) -> list[plan.Run]:
    """Runs that are not finished below the folder of all runs; see `finished_rounds`."""
    return [run for run in runs_of_plan if finished_rounds(folder / run.name) < run.rounds]


def read_value(folder: pathlib.Path, column: str, rounds: int) -> float:
    """Metric of a finished run after `rounds` rounds, or after its last round; NaN if it is not finite.

    A longer run may lack an evaluation after that round. Then the previous evaluation counts, or without one the next.

    Raises:
      UsageError: If its metrics are damaged, or have no such column; it names the file.
    """
    table = runs.read_metrics(folder)
    if column not in table:
        raise UsageError(f"{folder / 'metrics.csv'} has no column {column}.")
    is_past = table["round_num"] <= rounds
    value = float(table[column][is_past].iloc[-1])
    if not math.isfinite(value) and not is_past.all() and getattr(column, "evaluated", False):
        measured = table[column].dropna()
        before = measured[is_past[measured.index]]
        value = float(before.iloc[-1] if len(before) else measured.iloc[0]) if len(measured) else math.nan
    return value if math.isfinite(value) else math.nan


def has_diverged(folder: pathlib.Path, rounds: int) -> bool:
    """Whether a finished run's training had diverged after `rounds` rounds, so that its metric is meaningless.

    Raises:
      UsageError: If its files are damaged; it names the file.
    """
    run = runs.read(folder)
    return divergence.is_lost(run.metrics[run.metrics["round_num"] <= rounds], run.columns, run.flags)


def goodness(values: Sequence[float], *, smallest: bool) -> float:
    """Mean over a point's seeds, negated if smaller is better; -inf if a value is NaN."""
    mean = sum(values) / len(values)
    return -math.inf if math.isnan(mean) else -mean if smallest else mean


@dataclasses.dataclass(frozen=True)
class Point:
    """All seeds of one point.

    Attributes:
      outcomes: Outcome of each seed.
      mean: Mean of the metric over the seeds; NaN if a seed has none.
    """

    outcomes: tuple[Outcome, ...]
    mean: float

    @property
    def name(self) -> str:
        """Its name, with the key of its flags."""
        return self.outcomes[0].run.point

    @property
    def rounds(self) -> int:
        """Rounds that all seeds have finished."""
        return min(outcome.rounds for outcome in self.outcomes)


def rank(outcomes: Sequence[Outcome], *, smallest: bool, apart: bool = True) -> dict[str, list[Point]]:
    """Points of each configuration (or, unless `apart`, all in one list), the best first.

    Points are sorted by their rounds, then by their means. Points without a mean, such as those that diverged
    or failed, come last. Ties keep their order. Fresh seeds are left out.
    """
    tuning = [outcome for outcome in outcomes if not outcome.is_reporting]
    ranked: dict[str, list[Point]] = {}
    for group in runs.grouped(tuning, lambda outcome: outcome.run.point).values():
        mean = sum(outcome.value for outcome in group) / len(group)
        ranked.setdefault(group[0].run.configuration if apart else "", []).append(Point(tuple(group), mean))
    for points in ranked.values():
        points.sort(
            key=lambda point: (math.isnan(point.mean), -point.rounds, -goodness([point.mean], smallest=smallest))
        )
    return ranked


def label(point: str) -> str:
    """Name of a point without the key of its flags."""
    return point.rpartition("-")[0]


def table(outcomes: Sequence[Outcome], swept: Sequence[str], metric: str, folder: pathlib.Path) -> "pd.DataFrame":
    """A row per run: its folder, status, flags (the swept ones first) and command.

    Args:
      outcomes: Outcomes of the runs.
      swept: Names of swept flags.
      metric: Name of the metric.
      folder: Folder of all runs.
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
            | {"command": _command(folder / outcome.run.name), "error": outcome.error}
        )
    table = pd.DataFrame(rows)
    return table.drop(columns=[name for name in table if name not in (metric, "error") and table[name].isna().all()])


def _command(folder: pathlib.Path) -> str | None:
    try:
        return runs.newest_command(runs.read_json(folder / "config.json"))
    except UsageError:  # It has failed, and `error` says so.
        return None


def text(
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
    for configuration, points in ranked.items():
        words = {word.partition("=")[0] for word in configuration.split()}
        rows = []
        has_diverged = any(outcome.status == DIVERGED for point in points[:shown] for outcome in point.outcomes)
        for place, point in enumerate(points[:shown], 1):
            values = [outcome.value for outcome in point.outcomes]
            settings = point.outcomes[0].run.settings
            row: dict[str, Any] = {"rank": place}
            row |= {name: plan.as_text(settings[name]) for name in swept if name not in words} | {metric: point.mean}
            if len(values) > 1:
                row |= {"lowest": min(values), "highest": max(values), "seeds": len(values)}
            if has_diverged:
                row["status"] = DIVERGED if any(outcome.status == DIVERGED for outcome in point.outcomes) else ""
            row["rounds"] = point.rounds
            if verdicts:
                row["against the baselines"] = verdicts.get(point.name, "-")
            rows.append(row)
        lines = [configuration] if configuration else []
        lines.append(pd.DataFrame(rows).to_string(index=False, float_format="{:.4f}".format, na_rep="-"))
        if len(points) > shown:
            lines.append(f"... and {len(points) - shown} more, see results.csv")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _merged_by_environment(ranked: Mapping[str, Sequence[Point]], *, smallest: bool) -> dict[str, list[Point]]:
    """Points in one list for each combination of data, rewards and cohorts, by the words that they share."""
    every = [outcome for points in ranked.values() for point in points for outcome in point.outcomes]
    groups = runs.grouped(
        every, lambda outcome: str(configurations.environment_key(outcome.run.settings, "total_rounds"))
    )
    merged: dict[str, list[Point]] = {}
    for group in groups.values():
        first, *others = (outcome.run.configuration.split() for outcome in group)
        words = [word for word in first if all(word in other for other in others)] if len(groups) > 1 else []
        merged.setdefault(" ".join(words), []).extend(rank(group, smallest=smallest, apart=False)[""])
    return merged


def privacy_summary(outcomes: Sequence[Outcome], folder: pathlib.Path) -> str:
    """Privacy loss of all runs that recorded it; empty if none did."""
    from optimization.privacy import ledger

    paths = [folder / outcome.run.name / run_folder.PRIVACY_FILE for outcome in outcomes]
    reports = [mechanisms.load(path) for path in paths if path.exists()]
    summary = ledger.describe(reports)
    missing = len(paths) - len(reports)
    if not (summary and missing):
        return summary
    return f"{summary} Not counted: {missing} runs without a {run_folder.PRIVACY_FILE}."


def learning_rates(swept: Sequence[str]) -> tuple[str, str] | None:
    """The two swept learning rates, the server's first; None unless there are two."""
    rates = sorted((name for name in swept if name.endswith("learning_rate")), key=lambda name: "server" not in name)
    return (rates[0], rates[1]) if len(rates) == 2 else None


def cells(points: Sequence[Point], axes: tuple[str, str]) -> "pd.DataFrame":
    """The best of ranked points for each pair of values of two flags, with its mean and name."""
    import pandas as pd

    settings = [point.outcomes[0].run.settings for point in points]
    table = pd.DataFrame([{axis: flags[axis] for axis in axes} for flags in settings])
    table = table.assign(mean=[point.mean for point in points], name=[point.name for point in points])
    return table.drop_duplicates(list(axes))  # The best comes first.


def heat_map(
    points: Sequence[Point],
    axes: tuple[str, str],
    path: pathlib.Path,
    *,
    metric: str,
    title: str,
    smallest: bool,
    marked: Collection[str] = (),
) -> None:
    """Draws the metric over two flags, with its values in the cells; for other flags, at their best values.

    Args:
      points: Ranked points of one configuration.
      axes: The flags of the rows and of the columns.
      path: The picture.
      metric: Name of the metric.
      title: Title.
      smallest: Whether smaller is better.
      marked: Names of points that are not significantly above the uniform policy: their cells have an asterisk.
    """
    import numpy as np
    from matplotlib import figure

    best = cells(points, axes)
    is_marked = best["name"].isin(marked)
    best = best.assign(text=best["mean"].map("{:.3g}".format) + is_marked.map({True: "*", False: ""}))
    table = best.pivot(index=axes[0], columns=axes[1], values="mean")
    texts = best.pivot(index=axes[0], columns=axes[1], values="text").to_numpy()
    values = table.to_numpy()
    size = (min(_MAX_INCHES, 2.5 + 0.8 * len(table.columns)), min(_MAX_INCHES, 1.6 + 0.55 * len(table)))
    picture = figure.Figure(figsize=size, layout="constrained")
    plot = picture.subplots()
    # Cividis looks the same with and without colour blindness; light is good.
    image = plot.imshow(values, cmap="cividis_r" if smallest else "cividis", aspect="auto", origin="lower")
    middle = np.nanmean([np.nanmin(values), np.nanmax(values)]) if np.isfinite(values).any() else 0.0
    for (row, column), value in np.ndenumerate(values):
        is_light = (value < middle) if smallest else (value > middle)
        plot.text(
            column,
            row,
            "-" if np.isnan(value) else texts[row, column],
            ha="center",
            va="center",
            color="black" if is_light or np.isnan(value) else "white",
            fontsize=9,
        )
    plot.set_xticks(range(len(table.columns)), table.columns.map("{:g}".format))
    plot.set_yticks(range(len(table)), table.index.map("{:g}".format))
    if is_marked.any():
        title += "\n* not significantly above the uniform policy"
    plot.set(xlabel=axes[1].replace("_", " "), ylabel=axes[0].replace("_", " "), title=title)
    picture.colorbar(image, label=metric)
    files.save_picture(picture, path, dpi=150)
