"""Verdicts on figures as text for the terminal, and as a page of all results.

The page is generated only from the records. `page.md` is its template.
"""

import collections
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence

import jinja2
import pandas as pd

from bandits.papers import claims, figures, results
from bandits.papers.claims import Verdict
from bandits.papers.plan import DATA_KINDS, PAPER_DATA, STAND_IN, Claim, Figure, Published
from bandits.papers.results import Results, number
from bandits.results import baselines, phrases, runs, sections, tables
from bandits.results.comparison import Comparison
from bandits.results.configuration import Baseline
from data.errors import counted

_TESTS = (*sections.COMPARED[:2], *sections.COMPARED[4:], sections.VERDICT)  # Differences are in another table.
_TEMPLATE = pathlib.Path(__file__).with_name("page.md")
_Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # Column headings and rows.


@dataclasses.dataclass(frozen=True)
class Line:
    """A claim or number of a paper with its verdict.

    Attributes:
      figure: The figure or table of the claim or number.
      source: The claim or number.
      result: Verdict, with this project's numbers.
    """

    figure: Figure
    source: Claim | Published
    result: Verdict

    @property
    def published(self) -> str:
        """The paper's number; empty for a claim."""
        return number(self.source.value) if isinstance(self.source, Published) else ""

    @property
    def data_kind(self) -> str:
        """Kind of its data. Epsilons are computed for the paper's settings at every scale."""
        if isinstance(self.source, Published):
            return PAPER_DATA if self.source.privacy_flags else self.figure.data_kind
        return PAPER_DATA if self.source.needs and self.result.status == claims.NOT_RUN else self.figure.data_kind

    @property
    def means(self) -> str:
        """Meaning of the verdict for a practitioner; empty if none is declared."""
        words = dict.fromkeys(claims.HOLDS, "holds") | dict.fromkeys(claims.FAILS, "fails")
        status = words.get(self.result.status, self.result.status)
        return self.source.means.get(status, "") if isinstance(self.source, Claim) else ""

    @property
    def verdict(self) -> str:
        """The status with the kind of data that it applies to. A claim without runs has no data."""
        if self.result.status == claims.NOT_RUN:
            return claims.NOT_RUN
        is_computed = isinstance(self.source, Published) and self.source.privacy_flags
        is_shortened = self.figure.scale == figures.SMALL and self.data_kind != STAND_IN and not is_computed
        return f"{self.result.status} ({self.data_kind}{', small scale' if is_shortened else ''})"


@dataclasses.dataclass(frozen=True)
class Judged:
    """A figure with its results and verdicts, which are computed only once.

    Attributes:
      results: Results of the figure's runs.
      lines: Claims, published numbers and epsilons, with verdicts.
      tests: Comparisons of configurations with the reference.
    """

    results: Results
    lines: Sequence[Line]
    tests: Sequence[Comparison] = ()

    @classmethod
    def of(cls, found: Results) -> "Judged":
        """Judges a figure."""
        figure, (verdicts, tests) = found.figure, claims.judge(found)
        sources: list[Claim | Published] = [*figure.claims, *figure.published]
        pairs = zip(sources, verdicts, strict=True)
        return cls(found, [Line(figure, source, verdict) for source, verdict in pairs], tests)

    @property
    def figure(self) -> Figure:
        """The figure."""
        return self.results.figure

    @property
    def is_run(self) -> bool:
        """Whether there are records."""
        return self.results.table is not None

    @property
    def records(self) -> pd.DataFrame:
        """Records of the figure, which must have some."""
        assert self.results.table is not None
        return self.results.table

    @property
    def edges(self) -> str:
        """Best points that lie on an edge of their grid, as text; empty if there are none."""
        on_edge = {label: ", ".join(self.results.edges(label)) for label in self.results.configurations}
        found = [f"{label} ({flags})" for label, flags in on_edge.items() if flags]
        return f"Best points on an edge of the grid: {', '.join(found)}." if found else ""

    def text(self) -> str:
        """Numbers and verdicts for the terminal."""
        parts = [tables.text(*_numbers(self))] if self.results.configurations else []
        parts += filter(None, [self.edges])
        width = max((len(line.verdict) for line in self.lines), default=0) + 2
        for line in self.lines:
            says = " ".join(filter(None, [line.source.says, line.published]))
            parts.append(f"{line.verdict:<{width}}{line.source.place}: {says} [{line.result.why}]")
        return "\n".join(parts)


