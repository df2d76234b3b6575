"""Curves of a report, as its page draws them with Plotly: groups of panels, and points."""

import base64
import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bandits.results import phrases, runs
from bandits.results.configuration import Baseline, range_of
from bandits.results.configurations import ComparableRuns
from optimization.study import curves
from optimization.study.intervals import Interval
from optimization.study.metrics import SECONDS, Metric

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 12  # Configurations that are drawn at first; more would hide each other.
DASHES = {"solid": "", "dash": "9 4", "dashdot": "9 3 2 3", "dot": "2 3"}  # Plotly's names, and SVG's.
_PLOTLY = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
_EDGES = ("mean", "low", "high")
_ROW = 38  # Pixels of a row of a forest plot.
_SAME_PAYLOAD = 0.05  # By less, configurations differ because of random cohort sizes.
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


def styles(part: ComparableRuns) -> list[dict[str, Any]]:
    """Style of each configuration's curves; `name` is escaped, because Plotly reads markup in it."""
    # Styles depend on results only if there are more configurations than are drawn at first.
    order = part.configurations if len(part.configurations) <= SHOWN else part.ranked()
    ranks = {id(configuration): rank for rank, configuration in enumerate(part.ranked())}
    looks = curves.styles([_STYLES.get(one.role, one.name) for one in order])
    found, referring = {}, 0
    for place, (configuration, look) in enumerate(zip(order, looks, strict=True)):
        referring += bool(configuration.role)
        label, dash = configuration.name + part.uniform_note(configuration), _PLOTLY[look.dash]
        found[id(configuration)] = {
            "label": label,
            "name": html.escape(label),
            "colour": look.colour,
            "dash": dash,
            "line": DASHES[dash],
            "rank": ranks[id(configuration)],
            "badge": configuration.role.value if configuration.role else "",
            "shown": place < SHOWN or (bool(configuration.role) and referring <= SHOWN),
        }
    return [found[id(configuration)] for configuration in part.configurations]


