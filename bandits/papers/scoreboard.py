"""The listed claims and numbers of the papers beside this project's results: tables for files, terminal and pages."""

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bandits.papers import judging, premises, records, texts
from bandits.papers.plan import DATA_KINDS, PAPER_DATA, STAND_IN, Claim, Figure
from bandits.papers.results import Value, number
from bandits.results import runs
from optimization.study import intervals

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
      ours: Our numbers with their intervals.
      seeds: Number of seeds of ours.
      status: One of `judging.STATUSES`.
      chance: As `Verdict.chance`; a number's interval errs in 5%.
      data_kind: One of `plan.DATA_KINDS`.
      means: What that means for a practitioner; empty where nothing is declared.
      data: Its data, if they are not the figure's: `COMPUTED` for an epsilon.
      command: The command for it, if it is not the figure's.
      claim: The claim; None for a number.
    """

    figure: Figure
    kind: str
    says: str
    place: str
    published: str
    ours: str
    seeds: int
    status: str
    error_probability: float
    data_kind: str
    means: str = ""
    data: str = ""
    command: str = ""
    claim: Claim | None = None

    @property
    def verdict(self) -> str:
        """The status with the kind of data that it is about; a claim that is not run has no data."""
        if self.status == judging.NOT_RUN:
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
    """

    figure: Figure
    table: "pd.DataFrame | None"
    rows: Sequence[Value]
    lines: Sequence[Line]

    @classmethod
    def of(cls, figure: Figure, table: "pd.DataFrame | None") -> "Judged":
        """Judges a figure's records."""
        rows = [] if table is None else records.values(figure, table)
        return cls(figure, table, rows, lines(figure, rows))


def lines(figure: Figure, rows: Sequence[Value]) -> list[Line]:
    """A line for each claim and number of a figure; `rows` are the results."""
    found = []
    for verdict in judging.check(figure, rows):
        claim, status = verdict.claim, verdict.status
        kind = PAPER_DATA if claim.needs and status == judging.NOT_RUN else figure.data_kind
        of_claim = (figure, CLAIM, claim.says, claim.place, "", verdict.why, verdict.seeds, status)
        found.append(Line(*of_claim, verdict.error_probability, kind, means=verdict.means, claim=claim))
    known = {(row.configuration, row.measure): row for row in rows}
    for one in figure.published:
        row = known.get((one.configuration, one.measure))
        ours, seeds, status, error_probability = "", 0, judging.NOT_RUN, 0.0
        if row is not None:
            status, why = judging.compare(row, figure)
            ours = judging.value_words(row, figure) + judging.baseline_note(row) + (f"; {why}" if why else "")
            if row.is_picked:
                count = len(figure.tuning_seeds)
                ours += f"; selected on {f'{count} tuning seeds' if count > 1 else 'one tuning seed'}"
            seeds = len(row.finite)
            error_probability = 1 - intervals.CONFIDENCE if status in (*judging.HOLDS, *judging.FAILS) else 0.0
        says, published = f"{one.configuration}: {one.measure.replace('_', ' ')}", number(one.value)
        found.append(
            Line(figure, NUMBER, says, one.place, published, ours, seeds, status, error_probability, figure.data_kind)
        )
    for each in figure.accounted:  # Computed at the paper's settings, without a run.
        status, ours = judging.computed(each)
        of_epsilon = (figure, NUMBER, each.says, each.place, number(each.value), ours, 0, status, 0.0, PAPER_DATA)
        flags = f"./scripts/python -m scripts.privacy_budget {' '.join(each.arguments)}"
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
                "ours": one.ours,
                "seeds": one.seeds,
                "data_kind": one.data_kind,
                "data": one.data or one.figure.data or "the paper's",
                "command": one.command or command(one.figure, one.seeds),
            }
            for one in rows
        ]
    )


