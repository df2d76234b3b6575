"""Page about runs: results, curves and commands, in one HTML file that needs no network."""

import csv
import dataclasses
import datetime
import functools
import html
import json
import pathlib
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bandits.results import configurations, dynamic_regret, over_tasks, plots, runs, sections, words
from bandits.results.configurations import Part
from data import files
from data.errors import UsageError
from optimization.study import divergence

_MOST_NAMED = 20  # Runs that diverged, or were left out.
_SEARCHES = frozenset(("search", "estimate"))  # Folders of recommendations and reproductions.


class Found(NamedTuple):
    """Runs below some folders.

    Attributes:
      runs: Runs that were read.
      waiting: A sentence for each run without a finished round.
      problems: A sentence for each run that could not be read.
      searches: Runs of searches and of time measurements, which were left out.
    """

    runs: list[runs.Run]
    waiting: list[str]
    problems: list[str]
    searches: list[pathlib.Path]


def write(
    folders: Iterable[pathlib.Path], output: pathlib.Path, title: str = "Runs", reference: str | None = None
) -> list[str]:
    """Writes the page about all runs below some folders, finished or not; replaces an earlier page.

    Args:
      folders: Runs, or folders that hold runs at any depth. Runs without a finished round are counted alone.
      output: Page to write.
      title: Its title.
      reference: What configurations are compared with; see `Part.compared`.

    Returns:
      A sentence for each run that could not be read; the page has them, too.

    Raises:
      Failure: If the page cannot be written.
    """
    found = read(folders, has_searches=True)
    files.replace(output, page(found, title, reference).encode())
    return found.problems


def read(folders: Iterable[pathlib.Path], *, has_searches: bool = False) -> Found:
    """Reads all runs below some folders, at any depth; each once.

    Args:
      folders: Runs, or folders that hold runs.
      has_searches: Whether runs of searches and of time measurements count, even where a folder above is named.
    """
    paths: dict[pathlib.Path, pathlib.Path] = {}  # Resolved path -> path as named.
    found = Found([], [], [], [])
    tuning = functools.cache(_tuning)
    for folder in folders:
        try:
            for path in (path for together in runs.find(folder).values() for path in together):
                if has_searches or not _is_search(path, folder, tuning):
                    paths[path.resolve()] = path
                else:
                    found.searches.append(path)
        except UsageError as error:
            found.problems.append(str(error))
    for resolved, path in paths.items():
        try:
            found.runs.append(dataclasses.replace(runs.read(path), folder=resolved))
        except UsageError as error:
            (found.waiting if _waits(path) else found.problems).append(str(error))
    return found


def _is_search(path: pathlib.Path, folder: pathlib.Path, tuning: Callable[[pathlib.Path], set[str]]) -> bool:
    """Whether a run below a folder is one of a search or of a time measurement."""
    if not _SEARCHES.isdisjoint(path.relative_to(folder).parts[:-1]):
        return True
    grids = (one for one in path.parents if one.name == "runs" and one.is_relative_to(folder))
    return any(path.relative_to(one).as_posix() in tuning(one.parent) for one in grids)


