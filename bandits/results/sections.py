"""The sections of a page about runs: results, comparisons, scores over tasks, flags, single runs, data and commands."""

import html
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bandits.results import configurations, runs, tables, words
from bandits.results.comparison import Comparison
from bandits.results.configurations import ConfigurationResults, Part
from bandits.results.plots import DASHES, capital
from bandits.results.tables import Cell, Section
from optimization.study.intervals import Interval
from optimization.study.metrics import SECONDS, Metric
from optimization.study.results import Run

_ROWS = 1000  # Of single runs and of commands, so that the page stays small.
_SCALES = ("Interval", "Against the uniform policy", "From uniform policy to full feedback")
_WIDTH, _HEIGHT = 150, 22  # Pixels of a picture of an interval.
_COMPARED = (
    "Configuration",
    "Compared with",
    "Seeds",
    "Difference",
    "Holm-adjusted p",
    "Sign-flip test, Holm-adjusted p",
    "Win rate",
    "Minimum detectable difference (80% power)",
    "Seeds required",
)
_CLIENTS, _VERDICT = "Greedy policy, over clients", "Verdict"


def results(part: Part, looks: Sequence[Mapping[str, Any]], *, has_regret: bool = False) -> str:
    """Returns a row for each configuration, the best first: mean and interval of each result, and its baselines.

    With `has_regret` also the regret to the full-feedback baseline.
    """
    columns, ranked = part.columns, part.ranked()
    look = {id(arm): one for arm, one in zip(part.arms, looks, strict=True)}
    roles = {arm.role for arm in part.arms} - {""}
    has_epsilon = any(_epsilon(arm) is not None for arm in ranked)
    has_scale = bool(columns) and len(ranked) > 1 and bool(roles or any(len(arm.runs) > 1 for arm in ranked))
    digits = {
        column: tables.decimals([one.mean for arm in ranked if (one := arm.estimate(column))]) for column in columns
    }
    span = _span(ranked, columns[0]) if has_scale else (0.0, 1.0)
    heads = ["Configuration", "Seeds", *(_title(part, column) for column in columns)]
    if has_scale:
        heads.insert(3, _SCALES[2 if len(roles) > 1 else configurations.UNIFORM in roles])
    heads += ["Regret to full feedback"] * has_regret + ["Epsilon"] * has_epsilon + ["Rounds"]
    rows = []
    for arm in ranked:
        badge = f' <span class="badge">{configurations.ROLES[arm.role]}</span>' if arm.role else ""
        name = f'{_sample(look[id(arm)])}<span class="name">{_breakable(arm.name)}</span>{badge}'
        count = len(arm.runs)
        cells = [Cell(arm.name, arm.name, markup=name), Cell(str(count) if count > 1 else "one seed", count)]
        cells += [tables.interval(arm.estimate(column), digits[column]) for column in columns]
        if has_scale:
            cells.insert(3, _scale(part, arm, span, look[id(arm)]["colour"]))
        if has_regret:
            cells.append(tables.interval(regret(part, arm), digits[columns[0]] if columns else 0))
        rows.append(cells + [_privacy(arm)] * has_epsilon + [_rounds(arm)])
    return tables.html(heads, rows, "results", _SCALES)


def regret(part: Part, arm: ConfigurationResults) -> Interval | None:
    """Returns a configuration's regret to its full-feedback baseline, by the first result; None where it has none."""
    standing = part.stands.get(arm)
    return standing.regret(part.columns[0].better or "up") if standing else None


def comparisons(part: Part, wanted: str | None) -> Section | None:
    """Returns the comparisons of a part's configurations with one of them; None if there is nothing to compare.

    Args:
      part: The configurations.
      wanted: The reference; see `Part.compared`.
    """
    compared = part.compared(wanted)
    if not compared:
        return None
    if not any(one.is_judged for *_, one in compared):
        return Section("Comparisons", notes=[words.ONE_SEED])
    clients = [runs.difference_over_clients(arm.runs, other.runs) for arm, other, _ in compared]
    digits = tables.decimals([one.difference for *_, one in compared if math.isfinite(one.difference)])
    rows = []
    for (*_, one), over_clients in zip(compared, clients, strict=True):
        few = f"{over_clients.size} clients: too few for an interval" if over_clients else ""
        needed = f"{one.seeds_needed:,}" if math.isfinite(one.seeds_needed) else "many"
        cells = [
            one.arm,
            one.reference,
            one.pairs,
            tables.interval(Interval(one.difference, one.low, one.high, one.pairs), digits, "+"),
            tables.number(one.adjusted_p, words.p_value(one.adjusted_p)),
            tables.number(one.sign_flip_adjusted_p, words.p_value(one.sign_flip_adjusted_p)),
            tables.number(one.superiority, f"{one.superiority:.0%}"),
            tables.number(one.detectable, f"{one.detectable:.2g}"),
            tables.number(one.seeds_needed, needed),
        ]
        cells += [tables.interval(over_clients, digits, "+", few)] * any(clients)
        rows.append([*cells, Cell(words.verdict(one), notes=one.notes, kind="text")])
    heads = [*_COMPARED, *[_CLIENTS] * any(clients), _VERDICT]
    has_interval = any(one and math.isfinite(one.low) for one in clients)
    notes = [_about(part, compared, has_interval)]
    return Section("Comparisons", heads, rows, notes, left=(_COMPARED[1], _VERDICT))


