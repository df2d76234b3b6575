"""The listed claims and numbers of the papers beside this project's results: tables for files, terminal and pages."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bandits.papers import claims, records, texts
from bandits.papers.claims import Verdict, Verdicts
from bandits.papers.plan import DATA_KINDS, PAPER_DATA, STAND_IN, Claim, Figure
from bandits.papers.results import Value, number
from bandits.results import runs
from bandits.results.comparison import Comparison

if TYPE_CHECKING:
    import pandas as pd

CLAIM, NUMBER, COMPUTED = "claim", "number", "none: computed"


@dataclasses.dataclass(frozen=True)
class Line:
    """A claim or number of a paper.

    Attributes:
      figure: The figure or table that it belongs to.
      kind: `CLAIM` or `NUMBER`.
      says: The claim, or the configuration and measure of the number.
      place: Section of the paper.
      published: The number; empty for a claim.
      result: Its verdict, with our numbers.
      data_kind: One of `plan.DATA_KINDS`.
      data: Its data, if they are not the figure's: `COMPUTED` for an epsilon.
      command: The command for it, if it is not the figure's.
      claim: The claim; None for a number.
    """

    figure: Figure
    kind: str
    says: str
    place: str
    published: str
    result: Verdict
    data_kind: str
    data: str = ""
    command: str = ""
    claim: Claim | None = None

    @property
    def status(self) -> str:
        """The status of its verdict."""
        return self.result.status

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
        is_shortened = self.figure.scale == texts.SMALL and self.data_kind == self.figure.data_kind != STAND_IN
        # An epsilon is of the paper's settings at every scale.
        return f"{self.status} ({self.data_kind}{', small scale' if is_shortened and not self.data else ''})"


@dataclasses.dataclass(frozen=True)
class Judged:
    """A figure with its results and verdicts, which are computed once.

    Attributes:
      figure: The figure.
      table: Its records; None if there are none.
      rows: Its numbers.
      lines: Its lines of the scoreboard.
      tests: Its configurations compared with its reference.
    """

    figure: Figure
    table: "pd.DataFrame | None"
    rows: Sequence[Value]
    lines: Sequence[Line]
    tests: Sequence[Comparison] = ()

    @classmethod
    def of(cls, figure: Figure, table: "pd.DataFrame | None") -> "Judged":
        """Judges a figure's records."""
        rows = [] if table is None else records.values(figure, table)
        verdicts = claims.judge(figure, rows)
        return cls(figure, table, rows, lines(figure, verdicts), verdicts.tests)


def lines(figure: Figure, verdicts: Verdicts) -> list[Line]:
    """A line for each claim and number of a figure."""
    found = []
    for claim, verdict in zip(figure.claims, verdicts.claims, strict=True):
        kind = PAPER_DATA if claim.needs and verdict.status == claims.NOT_RUN else figure.data_kind
        found.append(Line(figure, CLAIM, claim.says, claim.place, "", verdict, kind, claim=claim))
    for one, verdict in zip(figure.published, verdicts.numbers, strict=True):
        says = f"{one.configuration}: {one.measure.replace('_', ' ')}"
        found.append(Line(figure, NUMBER, says, one.place, number(one.value), verdict, figure.data_kind))
    for each in figure.accounted:  # Computed at the paper's settings, without a run.
        flags = f"./scripts/python -m scripts.privacy_budget {' '.join(each.arguments)}"
        of_epsilon = (figure, NUMBER, each.says, each.place, number(each.value), claims.computed(each), PAPER_DATA)
        found.append(Line(*of_epsilon, data=COMPUTED, command=flags))
    return found


def command(figure: Figure, seeds: int | None = None) -> str:
    """Command that runs a figure."""
    scale = "" if figure.scale == texts.PAPER else f" --scale={figure.scale}"
    repeat = f" --repeat={seeds}" if seeds and seeds != figure.repeat else ""
    return f"./scripts/python -m scripts.reproduce --figure={figure.name}{scale}{repeat}"


def table(rows: Iterable[Line]) -> "pd.DataFrame":
    """Content of `scoreboard.csv`."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "paper": one.figure.text,
                "figure": one.figure.name,
                "kind": one.kind,
                "says": one.says,
                "source": one.place,
                "verdict": one.status,
                "published": one.published,
                "ours": one.result.why,
                "seeds": one.result.seeds,
                "data_kind": one.data_kind,
                "data": one.data or one.figure.data or "the paper's",
                "command": one.command or command(one.figure, one.result.seeds),
            }
            for one in rows
        ]
    )


def counts(rows: Iterable[Line]) -> dict[str, int]:
    """Number of lines by status, in the order of statuses."""
    found = collections.Counter(one.status for one in rows)
    return {status: found[status] for status in claims.STATUSES}


def by_data(rows: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Lines by paper and kind of data, which are never added."""
    found = runs.grouped(rows, lambda one: (one.figure.text, one.data_kind))
    papers = list(dict.fromkeys(paper for paper, _ in found))
    return {key: found[key] for key in itertools.product(papers, DATA_KINDS) if key in found}


