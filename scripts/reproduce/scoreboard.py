"""Every claim and number of the texts, ours with its interval beside it: tables for files, terminal and pages."""

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from scripts.reproduce import judging, results, texts
from scripts.reproduce.judging import AGREES, DISAGREES, NOT_PLAYED, OTHER_DATA, STATUSES, UNTOLD, Verdict
from scripts.reproduce.plan import Figure
from scripts.reproduce.results import Value, number

if TYPE_CHECKING:
    import pandas as pd

CLAIM, NUMBER = "claim", "number"


@dataclasses.dataclass(frozen=True)
class Line:
    """A claim or number of a text.

    Attributes:
      figure: Where it belongs.
      kind: One of the words above.
      says: The claim, or the arm and measure of the number.
      place: Where it stands in the text.
      published: The number; empty for a claim.
      ours: Our numbers with their intervals.
      seeds: Of ours.
      status: One of `judging.STATUSES`.
      chance: As `Verdict.chance`; a number's interval errs in 5%.
      means: What that means for who decides on an application; empty where nothing is said.
      data: What it is of, where it is not of the figure's data.
      command: What gives it, where the figure does not.
    """

    figure: Figure
    kind: str
    says: str
    place: str
    published: str
    ours: str
    seeds: int
    status: str
    chance: float
    means: str = ""
    data: str = ""
    command: str = ""


def lines(figure: Figure, rows: Sequence[Value]) -> list[Line]:
    """Returns a line for each claim and number of a figure, of which `rows` are what was played."""
    found = [_claim(figure, verdict) for verdict in judging.check(figure, rows)]
    known = {(row.arm, row.measure): row for row in rows}
    for one in figure.published:
        says = f"{one.arm}: {one.measure.replace('_', ' ')}"
        row = known.get((one.arm, one.measure))
        if row is None:
            found.append(Line(figure, NUMBER, says, one.place, number(one.value), "", 0, NOT_PLAYED, 0.0))
            continue
        status, why = judging.compare(row, figure)
        ours = judging.value_words(row, figure) + judging.stand_note(row) + (f"; {why}" if why else "")
        if row.is_picked:
            count = len(figure.tuning_seeds)
            ours += f"; picked on {f'{count} tuning seeds' if count > 1 else 'one tuning seed'}"
        chance = 1 - results.intervals.CONFIDENCE if status in (AGREES, DISAGREES) else 0.0
        seeds = len(row.finite)
        found.append(Line(figure, NUMBER, says, one.place, number(one.value), ours, seeds, status, chance))
    return found + accounted(figure)


def accounted(figure: Figure) -> list[Line]:
    """Returns the lines of a figure's epsilons, for which nothing is played."""
    found = []
    for one in figure.accounted:
        status, ours = judging.computed(one)
        told = f"./scripts/python -m scripts.privacy_budget {' '.join(one.arguments)}"
        line = Line(figure, NUMBER, one.says, one.place, number(one.value), ours, 0, status, 0.0)
        found.append(dataclasses.replace(line, data="none: computed", command=told))
    return found


def _claim(figure: Figure, one: Verdict) -> Line:
    claim = one.claim
    means = claim.means.get(one.status, "")
    return Line(figure, CLAIM, claim.says, claim.place, "", one.why, one.seeds, one.status, one.chance, means)


def command(figure: Figure, seeds: int | None = None) -> str:
    """Returns the command that plays a figure."""
    scale = "" if figure.scale == texts.PAPER else f" --scale={figure.scale}"
    repeat = f" --repeat={seeds}" if seeds and seeds != figure.repeat else ""
    return f"./scripts/python -m scripts.reproduce --figure={figure.name}{scale}{repeat}"


def table(rows: Iterable[Line]) -> "pd.DataFrame":
    """Returns lines as `scoreboard.csv` holds them."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "text": one.figure.text,
                "figure": one.figure.name,
                "kind": one.kind,
                "says": one.says,
                "source": one.place,
                "verdict": one.status,
                "published": one.published,
                "ours": one.ours,
                "seeds": one.seeds,
                "data": one.data or one.figure.stand_in or "the text's",
                "command": one.command or command(one.figure, one.seeds),
            }
            for one in rows
        ]
    )


def counts(rows: Iterable[Line]) -> dict[str, int]:
    """Returns how many lines have each word, in the words' order."""
    found = collections.Counter(one.status for one in rows)
    return {status: found[status] for status in STATUSES}


