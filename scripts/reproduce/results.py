"""What a figure's runs gave, beside what its text states: numbers and claims."""

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data.errors import UsageError
from scripts.reproduce.plan import Claim, Figure, Measure, Published

if TYPE_CHECKING:
    import pandas as pd

AGREES, DISAGREES, UNCHECKED = "agrees", "disagrees", "not checked"


@dataclasses.dataclass(frozen=True)
class Found:
    """What an arm gave.

    Attributes:
      folders: Folders of the seeds' runs.
      tables: Their `metrics.csv`, up to the last round that was asked for.
      searched: Best value of each searched flag.
      seeds: The runs' seeds.
    """

    folders: Sequence[pathlib.Path]
    tables: "Sequence[pd.DataFrame]"
    searched: Mapping[str, float]
    seeds: Sequence[int]


@dataclasses.dataclass(frozen=True)
class Value:
    """One number of ours.

    Attributes:
      arm: Label.
      measure: Name.
      mean: Mean over seeds; infinite if a seed never reaches what is counted, not a number if there is none.
      deviation: Standard deviation over seeds, with n - 1; not a number below two.
      seeds: How many.
      published: What the text states, if it does.
    """

    arm: str
    measure: str
    mean: float
    deviation: float
    seeds: int
    published: Published | None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether our numbers agree with a claim.

    Attributes:
      claim: The claim.
      status: One of the words above.
      why: Our numbers.
    """

    claim: Claim
    status: str
    why: str


def measured(measure: Measure, found: Found) -> list[float]:
    """Returns a measure of each seed; of `deviation`, one of all.

    Raises:
      UsageError: If a run does not have it; it names the file.
    """
    if ".npz:" in measure.column:
        name, _, field = measure.column.partition(":")
        paths = [next(iter(sorted(folder.glob(name))), folder / name) for folder in found.folders]
        return [_of_file(path, field) for path in paths]
    curves = []
    for folder, table in zip(found.folders, found.tables, strict=True):
        if measure.column not in table:
            raise UsageError(f"{folder / 'metrics.csv'} has no column {measure.column}.")
        curves.append(table.set_index("round_num")[measure.column].dropna())
    if measure.at == "deviation":
        import pandas as pd

        together = pd.concat(curves, axis=1)
        residuals = together.sub(together.mean(axis=1), axis=0).to_numpy().ravel()
        residuals = residuals[np.isfinite(residuals)]
        return [float(np.std(residuals, ddof=1)) if len(residuals) > 1 and len(curves) > 1 else math.nan]
    return [_at(curve, measure.at) for curve in curves]


def _at(curve: "pd.Series", at: int | str) -> float:
    if isinstance(at, str) and at.startswith("rounds to "):
        reached = curve.index[curve >= float(at.removeprefix("rounds to "))]
        return float(reached[0]) if len(reached) else math.inf
    if curve.empty:
        return math.nan
    if isinstance(at, int):
        return float(curve.get(at, math.nan))
    if at.startswith("last "):
        return float(curve.tail(int(at.removeprefix("last "))).mean())
    return float({"last": curve.iloc[-1], "first": curve.iloc[0], "mean": curve.mean(), "max": curve.max()}[at])


def _of_file(path: pathlib.Path, field: str) -> float:
    """Returns the mean size of the numbers of an array."""
    try:
        with np.load(path) as archive:
            return float(np.nanmean(np.abs(archive[field])))
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(f"{path} holds no {field} ({error}).") from error


def values(figure: Figure, found: Mapping[str, Found]) -> list[Value]:
    """Returns every number of a figure, of arms that gave any, by arm and measure.

    Args:
      figure: The figure.
      found: What each arm gave; arms whose runs failed are missing.
    """
    published = {(one.arm, one.measure): one for one in figure.published}
    rows = []
    for arm in figure.arms:
        one = found.get(arm.label)
        if one is None:
            continue
        numbers = {measure.name: measured(measure, one) for measure in figure.measures}
        numbers |= {flag: [value] for flag, value in one.searched.items()}
        for name, seeds in numbers.items():
            mean = float(np.mean(seeds)) if seeds else math.nan
            is_spread = len(seeds) > 1 and math.isfinite(mean)
            deviation = float(np.std(seeds, ddof=1)) if is_spread else math.nan
            rows.append(Value(arm.label, name, mean, deviation, len(one.folders), published.get((arm.label, name))))
    return rows


def check(figure: Figure, rows: Sequence[Value]) -> list[Verdict]:
    """Returns whether our numbers agree with each claim; one whose arms are not here is not checked."""
    known = {(row.arm, row.measure): row for row in rows}
    return [_check(claim, figure, known) for claim in figure.claims]


class _MissingError(Exception):
    """A number that a claim needs is not there."""


def _check(claim: Claim, figure: Figure, known: Mapping[tuple[str, str], Value]) -> Verdict:
    try:
        agrees, why = _KINDS[claim.kind](claim, figure, known)
    except _MissingError as missing:
        return Verdict(claim, UNCHECKED, f"no {missing}")
    return Verdict(claim, AGREES if agrees else DISAGREES, why)


def _operand(operand: str, figure: Figure, known: Mapping[tuple[str, str], Value]) -> tuple[float, str]:
    """Returns an operand's goodness, more being better, and its words."""
    names, _, wanted = operand.partition(" @ ")
    measure = _measure(figure, wanted)
    sign = -1 if measure.smallest else 1
    best = max((_value(name, measure, known) for name in names.split(" | ")), key=lambda value: sign * value.mean)
    return sign * best.mean, f"{best.arm} {f'{wanted} ' if wanted else ''}{number(best.mean)}"