def groups(part: ComparableRuns, lines: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Groups of panels for all metrics that vary, and notes about them.

    Args:
      part: The configurations.
      lines: Number of lines on the whole page, which share its maximum number of points.
    """
    limit = max(2, min(_CURVE_POINTS, _PAGE_POINTS // max(lines, 1)))
    results = part.columns
    found: dict[str, list[dict[str, Any]]] = {"Results": []}
    found |= {title: [] for title in (*_GROUPS.values(), _OTHERS)}
    left_out: dict[str, list[str]] = {}
    is_thinned = False
    for column in [*results, *(column for column in _present(part) if column not in results)]:
        bands = _bands(part, column)
        if note := _not_drawn(column, [*bands.values()]):
            left_out.setdefault(note, []).append(column)
            continue
        is_thinned |= any(len(band) > limit for band in bands.values())
        prefix = column.partition("/")[0]
        group = found["Results" if column in results else _GROUPS.get(prefix, _OTHERS)]
        group.append(_panel(part, column, bands, limit))
        if column in results[:1] and (places := _megabytes(part, bands)):
            bands = {
                index: band.set_axis(places[index][band.index]) for index, band in bands.items() if index in places
            }
            panel = _panel(part, column, bands, limit)
            panel["caption"] += "; without payload: at 0" * any(place.iloc[-1] == 0 for place in places.values())
            group.append(panel | {"title": f"{panel['title']} by payload", "xlabel": runs.MEGABYTES})
    for column, other in part.equal.items():
        left_out.setdefault(f"equal to {other}", []).append(column)
    listed = (f"{', '.join(columns)} ({why})" for why, columns in left_out.items())
    notes = [f"Not drawn: {'; '.join(listed)}."] if left_out else []
    if is_thinned:
        notes.append(f"Of curves with more than {limit:,} rounds, every k-th round is drawn.")
    return [{"title": title, "panels": panels} for title, panels in found.items() if panels], notes


def _bands(part: ComparableRuns, column: str) -> "dict[int, pd.DataFrame]":
    """Curves of a column, by position of the configuration; without those that have no finite value."""
    bands = {
        index: _within(runs.band(tables, column), *range_of(configuration.runs, column))
        for index, configuration in enumerate(part.configurations)
        if (tables := [run.metrics for run in configuration.runs if column in run.metrics])
    }
    return {index: band for index, band in bands.items() if not band.empty}


def _panel(part: ComparableRuns, column: str, bands: "Mapping[int, pd.DataFrame]", limit: int) -> dict[str, Any]:
    """Panel of a column, each curve with at most `limit` points."""
    seeds = {index: sum(column in run.metrics for run in part.configurations[index].runs) for index in bands}
    return {
        "column": column,
        "title": phrases.capital(column.about) if isinstance(column, Metric) else column,
        "caption": _caption(seeds.values()),
        "xlabel": "round",
        "curves": [
            {"configuration": index, **_curve(_thin(band, limit), seeds[index] > 1)} for index, band in bands.items()
        ],
        "range": curves.limits(list(bands.values())),
    }


def _megabytes(part: ComparableRuns, indices: Iterable[int]) -> "dict[int, pd.Series]":
    """Megabytes sent by round, by position of the configuration; empty if all send the same in a round."""
    tables = {index: [run.metrics for run in part.configurations[index].runs] for index in indices}
    sent = {index: place for index, some in tables.items() if (place := runs.megabytes(some)) is not None}
    means = [place.iloc[-1] / place.index[-1] for place in sent.values()]
    return sent if means and min(means) < (1 - _SAME_PAYLOAD) * max(means) else {}


def forest(title: str, rows: Sequence[tuple[str, Interval, str]]) -> dict[str, Any]:
    """Picture of differences as dots with their intervals above one axis, whose places are percentages of the width.

    Args:
      title: What is drawn, with its unit.
      rows: (name, difference, colour) of each configuration.
    """
    from matplotlib import ticker

    ends = [0.0, *(end for _, one, _ in rows for end in one[:3] if math.isfinite(end))]
    ticks = ticker.MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(min(ends), max(ends))
    low, high = ticks[0], ticks[-1]

    def place(value: float) -> str:
        return f"{6 + 88 * (value - low) / (high - low):.2f}%"

    return {
        "title": title,
        "bottom": _ROW * len(rows) + 8,
        "ticks": [
            {"x": place(tick), "kind": "zero", "text": "0"}
            if abs(tick) <= 1e-12
            else {"x": place(tick), "kind": "axis", "text": f"{tick:+.4g}"}
            for tick in ticks
        ],
        "rows": [
            {
                "name": name,
                "colour": colour,
                "y": _ROW * number + 28,
                "mean": place(one.mean),
                "low": place(one.low if math.isfinite(one.low) else one.mean),
                "high": place(one.high if math.isfinite(one.high) else one.mean),
            }
            for number, (name, one, colour) in enumerate(rows)
        ],
    }


def _within(band: "pd.DataFrame", least: float, largest: float) -> "pd.DataFrame":
    """A curve with its band cut at the bounds of its values; see `Interval.within`."""
    if not band["mean"].between(least, largest).all():
        return band
    return band.assign(low=band["low"].clip(lower=least), high=band["high"].clip(upper=largest))


def lines(parts: Iterable[ComparableRuns]) -> int:
    """Number of lines of a page's curves; a configuration with a band has three."""
    return sum(
        len(_present(part)) * sum(3 if len(configuration.runs) > 1 else 1 for configuration in part.configurations)
        for part in parts
    )


def _present(part: ComparableRuns) -> list[str]:
    """All columns but the round's and those that mark rounds; first those that are declared as drawn."""
    columns = dict.fromkeys(
        column for configuration in part.configurations for run in configuration.runs for column in run.metrics
    )
    own = part.study.columns if part.study else ()
    marks = {metric for metric in own if metric.marks}
    known: dict[str, Metric] = dict(runs.declared()) | dict(zip(own, own, strict=True))
    return sorted(
        (known.get(column, column) for column in columns if column not in {"round_num", *marks, *part.equal}),
        key=lambda column: not (isinstance(column, Metric) and column.drawn),
    )


def _not_drawn(column: str, bands: "Sequence[pd.DataFrame]") -> str:
    """Why a column is not drawn, in words that others can share; empty if it is."""
    values = {value for band in bands for edge in _EDGES for value in band[edge].dropna().unique()[:2]}
    if not values:
        return "without a finite value"
    if len(values) == 1 and not (isinstance(column, Metric) and column.drawn):
        return f"always {values.pop():g}"
    return "with a single value" if all(len(band) < 2 for band in bands) else ""


def _caption(seeds: Iterable[int]) -> str:
    """Caption that explains lines and bands."""
    seeds = set(seeds)
    several = sorted(seeds - {1})
    if not several:
        return "one seed"
    words = f"{several[0]}" if len(several) == 1 else f"{several[0]} to {several[-1]}"
    return f"line: mean, band: 95% interval over {words} seeds{'; without a band: one seed' if 1 in seeds else ''}"


def _thin(band: "pd.DataFrame", limit: int) -> "pd.DataFrame":
    """Every k-th row with the last one, at most `limit` rows."""
    step = -(-len(band) // limit)
    return band.iloc[(len(band) - 1) % step :: step]


def _curve(band: "pd.DataFrame", is_band: bool) -> dict[str, Any]:

    import numpy as np

    rounds = band.index.to_numpy()
    steps = np.unique(np.diff(rounds))
    place: dict[str, Any] = {"x": _packed(rounds, f"{rounds.dtype.kind}4")}
    if rounds.dtype.kind == "i" and len(steps) <= 1:
        place = {"x0": int(rounds[0]), "dx": int(steps[0]) if len(steps) else 1}
    edges = _EDGES if is_band else _EDGES[:1]
    return {"points": len(band), **place, **{edge: _packed(band[edge].to_numpy(), "f4") for edge in edges}}


def _packed(values, dtype: str) -> dict[str, str]:
    """Numbers as Plotly's typed arrays."""
    content = base64.b64encode(values.astype(f"<{dtype}").tobytes())
    return {"dtype": dtype, "bdata": content.decode("ascii")}
