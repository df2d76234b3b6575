"""The page about runs: what they gave, their curves and their commands, in one HTML file that needs no network."""

import dataclasses
import datetime
import html
import json
import pathlib
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bandits.results import configurations, dynamic_regret, over_tasks, plots, runs, sections
from bandits.results.configurations import Part
from data import files
from data.errors import UsageError
from optimization.study import divergence

_MOST_DIVERGED = 20  # Lines about them.


class Found(NamedTuple):
    """What lies below some folders.

    Attributes:
      runs: Runs that were read.
      waiting: What is to say of runs without a finished round, a sentence each.
      problems: What is to say of runs that could not be read.
    """

    runs: list[runs.Run]
    waiting: list[str]
    problems: list[str]


def write(
    folders: Iterable[pathlib.Path], output: pathlib.Path, title: str = "Runs", reference: str | None = None
) -> list[str]:
    """Writes the page about all runs below some folders, whole; also while they are played, and more than once.

    Args:
      folders: Runs, or folders that hold runs at any depth. Runs without a finished round are counted alone.
      output: Page to write.
      title: Its title.
      reference: What configurations are compared with; see `Part.compared`.

    Returns:
      What could not be read, a sentence each; the page names it, too.

    Raises:
      Failure: If the page cannot be written.
    """
    found = read(folders)
    files.replace(output, page(found, title, reference).encode())
    return found.problems


def read(folders: Iterable[pathlib.Path]) -> Found:
    """Reads all runs below some folders, at any depth; each once."""
    paths: dict[pathlib.Path, pathlib.Path] = {}  # By what they are, as they were named.
    found = Found([], [], [])
    for folder in folders:
        try:
            paths |= {path.resolve(): path for together in runs.find(folder).values() for path in together}
        except UsageError as error:
            found.problems.append(str(error))
    for resolved, path in paths.items():
        try:
            found.runs.append(dataclasses.replace(runs.read(path), folder=resolved))
        except UsageError as error:
            (found.waiting if _waits(path) else found.problems).append(str(error))
    return found


def page(
    found: Found,
    title: str,
    reference: str | None = None,
    top: str = "",
    *,
    has_regret: bool = False,
    is_judged: bool = True,
    named: Callable[[runs.Run], str] = lambda run: "",
) -> str:
    """Returns the page.

    Args:
      found: The runs.
      title: Its title.
      reference: What configurations are compared with; see `Part.compared`.
      top: HTML that precedes all else.
      has_regret: Whether results have the regret to the full-feedback baseline.
      is_judged: Whether the page has verdicts of its own; not where `top` has them.
      named: Returns the name of a configuration by one of its runs; empty for the name by its flags.

    Raises:
      UsageError: If no arm is the reference that is asked for.
    """
    from plotly import offline

    parts = [_renamed(part, named, is_judged) for part in configurations.parts(found.runs)]
    if reference and not any(part.named(reference) for part in parts):
        known = ", ".join(arm.name for part in parts for arm in part.arms)
        raise UsageError(f"--reference={reference} is no configuration of these runs: {known}.")
    lines = plots.lines(parts)
    looks = [plots.styles(part) for part in parts]
    drawn, notes = zip(*(plots.groups(part, lines) for part in parts), strict=True) if parts else ((), ())
    data = [{"arms": look, "groups": groups} for look, groups in zip(looks, drawn, strict=True)]
    return document(
        title,
        plotly=offline.get_plotlyjs(),
        summary=top + _summary(found, parts) + "".join(one.html("h2") for one in over_tasks.sections(parts)),
        parts="\n".join(
            _part(part, look, groups, note, index, reference, is_titled=len(parts) > 1, has_regret=has_regret)
            for index, (part, look, groups, note) in enumerate(zip(parts, looks, drawn, notes, strict=True))
        ),
        details="\n".join(
            _folded(name, parts, section)
            for name, section in (
                ("Flags that differ", sections.flags),
                ("Single runs", sections.single),
                ("Data", sections.data),
                ("Commands", sections.commands),
            )
        ),
        # Within a script element, "<" could end it.
        data=json.dumps(data).replace("<", "\\u003c"),
    )


