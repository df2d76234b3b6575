"""The tables of a report, as HTML: results by arm, flags that differ, single runs, the data, commands."""

import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bandits.results import arms, of_runs
from bandits.results.arms import Arm, Part
from bandits.results.plots import DASHES, capital
from optimization.study.metrics import SECONDS, Metric
from optimization.study.results import Run

_ROWS = 1000  # Of single runs and of commands, so that the page stays small.
_SCALES = ("Interval", "Against the uniform policy", "From uniform policy to full feedback")
_FOLDER = "Folder"
_LEFT = ' class="text"'
_WIDTH, _HEIGHT = 150, 22  # Pixels of a picture of where an arm lies.


def results(part: Part, looks: Sequence[Mapping[str, Any]], *, has_regret: bool = False) -> str:
    """Returns a row an arm, the best first: mean and interval of each result, and where it lies.

    With `has_regret` also what each earns less than its ceiling.
    """
    columns, ranked = part.columns, part.ranked()
    look = {id(arm): one for arm, one in zip(part.arms, looks, strict=True)}
    roles = {arm.role for arm in part.arms} - {""}
    has_epsilon = any(_epsilon(arm) for arm in ranked)
    has_scale = bool(columns) and len(ranked) > 1 and bool(roles or any(len(arm.runs) > 1 for arm in ranked))
    digits = {column: decimals([one.mean for arm in ranked if (one := arm.estimate(column))]) for column in columns}
    span = _span(ranked, columns[0]) if has_scale else (0.0, 1.0)
    heads = ["Configuration", "Seeds"]
    scale = _SCALES[2 if len(roles) > 1 else arms.CHANCE in roles]
    for index, column in enumerate(columns):
        heads += [_title(part, column)] + ([scale] if has_scale and index == 0 else [])
    heads += ["Regret to full feedback"] if has_regret else []
    heads += (["Epsilon"] if has_epsilon else []) + ["Rounds"]
    rows = []
    for arm in ranked:
        badge = f' <span class="badge">{arms.ROLES[arm.role]}</span>' if arm.role else ""
        name = f'{_sample(look[id(arm)])}<span class="name">{_breakable(arm.name)}</span>{badge}'
        cells = [f'<th scope="row" data-value="{html.escape(arm.name)}">{name}</th>']
        count = len(arm.runs)
        cells.append(f'<td data-value="{count}">{count if count > 1 else "one seed"}</td>')
        for index, column in enumerate(columns):
            cells.append(_estimate(arm.estimate(column), digits[column]))
            if has_scale and index == 0:
                cells.append(_scale(part, arm, span, look[id(arm)]))
        cells += [_estimate(regret(part, arm), digits[columns[0]] if columns else 0)] if has_regret else []
        cells += ([_privacy(arm)] if has_epsilon else []) + [_rounds(arm)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return table(heads, rows, "results")


def regret(part: Part, arm: Arm) -> arms.Estimate | None:
    """Returns what an arm earns less than its ceiling, by the first result; None where it has none."""
    stand = part.stands.get(arm)
    found = stand.regret(part.columns[0].better or "up") if stand else None
    if not found:
        return None
    return arms.Estimate(*found) if math.isfinite(found.low) else arms.Estimate(found.mean, found.mean, found.mean, 1)


def flags(part: Part) -> str:
    """Returns the flags in which arms differ, a row an arm; empty if there are none."""
    names = arms.differing(part)
    if not names:
        return ""
    rows = [
        f'<tr><th scope="row">{html.escape(arm.name)}</th>{"".join(_cell(arm.flags.get(name)) for name in names)}</tr>'
        for arm in part.arms
    ]
    return table(["Configuration", *(f"--{name}" for name in names)], rows, "flags")


def single(part: Part) -> str:
    """Returns a row a run: what it gave, and its folder, below that of all runs of the part."""
    columns, found = part.columns, [(arm, run) for arm in part.arms for run in arm.runs][:_ROWS]
    count = sum(len(arm.runs) for arm in part.arms)
    base = os.path.commonpath([run.folder.parent for _, run in found])
    titles = [*(_title(part, column) for column in columns), "Median seconds a round"]
    values = [[of_runs.outcome(run, column) for column in columns] + [_seconds(run)] for _, run in found]
    digits = [decimals([value for value in several if value is not None]) for several in zip(*values, strict=True)]
    rows = []
    for (arm, run), numbers in zip(found, values, strict=True):
        cells = [_cell(run.flags.get("seed")), _cell(int(run.metrics["round_num"].iloc[-1]))]
        cells += [_cell(value, of) for value, of in zip(numbers, digits, strict=True)]
        cells.append(f'<td class="text">{html.escape(os.path.relpath(run.folder, base))}</td>')
        rows.append(f'<tr><th scope="row">{html.escape(arm.name)}</th>{"".join(cells)}</tr>')
    listed = table(["Configuration", "Seed", "Rounds", *titles, _FOLDER], rows)
    return f"<p>Folders lie in {html.escape(base)}.</p>{listed}{_more(count)}"


def _seconds(run: Run) -> float | None:
    return float(run.metrics[SECONDS].median()) if SECONDS in run.metrics else None


def data(part: Part) -> str:
    """Returns what became of the data, once for all arms of which it is the same; empty where nothing is recorded."""
    together: dict[str, list[str]] = {}
    reports: dict[str, Mapping[str, Any]] = {}
    for arm in part.arms:
        if report := arm.runs[0].data_report:
            # Of one content, a file's report has its form, and a frame's has none.
            key = str(report.get(arms.CONTENT) or json.dumps(report))
            together.setdefault(key, []).append(arm.name)
            reports.setdefault(key, report)
    whose = ("" if len(together) == 1 else f"<h4>{html.escape(', '.join(names))}</h4>" for names in together.values())
    return "".join(head + _nested(report) for head, report in zip(whose, reports.values(), strict=True))


def commands(part: Part) -> str:
    """Returns the command of each arm; of seeds whose commands differ in nothing else, the first's."""
    items = []
    for arm in part.arms[:_ROWS]:
        first, *others = arm.runs
        seeds = ", ".join(str(run.flags.get("seed")) for run in others if run.command != first.command)
        more = f"<p>The same with seed {html.escape(seeds)}.</p>" if seeds else ""
        command = f"<code>{html.escape(first.command)}</code>"
        items.append(f"<div><dt>{html.escape(arm.name)}</dt><dd>{command}{more}</dd></div>")
    return f"<dl>{''.join(items)}</dl>" + _more(len(part.arms))


def table(heads: Sequence[str], rows: Sequence[str], kind: str = "", text: Sequence[str] = (*_SCALES, _FOLDER)) -> str:
    """Returns a table.

    Args:
      heads: Titles of its columns.
      rows: HTML of its rows.
      kind: Its class.
      text: Titles of the columns whose cells are words.
    """
    head = "".join(
        f'<th scope="col"{_LEFT * (title in text)}><button>{html.escape(title)}</button></th>' for title in heads
    )
    body = "\n".join(rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _more(count: int) -> str:
    return f"<p>The first {_ROWS:,} of {count:,}.</p>" if count > _ROWS else ""


def _title(part: Part, column: Metric) -> str:
    title = capital(column.about)
    if not column.recent:
        return title
    found = [run.metrics[column].count() for arm in part.arms for run in arm.runs if column in run.metrics]
    tenths = {of_runs.tenth(int(count)) for count in found}
    if len(tenths) > 1:
        return f"{title}, last tenth of the rounds"
    return f"{title}, last {count} rounds" if (count := tenths.pop()) > 1 else f"{title}, last round"


def decimals(values: Sequence[float]) -> int:
    """Returns how many decimals give the largest of some numbers four digits."""
    largest = max((abs(value) for value in values), default=0.0)
    return min(6, max(0, 3 - math.floor(math.log10(largest)))) if largest else 1


def _estimate(one: arms.Estimate | None, digits: int) -> str:
    if one is None:
        return '<td data-value="">–</td>'
    interval = f"<small>{one.low:.{digits}f} to {one.high:.{digits}f}</small>" if one.seeds > 1 else ""
    return f'<td data-value="{one.mean!r}"><b>{one.mean:.{digits}f}</b>{interval}</td>'


def _span(ranked: Sequence[Arm], column: str) -> tuple[float, float]:
    """Returns the ends of the scale on which arms are drawn: of all means, and of intervals that are not much wider."""
    found = [one for arm in ranked if (one := arm.estimate(column))]
    lowest, highest = min(one.mean for one in found), max(one.mean for one in found)
    width = (highest - lowest) or abs(highest) or 1.0
    low = max(lowest - width, min(one.low for one in found))
    high = min(highest + width, max(one.high for one in found))
    return low - 0.05 * width, high + 0.05 * width


def _scale(part: Part, arm: Arm, span: tuple[float, float], look: Mapping[str, Any]) -> str:
    """Returns a picture of an arm's mean and interval beside its chance and ceiling, and the same in words."""
    one = arm.estimate(part.columns[0])
    if one is None:
        return '<td data-value=""></td>'

    def place(value: float) -> str:
        return f"{_WIDTH * min(1.0, max(0.0, (value - span[0]) / (span[1] - span[0]))):.1f}"

    middle = _HEIGHT // 2
    marks, bounds = "", part.bounds(arm)
    for role, value in part.marks(arm).items():
        x = place(value)
        marks += f'<line class="{role}" x1="{x}" x2="{x}" y1="1" y2="{_HEIGHT - 1}"/>'
    # An interval that goes on beyond the scale ends in an arrow.
    arrows = f'<path d="M7 {middle - 5}L0 {middle}L7 {middle + 5}"/>' * (one.low < span[0])
    arrows += f'<path d="M{_WIDTH - 7} {middle - 5}L{_WIDTH} {middle}L{_WIDTH - 7} {middle + 5}"/>' * (
        one.high > span[1]
    )
    return (
        f'<td class="scale" data-value="{one.mean!r}"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'aria-hidden="true"><line class="axis" x2="{_WIDTH}" y1="{middle}" y2="{middle}"/>{marks}'
        f'<g stroke="{look["colour"]}" fill="none">{arrows}'
        f'<line class="interval" x1="{place(one.low)}" x2="{place(one.high)}" y1="{middle}" y2="{middle}"/>'
        f'<circle cx="{place(one.mean)}" cy="{middle}" r="4" fill="{look["colour"]}"/></g></svg>'
        f"<small>{html.escape(part.place(arm))}</small>{f'<small>{html.escape(bounds)}</small>' * bool(bounds)}</td>"
    )


def _sample(look: Mapping[str, Any]) -> str:
    """Returns a piece of an arm's line."""
    line = f'<line x2="28" y1="4" y2="4" stroke="{look["colour"]}" stroke-dasharray="{DASHES[look["dash"]]}"/>'
    return f'<svg class="sample" aria-hidden="true">{line}</svg>'


def _breakable(name: str) -> str:
    """Returns a name as HTML that may be broken after the parts of its words."""
    return html.escape(name).replace("_", "_<wbr>").replace("/", "/<wbr>")


def _epsilon(arm: Arm) -> float | None:
    found = [run.privacy.get("epsilon") for run in arm.runs]
    return max((value for value in found if isinstance(value, int | float)), default=None)


def _privacy(arm: Arm) -> str:
    """Returns the epsilon of an arm, the largest of its runs, with what it assumes and what is proven."""
    epsilon = _epsilon(arm)
    if epsilon is None:
        return '<td data-value="">none</td>'
    run = next(run for run in arm.runs if run.privacy.get("epsilon") == epsilon)
    words = [f"delta {run.privacy['delta']:.2g}"] if run.privacy.get("delta") else []
    if assumed := "; ".join(run.privacy.get("epsilon_assumes", ())):
        words.append(f"assumes {assumed}")
        if proven := run.privacy.get("epsilon_proven"):
            words.append(f"proven: {proven:.4g}")
    lines = "".join(f"<small>{html.escape(word)}</small>" for word in words)
    return f'<td class="epsilon" data-value="{epsilon!r}"><b>{epsilon:.4g}</b>{lines}</td>'


def _rounds(arm: Arm) -> str:
    counts = sorted({int(run.metrics["round_num"].iloc[-1]) for run in arm.runs})
    planned = arm.flags.get("total_rounds")
    text = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    more = f"<small>of {planned:,}</small>" if isinstance(planned, int) and counts[0] < planned else ""
    return f'<td data-value="{counts[-1]}">{text}{more}</td>'


def _cell(value: Any, digits: int | None = None) -> str:
    """Returns a cell; of a number, so many decimals."""
    if value is None:
        return '<td data-value="">–</td>'
    if isinstance(value, bool):
        return f'<td class="text">{str(value).lower()}</td>'
    if isinstance(value, int | float):
        return f'<td data-value="{value!r}">{value if digits is None else f"{value:.{digits}f}"}</td>'
    return f'<td class="text">{html.escape(str(value))}</td>'


def _nested(value: Any) -> str:
    """Returns a value of a JSON file as nested lists, and of objects in a list as a table."""
    if not value and isinstance(value, Mapping | list):
        return "–"
    if isinstance(value, Mapping):
        items = (f"<div><dt>{html.escape(str(name))}</dt><dd>{_nested(one)}</dd></div>" for name, one in value.items())
        return f'<dl class="nested">{"".join(items)}</dl>'
    if isinstance(value, list) and all(isinstance(one, Mapping) for one in value):
        heads = list(dict.fromkeys(name for one in value for name in one))
        return table(heads, [f"<tr>{''.join(_cell(one.get(name)) for name in heads)}</tr>" for one in value])
    if isinstance(value, list):
        return html.escape(", ".join(one if isinstance(one, str) else json.dumps(one) for one in value))
    return html.escape(value if isinstance(value, str) else json.dumps(value))