def _counts(lines: Iterable[Line]) -> list[Sequence[str]]:
    """Rows of the scoreboard: number of lines by status, separately for each paper and kind of data."""
    groups = runs.grouped(lines, lambda line: (line.figure.text, line.data_kind))
    papers = dict.fromkeys(paper for paper, _ in groups)
    rows: list[Sequence[str]] = []
    for key in itertools.product(papers, DATA_KINDS):
        if key in groups:
            found = collections.Counter(line.result.status for line in groups[key])
            rows.append([*key, *(str(found[status]) for status in claims.STATUSES)])
    return rows


def made(folder: pathlib.Path) -> str:
    """The page in Markdown.

    Args:
      folder: Folder of the records.

    Raises:
      UsageError: If a file has no records.
    """
    paper, small = (
        {name: _read(figure, folder) for name, figure in figures.load(scale).items()} for scale in figures.SCALES
    )
    own = [judged for judged in paper.values() if judged.figure.own]
    shown = [judged for one in paper.values() if not one.figure.own for judged in _shown(one, small)]
    first = {judged.figure.name: judged for judged in reversed(shown)}  # The paper's own scale comes first.
    lines = [line for judged in shown if first[judged.figure.name] is judged for line in judged.lines]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    filters = (_facts, _missing, _few, _command, _numbers, _tests)
    environment.filters |= {one.__name__.strip("_"): one for one in filters}
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        own=own,
        over_tasks=[
            sections.over_tasks_section(_spaced(name), scores).markdown()
            for name, scores in scores_over_tasks(folder).items()
        ],
        statuses=list(claims.STATUSES),
        counts=_counts(lines),
        without_small=figures.without_small(),
        rehearsals=[
            Judged.of(results.read(figures.load(scale)[path.stem], path))
            for scale in figures.SCALES
            for path in sorted(folder.glob(f"{scale}_{results.REHEARSAL}/*.csv"))
        ],
        papers=runs.grouped(shown, lambda judged: judged.figure.text),
        table=lambda heads, rows: f"{tables.markdown(heads, rows)}\n",
        count=counted,
    )


def _read(figure: Figure, folder: pathlib.Path) -> Judged:
    return Judged.of(results.read(figure, results.path_of(figure, folder)))


def _shown(paper: Judged, small: Mapping[str, Judged]) -> list[Judged]:
    """A figure at the paper's scale, and also at the small scale if some of its runs are missing."""
    if paper.is_run and not _missing(paper):
        return [paper]
    both = [paper, *filter(None, [small.get(paper.figure.name)])]
    return [judged for judged in both if judged.is_run] or both[-1:]


def scores_over_tasks(folder: pathlib.Path) -> Mapping[str, baselines.OverTasks]:
    """Scores of strategies across this project's own figures that have both baselines, by measure.

    It is empty if there is a single task.

    Args:
      folder: Folder of the records.
    """
    figures_of_project = (figure for figure in figures.load(figures.PAPER).values() if figure.own)
    own = [results.read(figure, results.path_of(figure, folder)) for figure in figures_of_project]
    scores = {}
    by_measure = runs.grouped(own, lambda one: (one.figure.measures[0].name, one.figure.measures[0].smallest))
    for (name, smallest), some in by_measure.items():
        results_of_tasks = list(itertools.chain.from_iterable(map(_tasks, some)))
        names = collections.Counter(label for _, label in {(task, one.name) for task, one, _ in results_of_tasks})
        most = max(sorted(names), key=names.__getitem__, default="")
        tasks = {task for task, one, _ in results_of_tasks if one.name == most}
        counted = [result for result in results_of_tasks if result[0] in tasks]
        over_tasks = baselines.over_tasks(counted, name, "down" if smallest else "up")
        if over_tasks and over_tasks.scores:
            scores[name] = over_tasks
    return scores