def document(title: str, summary: str, plotly: str = "", parts: str = "", details: str = "", data: str = "[]") -> str:
    """Returns a page, which needs no network.

    Args:
      title: Its title.
      summary: HTML below it.
      plotly: Plotly's program; empty where there are no curves.
      parts: HTML of the parts, whose curves are in `data`.
      details: HTML of the folded sections.
      data: The curves, as JSON.
    """
    template = string.Template((pathlib.Path(__file__).parent / "template.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=html.escape(title), summary=summary, plotly=plotly, parts=parts, details=details, data=data
    )


def _renamed(part: Part, named: Callable[[runs.Run], str], is_judged: bool) -> Part:
    some = (dataclasses.replace(arm, name=named(arm.runs[0]) or arm.name) for arm in part.arms)
    return dataclasses.replace(part, arms=tuple(some), is_judged=is_judged)


def _waits(folder: pathlib.Path) -> bool:
    """Returns whether a folder is that of a sound run that has no row of metrics yet."""
    path = folder / "metrics.csv"
    try:
        runs.read_json(folder / "config.json")
    except UsageError:
        return False
    return not path.exists() or (path.is_file() and path.read_bytes().count(b"\n") == 1)


def _summary(found: Found, parts: Sequence[Part]) -> str:
    count = sum(len(part.arms) for part in parts)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    words = [f"{_number(len(found.runs), 'run')} in {_number(count, 'configuration')}"]
    if found.waiting:
        words.append(f"{_number(len(found.waiting), 'run')} without a finished round")
    text = f'<p class="summary">{" · ".join([*words, f"written {now}"])}</p>'
    if found.problems:
        items = "".join(f"<li>{html.escape(problem)}</li>" for problem in found.problems)
        text += f'<div class="problems">Left out:<ul>{items}</ul></div>'
    told = list(_diverged(parts))
    for heading, lines in (
        ("Diverged runs, not comparable", [line for line, is_lost in told if is_lost]),
        ("Some clients diverged", [line for line, is_lost in told if not is_lost]),
    ):
        if lines:
            items = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:_MOST_DIVERGED])
            rest = f"and {len(lines) - _MOST_DIVERGED:,} more runs" if len(lines) > _MOST_DIVERGED else ""
            text += f'<div class="problems">{heading}:<ul>{items}</ul>{rest}</div>'
    return text


def _diverged(parts: Iterable[Part]) -> Iterator[tuple[str, bool]]:
    """Yields what is to say of runs in which clients diverged, a line each, and whether the whole run is lost."""
    for part in parts:
        for arm in part.arms:
            for run in arm.runs:
                if told := divergence.told(run.metrics, run.columns):
                    seed = f" (seed {run.flags.get('seed')})" if len(arm.runs) > 1 else ""
                    yield f"{arm.name}{seed}: {told}", divergence.is_lost(run.metrics, run.columns, run.flags)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _part(
    part: Part,
    looks: Sequence[dict],
    groups: Sequence[dict[str, Any]],
    notes: Sequence[str],
    index: int,
    reference: str | None,
    is_titled: bool,
    has_regret: bool,
) -> str:
    """Returns results and curves of arms that can be compared."""
    explained = []
    if part.columns and len(part.arms) > 1:
        explained.append("Sorted by the first result.")
    explained += [f"{metric.about} equals {other.about}." for metric, other in part.equal.items()]
    if any(len(arm.runs) > 1 for arm in part.arms):
        explained.append("Each cell: mean over seeds and 95% interval (Student’s t).")
    if any(len(arm.runs) == 1 for arm in part.arms):
        explained.append("One seed has no interval.")
    if any(arm.role for arm in part.arms):
        explained.append("Dashed marks: uniform policy and full-feedback baseline.")
    if part.has_exact_bounds:
        explained.append(
            "The uniform policy’s reward and the best fixed action’s are computed from labels and rewards. The latter "
            "is optimistically biased: the same examples select the action and value it."
        )
    if any(arm.role == configurations.UNIFORM for arm in part.arms) and any(
        column.evaluated for column in part.columns
    ):
        explained.append("Held-out results of the uniform policy are those of the model that it trained.")
    if has_regret:
        explained.append(
            "Regret is the full-feedback baseline’s first result minus the configuration’s, over common seeds. The "
            "baseline is trained, too, so regret can be negative."
        )
    compared = sections.comparisons(part, reference) if part.is_judged else None
    hidden = sum(not look["shown"] for look in looks)
    rest = (
        f'<p class="hidden">The {plots.SHOWN} best and the references are drawn; press others to add them.</p>'
        if hidden
        else ""
    )
    folded = [
        f'<div class="panels" data-group="{place}"></div>'
        if group["title"] == "Results"
        else f'<details class="curves"><summary>{html.escape(group["title"])} <span>{len(group["panels"])}</span>'
        f'</summary><div class="panels" data-group="{place}"></div></details>'
        for place, group in enumerate(groups)
    ]
    words = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return f"""<section class="part" data-part="{index}">
{f"<h2>{html.escape(part.title)}</h2>" if is_titled else f'<p class="summary">{html.escape(part.title)}</p>'}
<h3>Results</h3>
{sections.results(part, looks, has_regret=has_regret)}
<p class="note">{" ".join(explained)}</p>
{"".join(one.html() for one in dynamic_regret.sections(part)) if has_regret else ""}
{compared.html() if compared else ""}
<h3>Curves</h3>
<div class="legend" role="group" aria-label="Configurations: hide or show"{" hidden" * (len(part.arms) == 1)}></div>
{rest}
{"".join(folded)}
<div class="note">{words}</div>
</section>"""


def _folded(name: str, parts: Sequence[Part], section: Callable[[Part], str]) -> str:
    """Returns a folded section of the page, with a heading a part; nothing if no part has anything to say."""
    found = [(part.title, text) for part in parts if (text := section(part))]
    if not found:
        return ""
    texts = [f"<h3>{html.escape(title)}</h3>{text}" if len(parts) > 1 else text for title, text in found]
    return f"<details><summary>{name}</summary>{''.join(texts)}</details>"
