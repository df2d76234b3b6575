"""HTML report on runs: results, curves (by Plotly) and commands. It needs no network."""

import base64
import datetime
import html
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bandits.results import configurations, phrases, runs, sections, tables
from bandits.results.configuration import Baseline, Configuration
from bandits.results.configurations import ComparableRuns
from data import files
from data.errors import UsageError, counted
from optimization.study import cli, curves, divergence
from optimization.study.metrics import SECONDS, Metric

_MOST_NAMED = 20  # Maximum number of diverged or excluded runs to list.
# Plotly's name and the SVG pattern of each of Matplotlib's dashes.
_DASHES = {"-": ("solid", ""), "--": ("dash", "9 4"), "-.": ("dashdot", "9 3 2 3"), ":": ("dot", "2 3")}
_EDGES = ("mean", "low", "high")
_CURVE_POINTS = 1000
_MOST_DRAWN = 60  # Maximum number of configurations with curves, not counting baselines.
_PAGE_POINTS = 150_000  # 0.8 MB of base64.
# Names that `curves.styles` uses for the baselines.
_STYLES: Mapping[Any, str] = {Baseline.uniform_policy: "uniform", Baseline.full_feedback: "full_feedback"}


def report(
    several: runs.Several,
    output: str | os.PathLike = "report.html",
    title: str = "Runs",
    reference: str | None = None,
    *,
    standalone: bool = False,
) -> pathlib.Path:
    """Writes one HTML page about runs, as `scripts.report` does: results, differences, curves and commands.

    The curves need the file `plotly.min.js`, which is written to the page's folder.

    Example:
      >>> bandits.report([greedy, softmax], "report.html", reference="greedy")

    Args:
      several: Runs, or sequences of runs.
      output: Path of the page, ending in .html; an existing page is replaced.
      title: Title of the page.
      reference: See `bandits.compare`.
      standalone: Whether to embed `plotly.min.js` (5 MB) in the page instead, so that one file can be sent.

    Returns:
      The page's path.

    Raises:
      UsageError: If there are no runs, a run or the reference is invalid, or the page cannot be written.
    """
    path = pathlib.Path(cli.user_path(os.fspath(output)))
    files.check_output("output", path, (".html",))
    found = runs.read_all(run.folder for run in runs.flat(several))
    if found.problems:
        raise UsageError(" ".join(found.problems))
    write(path, found, title, reference, is_standalone=standalone)
    return path


def write(path: pathlib.Path, found: runs.Found, title: str, reference: str | None, *, is_standalone: bool) -> None:
    """Writes a page about runs and, unless it is standalone, the script of its curves beside it; see `page`."""
    from plotly import offline

    script = "" if is_standalone else "plotly.min.js"
    files.replace(path, page(found, title, reference, script=script).encode())
    if script:
        files.replace(path.with_name(script), offline.get_plotlyjs().encode())