def _tasks(found: Results) -> list[baselines.Result]:
    """Configurations of a figure that have a full-feedback baseline, with their task and baselines.

    Configurations with the same full-feedback baseline form a task. If their labels differ only in the first word,
    that word is the name of the strategy, and the other words are the name of the task. A group with a strategy that
    already has a task is left out, because tasks with the same seeds are not independent.
    """
    known, uniform = found.known_baselines, found.configurations.get(results.UNIFORM)
    having = [one for one in found.figure.configurations if Baseline.full_feedback in known.get(one.label, ())]
    tasks: list[baselines.Result] = []
    counted: set[str] = set()
    for group in runs.grouped(having, lambda one: known[one.label][Baseline.full_feedback]).values():
        shared_words, *others = {one.words[1:] for one in group}
        names = {one.label: one.label if others else one.words[0] for one in group}
        if uniform and counted.isdisjoint(names.values()):
            counted |= set(names.values())
            title = ", ".join([found.figure.about.partition(":")[0], *([] if others else shared_words)])
            for label, name in names.items():
                both = {**known[label], Baseline.uniform_policy: uniform}
                tasks.append((title, dataclasses.replace(found.configurations[label], name=name), both))
    return tasks


def _facts(judged: Judged) -> str:
    """Data, seeds, rounds, machine and project version of a figure's records."""
    table, note = judged.records, judged.figure.data_note or f"The {PAPER_DATA}."
    seeds, rounds = (sorted(set(table[name].astype(int))) for name in ("seed", "rounds"))
    shown = f"{note} {phrases.seeds(len(seeds)).capitalize()} ({_range(seeds)}), "
    machines, commits = (", ".join(table[name].dropna().unique()) for name in ("machine", "commit"))
    return f"{shown}{_range(rounds)} rounds; recorded on {machines}; run at {commits}"


def _missing(judged: Judged) -> str:
    known = set(judged.records["arm"])
    return ", ".join(one.label for one in judged.figure.configurations if one.label not in known)


def _few(judged: Judged) -> str:
    counts, most = judged.records["arm"].value_counts(sort=False), judged.records["seed"].nunique()
    return ", ".join(f"{label} ({count})" for label, count in counts.items() if count < most)


def _command(figure: Figure, seeds: int = 0) -> str:
    """Command that runs a figure."""
    scale = "" if figure.scale == figures.PAPER else f" --scale={figure.scale}"
    repeat = f" --repeat={seeds}" if seeds and seeds != figure.repeat else ""
    rounds = f" --rounds={figure.rehearsal}" if figure.rehearsal else ""
    return f"./scripts/python -m scripts.reproduce --figure={figure.name}{scale}{repeat}{rounds}"


def _range(values: Sequence[int]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values))


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _numbers(judged: Judged) -> _Table:
    """Table of a figure's results: measures of each configuration, and differences from the reference."""
    figure, found, names = judged.figure, judged.results, judged.results.measures
    picked = list(dict.fromkeys(flag for label in found.configurations for flag in found.picked(label)))
    compared = names if figure.reference else []
    rows = []
    for planned in figure.configurations:
        label = planned.label
        if label in found.configurations:
            reference = claims.reference_of(figure, planned)
            cells = [results.display_name(planned), *(found.estimate(label, name).text() for name in names)]
            cells += [results.minus(label, reference, name, found) for name in compared]
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
