"""The listed claims and numbers of the papers beside this project's results: tables for files and the terminal."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bandits.papers import claims, figures, results
from bandits.papers.claims import Verdict
from bandits.papers.plan import DATA_KINDS, PAPER_DATA, STAND_IN, Claim, Figure
from bandits.papers.results import Results, number
from bandits.results import runs
from bandits.results.comparison import Comparison

if TYPE_CHECKING:
    import pandas as pd

_PAPER_DATA = "the paper's"
_COMPUTED, _PRIVACY_BUDGET = "none: computed", "./scripts/python -m scripts.privacy_budget"
_COLUMNS = ["paper", "figure", "kind", "says", "source", "verdict", "published", "ours", "seeds"]
_COLUMNS += ["data_kind", "data", "command"]
_VALUE_COLUMNS = ["label", "measure", "ours_mean", "ours_low", "ours_high", "ours_deviation", "seeds", "normalized"]
_VALUE_COLUMNS += ["published", "verdict", "source"]


@dataclasses.dataclass(frozen=True)
class Line:
    """A claim or number of a paper.

    Attributes:
      figure: The figure or table that it belongs to.
      says: The claim, or the configuration and measure of the number.
      place: Section of the paper.
      result: Verdict, with our numbers.
      published: The number; empty for a claim.
      claim: The claim; None for a number.
      privacy_flags: Flags of `scripts.privacy_budget` that compute the number, if it is an epsilon.
    """

    figure: Figure
    says: str
    place: str
    result: Verdict
    published: str = ""
    claim: Claim | None = None
    privacy_flags: str = ""

    @property
    def status(self) -> str:
        """The status of its verdict."""
        return self.result.status

    @property
    def data_kind(self) -> str:
        """Kind of its data; an epsilon is of the paper's settings at every scale."""
        is_paper_data = self.privacy_flags or (self.claim and self.claim.needs and self.status == claims.NOT_RUN)
        return PAPER_DATA if is_paper_data else self.figure.data_kind

    @property
    def means(self) -> str:
        """What the verdict means for a practitioner; empty where nothing is declared."""
        key = "holds" if self.status in claims.HOLDS else "fails" if self.status in claims.FAILS else self.status
        return self.claim.means.get(key, "") if self.claim else ""

    @property
    def verdict(self) -> str:
        """The status with the kind of data that it is about; a claim that is not run has no data."""
        if self.status == claims.NOT_RUN:
            return self.status
        is_shortened = self.figure.scale == figures.SMALL and self.data_kind == self.figure.data_kind != STAND_IN
        return f"{self.status} ({self.data_kind}{', small scale' if is_shortened and not self.privacy_flags else ''})"


@dataclasses.dataclass(frozen=True)
class Judged:
    """A figure with its results and verdicts, which are computed once.

    Attributes:
      figure: The figure.
      table: Its records; None if there are none.
      results: Results of the figure's runs.
      lines: Claims, published numbers and epsilons.
      tests: Comparisons of the configurations with the reference.
    """

    figure: Figure
    table: "pd.DataFrame | None"
    results: Results
    lines: Sequence[Line]
    tests: Sequence[Comparison] = ()

    @classmethod
    def of(cls, figure: Figure, table: "pd.DataFrame | None") -> "Judged":
        """Judges a figure's records."""
        found = results.of_records(figure, table)
        verdicts = claims.judge(found)
        lines = [
            Line(figure, claim.says, claim.place, verdict, claim=claim)
            for claim, verdict in zip(figure.claims, verdicts.claims, strict=True)
        ]
        for one, verdict in zip(figure.published, verdicts.numbers, strict=True):
            says = f"{one.configuration}: {one.measure.replace('_', ' ')}"
            lines.append(Line(figure, says, one.place, verdict, number(one.value)))
        for each in figure.accounted:
            flags = " ".join(each.arguments)
            lines.append(Line(figure, each.says, each.place, claims.computed(each), number(each.value), None, flags))
        return cls(figure, table, found, lines, verdicts.tests)

    @property
    def records(self) -> "pd.DataFrame":
        """Its records, of a figure that has some."""
        assert self.table is not None
        return self.table

    @property
    def edges(self) -> str:
        """Best points on an edge of their grid, as text; empty for none."""
        on_edge = {label: ", ".join(self.results.edges(label)) for label in self.results.configurations}
        found = [f"{label} ({flags})" for label, flags in on_edge.items() if flags]
        return f"Best points on an edge of the grid: {', '.join(found)}." if found else ""