def _tuning(grid: pathlib.Path) -> set[str]:
    """Runs of a grid that selected its best points, where fresh seeds report them."""
    try:
        with open(grid / "results.csv", encoding="utf-8", newline="") as file:
            return {row["run"] for row in csv.DictReader(file) if row.get("used_for") == "tuning"}
    except (OSError, KeyError):
        return set()


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
    """The page as HTML.

    Args:
      found: The runs.
      title: Its title.
      reference: What configurations are compared with; see `Part.compared`.
      top: HTML that precedes all else.
      has_regret: Whether results have the regret to the full-feedback baseline.
      is_judged: Whether the page has verdicts of its own; not where `top` has them.
      named: Returns the name of a configuration by one of its runs; empty for the name by its flags.

    Raises:
      UsageError: If no configuration is the reference.
    """
    from plotly import offline

    parts = [_renamed(part, named, is_judged) for part in configurations.parts(found.runs)]
    if reference and not any(part.named(reference) for part in parts):
        known = "; ".join(configuration.name for part in parts for configuration in part.configurations)
        raise UsageError(f"--reference={reference} is no configuration of these runs: {known}.")
    lines, tasks = plots.lines(parts), over_tasks.sections(parts)
    looks = [plots.styles(part) for part in parts]
    drawn, notes = zip(*(plots.groups(part, lines) for part in parts), strict=True) if parts else ((), ())
    data = [{"configurations": look, "groups": groups} for look, groups in zip(looks, drawn, strict=True)]
    return document(
        title,
        plotly=offline.get_plotlyjs(),
        summary=top + "".join(one.html("h2") for one in tasks if one.rows),
        parts="\n".join(
            _part(part, look, groups, note, index, reference, is_titled=len(parts) > 1, has_regret=has_regret)
            for index, (part, look, groups, note) in enumerate(zip(parts, looks, drawn, notes, strict=True))
        ),
        details="".join(one.html() for one in tasks if not one.rows)
        + _summary(found, parts)
        + "\n".join(
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
    """HTML page that needs no network.

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
    some = (
        dataclasses.replace(configuration, name=named(configuration.runs[0]) or configuration.name)
        for configuration in part.configurations
    )
    return dataclasses.replace(part, configurations=tuple(some), is_judged=is_judged)


def _waits(folder: pathlib.Path) -> bool:
    """Whether a folder belongs to a valid run that has no row of metrics yet."""
    path = folder / "metrics.csv"
    try:
        runs.read_json(folder / "config.json")
    except UsageError:
        return False
    return not path.exists() or (path.is_file() and path.read_bytes().count(b"\n") == 1)


def _summary(found: Found, parts: Sequence[Part]) -> str:
    count = sum(len(part.configurations) for part in parts)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    counts = [f"{words.count(len(found.runs), 'run')} in {words.count(count, 'configuration')}"]
    if found.waiting:
        counts.append(f"{words.count(len(found.waiting), 'run')} without a finished round")
    if found.searches:
        counts.append(f"{words.count(len(found.searches), 'run')} of searches or timing left out (see --searches)")
    text = f'<p class="summary">{" · ".join([*counts, f"written {now}"])}</p>'
    warnings = list(_diverged(parts))
    for heading, lines in (
        ("Left out", found.problems),
        ("Diverged runs, not comparable", [line for line, is_lost in warnings if is_lost]),
        ("Some clients diverged", [line for line, is_lost in warnings if not is_lost]),
    ):
        if lines:
            items = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:_MOST_NAMED])
            rest = f"and {len(lines) - _MOST_NAMED:,} more runs" if len(lines) > _MOST_NAMED else ""
            text += f'<div class="problems">{heading}:<ul>{items}</ul>{rest}</div>'
    return text


def _diverged(parts: Iterable[Part]) -> Iterator[tuple[str, bool]]:
    """A line for each run in which clients diverged, and whether the whole run is lost."""
    for part in parts:
        for configuration in part.configurations:
            for run in configuration.runs:
                if text := divergence.warning(run.metrics, run.columns):
                    seed = f" (seed {run.flags.get('seed')})" if len(configuration.runs) > 1 else ""
                    yield f"{configuration.name}{seed}: {text}", divergence.is_lost(run.metrics, run.columns, run.flags)


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
    """HTML of a part: its finding, the other statistics in a fold, and curves."""
    explained = []
    if part.columns and len(part.configurations) > 1:
        explained.append("Sorted by the first result.")
    explained += [f"{metric.about} equals {other.about}." for metric, other in part.equal.items()]
    if any(len(configuration.runs) > 1 for configuration in part.configurations):
        explained.append("Each cell: mean over seeds and 95% interval (Student’s t, cut at the bounds of rewards).")
    if any(len(configuration.runs) == 1 for configuration in part.configurations):
        explained.append("One seed has no interval.")
    if part.has_exact_bounds:
        explained.append(
            "The uniform policy’s reward and the best fixed action’s are computed from labels and rewards. The latter "
            "is optimistically biased: the same examples select the action and value it."
        )
    if any(configuration.role == configurations.UNIFORM for configuration in part.configurations) and any(
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
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    legend_hidden = " hidden" * (len(part.configurations) == 1)
    return f"""<section class="part" data-part="{index}">
{f"<h2>{html.escape(part.title)}</h2>" if is_titled else f'<p class="summary">{html.escape(part.title)}</p>'}
{sections.summary(part, looks, reference) if part.is_judged else ""}
<details data-print><summary>Other statistics</summary>
{sections.results(part, looks, has_regret=has_regret)}
<p class="note">{" ".join(explained)}</p>
{"".join(one.html() for one in dynamic_regret.sections(part)) if has_regret else ""}
{compared.html() if compared else ""}
</details>
<h3>Curves</h3>
<div class="legend" role="group" aria-label="Configurations: hide or show"{legend_hidden}></div>
{rest}
{"".join(folded)}
<div class="note">{below}</div>
</section>"""


def _folded(name: str, parts: Sequence[Part], section: Callable[[Part], str]) -> str:
    """Folded section with a heading per part; empty without content."""
    found = [(part.title, text) for part in parts if (text := section(part))]
    if not found:
        return ""
    texts = [f"<h3>{html.escape(title)}</h3>{text}" if len(parts) > 1 else text for title, text in found]
    return f"<details><summary>{name}</summary>{''.join(texts)}</details>"
