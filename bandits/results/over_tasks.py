"""What a report says of arms over several tasks, as HTML and for the terminal."""

import html
from collections import Counter
from collections.abc import Sequence

from bandits.results import tables, tasks
from bandits.results.arms import Part
from bandits.results.tasks import OverTasks
from optimization.study.metrics import Metric


def found(parts: Sequence[Part]) -> list[tuple[Metric, OverTasks]]:
    """Returns, by what arms are ranked by, those that several tasks have between a chance and a ceiling."""
    titles = Counter(part.title for part in parts)
    together: dict[Metric, list[tasks.Scale]] = {}
    for number, part in enumerate(parts, 1):
        for scale in part.scales():
            # Tables can have one name and other content.
            name = part.title if titles[part.title] == 1 else f"{part.title}, {number}"
            together.setdefault(part.columns[0], []).append(scale._replace(task=name))
    every = ((column, tasks.over(scales, column.better or "up")) for column, scales in together.items())
    return [(column, one) for column, one in every if one]


def section(parts: Sequence[Part]) -> str:
    """Returns the section "Over tasks" of the page; empty where no arm lies on two tasks."""
    told = []
    for column, one in found(parts):
        about = f"{'; '.join(one.tasks)}. Metric: {column.about[:1].lower()}{column.about[1:]}. {tasks.WHAT_IT_IS}"
        if one.scores:
            told += [_table(one), f'<p class="note">{html.escape(about)}</p>']
        if one.left_out:
            start = "Left out" if one.scores else "Inconclusive"
            told.append(f'<p class="note">{start}: {html.escape("; ".join(one.left_out))}.</p>')
    return f"<section><h2>Over tasks</h2>{''.join(told)}</section>" if told else ""


def lines(parts: Sequence[Part]) -> list[str]:
    """Returns the same for the terminal."""
    return [line for _, one in found(parts) for line in tasks.lines(one)]


def _table(one: OverTasks) -> str:
    digits = tables.decimals([score.mean for score in one.scores.values()])
    rows = [
        f'<tr><th scope="row">{html.escape(arm)}</th><td data-value="{one.seeds[arm]}">{one.seeds[arm]}</td>'
        f'<td data-value="{score.mean!r}"><b>{score.mean:.{digits}f}</b>'
        f"<small>{score.low:.{digits}f} to {score.high:.{digits}f}</small></td></tr>"
        for arm, score in one.scores.items()
    ]
    return tables.table(["Configuration", "Seeds of each task", "Normalized score"], rows)
