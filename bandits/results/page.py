"""Page about runs: results, curves and commands, in one HTML file that needs no network."""

import csv
import dataclasses
import datetime
import functools
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from bandits.results import configurations, dynamic_regret, over_tasks, phrases, plots, runs, sections, tables
from bandits.results.configuration import Baseline
from bandits.results.configurations import ComparableRuns
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
      reference: What configurations are compared with; see `ComparableRuns.compared`.

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
    lines = plots.lines(parts)
    shown = [_part(part, lines, reference, has_regret=has_regret) for part in parts]
    return document(
        title,
        top,
        plotly=offline.get_plotlyjs(),
        over_tasks=over_tasks.sections(parts),
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
    limits = {"most_shown": plots.SHOWN, "most_named": _MOST_NAMED, "most_rows": sections.ROWS}
    return (
        tables.templates()
        .get_template("page.html.jinja")
        .render({**nothing, **limits, **content, "title": title, "top": top})
    )


def _part(part: ComparableRuns, lines: int, reference: str | None, *, has_regret: bool) -> dict[str, Any]:
    """What the page shows of a part, for the template."""
    styles = plots.styles(part)
    groups, notes = plots.groups(part, lines)
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
    sentences += [f"{metric.about} equals {other.about}." for metric, other in part.equal.items()]
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


def _waits(folder: pathlib.Path) -> bool:
    """Whether a folder belongs to a valid run that has no row of metrics yet."""
    path = folder / "metrics.csv"
    try:
        runs.read_json(folder / "config.json")
    except UsageError:
        return False
    return not path.exists() or (path.is_file() and path.read_bytes().count(b"\n") == 1)


def _counts(found: Found, parts: Sequence[ComparableRuns]) -> list[str]:
    """Numbers of runs and configurations, and the time."""
    count = sum(len(part.configurations) for part in parts)
    counts = [f"{phrases.count(len(found.runs), 'run')} in {phrases.count(count, 'configuration')}"]
    if found.waiting:
        counts.append(f"{phrases.count(len(found.waiting), 'run')} without a finished round")
    if found.searches:
        counts.append(f"{phrases.count(len(found.searches), 'run')} of searches or timing left out (see --searches)")
    return [*counts, datetime.datetime.now(datetime.UTC).strftime("written %Y-%m-%d %H:%M UTC")]


def _problems(found: Found, parts: Sequence[ComparableRuns]) -> list[tuple[str, list[str]]]:
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