def command(figure: Figure, seeds: int | None = None) -> str:
    """Command that runs a figure."""
    scale = "" if figure.scale == figures.PAPER else f" --scale={figure.scale}"
    repeat = f" --repeat={seeds}" if seeds and seeds != figure.repeat else ""
    return f"./scripts/python -m scripts.reproduce --figure={figure.name}{scale}{repeat}"


def table(lines: Iterable[Line]) -> "pd.DataFrame":
    """Content of `scoreboard.csv`."""
    import pandas as pd

    rows = []
    for line in lines:
        figure, result, flags = line.figure, line.result, line.privacy_flags
        data = _COMPUTED if flags else figure.data or _PAPER_DATA
        run = f"{_PRIVACY_BUDGET} {flags}" if flags else command(figure, result.seeds)
        shown = (line.says, line.place, line.status, line.published, result.why, result.seeds)
        kind = "claim" if line.claim else "number"
        rows.append((figure.text, figure.name, kind, *shown, line.data_kind, data, run))
    return pd.DataFrame(rows, columns=_COLUMNS)


def claims_table(judged: Judged) -> "pd.DataFrame":
    """Content of `NAME_claims.csv`: verdicts on a figure's claims and epsilons."""
    content = table(line for line in judged.lines if line.claim or line.privacy_flags)
    content = content.rename(columns={"says": "claim"})
    return content[["source", "claim", "verdict", "data_kind", "ours", "seeds"]]


def values_table(judged: Judged) -> "pd.DataFrame":
    """Content of `NAME.csv`: a figure's numbers."""
    import pandas as pd

    figure, found = judged.figure, judged.results
    numbers = [line for line in judged.lines if line.published and not line.privacy_flags]
    pairs = zip(figure.published, numbers, strict=True)
    published = {(one.configuration, one.measure): (one, line) for one, line in pairs}
    rows = []
    for label, configuration in found.configurations.items():
        for name in (*found.measures, *found.picked(label)):
            estimate, against = found.estimate(label, name), found.against_baselines(label, name)
            deviation = configuration.values[name].std() if name in configuration.values else math.nan
            ours = (estimate.mean, estimate.low, estimate.high, deviation, estimate.size)
            theirs = (math.nan, "", "")
            if (label, name) in published:
                stated, line = published[label, name]
                theirs = (stated.value, line.status, stated.place)
            rows.append((label, name, *ours, against.summary if against else "", *theirs))
    content = pd.DataFrame(rows, columns=_VALUE_COLUMNS)
    return content.assign(data_kind=figure.data_kind, data=figure.data or _PAPER_DATA)


def counts(lines: Iterable[Line]) -> dict[str, int]:
    """Number of lines by status, in the order of statuses."""
    found = collections.Counter(line.status for line in lines)
    return {status: found[status] for status in claims.STATUSES}


def by_data(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Lines by paper and kind of data, which are never added."""
    found = runs.grouped(lines, lambda line: (line.figure.text, line.data_kind))
    papers = list(dict.fromkeys(paper for paper, _ in found))
    return {key: found[key] for key in itertools.product(papers, DATA_KINDS) if key in found}


def summary(lines: Iterable[Line]) -> str:
    """Scoreboard for the terminal: statuses by paper and kind of data."""
    return "\n".join(
        f"{paper}, {kind}: {', '.join(f'{count} {word}' for word, count in counts(some).items() if count)}"
        for (paper, kind), some in by_data(lines).items()
    )


def text(judged: Judged) -> str:
    """A figure's numbers and verdicts for the terminal."""
    parts = []
    if judged.results.configurations:
        shown = values_table(judged)[["label", "measure", "seeds", "normalized", "published", "verdict", "source"]]
        pairs = zip(shown["label"], shown["measure"], strict=True)
        shown.insert(2, "ours", [results.value_words(*pair, judged.results) for pair in pairs])
        shown["published"] = shown["published"].map(lambda value: "" if math.isnan(value) else number(value))
        heads = {"label": "", "ours": "ours (95% interval)", "normalized": "compared with bounds", "source": "section"}
        shown = shown.rename(columns=heads)
        empty = [name for name in ("compared with bounds", "published", "verdict", "section") if not shown[name].any()]
        parts.append(shown.drop(columns=empty).to_string(index=False))
    parts += filter(None, [judged.edges])
    lines = [line for line in judged.lines if line.claim or line.privacy_flags]
    width = max((len(line.verdict) for line in lines), default=0) + 2
    for line in lines:
        says = " ".join(filter(None, [line.says, line.published]))
        parts.append(f"{line.verdict:<{width}}{line.place}: {says} [{line.result.why}]")
    return "\n".join(parts)
