"""Page about runs: results, curves and commands, in one HTML file that needs no network.

Plotly draws the curves: each part of the page has groups of panels, which hold the points of every configuration.
"""

import base64
import datetime
import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bandits.results import configurations, dynamic_regret, phrases, runs, sections, tables
from bandits.results.configuration import Baseline, range_of
from bandits.results.configurations import ComparableRuns
from data.errors import UsageError
from optimization.study import curves, divergence
from optimization.study.metrics import SECONDS, Metric

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED = 20  # Runs that diverged, or were left out.
_DASHES = {"solid": "", "dash": "9 4", "dashdot": "9 3 2 3", "dot": "2 3"}  # Plotly's names, and SVG's.
_PLOTLY = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_EDGES = ("mean", "low", "high")
_CURVE_POINTS = 1000
_PAGE_POINTS = 750_000  # 4 MB of base64.
# Groups of columns by their prefixes, in the order of the page; those of results stand before them, unfolded.
_GROUPS = {
    "bandits": "Exploration",
    "privacy": "Privacy",
    "eval": "Evaluation",
    "running": "Evaluation",
    "cohort": "Evaluation",
    "train": "Training and clip norms",
    "communication": "Communication",
    SECONDS: "Seconds",
}
_OTHERS = "Other columns"
# Words by which styles of baselines are known.
_STYLES: Mapping[Any, str] = {Baseline.uniform_policy: "uniform", Baseline.full_feedback: "full_feedback"}


def page(
    found: runs.Found,
    title: str,
    reference: str | None = None,
    top: str = "",
    *,
    has_regret: bool = False,
    is_judged: bool = True,
    named: Callable[[runs.Run], str] = lambda run: "",
) -> str:
    """The page as HTML.

    Args:
      found: The runs.
      title: Its title.
      reference: What configurations are compared with; see `ComparableRuns.compared`.
      top: HTML that precedes all else.
      has_regret: Whether results have the regret to the full-feedback baseline.
      is_judged: Whether the page has verdicts of its own; not where `top` has them.
      named: Returns the name of a configuration by one of its runs; empty for the name by its flags.

    Raises:
      UsageError: If no configuration is the reference.
    """
    from plotly import offline

    parts = configurations.comparable(found.runs, is_judged=is_judged, named=named)
    if reference and not any(part.named(reference) for part in parts):
        known = "; ".join(configuration.name for part in parts for configuration in part.configurations)
        raise UsageError(f"--reference={reference} is no configuration of these runs: {known}.")
    lines = _lines(parts)
    shown = [_part(part, lines, reference, has_regret=has_regret) for part in parts]
    return document(
        title,
        top,
        plotly=offline.get_plotlyjs(),
        over_tasks=sections.over_tasks(parts),
        parts=shown,
        counts=_counts(found, parts),
        problems=_problems(found, parts),
        data=[{"configurations": part["styles"], "groups": part["groups"]} for part in shown],
    )


def document(title: str, top: str, **content: Any) -> str:
    """HTML page that needs no network.

    Args:
      title: Its title.
      top: HTML below it.
      **content: What the template `page.html.jinja` inserts on pages about runs.
    """
    nothing = {"plotly": "", "over_tasks": (), "parts": (), "counts": (), "problems": (), "data": []}
    limits = {"most_shown": sections.SHOWN, "most_named": _MOST_NAMED, "most_rows": sections.ROWS}
    return (
        tables.templates()
        .get_template("page.html.jinja")
        .render({**nothing, **limits, **content, "title": title, "top": top})
    )


def _part(part: ComparableRuns, lines: int, reference: str | None, *, has_regret: bool) -> dict[str, Any]:
    """What the page shows of a part, for the template."""
    styles = _styles(part)
    groups, notes = _panels(part, lines)
    compared = part.compared(reference) if part.is_judged else []
    content: dict[str, Any] = {"finding": "", "forest": None, "main": None}
    if part.is_judged and part.columns:
        forest, main = sections.summary(part, styles, compared)
        content = {"finding": sections.finding(part, compared), "forest": forest, "main": main}
    elif part.is_judged:
        content["finding"] = "No metric of these runs is known."
    comparisons = sections.comparisons(part, compared)
    return content | {
        "title": part.title,
        "styles": styles,
        "groups": groups,
        "notes": notes,
        "results": sections.results(part, styles, has_regret=has_regret),
        "explained": _explained(part, has_regret=has_regret),
        "sections": [*(dynamic_regret.sections(part) if has_regret else ()), *[comparisons] * bool(comparisons)],
        "flags": sections.flags(part),
        "single": sections.single(part),
        "number_of_runs": sum(len(one.runs) for one in part.configurations),
        "data": sections.data(part),
        "commands": sections.commands(part),
    }