def _measure(figure: Figure, name: str) -> Measure:
    by_name = {one.name: one for one in figure.measures} | {flag: Measure(flag, "") for flag in figure.searched}
    return by_name[name] if name else figure.measures[0]


def _value(name: str, measure: Measure, known: Mapping[tuple[str, str], Value]) -> Value:
    value = known.get((name, measure.name))
    if value is None or math.isnan(value.mean):
        raise _MissingError(f"{measure.name} of {name}")
    return value


def _order(claim, figure, known):
    groups = [[_operand(operand, figure, known) for operand in group] for group in claim.operands]
    pairs = itertools.pairwise(groups)
    agrees = all(min(value for value, _ in one) > max(value for value, _ in other) for one, other in pairs)
    return agrees, " against ".join(", ".join(words for _, words in group) for group in groups)


def _close(claim, figure, known):
    all_of_them = [_operand(operand, figure, known) for group in claim.operands for operand in group]
    sizes = [value for value, _ in all_of_them]
    spread = max(sizes) - min(sizes) if max(sizes) != min(sizes) else 0.0
    return spread <= claim.within, f"{', '.join(words for _, words in all_of_them)}; within {claim.within:g}"


def _near_best(claim, figure, known):
    operand = claim.operands[0][0]
    mine, words = _operand(operand, figure, known)
    _, at, measure = operand.partition(" @ ")
    drawn = {arm.label for arm in figure.arms if arm.is_drawn}
    there = [arm for arm, name in known if arm in drawn and name == _measure(figure, measure).name]
    best, best_words = max(_operand(arm + at + measure, figure, known) for arm in there)
    return best - mine <= claim.within, f"{words}, best {best_words}; within {claim.within:g}"


def _not_worse(claim, figure, known):
    (one, words), (other, other_words) = (_operand(group[0], figure, known) for group in claim.operands)
    return one >= other - claim.within, f"{words}, {other_words}; within {claim.within:g}"


def _between(claim, figure, known):
    measured = [_operand(group[0], figure, known) for group in claim.operands]
    value = abs(measured[0][0] - sum(other for other, _ in measured[1:]))
    words = ", ".join(words for _, words in measured)
    return claim.low <= value <= claim.high, f"{words}; {claim.low:g} to {claim.high:g}"


def _steady(claim, figure, known):
    name, _, wanted = claim.operands[0][0].partition(" @ ")
    value = _value(name, _measure(figure, wanted), known)
    if math.isnan(value.deviation):
        raise _MissingError(f"second seed of {name}")
    return value.deviation <= claim.within, f"{name} ± {number(value.deviation)}; within {claim.within:g}"


_KINDS = {
    "order": _order,
    "close": _close,
    "near_best": _near_best,
    "not_worse": _not_worse,
    "between": _between,
    "steady": _steady,
}


def number(value: float) -> str:
    """Returns a number as text."""
    if math.isinf(value):
        return "none"
    return "-" if math.isnan(value) else f"{value:.3g}"


def table(rows: Sequence[Value]) -> "pd.DataFrame":
    """Returns the numbers as `NAME.csv` holds them."""
    import pandas as pd

    return pd.DataFrame(
        {
            "label": [row.arm for row in rows],
            "measure": [row.measure for row in rows],
            "ours_mean": [row.mean for row in rows],
            "ours_deviation": [row.deviation for row in rows],
            "seeds": [row.seeds for row in rows],
            "published": [row.published.value if row.published else math.nan for row in rows],
            "source": [row.published.place if row.published else "" for row in rows],
        }
    )


def text(rows: Sequence[Value], verdicts: Sequence[Verdict]) -> str:
    """Returns the numbers and verdicts for the terminal."""
    lines = []
    if rows:
        shown = table(rows).drop(columns="seeds")
        shown.columns = ["", "measure", "ours", "±", "published", "where"]
        shown["ours"] = shown["ours"].map(number)
        for name in ("±", "published"):
            shown[name] = shown[name].map(lambda value: "" if math.isnan(value) else number(value))
        empty = [name for name in ("±", "published", "where") if not shown[name].any()]
        lines.append(shown.drop(columns=empty).to_string(index=False))
    lines += [f"{one.status:<13}{one.claim.place}: {one.claim.says} [{one.why}]" for one in verdicts]
    return "\n".join(lines)


def stand_in(figure: Figure) -> str:
    """Returns the words that say that a figure is not of the study's data."""
    return f"Stand-in data: {figure.stand_in}; not the study's."
