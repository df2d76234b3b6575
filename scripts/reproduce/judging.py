"""Whether our numbers agree with what a text says.

A word is given by 95% intervals over seeds, never by means alone: `agrees` if every difference that the claim needs
lies on its side with its whole interval, `disagrees` if one lies wholly on the other, else `cannot be told`, as all
that rests on one seed. Differences are of equal seeds, paired; Welch's where no seed determines the runs
(`scripts.verdicts`). A tolerance (`within`) is our reading of words as "similar", a part of the other's mean.
Nothing is told of an arm of which a run diverged, nor of two that both never reach what is counted.

An interval lies wholly on one side by chance alone, at a difference of none, in 2.5% of such experiments. Claims are
many and not adjusted for each other: `Verdict.chance` bounds by how much each may err, and their sum says how many
words of a scoreboard may be chance's.

A number is compared only where ours comes of the text's data and settings, else it is of `other data` and never agrees;
so are claims that name numbers (`between`). It agrees if our mean's interval lies within 5% of the published number, or
half a unit of its last digit. It disagrees if the published number lies outside of what a mean of as many seeds as the
text's (one, where it does not say) would be in 95% of repetitions: the text's number is one draw, too. A rate that a
search picked has no interval. An epsilon is computed, not played: it agrees within the same bounds.
"""

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from optimization.study import intervals
from optimization.study.intervals import Interval
from scripts.reproduce.plan import Accounted, Claim, Figure, Measure
from scripts.reproduce.results import Value, number
from scripts.verdicts import comparison, of_runs

AGREES, DISAGREES, UNTOLD = "agrees", "disagrees", "cannot be told"
OTHER_DATA, NOT_PLAYED = "other data", "not played"
STATUSES = (AGREES, DISAGREES, UNTOLD, OTHER_DATA, NOT_PLAYED)
NEAR = 0.05  # Of a published number: within this part of it, ours is the same.
_TAIL = (1 - intervals.CONFIDENCE) / 2
_SURE_PAIRS = 6  # Equal differences of so many seeds are no chance: their signs have p < 5%.

Known = Mapping[tuple[str, str], Value]  # By arm and measure.


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Whether our numbers agree with a claim.

    Attributes:
      claim: The claim.
      status: One of the words above.
      why: Our numbers, with their intervals.
      seeds: Fewest that a number of it has.
      chance: How probable the word is at most, if chance alone gave it; 0 where there is no such word.
    """

    claim: Claim
    status: str
    why: str
    seeds: int
    chance: float


class _MissingError(Exception):
    """A number that a claim needs is not there."""


@dataclasses.dataclass(frozen=True)
class _Statement:
    """One statement about an interval that a claim needs: whether it holds (None: cannot be told), and why."""

    holds: bool | None
    why: str
    seeds: int
    margin: float = math.inf  # How far the interval's end lies on the right side.


def check(figure: Figure, rows: Sequence[Value]) -> list[Verdict]:
    """Returns whether our numbers agree with each claim."""
    known = {(row.arm, row.measure): row for row in rows}
    return [_check(claim, figure, known) for claim in figure.claims]


def _check(claim: Claim, figure: Figure, known: Known) -> Verdict:
    try:
        rows = _KINDS[claim.kind](claim, figure, known)
    except _MissingError as missing:
        return Verdict(claim, NOT_PLAYED, f"no {missing}", 0, 0.0)
    # Of alternatives the best speaks for its row.
    told = [(_any(one.holds for one in row), max(row, key=lambda one: one.margin)) for row in rows]
    holds = _all(truth for truth, _ in told)
    decisive = [best for truth, best in told if truth is holds]
    why = min(decisive, key=lambda one: one.margin).why
    statements = [one for row in rows for one in row]
    seeds = min(one.seeds for one in statements)
    if claim.kind == "between" and figure.stand_in:
        return Verdict(claim, OTHER_DATA, why, seeds, 0.0)
    status = UNTOLD if holds is None else AGREES if holds else DISAGREES
    chance = {AGREES: _TAIL * max(map(len, rows)), DISAGREES: _TAIL * len(rows), UNTOLD: 0.0}[status]
    return Verdict(claim, status, why, seeds, min(1.0, chance))


def compare(value: Value, figure: Figure) -> tuple[str, str]:
    """Returns the word for a number that the text publishes, and why, as the module's first lines say."""
    published = value.published
    if published is None:
        raise ValueError(f"{value.arm} has no published {value.measure}.")
    if figure.stand_in or published.other_settings:
        return OTHER_DATA, ""
    if value.is_picked:
        return UNTOLD, "a search's best point has no interval"
    if value.diverged:
        return UNTOLD, _lost(value)
    ours, theirs = value.interval, published.value
    if ours.size < 2 or not math.isfinite(ours.low):
        return UNTOLD, "one seed"
    near = max(NEAR * abs(theirs), published.unit / 2)
    if theirs - near <= ours.low and ours.high <= theirs + near:
        return AGREES, f"within {number(near)}"
    reach = (ours.high - ours.mean) * math.sqrt(1 + ours.size / figure.published_seeds) + published.unit / 2
    if abs(theirs - ours.mean) > reach:
        return (
            DISAGREES,
            f"{figure.published_seeds} more of our seeds would give {number(ours.mean)} ± {number(reach)}",
        )
    return UNTOLD, ""