def summary(rows: Sequence[Line]) -> str:
    """Scoreboard for the terminal: statuses by paper and kind of data."""
    return "\n".join(
        f"{paper}, {kind}: {', '.join(f'{count} {word}' for word, count in counts(some).items() if count)}"
        for (paper, kind), some in by_data(rows).items()
    )


def one_seed(figures: Iterable[Figure], repeat: int | None) -> str:
    """Warning that figures of one seed get no verdicts; empty if all have several."""
    names = [figure.name for figure in figures if (repeat or figure.repeat) == 1]
    if not names:
        return ""
    return f"One seed: no claim or number of {', '.join(names)} will get a verdict. --repeat=3 runs three."


def edges(figure: Figure, rows: Sequence[Value]) -> str:
    """Best points on an edge of their grid, as text; empty for none."""
    found = []
    for configuration in figure.configurations:
        flags = claims.edges(figure, rows, configuration.label)
        found += [f"{configuration.label} ({', '.join(flags)})"] * bool(flags)
    return f"Best points on an edge of the grid: {', '.join(found)}." if found else ""


def values_table(judged: Judged) -> "pd.DataFrame":
    """Content of `NAME.csv`: a figure's numbers."""
    import pandas as pd

    figure, rows = judged.figure, judged.rows
    numbers = [line for line in judged.lines if line.kind == NUMBER and line.data != COMPUTED]
    status = {
        (one.configuration, one.measure): line.status for one, line in zip(figure.published, numbers, strict=True)
    }
    return pd.DataFrame(
        {
            "label": [row.configuration for row in rows],
            "measure": [row.measure for row in rows],
            "ours_mean": [row.mean for row in rows],
            "ours_low": [row.interval.low for row in rows],
            "ours_high": [row.interval.high for row in rows],
            "ours_deviation": [row.deviation for row in rows],
            "seeds": [len(row.finite) for row in rows],
            "normalized": [row.baselines.summary if row.baselines else "" for row in rows],
            "published": [row.published.value if row.published else math.nan for row in rows],
            "verdict": [status.get((row.configuration, row.measure), "") for row in rows],
            "source": [row.published.place if row.published else "" for row in rows],
            "data_kind": figure.data_kind,
            "data": figure.data or "the paper's",
        }
    )


def claims_table(judged: Judged) -> "pd.DataFrame":
    """Content of `NAME_claims.csv`: verdicts on a figure's claims and epsilons."""
    import pandas as pd

    kind = judged.figure.data_kind
    rows = [
        (one.place, one.says, one.status, kind if one.claim else one.data_kind, one.result.why, one.result.seeds)
        for one in judged.lines
        if one.claim or one.data == COMPUTED
    ]
    return pd.DataFrame(rows, columns=["source", "claim", "verdict", "data_kind", "ours", "seeds"])


def text(judged: Judged) -> str:
    """A figure's numbers and verdicts for the terminal."""
    figure, rows = judged.figure, judged.rows
    parts = []
    if rows:
        shown = values_table(judged)[["label", "measure", "seeds", "normalized", "published", "verdict", "source"]]
        shown.insert(2, "ours", [claims.value_words(row, figure) for row in rows])
        shown["published"] = shown["published"].map(lambda value: "" if math.isnan(value) else number(value))
        heads = {"label": "", "ours": "ours (95% interval)", "normalized": "compared with bounds", "source": "section"}
        shown = shown.rename(columns=heads)
        empty = [name for name in ("compared with bounds", "published", "verdict", "section") if not shown[name].any()]
        parts.append(shown.drop(columns=empty).to_string(index=False))
    parts += filter(None, [edges(figure, rows)])
    shown_lines = [one for one in judged.lines if one.claim or one.data == COMPUTED]
    width = max((len(one.verdict) for one in shown_lines), default=0) + 2
    parts += [
        f"{one.verdict:<{width}}{one.place}: {' '.join(filter(None, [one.says, one.published]))} [{one.result.why}]"
        for one in shown_lines
    ]
    return "\n".join(parts)


def notes() -> Mapping[str, str]:
    """Meaning of each status, for a page."""
    return {
        f"{claims.AGREES}, {claims.DISAGREES}": (
            "on the paper's data, complete or reduced: every difference that the claim needs is significant and on its "
            "side, or one is significant and on the other side: p < 5%, adjusted by Holm over all comparisons of the "
            "figure. A published number agrees if ours is significantly within 5% of it (our tolerance) or half a "
            "unit of its last digit; it disagrees if it is significantly different from means of new seeds. An epsilon "
            "is computed, and agrees within the same bounds"
        ),
        f"{claims.SAME}, {claims.OPPOSITE}": (
            "the same result on stand-in data, which neither confirm nor refute the paper. For a question of this "
            "project, the direction is that of the sentence"
        ),
        claims.INCONCLUSIVE: (
            "neither; more seeds may decide. One seed never does, nor a configuration with a diverged run"
        ),
        claims.PREMISE: (
            "the claim is about models that learned, or about tuned rates, and ours are not: neither configuration "
            "beats the best fixed action, or the best point of the worse one lies on an edge of its grid"
        ),
        claims.NOT_COMPARABLE: "the paper gives a number for other data or settings than ours",
        claims.NOT_RUN: "there is no run of it, or it needs data that no stand-in replaces",
    }