def page(found: runs.Found, title: str, reference: str | None = None, top: str = "", script: str = "") -> str:
    """The page as HTML.

    Args:
      found: The runs.
      title: Title of the page.
      reference: Configuration to compare the others with; see `ComparableRuns.compared`.
      top: HTML to put at the top of the page. If it is not empty, it has the verdicts, so the page shows none.
      script: Name of the file with the curves' script, in the page's folder; empty to embed the script.

    Raises:
      UsageError: If no configuration matches the reference.
    """
    from plotly import offline

    parts = configurations.comparable(found.runs, is_judged=not top)
    if reference and not any(part.named(reference) for part in parts):
        known = "; ".join(configuration.name for part in parts for configuration in part.configurations)
        raise UsageError(f"--reference={reference} is not a configuration of these runs: {known}.")
    # Each curve has four arrays: rounds, means and both edges of its band. The page's maximum number of points is
    # divided among all arrays.
    lines = sum(4 * len(_drawn(part)) * min(len(part.configurations), _MOST_DRAWN) for part in parts)
    limit = max(2, min(_CURVE_POINTS, _PAGE_POINTS // max(lines, 1)))
    shown = [_part(part, limit, reference) for part in parts]
    return document(
        title,
        top,
        plotly="" if script else offline.get_plotlyjs(),
        script=script,
        over_tasks=sections.over_tasks(parts),
        parts=shown,
        counts=_counts(found, parts),
        problems=_problems(found, parts),
        most_points=limit,
        data=[{"configurations": part["styles"], "panels": part["panels"]} for part in shown],
    )


def document(title: str, top: str, **content: Any) -> str:
    """HTML page that needs no network.

    Args:
      title: Title of the page.
      top: HTML below the title.
      **content: Values for the template `page.html.jinja` on pages about runs.
    """
    nothing = {"plotly": "", "script": "", "over_tasks": (), "parts": (), "counts": (), "problems": {}, "data": []}
    limits = {"most_shown": sections.SHOWN, "most_named": _MOST_NAMED, "most_rows": sections.ROWS}
    limits["most_drawn"] = _MOST_DRAWN
    template = tables.templates().get_template("page.html.jinja")
    return template.render({**nothing, **limits, **content, "title": title, "top": top})


def _part(part: ComparableRuns, limit: int, reference: str | None) -> dict[str, Any]:
    """Template values for one group of comparable runs; curves have at most `limit` points."""
    styles = _styles(part)
    compared = part.compared(reference) if part.is_judged else []
    finding, main = "These runs have no known metric." * part.is_judged, None
    if part.is_judged and part.columns:
        finding, main = sections.finding(part, compared), sections.summary(part, styles, compared)
    comparisons = sections.comparisons(part, compared)
    return {
        "title": part.title,
        "finding": finding,
        "notices": sections.notices(part),
        "main": main,
        "styles": list(styles.values()),
        "panels": [_panel(part, column, limit) for column in _drawn(part)],
        "results": sections.results(part, styles),
        "sections": [*sections.dynamic_regret(part), *[comparisons] * bool(comparisons)],
        "flags": sections.flags(part),
        "single": sections.single(part),
        "number_of_runs": sum(len(one.runs) for one in part.configurations),
        "commands": [(one.name, one.runs[0].command) for one in part.configurations],
    }


def _counts(found: runs.Found, parts: Sequence[ComparableRuns]) -> list[str]:
    """Numbers of runs and configurations, and the time of writing."""
    count = sum(len(part.configurations) for part in parts)
    counts = [f"{counted(len(found.runs), 'run')} in {counted(count, 'configuration')}"]
    if found.waiting:
        counts.append(f"{counted(len(found.waiting), 'run')} without a finished round")
    if found.searches:
        counts.append(f"{counted(len(found.searches), 'run')} from searches or timing left out")
    return [*counts, datetime.datetime.now(datetime.UTC).strftime("written %Y-%m-%d %H:%M UTC")]


def _problems(found: runs.Found, parts: Sequence[ComparableRuns]) -> dict[str, list[str]]:
    """Lines about runs that could not be read or that diverged, by heading."""
    headings = "Left out", "Diverged runs, not comparable", "Some clients diverged"
    problems: dict[str, list[str]] = {heading: [] for heading in headings} | {headings[0]: found.problems}
    for configuration in (one for part in parts for one in part.configurations):
        for run in configuration.runs:
            if text := divergence.warning(run.metrics, run.columns):
                seed = f" (seed {run.flags.get('seed')})" if len(configuration.runs) > 1 else ""
                is_lost = divergence.is_lost(run.metrics, run.columns, run.flags)
                problems[headings[1 if is_lost else 2]].append(f"{configuration.name}{seed}: {text}")
    return problems


def _styles(part: ComparableRuns) -> dict[Configuration, dict[str, Any]]:
    """Style of each configuration's curves; `name` is escaped, because Plotly interprets markup."""
    ranked = part.ranked()
    # Styles depend on results only if there are more configurations than are shown initially.
    order = part.configurations if len(part.configurations) <= sections.SHOWN else ranked
    styles = curves.styles([_STYLES.get(configuration.role, configuration.name) for configuration in order])
    entries, baselines_so_far = {}, 0
    for place, (configuration, style) in enumerate(zip(order, styles, strict=True)):
        baselines_so_far += bool(configuration.role)
        dash, pattern = _DASHES[style.dash]
        entries[configuration] = {
            "label": configuration.name,
            "name": html.escape(configuration.name),
            "colour": style.colour,
            "dash": dash,
            "line": pattern,
            "rank": ranked.index(configuration),
            "badge": configuration.role.value if configuration.role else "",
            "shown": place < sections.SHOWN or (bool(configuration.role) and baselines_so_far <= sections.SHOWN),
        }
    return {configuration: entries[configuration] for configuration in part.configurations}


def _drawn(part: ComparableRuns) -> list[Metric]:
    """Metrics with curves: those in the tables and those that the study marks as drawn, if any value is finite."""
    declared = [*part.study.columns, SECONDS] if part.study else runs.declared().values()
    columns = dict.fromkeys([*part.columns, *(metric for metric in declared if metric.drawn)])
    every = [run.metrics for one in part.configurations for run in one.runs]
    return [name for name in columns if any(name in table and np.isfinite(table[name]).any() for table in every)]


def _panel(part: ComparableRuns, column: Metric, limit: int) -> dict[str, Any]:
    """Panel of a metric: each configuration's mean and band, cut at the bounds of the metric's values."""
    bands, lines, seeds, best = [], [], set(), part.ranked()[:_MOST_DRAWN]
    for index, one in enumerate(part.configurations):
        if one not in best and not one.role:
            continue
        some = [run.metrics for run in one.runs if column in run.metrics]
        band = runs.band(some, column, bounds=one.bounds(column)) if some else None
        if band is None or band.empty:
            continue
        bands.append(band)
        seeds.add(len(some))
        # Every k-th row, always including the last; at most `limit` rows.
        step = -(-len(band) // limit)
        band = band.iloc[(len(band) - 1) % step :: step]
        edges = {edge: _packed(band[edge].to_numpy()) for edge in (_EDGES if len(some) > 1 else _EDGES[:1])}
        lines.append({"configuration": index, "points": len(band), "x": _packed(band.index.to_numpy()), **edges})
    several = sorted(seeds - {1})
    caption = f"line: mean, band: 95% interval over {' to '.join(map(str, several[:1] + several[1:][-1:]))} seeds"
    return {
        "column": column,
        "title": phrases.capital(column.about),
        "caption": caption + "; without a band: one seed" * (1 in seeds) if several else "one seed",
        "curves": lines,
        "range": curves.limits(bands),
    }


def _packed(values: np.ndarray) -> dict[str, str]:
    """Numbers as Plotly's typed arrays."""
    return {"dtype": "f4", "bdata": base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")}