def _about(
    part: Part, compared: Sequence[tuple[ConfigurationResults, ConfigurationResults, Comparison]], has_interval: bool
) -> str:
    """Returns the metric of the comparisons, and what their intervals are over."""
    some = [run for arm, *_ in compared for run in arm.runs]
    told = [
        f"Metric: {part.columns[0].about[:1].lower()}{part.columns[0].about[1:]}.",
        words.family(one for *_, one in compared),
        configurations.what_seeds_vary(some),
        words.what_intervals_are_over(runs.evaluated_clients(some) if has_interval else ""),
    ]
    shown = {arm for *both, _ in compared for arm in both}
    if left := sum(not arm.role for arm in part.arms) - len(shown):
        told.append(f"Not compared, as data, rewards, rounds or cohorts differ: {left}.")
    return " ".join(told)


def flags(part: Part) -> str:
    """Returns the flags in which configurations differ, a row each; empty if there are none."""
    names = configurations.differing(part)
    rows = [[arm.name, *(arm.flags.get(name) for name in names)] for arm in part.arms]
    return tables.html(["Configuration", *(f"--{name}" for name in names)], rows, "flags") if names else ""


def single(part: Part) -> str:
    """Returns a row a run: its results, and its folder, below that of all runs of the part."""
    columns, found = part.columns, [(arm, run) for arm in part.arms for run in arm.runs]
    base = os.path.commonpath([run.folder.parent for _, run in found])
    titles = [*(_title(part, column) for column in columns), "Median seconds a round"]
    values = [[*(runs.final_value(run, column) for column in columns), _seconds(run)] for _, run in found[:_ROWS]]
    digits = [
        tables.decimals([value for value in several if value is not None]) for several in zip(*values, strict=True)
    ]
    rows = []
    for (arm, run), numbers in zip(found, values, strict=False):
        cells = [arm.name, run.flags.get("seed"), int(run.metrics["round_num"].iloc[-1])]
        cells += [tables.number(value, f"{value or 0:.{of}f}") for value, of in zip(numbers, digits, strict=True)]
        rows.append([*cells, os.path.relpath(run.folder, base)])
    listed = tables.html(["Configuration", "Seed", "Rounds", *titles, "Folder"], rows, left=("Folder",))
    return f"<p>Folders lie in {html.escape(base)}.</p>{listed}{_more(len(found))}"


def _seconds(run: Run) -> float | None:
    return float(run.metrics[SECONDS].median()) if SECONDS in run.metrics else None


def data(part: Part) -> str:
    """Returns the data reports, each once for all configurations that share it; empty where there is none."""
    together: dict[str, tuple[Mapping[str, Any], list[str]]] = {}
    for arm in part.arms:
        if report := arm.runs[0].data_report:
            # Of one content, a file's report has its form, and a frame's has none.
            key = str(report.get(configurations.CONTENT) or json.dumps(report))
            together.setdefault(key, (report, []))[1].append(arm.name)
    heads = [f"<h4>{html.escape(', '.join(names))}</h4>" * (len(together) > 1) for _, names in together.values()]
    return "".join(head + _nested(report) for head, (report, _) in zip(heads, together.values(), strict=True))


def commands(part: Part) -> str:
    """Returns the command of each configuration; of seeds whose commands differ in nothing else, the first's."""
    items = []
    for arm in part.arms[:_ROWS]:
        first, *others = arm.runs
        seeds = ", ".join(str(run.flags.get("seed")) for run in others if run.command != first.command)
        more = f"<p>The same with seed {html.escape(seeds)}.</p>" if seeds else ""
        command = f"<code>{html.escape(first.command)}</code>"
        items.append(f"<div><dt>{html.escape(arm.name)}</dt><dd>{command}{more}</dd></div>")
    return f"<dl>{''.join(items)}</dl>" + _more(len(part.arms))


def _more(count: int) -> str:
    return f"<p>The first {_ROWS:,} of {count:,}.</p>" if count > _ROWS else ""


def _title(part: Part, column: Metric) -> str:
    title = capital(column.about)
    if not column.recent:
        return title
    found = [run.metrics[column].count() for arm in part.arms for run in arm.runs if column in run.metrics]
    windows = {runs.trailing_window(int(count)) for count in found}
    if len(windows) > 1:
        return f"{title}, last tenth of the rounds"
    return f"{title}, last {count} rounds" if (count := windows.pop()) > 1 else f"{title}, last round"


