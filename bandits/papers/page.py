"""The page of results, generated from the records alone: verdicts, tables and the scoreboard. Its text is `page.md`."""

import collections
import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bandits.papers import claims, figures, records, results, scoreboard
from bandits.papers.plan import Figure
from bandits.papers.scoreboard import Judged, Line
from bandits.results import baselines, phrases, runs, sections, tables
from bandits.results.configuration import Baseline

_TESTS = (*sections.COMPARED[:2], *sections.COMPARED[4:], sections.VERDICT)  # Differences are in the other table.
_TEMPLATE = pathlib.Path(__file__).with_name("page.md")
_Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # Heads and rows.


def made(folder: pathlib.Path) -> str:
    """The page in Markdown.

    Args:
      folder: Folder of the records; pictures that lie beside a figure's records are shown.

    Raises:
      UsageError: If a file holds no records.
    """
    import jinja2

    paper, small = ({name: _read(one, folder) for name, one in figures.load(scale).items()} for scale in figures.SCALES)
    own = [judged for judged in paper.values() if judged.figure.own]
    shown = [one for judged in paper.values() if not judged.figure.own for one in _shown(judged, small)]
    first = {judged.figure.name: judged for judged in reversed(shown)}  # The paper's own scale comes first.
    lines = [line for judged in shown if first[judged.figure.name] is judged for line in judged.lines]

    def picture(judged: Judged) -> str:
        path = records.path_of(judged.figure, folder).with_suffix(".png")
        return f"{folder.name}/{judged.figure.scale}/{path.name}" if path.exists() else ""

    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters |= {one.__name__.strip("_"): one for one in _FILTERS} | {"picture": picture}
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        own=own,
        over_tasks=[
            sections.over_tasks_section(_spaced(name), found).markdown() for name, found in _scores(own).items()
        ],
        statuses=list(claims.STATUSES),
        counts=[(*key, *map(str, scoreboard.counts(some).values())) for key, some in scoreboard.by_data(lines).items()],
        without_small=figures.without_small(),
        papers=runs.grouped(shown, lambda judged: judged.figure.text),
        table=lambda heads, rows: f"{tables.markdown(heads, rows)}\n",
        count=phrases.count,
    )


def strays(folder: pathlib.Path) -> list[str]:
    """Files and rows of records that the page does not show, in words."""
    found: list[str] = []
    left = {path for scale in figures.SCALES for path in folder.glob(f"{scale}/*.csv")}
    for figure in itertools.chain(*(figures.load(scale).values() for scale in figures.SCALES)):
        path = records.path_of(figure, folder)
        left.discard(path)
        table = records.read(path)
        name = path.relative_to(folder)
        found += [] if table is None else [f"{name}: {stray}" for stray in records.strays(figure, table)]
    return found + [f"{path.relative_to(folder)} is of no figure" for path in sorted(left)]


def _read(figure: Figure, folder: pathlib.Path) -> Judged:
    return Judged.of(figure, records.read(records.path_of(figure, folder)))


def _shown(paper: Judged, small: Mapping[str, Judged]) -> list[Judged]:
    """A figure at the paper's scale; if not all of it was run, also at the small scale."""
    if paper.table is not None and not _missing(paper):
        return [paper]
    both = [paper, *filter(None, [small.get(paper.figure.name)])]
    return [judged for judged in both if judged.table is not None] or both[-1:]


def scores_over_tasks(folder: pathlib.Path) -> Mapping[str, baselines.OverTasks]:
    """Scores of strategies over this project's figures, by measure.

    Args:
      folder: Folder of the records.
    """
    return _scores([_read(one, folder) for one in figures.load(figures.PAPER).values() if one.own])


def _scores(own: Sequence[Judged]) -> dict[str, baselines.OverTasks]:
    """By measure, scores over the figures that have both baselines; none with a single task."""
    scores = {}
    by_measure = runs.grouped(own, lambda one: (one.figure.measures[0].name, one.figure.measures[0].smallest))
    for (name, smallest), some in by_measure.items():
        scales, lacking = (list(itertools.chain(*found)) for found in zip(*map(_scales, some), strict=True))
        pairs = {(task, one.name): None for task, one, _ in scales}
        counts = collections.Counter(label for _, label in pairs)
        most = max(sorted(counts), key=counts.__getitem__, default="")
        without = [task for task in dict.fromkeys(task for task, _ in pairs) if (task, most) not in pairs]
        lacking += [f"{task}: it has no configuration {most}" for task in without]
        counted = [scale for scale in scales if scale[0] not in without]
        found = baselines.over_tasks(counted, name, "down" if smallest else "up")
        if found and found.scores:
            scores[name] = dataclasses.replace(found, left_out=(*lacking, *found.left_out))
    return scores


def _scales(judged: Judged) -> tuple[list[baselines.Result], list[str]]:
    """A figure's configurations with their baselines, and which configurations have none, in words.

    A label's words after the first, where all of a kind share them, name the task: strategies are what is compared.
    """
    figure, found = judged.figure, judged.results
    task, known = figure.about.partition(":")[0], found.known_baselines
    planned = [one for one in figure.configurations if one.label in known]
    if not any(Baseline.full_feedback in one for one in known.values()) or results.UNIFORM not in found.configurations:
        return [], []
    lacking = [one.label for one in planned if Baseline.full_feedback not in known[one.label]]
    groups = runs.grouped(
        [one for one in planned if one.label not in lacking], lambda one: known[one.label][Baseline.full_feedback]
    )
    scales: list[baselines.Result] = []
    again: list[str] = []
    counted: set[str] = set()
    for group in groups.values():
        shared_words, *others = {one.words[1:] for one in group}
        names = [one.label if others else one.words[0] for one in group]
        if counted & set(names):  # Equal seeds do not make another task.
            again += [one.label for one in group]
            continue
        counted |= set(names)
        title = task if others else ", ".join((task, *shared_words))
        for name, one in zip(names, group, strict=True):
            both = {**known[one.label], Baseline.uniform_policy: found.configurations[results.UNIFORM]}
            scales.append((title, dataclasses.replace(found.configurations[one.label], name=name), both))
    reasons = (
        (lacking, "no full-feedback baseline with their deployment period and environment was run"),
        (again, "their seeds are already counted"),
    )
    return scales, [f"{task}: {', '.join(labels)}: {why}" for labels, why in reasons if labels]