def _explained(part: ComparableRuns, *, has_regret: bool) -> list[str]:
    """Sentences that explain the table of all results."""
    sizes = [len(one.runs) for one in part.configurations]
    sentences = ["Sorted by the first result."] * bool(part.columns and len(sizes) > 1)
    if max(sizes) > 1:
        sentences.append("Each cell: mean over seeds and 95% interval (Student’s t, cut at the bounds of rewards).")
    if min(sizes) == 1:
        sentences.append("One seed has no interval.")
    if part.has_exact_bounds:
        sentences.append(
            "The uniform policy’s reward and the best fixed action’s are computed from labels and rewards. The latter "
            "is optimistically biased: the same examples select the action and value it."
        )
    has_uniform = any(one.role is Baseline.uniform_policy for one in part.configurations)
    if has_uniform and any(column.evaluated for column in part.columns):
        sentences.append("Held-out results of the uniform policy are those of the model that it trained.")
    if has_regret:
        sentences.append(
            "Regret is the full-feedback baseline’s first result minus the configuration’s, over common seeds. The "
            "baseline is trained, too, so regret can be negative."
        )
    return sentences


def _counts(found: runs.Found, parts: Sequence[ComparableRuns]) -> list[str]:
    """Numbers of runs and configurations, and the time."""
    count = sum(len(part.configurations) for part in parts)
    counts = [f"{phrases.count(len(found.runs), 'run')} in {phrases.count(count, 'configuration')}"]
    if found.waiting:
        counts.append(f"{phrases.count(len(found.waiting), 'run')} without a finished round")
    if found.searches:
        counts.append(f"{phrases.count(len(found.searches), 'run')} of searches or timing left out (see --searches)")
    return [*counts, datetime.datetime.now(datetime.UTC).strftime("written %Y-%m-%d %H:%M UTC")]


def _problems(found: runs.Found, parts: Sequence[ComparableRuns]) -> list[tuple[str, list[str]]]:
    """Lines about runs that could not be read or diverged, by heading."""
    lost: list[str] = []
    others: list[str] = []
    for configuration in (one for part in parts for one in part.configurations):
        for run in configuration.runs:
            if text := divergence.warning(run.metrics, run.columns):
                seed = f" (seed {run.flags.get('seed')})" if len(configuration.runs) > 1 else ""
                is_lost = divergence.is_lost(run.metrics, run.columns, run.flags)
                (lost if is_lost else others).append(f"{configuration.name}{seed}: {text}")
    headings = ("Left out", "Diverged runs, not comparable", "Some clients diverged")
    return list(zip(headings, (found.problems, lost, others), strict=True))


def _styles(part: ComparableRuns) -> list[dict[str, Any]]:
    """Style of each configuration's curves; `name` is escaped, because Plotly reads markup in it."""
    ranked = part.ranked()
    # Styles depend on results only if there are more configurations than are drawn at first.
    order = part.configurations if len(part.configurations) <= sections.SHOWN else ranked
    looks = curves.styles([_STYLES.get(one.role, one.name) for one in order])
    found, baselines_so_far = {}, 0
    for place, (one, look) in enumerate(zip(order, looks, strict=True)):
        baselines_so_far += bool(one.role)
        label, dash = one.name + part.uniform_note(one), _PLOTLY[look.dash]
        found[one] = {
            "label": label,
            "name": html.escape(label),
            "colour": look.colour,
            "dash": dash,
            "line": _DASHES[dash],
            "rank": ranked.index(one),
            "badge": one.role.value if one.role else "",
            "shown": place < sections.SHOWN or (bool(one.role) and baselines_so_far <= sections.SHOWN),
        }
    return [found[one] for one in part.configurations]


