"""A report's comparisons of configurations with one of them, as HTML."""

import html
import math
from typing import NamedTuple

from bandits.results import of_runs, tables, words
from bandits.results.arms import Arm, Part, what_seeds_vary
from bandits.results.comparison import Comparison

_HEADS = (
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


class _Row(NamedTuple):
    arm: Arm
    reference: Arm
    found: Comparison

    @property
    def over_clients(self):
        return of_runs.over_clients(self.arm.runs, self.reference.runs)


def section(part: Part, wanted: str | None) -> str:
    """Returns the comparisons of a part's arms, and in words what they are; empty if there is nothing to compare.

    Args:
      part: The arms.
      wanted: What they are compared with; see `Part.compared`.
    """
    rows = [_Row(*one) for one in part.compared(wanted)]
    if not rows:
        return ""
    if not any(row.found.is_judged for row in rows):
        return f"<h3>Comparisons</h3><p class='note'>{html.escape(words.ONE_SEED)}</p>"
    clients = {row.arm: row.over_clients for row in rows}
    has_clients = any(clients.values())
    digits = tables.decimals([row.found.difference for row in rows if math.isfinite(row.found.difference)])
    heads = [*_HEADS, *[_CLIENTS] * has_clients, _VERDICT]
    lines = []
    for row in rows:
        one = row.found
        cells = [
            f'<th scope="row">{html.escape(one.arm)}</th>',
            f'<td class="text">{html.escape(one.reference)}</td>',
            f'<td data-value="{one.pairs}">{one.pairs}</td>',
            _interval(one.difference, one.low, one.high, digits),
            _p(one.adjusted_p),
            _p(one.sign_flip_adjusted_p),
            _number(one.superiority, f"{one.superiority:.0%}"),
            _number(one.detectable, f"{one.detectable:.2g}"),
            _number(one.seeds_needed, f"{one.seeds_needed:,}" if math.isfinite(one.seeds_needed) else "many"),
        ]
        if has_clients:
            found = clients[row.arm]
            few = f"{found.size} clients: too few for an interval" if found else ""
            ends = (found.mean, found.low, found.high) if found else (math.nan, math.nan, math.nan)
            cells.append(_interval(*ends, digits, few))
        notes = "".join(f"<small>{html.escape(note)}</small>" for note in one.notes)
        cells.append(f'<td class="text">{html.escape(words.verdict(one))}{notes}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    table = tables.table(heads, lines, text=(_HEADS[1], _VERDICT))
    has_interval = any(one and math.isfinite(one.low) for one in clients.values())
    return f"<h3>Comparisons</h3>{table}<p class='note'>{html.escape(_told(part, rows, has_interval))}</p>"


def _told(part: Part, rows: list[_Row], has_interval: bool) -> str:
    """Returns what the table is about, and what its intervals are over."""
    runs = [run for row in rows for run in row.arm.runs]
    told = [f"Metric: {part.columns[0].about[:1].lower()}{part.columns[0].about[1:]}."]
    told.append(words.family(row.found for row in rows))
    told.append(what_seeds_vary(runs))
    told.append(words.what_intervals_are_over(of_runs.evaluated(runs) if has_interval else ""))
    if left := len([arm for arm in part.arms if not arm.role]) - len(
        {row.arm for row in rows} | {r.reference for r in rows}
    ):
        told.append(f"Not compared, as data, rewards, rounds or cohorts differ: {left}.")
    return " ".join(told)


def _interval(value: float, low: float, high: float, digits: int, otherwise: str = "") -> str:
    """Returns a cell with a difference and its interval, or what is to say where there is none."""
    if math.isnan(value):
        return '<td data-value="">–</td>'
    ends = f"{low:+.{digits}f} to {high:+.{digits}f}" if math.isfinite(low) else otherwise
    small = f"<small>{ends}</small>" if ends else ""
    return f'<td data-value="{value!r}"><b>{value:+.{digits}f}</b>{small}</td>'


def _p(p: float) -> str:
    return _number(p, words.p_value(p))


def _number(value: float, text: str) -> str:
    return '<td data-value="">–</td>' if math.isnan(value) else f'<td data-value="{value!r}">{html.escape(text)}</td>'