def _facts(judged: Judged) -> str:
    """Data, seeds, rounds, machine and version of a figure's records."""
    table, note = judged.records, figures.data_note(judged.figure)
    seeds, rounds = (sorted(set(table[name].astype(int))) for name in ("seed", "rounds"))
    shown = f"{note or figures.PAPERS_DATA} {phrases.seeds(len(seeds)).capitalize()} ({_range(seeds)}), "
    machines, commits = (", ".join(records.distinct(table, name)) for name in ("machine", "commit"))
    return f"{shown}{_range(rounds)} rounds; recorded on {machines}; run at {commits}"


def _missing(judged: Judged) -> str:
    known = set(judged.records["arm"])
    return ", ".join(one.label for one in judged.figure.configurations if one.label not in known)


def _few(judged: Judged) -> str:
    counts, most = judged.records["arm"].value_counts(sort=False), judged.records["seed"].nunique()
    return ", ".join(f"{label} ({count})" for label, count in counts.items() if count < most)


def _command(judged: Judged) -> str:
    return scoreboard.command(judged.figure, int(judged.records["seed"].max()) + 1)


def _range(values: Sequence[int]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _numbers(judged: Judged) -> _Table:
    """Table of an own figure: each configuration's measures, and their differences to the reference."""
    figure, found, names = judged.figure, judged.results, judged.results.measures
    picked = list(dict.fromkeys(flag for label in found.configurations for flag in found.picked(label)))
    compared = names if figure.reference else []
    rows = []
    for planned in figure.configurations:
        label = planned.label
        if label in found.configurations:
            reference = figure.reference_of(planned)
            cells = [results.display_name(planned), *(found.estimate(label, name).text() for name in names)]
            cells += [claims.minus(label, reference, name, found) for name in compared]
            cells += [found.baselines[label].summary if label in found.baselines else ""] * bool(found.baselines)
            cells += [f"{found.picked(label)[flag]:g}" if flag in found.picked(label) else "" for flag in picked]
            rows.append(cells)
    head = ["", *map(_spaced, names), *(f"{_spaced(name)} minus {figure.reference}" for name in compared)]
    head += [*["compared with bounds"] * bool(found.baselines), *map(_spaced, picked)]
    for earned, labels in found.best_fixed().items():
        name = str(Baseline.best_fixed_action) + f", of {'; '.join(labels)}" * (len(found.best_fixed()) > 1)
        rows.append([name, earned, *[""] * (len(head) - 2)])
    return head, rows


def _tests(judged: Judged) -> str:
    title = f"{_spaced(judged.figure.measures[0].name)}: tests"
    return sections.comparison_table(title, judged.tests).narrow(_TESTS).markdown("####")


def _claims(lines: Iterable[Line], columns: int) -> list[Sequence[str]]:
    rows = [(f"{one.says} ({one.place})", f"**{one.verdict}**", one.result.why, one.means) for one in lines]
    return [row[:columns] for row in rows]


def _compared(lines: Iterable[Line]) -> list[Sequence[str]]:
    return [
        (one.says, one.place, one.published, one.result.why, str(one.result.seeds or ""), f"**{one.verdict}**")
        for one in lines
    ]


def _left_open(some: Sequence[Judged]) -> str:
    return "; ".join(dict.fromkeys(itertools.chain(*(judged.figure.left_open for judged in some))))


def _claims_left(some: Sequence[Judged]) -> list[Sequence[str]]:
    return [(line.says, line.place, line.result.why) for judged in some for line in judged.lines if line.claim]


def _bounds(judged: Judged) -> str:
    """Configurations compared with bounds, if some were run, in words."""
    found = judged.results
    if not found.baselines or not any(map(results.is_baseline, judged.figure.configurations)):
        return ""
    best = found.best_fixed()
    by_label = [f"{earned} of {', '.join(labels)}" for earned, labels in best.items()]
    fixed = "; ".join(by_label if len(best) > 1 else best)
    known = f" ({Baseline.best_fixed_action}: {fixed})" if fixed else ""
    return f"{known}: {'; '.join(f'{label} {one.summary}' for label, one in found.baselines.items())}"


def _not_compared(judged: Judged) -> _Table | None:
    """Table of the measures without a number or tested claim of the paper; None without any."""
    figure, found = judged.figure, judged.results
    compared = {published.measure for published in figure.published}
    for claim in (line.claim for line in judged.lines if line.claim and line.status != claims.NOT_RUN):
        compared |= {figure.measure_of(operand).name for group in claim.operands for operand in group}
    estimates = {
        name: {label: found.estimate(label, name) for label in found.configurations}
        for name in found.measures
        if name not in compared
    }
    names = [name for name, some in estimates.items() if any(math.isfinite(one.mean) for one in some.values())]
    rows = [[label, *(estimates[name][label].text() for name in names)] for label in found.configurations]
    return (["not compared with the paper (mean, 95% interval)", *map(_spaced, names)], rows) if names else None


_FILTERS: Sequence[Callable[..., Any]] = (
    *(_facts, _missing, _few, _command, _numbers, _tests, _claims, _compared, _left_open, _claims_left, _bounds),
    _not_compared,
)