def _span(ranked: Iterable[ConfigurationResults], column: str) -> tuple[float, float]:
    """Returns the ends of the scale of the pictures: of all means, and of intervals that are not much wider."""
    found = [one for arm in ranked if (one := arm.estimate(column))]
    means = [one.mean for one in found]
    width = (max(means) - min(means)) or abs(max(means)) or 1.0
    low = min([*means, *(one.low for one in found if one.size > 1)])
    high = max([*means, *(one.high for one in found if one.size > 1)])
    return max(min(means) - width, low) - 0.05 * width, min(max(means) + width, high) + 0.05 * width


def _scale(part: Part, arm: ConfigurationResults, span: tuple[float, float], colour: str) -> Cell:
    """Returns a picture of a configuration's mean and interval beside its baselines, and the same in words."""
    one = arm.estimate(part.columns[0])
    if one is None:
        return Cell("", "")
    low, high = (one.low, one.high) if one.size > 1 else (one.mean, one.mean)

    def place(value: float) -> str:
        return f"{_WIDTH * min(1.0, max(0.0, (value - span[0]) / (span[1] - span[0]))):.1f}"

    middle = _HEIGHT // 2
    marks = ""
    for role, value in part.marks(arm).items():
        marks += f'<line class="{role}" x1="{place(value)}" x2="{place(value)}" y1="1" y2="{_HEIGHT - 1}"/>'
    # An interval that goes on beyond the scale ends in an arrow.
    arrows = f'<path d="M7 {middle - 5}L0 {middle}L7 {middle + 5}"/>' * (low < span[0])
    arrows += f'<path d="M{_WIDTH - 7} {middle - 5}L{_WIDTH} {middle}L{_WIDTH - 7} {middle + 5}"/>' * (high > span[1])
    picture = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" aria-hidden="true">'
        f'<line class="axis" x2="{_WIDTH}" y1="{middle}" y2="{middle}"/>{marks}'
        f'<g stroke="{colour}" fill="none">{arrows}'
        f'<line class="interval" x1="{place(low)}" x2="{place(high)}" y1="{middle}" y2="{middle}"/>'
        f'<circle cx="{place(one.mean)}" cy="{middle}" r="4" fill="{colour}"/></g></svg>'
    )
    notes = [part.place(arm), *filter(None, [part.bounds(arm)])]
    return Cell("", one.mean, notes, picture, "scale")


def _sample(look: Mapping[str, Any]) -> str:
    """Returns a piece of a configuration's line."""
    line = f'<line x2="28" y1="4" y2="4" stroke="{look["colour"]}" stroke-dasharray="{DASHES[look["dash"]]}"/>'
    return f'<svg class="sample" aria-hidden="true">{line}</svg>'


def _breakable(name: str) -> str:
    """Returns a name as HTML that may be broken after the parts of its words."""
    return html.escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


class _Spent(NamedTuple):
    """The largest epsilon of a configuration's runs, and the record that it is from."""

    epsilon: float
    record: Mapping[str, Any]


def _epsilon(arm: ConfigurationResults) -> _Spent | None:
    found = [
        _Spent(one["epsilon"], one) for run in arm.runs if isinstance((one := run.privacy).get("epsilon"), int | float)
    ]
    return max(found, key=lambda one: one.epsilon) if found else None


def _privacy(arm: ConfigurationResults) -> Cell:
    """Returns the epsilon of a configuration, with what it assumes and what is proven."""
    if (spent := _epsilon(arm)) is None:
        return Cell("none", "")
    notes = [f"delta {spent.record['delta']:.2g}"] if spent.record.get("delta") else []
    if assumed := "; ".join(spent.record.get("epsilon_assumes", ())):
        notes.append(f"assumes {assumed}")
        if proven := spent.record.get("epsilon_proven"):
            notes.append(f"proven: {proven:.4g}")
    shown = f"{spent.epsilon:.4g}"
    return Cell(shown, spent.epsilon, notes, f"<b>{shown}</b>", "epsilon")


def _rounds(arm: ConfigurationResults) -> Cell:
    counts = sorted({int(run.metrics["round_num"].iloc[-1]) for run in arm.runs})
    planned = arm.flags.get("total_rounds")
    shown = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    is_short = isinstance(planned, int) and counts[0] < planned
    return Cell(shown, counts[-1], [f"of {planned:,}"] if is_short else [])


def _nested(value: Any) -> str:
    """Returns a value of a JSON file as nested lists, and of objects in a list as a table."""
    if not value and isinstance(value, Mapping | list):
        return tables.MISSING
    if isinstance(value, Mapping):
        items = (f"<div><dt>{html.escape(str(name))}</dt><dd>{_nested(one)}</dd></div>" for name, one in value.items())
        return f'<dl class="nested">{"".join(items)}</dl>'
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        heads = list(dict.fromkeys(name for one in value for name in one))
        return tables.html(heads, [[one.get(name) for name in heads] for one in value])
    if isinstance(value, list):
        return html.escape(", ".join(one if isinstance(one, str) else json.dumps(one) for one in value))
    return html.escape(value if isinstance(value, str) else json.dumps(value))