def _all(truths: Iterable[bool | None]) -> bool | None:
    truths = list(truths)
    return False if False in truths else None if None in truths else True


def _any(truths: Iterable[bool | None]) -> bool | None:
    truths = list(truths)
    return True if True in truths else None if None in truths else False


def measure_of(figure: Figure, operand: str) -> Measure:
    """Returns the measure that an operand names, or the figure's first."""
    _, _, name = operand.partition(" @ ")
    return _measure(figure, name) if name else figure.measures[0]


def _measure(figure: Figure, name: str) -> Measure:
    return next((one for one in figure.measures if one.name == name), Measure(name, ""))  # Or what a search picked.


def _values(operand: str, figure: Figure, known: Known) -> list[Value]:
    """Returns the values of an operand's alternatives."""
    measure = measure_of(figure, operand).name
    found = []
    for arm in operand.partition(" @ ")[0].split(" | "):
        value = known.get((arm, measure))
        if value is None or not any(map(math.isfinite, value.finite.values())):
            raise _MissingError(f"{measure} of {arm}")
        found.append(value)
    return found


def _difference(one: Value, other: Value) -> Interval:
    """Returns the interval of one value minus another, paired over their common seeds; endless, where there is none."""
    alone = ["one"] if one.is_unpaired or other.is_unpaired else ()
    found = comparison.compare({"one": one.finite, "other": other.finite}, "other", unpaired=alone)["one"]
    never = [seed for seed, value in one.by_seed.items() if math.isinf(value) and value == other.by_seed.get(seed)]
    if one.diverged or other.diverged or never:
        return Interval(found.difference, -math.inf, math.inf, found.pairs)
    if found.deviation == 0 and found.is_judged and found.pairs >= _SURE_PAIRS:
        return Interval(found.difference, found.difference, found.difference, found.pairs)
    if not found.is_judged or not math.isfinite(found.low):
        return Interval(found.difference, -math.inf, math.inf, found.pairs)
    return Interval(found.difference, found.low, found.high, found.pairs)


def _words(one: Value, other: Value, difference: Interval) -> str:
    names = [value.measure.replace("_", " ") if one.arm == other.arm else value.arm for value in (one, other)]
    means = ", ".join(
        f"{name} {number(value.mean)}{stand_note(value)}" for name, value in zip(names, (one, other), strict=True)
    )
    lost = "".join(f"; {told}" for value in (one, other) if (told := _lost(value)))
    return f"{means}: {interval_words(difference, signed=True)}{lost}"


def stand_note(value: Value) -> str:
    """Returns the words after a number whose arm is not told above chance, or the best constant action; else none."""
    stand = value.stand
    if stand and stand.beats_chance and stand.constant and stand.constant.is_judged and not stand.constant.wins:
        return f" ({stand.word.rpartition(', ')[2]})"
    return of_runs.chance_note(stand) if stand else ""