def _panels(part: ComparableRuns, lines: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Groups of panels for all metrics that vary, and notes about them.

    Args:
      part: The configurations.
      lines: Number of lines on the whole page, which share its maximum number of points.
    """
    limit = max(2, min(_CURVE_POINTS, _PAGE_POINTS // max(lines, 1)))
    groups: dict[str, list[dict[str, Any]]] = {"Results": []}
    groups |= {title: [] for title in (*_GROUPS.values(), _OTHERS)}
    left_out: dict[str, list[str]] = {}
    is_thinned = False
    for column in [*part.columns, *(column for column in _present(part) if column not in part.columns)]:
        bands = _bands(part, column)
        if note := _not_drawn(column, [*bands.values()]):
            left_out.setdefault(note, []).append(column)
            continue
        is_thinned |= any(len(band) > limit for band in bands.values())
        group = groups["Results" if column in part.columns else _GROUPS.get(column.partition("/")[0], _OTHERS)]
        group.append(_panel(part, column, bands, limit))
    listed = (f"{', '.join(columns)} ({why})" for why, columns in left_out.items())
    notes = [f"Not drawn: {'; '.join(listed)}."] if left_out else []
    if is_thinned:
        notes.append(f"Of curves with more than {limit:,} rounds, every k-th round is drawn.")
    return [{"title": title, "panels": panels} for title, panels in groups.items() if panels], notes


def _bands(part: ComparableRuns, column: str) -> "dict[int, pd.DataFrame]":
    """Curves of a column, cut at the bounds of its values, by the configuration's position; without empty ones."""
    bands = {}
    for index, one in enumerate(part.configurations):
        some = [run.metrics for run in one.runs if column in run.metrics]
        band = runs.band(some, column) if some else None
        if band is None or band.empty:
            continue
        least, largest = range_of(one.runs, column)
        if band["mean"].between(least, largest).all():
            band = band.assign(low=band["low"].clip(lower=least), high=band["high"].clip(upper=largest))
        bands[index] = band
    return bands


def _panel(part: ComparableRuns, column: str, bands: "Mapping[int, pd.DataFrame]", limit: int) -> dict[str, Any]:
    """Panel of a column, each curve with at most `limit` points."""
    seeds = {index: sum(column in run.metrics for run in part.configurations[index].runs) for index in bands}
    return {
        "column": column,
        "title": phrases.capital(column.about) if isinstance(column, Metric) else column,
        "caption": _caption(set(seeds.values())),
        "curves": [{"configuration": index, **_curve(band, limit, seeds[index] > 1)} for index, band in bands.items()],
        "range": curves.limits(list(bands.values())),
    }


def _lines(parts: Iterable[ComparableRuns]) -> int:
    """Number of lines of a page's curves; a configuration with a band has three."""
    return sum(len(_present(part)) * (3 if len(one.runs) > 1 else 1) for part in parts for one in part.configurations)


def _present(part: ComparableRuns) -> list[str]:
    """All columns but the round's and those that mark rounds; first those that are declared as drawn."""
    present = dict.fromkeys(column for one in part.configurations for run in one.runs for column in run.metrics)
    own = part.study.columns if part.study else ()
    known: dict[str, Metric] = dict(runs.declared()) | {str(metric): metric for metric in own}
    left_out = {"round_num", *(metric for metric in own if metric.marks)}
    columns = [known.get(column, column) for column in present if column not in left_out]
    return sorted(columns, key=lambda column: not (isinstance(column, Metric) and column.drawn))


def _not_drawn(column: str, bands: "Sequence[pd.DataFrame]") -> str:
    """Why a column is not drawn, in words that others can share; empty if it is."""
    values = {value for band in bands for edge in _EDGES for value in band[edge].dropna().unique()[:2]}
    if not values:
        return "without a finite value"
    if len(values) == 1 and not (isinstance(column, Metric) and column.drawn):
        return f"always {values.pop():g}"
    return "with a single value" if all(len(band) < 2 for band in bands) else ""


def _caption(seeds: set[int]) -> str:
    """Caption that explains lines and bands."""
    several = sorted(seeds - {1})
    if not several:
        return "one seed"
    words = f"{several[0]}" if len(several) == 1 else f"{several[0]} to {several[-1]}"
    return f"line: mean, band: 95% interval over {words} seeds{'; without a band: one seed' if 1 in seeds else ''}"


def _curve(band: "pd.DataFrame", limit: int, is_band: bool) -> dict[str, Any]:
    """Points for Plotly: every k-th row with the last one, at most `limit` rows."""
    step = -(-len(band) // limit)
    band = band.iloc[(len(band) - 1) % step :: step]
    rounds = band.index.to_numpy()
    steps = np.unique(np.diff(rounds))
    place: dict[str, Any] = {"x": _packed(rounds, f"{rounds.dtype.kind}4")}
    if rounds.dtype.kind == "i" and len(steps) <= 1:
        place = {"x0": int(rounds[0]), "dx": int(steps[0]) if len(steps) else 1}
    edges = _EDGES if is_band else _EDGES[:1]
    return {"points": len(band), **place, **{edge: _packed(band[edge].to_numpy(), "f4") for edge in edges}}


def _packed(values: np.ndarray, dtype: str) -> dict[str, str]:
    """Numbers as Plotly's typed arrays."""
    content = base64.b64encode(values.astype(f"<{dtype}").tobytes())
    return {"dtype": dtype, "bdata": content.decode("ascii")}