def by_chance(rows: Sequence[Line]) -> str:
    """Returns how many words may be chance's, in words; empty where none was found."""
    decided = [one for one in rows if one.status in (AGREES, DISAGREES)]
    if not decided:
        return ""
    most = sum(one.chance for one in decided)
    return (
        f"Words are not adjusted for each other: of {len(decided)} that agree or disagree, at most {number(most)} "
        "would be wrong by chance on average, were the truth at the border of every one."
    )


def summary(rows: Sequence[Line]) -> str:
    """Returns the scoreboard for the terminal: how many of each text's claims and numbers agree."""
    by_text: dict[str, list[Line]] = {}
    for one in rows:
        by_text.setdefault(one.figure.text, []).append(one)
    told = [
        f"{text}: {', '.join(f'{count} {word}' for word, count in counts(some).items() if count)}"
        for text, some in by_text.items()
    ]
    return "\n".join([*told, *filter(None, [by_chance(rows)])])


def edges(figure: Figure, rows: Sequence[Value]) -> str:
    """Returns which picks of searches lie at the edge of what was tried, in words; empty for none."""
    told = []
    for arm in figure.arms:
        picked = {row.measure: row.mean for row in rows if row.is_picked and row.arm == arm.label}
        flags = [f"{flag.replace('_', ' ')} {number(picked[flag])}" for flag in arm.edges(picked)]
        told += [f"{arm.label} ({', '.join(flags)})"] * bool(flags)
    return f"Picked at the edge of what was tried: {', '.join(told)}." if told else ""


def values_table(figure: Figure, rows: Sequence[Value]) -> "pd.DataFrame":
    """Returns a figure's numbers as `NAME.csv` holds them."""
    import pandas as pd

    return pd.DataFrame(
        {
            "label": [row.arm for row in rows],
            "measure": [row.measure for row in rows],
            "ours_mean": [row.mean for row in rows],
            "ours_low": [row.interval.low for row in rows],
            "ours_high": [row.interval.high for row in rows],
            "ours_deviation": [row.deviation for row in rows],
            "seeds": [len(row.finite) for row in rows],
            "stands": [row.stand.word if row.stand else "" for row in rows],
            "published": [row.published.value if row.published else math.nan for row in rows],
            "verdict": [judging.compare(row, figure)[0] if row.published else "" for row in rows],
            "source": [row.published.place if row.published else "" for row in rows],
        }
    )


def text(figure: Figure, rows: Sequence[Value], verdicts: Sequence[Verdict]) -> str:
    """Returns a figure's numbers and verdicts for the terminal."""
    told = []
    if rows:
        shown = values_table(figure, rows)[["label", "measure", "seeds", "stands", "published", "verdict", "source"]]
        shown.insert(2, "ours", [judging.value_words(row, figure) for row in rows])
        shown["published"] = shown["published"].map(lambda value: "" if math.isnan(value) else number(value))
        shown = shown.rename(columns={"label": "", "ours": "ours (95% interval)", "source": "where"})
        empty = [name for name in ("stands", "published", "verdict", "where") if not shown[name].any()]
        told.append(shown.drop(columns=empty).to_string(index=False))
    told += filter(None, [edges(figure, rows)])
    told += [f"{one.status:<15}{one.claim.place}: {one.claim.says} [{one.why}]" for one in verdicts]
    told += [f"{one.status:<15}{one.place}: {one.says} {one.published} [{one.ours}]" for one in accounted(figure)]
    return "\n".join(told)


def notes() -> Mapping[str, str]:
    """Returns what each verdict means, for a page."""
    return {
        AGREES: (
            "every difference that the claim needs lies on its side with its whole 95% interval; of what is close or "
            "alike, within the tolerance that its row names; of a published number, our interval lies within 5% "
            "of it, or half a unit of its last digit; an epsilon, which is computed, itself"
        ),
        DISAGREES: (
            "one lies on the other side with its whole interval; a published number lies outside of where the mean of "
            "as many new seeds of ours as the text's (one, where it does not say) would lie in 95% of cases, as its "
            "row names"
        ),
        UNTOLD: "neither: more seeds may tell; one seed never does, nor an arm of which a run diverged",
        OTHER_DATA: "the text names a number of data or settings that are not ours: ours is shown, and not judged",
        NOT_PLAYED: "no record of it",
    }