def value_words(value: Value, figure: Figure) -> str:
    """Returns a number with its interval; of rounds to what not all seeds reach, how many do."""
    if _measure(figure, value.measure).rounds_to is not None and math.isinf(value.mean):
        reached = sum(map(math.isfinite, value.by_seed.values()))
        return f"reached by {reached} of {len(value.by_seed)} seeds"
    return interval_words(value.interval)


def _lost(value: Value) -> str:
    """Returns which runs of a value diverged, in words; empty for none."""
    count = len(value.diverged)
    return f"{value.arm} diverged in {count} of {len(value.by_seed)} seeds" if count else ""


def minus(one: Value, other: Value) -> str:
    """Returns the difference of two values over their common seeds, with its interval, as text."""
    return interval_words(_difference(one, other), signed=True)


def interval_words(found: Interval, *, signed: bool = False) -> str:
    """Returns a mean with its interval as text."""
    sign = "+" if signed else ""
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return f"{found.mean:{sign}.3g}" if math.isfinite(found.mean) else number(found.mean)
    return f"{found.mean:{sign}.3g} ({found.low:{sign}.3g} to {found.high:{sign}.3g})"


@functools.cache
def computed(one: Accounted) -> tuple[str, str]:
    """Returns the word for an epsilon, which has no interval and needs none, and ours with its flags."""
    from scripts import privacy_budget

    mechanism, rounds = privacy_budget.build(privacy_budget.define().parse(["privacy_budget", *one.arguments]))
    epsilon = mechanism.epsilon(rounds)
    status = AGREES if abs(epsilon - one.value) <= max(NEAR * one.value, one.unit / 2) else DISAGREES
    told = f"{number(epsilon)}, computed by RDP, {mechanism.analyses[0].neighbours}"
    return status, f"{told}: scripts.privacy_budget {' '.join(one.arguments)}"


def _better(one: Value, other: Value, measure: Measure, within: float | None = None) -> _Statement:
    """Returns whether one value is better than another; with a tolerance, whether it is not worse by more than that."""
    difference = _difference(one, other)
    low, high = (-difference.high, -difference.low) if measure.smallest else (difference.low, difference.high)
    if within is None:
        holds = True if low > 0 else False if high <= 0 else None
        return _Statement(holds, _words(one, other, difference), difference.size, low)
    by = -_part(within, other)
    holds = True if low >= by else False if high < by else None
    worse = "more" if measure.smallest else "less"
    why = f"{_words(one, other, difference)}; up to {100 * within:.3g}% {worse} is close"
    return _Statement(holds, why, difference.size, low - by)


def _part(share: float, value: Value) -> float:
    """Returns a part of a value's mean; of what is never reached, as `Value.finite` counts it."""
    return share * abs(statistics.fmean(value.finite.values()))


def _pairs(operands, others, figure, known, within=None):
    """Returns the statements that the best of each operand is better than all of the others' alternatives."""
    rows = []
    for operand, other in itertools.product(operands, others):
        measure = measure_of(figure, operand)
        rows += [
            [_better(one, second, measure, within) for one in _values(operand, figure, known)]
            for second in _values(other, figure, known)
        ]
    return rows


def _order(claim, figure, known):
    groups = itertools.pairwise(claim.operands)
    return [row for one, other in groups for row in _pairs(one, other, figure, known)]


def _close(claim, figure, known):
    groups = claim.operands if len(claim.operands) > 1 else [(operand,) for operand in claim.operands[0]]
    found = [[value for operand in group for value in _values(operand, figure, known)] for group in groups]
    pairs = (pair for two in itertools.combinations(found, 2) for pair in itertools.product(*two))
    return [[_near(one, other, claim.within)] for one, other in pairs]


def _near(one: Value, other: Value, share: float) -> _Statement:
    difference = _difference(one, other)
    within = _part(share, other)
    holds = None
    if -within <= difference.low and difference.high <= within:
        holds = True
    elif difference.low > within or difference.high < -within:
        holds = False
    margin = within - max(-difference.low, difference.high)
    return _Statement(holds, f"{_words(one, other, difference)}; within {number(within)}", difference.size, margin)


def _near_best(claim, figure, known):
    (operand,) = claim.operands[0]
    _, at, measure = operand.partition(" @ ")
    mine = operand.partition(" @ ")[0]
    others = [arm.label + at + measure for arm in figure.arms if arm.is_drawn and arm.label != mine]
    return _pairs([operand], others, figure, known, claim.within)