def counts(rows: Iterable[Line]) -> dict[str, int]:
    """Number of lines by status, in the order of statuses."""
    found = collections.Counter(one.status for one in rows)
    return {status: found[status] for status in judging.STATUSES}


def by_data(rows: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Lines by paper and kind of data, which are never added."""
    found = runs.grouped(rows, lambda one: (one.figure.text, one.data_kind))
    papers = list(dict.fromkeys(paper for paper, _ in found))
    return {key: found[key] for key in itertools.product(papers, DATA_KINDS) if key in found}


def expected_errors(rows: Iterable[Line]) -> str:
    """Sentence with the expected number of wrong verdicts by kind of data; empty without a verdict."""
    parts = []
    for kind in DATA_KINDS:
        decided = [one for one in rows if one.data_kind == kind and one.status in (*judging.HOLDS, *judging.FAILS)]
        if decided:
            parts.append(f"{number(sum(one.error_probability for one in decided))} of {len(decided)} ({kind})")
    if not parts:
        return ""
    return (
        "Claims are not adjusted for each other. If every true difference were at the limit that its claim sets, this "
        f"many of the verdicts with a direction would be wrong on average, at most: {', '.join(parts)}."
    )


def summary(rows: Sequence[Line]) -> str:
    """Scoreboard for the terminal: statuses by paper and kind of data."""
    found = [
        f"{paper}, {kind}: {', '.join(f'{count} {word}' for word, count in counts(some).items() if count)}"
        for (paper, kind), some in by_data(rows).items()
    ]
    return "\n".join([*found, *filter(None, [expected_errors(rows)])])


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
        flags = premises.edges(figure, rows, configuration.label)
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
        (one.place, one.says, one.status, kind if one.claim else one.data_kind, one.ours, one.seeds)
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
        shown.insert(2, "ours", [judging.value_words(row, figure) for row in rows])
        shown["published"] = shown["published"].map(lambda value: "" if math.isnan(value) else number(value))
        heads = {"label": "", "ours": "ours (95% interval)", "normalized": "compared with bounds", "source": "section"}
        shown = shown.rename(columns=heads)
        empty = [name for name in ("compared with bounds", "published", "verdict", "section") if not shown[name].any()]
        parts.append(shown.drop(columns=empty).to_string(index=False))
    parts += filter(None, [edges(figure, rows)])
    shown_lines = [one for one in judged.lines if one.claim or one.data == COMPUTED]
    width = max((len(one.verdict) for one in shown_lines), default=0) + 2
    parts += [
        f"{one.verdict:<{width}}{one.place}: {' '.join(filter(None, [one.says, one.published]))} [{one.ours}]"
        for one in shown_lines
    ]
    return "\n".join(parts)


def notes() -> Mapping[str, str]:
    """Meaning of each status, for a page."""
    return {
        f"{judging.AGREES}, {judging.DISAGREES}": (
            "on the paper's data, complete or reduced: the whole 95% interval of every difference that the claim needs "
            "lies on its side, or of one on the other side. A published number agrees if our interval lies within 5% "
            "of it (our tolerance) or half a unit of its last digit; it disagrees if it lies outside of the range of "
            "95% of means of new seeds. An epsilon is computed, and agrees within the same bounds"
        ),
        f"{judging.SAME}, {judging.OPPOSITE}": (
            "the same result on stand-in data, which neither confirm nor refute the paper. For a question of this "
            "project, the direction is that of the sentence"
        ),
        judging.INCONCLUSIVE: (
            "neither; more seeds may decide. One seed never does, nor a configuration with a diverged run"
        ),
        judging.PREMISE: (
            "the claim is about models that learned, or about tuned rates, and ours are not: neither configuration "
            "beats the best fixed action, or the best point of the worse one lies on an edge of its grid"
        ),
        judging.NOT_COMPARABLE: "the paper gives a number for other data or settings than ours",
        judging.NOT_RUN: "there is no run of it, or it needs data that no stand-in replaces",
    }