def _not_worse(claim, figure, known):
    return _pairs(*claim.operands, figure, known, claim.within)


def _larger_lead(claim, figure, known):
    one, other, third, fourth = (_values(group[0], figure, known)[0] for group in claim.operands)
    measure = measure_of(figure, claim.operands[0][0])
    return [[_better(_lead(one, other), _lead(third, fourth), measure)]]


def _lead(one: Value, other: Value) -> Value:
    """Returns one value minus another, by common seed."""
    return dataclasses.replace(
        one,
        arm=f"{one.arm} minus {other.arm}"
        if one.arm != other.arm
        else f"{one.arm}: {one.measure} minus {other.measure}",
        by_seed={seed: one.finite[seed] - other.finite[seed] for seed in one.finite if seed in other.finite},
        diverged=one.diverged | other.diverged,
        is_unpaired=one.is_unpaired or other.is_unpaired,
        stand=None,
    )


def _between(claim, figure, known):
    values = [_values(group[0], figure, known)[0] for group in claim.operands]
    words = ", ".join(f"{value.arm} {number(value.mean)}" for value in values)
    common = set.intersection(*(set(value.finite) for value in values))
    sizes = [values[0].finite[seed] - sum(value.finite[seed] for value in values[1:]) for seed in sorted(common)]
    found = intervals.of_mean(sizes)
    low, high = found.low, found.high
    lost = [told for value in values if (told := _lost(value))]
    if lost or not math.isfinite(low):
        return [[_Statement(None, "; ".join([words, *lost]), found.size)]]
    ends = sorted((abs(low), abs(high)))
    low, high = (0.0, ends[1]) if low < 0 < high else ends
    holds = True if claim.low <= low and high <= claim.high else False if high < claim.low or low > claim.high else None
    size = Interval(abs(found.mean), low, high, found.size)
    stated = f"{claim.low:g} to {claim.high:g}" if math.isfinite(claim.high) else f"{claim.low:g} or more"
    apart = "apart by " if len(values) > 1 else ""
    return [[_Statement(holds, f"{words}: {apart}{interval_words(size)}; stated {stated}", found.size)]]


def _steady(claim, figure, known):
    (value,) = _values(claim.operands[0][0], figure, known)
    seeds = len(value.finite)
    if seeds < 2 or value.diverged or not math.isfinite(value.deviation):
        return [[_Statement(None, _lost(value) or f"{value.arm} {number(value.mean)}", seeds)]]
    from scipy import stats

    # Of a standard deviation, by chi squared, as for a normal distribution.
    low, high = (value.deviation * math.sqrt((seeds - 1) / stats.chi2.ppf(p, seeds - 1)) for p in (1 - _TAIL, _TAIL))
    within = _part(claim.within, value)
    holds = True if high <= within else False if low > within else None
    told = interval_words(Interval(value.deviation, low, high, seeds))
    return [[_Statement(holds, f"{value.arm}, deviation over seeds {told}; within {number(within)}", seeds)]]


def _beats_best_fixed(claim, figure, known):
    return [[_above_constant(value) for value in _values(operand, figure, known)] for (operand,) in claim.operands]


def _above_constant(value: Value) -> _Statement:
    against = value.stand and value.stand.constant
    if not against:
        raise _MissingError(f"best fixed action beside {value.arm}")
    difference = Interval(against.difference, -math.inf, math.inf, against.pairs)
    if against.is_judged:
        difference = Interval(against.difference, against.low, against.high, against.pairs)
    why = f"{value.arm} {number(value.mean)}, best fixed action {number(against.reference_mean)}: "
    holds = True if difference.low > 0 else False if difference.high <= 0 else None
    return _Statement(holds, why + interval_words(difference, signed=True), difference.size, difference.low)


_KINDS: Mapping[str, Callable[[Claim, Figure, Known], list[list[_Statement]]]] = {
    "order": _order,
    "close": _close,
    "near_best": _near_best,
    "not_worse": _not_worse,
    "larger_lead": _larger_lead,
    "between": _between,
    "steady": _steady,
    "beats_best_fixed": _beats_best_fixed,
}
