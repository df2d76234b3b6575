"""Whether this project's runs support what a paper states.

A verdict needs 95% intervals over seeds, never means alone. On the paper's data a claim `agrees` if every difference
that it needs lies on its side with its whole interval, and `disagrees` if one lies wholly on the other side. On a
stand-in the same results are called `same direction` and `opposite direction`: other data neither confirm nor refute a
paper. Everything else is `inconclusive`, as is every result of one seed. Differences are paired by seed; where the seed
does not determine a run, the test is Welch's (`bandits.results`). A tolerance (`within`) is this project's reading of
words such as "similar", relative to the mean that is compared with. A configuration of which a run diverged decides
nothing, nor do two that both never reach what is counted.

A claim is tested only where its premises hold (`premises`), else its status is `premise not met`.

At a true difference of zero, an interval lies wholly on one side in 2.5% of experiments. Claims are many and not
adjusted for each other: `Verdict.error_probability` bounds how often each errs, and their sum bounds the errors of a
scoreboard.

A number is compared only at the paper's data and settings, else it is `not comparable`; so are claims that name numbers
(`between`). It agrees if the interval of our mean lies within 5% of the published number, or half a unit of its last
digit. It disagrees if the published number lies outside of the range that holds 95% of the means of as many new seeds
as the paper has (one, where it does not say): the paper's number is one sample, too. A rate that a search picked has no
interval. An epsilon is computed, not run: it agrees within the same bounds.
"""

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from bandits.papers import premises
from bandits.papers.plan import PAPER_DATA, STAND_IN, Accounted, Claim, Figure, Measure, parse_operand
from bandits.papers.premises import Known, Premise
from bandits.papers.results import Value, number
from bandits.results import baselines, budget, former
from bandits.results import phrases as words
from optimization.privacy import mechanisms
from optimization.study import intervals
from optimization.study.intervals import Interval

AGREES, DISAGREES = "agrees", "disagrees"  # Of the paper's data.
SAME, OPPOSITE = "same direction", "opposite direction"  # Of a stand-in.
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
PREMISE, NOT_RUN = "premise not met", "not run"
STATUSES = (AGREES, DISAGREES, SAME, OPPOSITE, INCONCLUSIVE, PREMISE, NOT_COMPARABLE, NOT_RUN)
_TRUE, _FALSE = "true", "false"  # Outcomes of a statement, beside INCONCLUSIVE and PREMISE.
HOLDS, FAILS = (AGREES, SAME), (DISAGREES, OPPOSITE)
OURS = "our tolerance"
NEAR = 0.05  # Of a published number: within this part of it, ours is the same.
_TAIL = (1 - intervals.CONFIDENCE) / 2
_POSITIVE = math.ulp(0.0)  # The least number above 0.


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a claim's test.

    Attributes:
      claim: The claim.
      status: One of `STATUSES`.
      why: Our numbers with their intervals, and why there is no verdict.
      seeds: The smallest number of seeds behind a number of it.
      error_probability: Largest probability of this direction if there is no true difference; 0 without a direction.
    """

    claim: Claim
    status: str
    why: str
    seeds: int
    error_probability: float

    @property
    def means(self) -> str:
        """What the result means for a practitioner; empty where nothing is declared."""
        key = "holds" if self.status in HOLDS else "fails" if self.status in FAILS else self.status
        return self.claim.means.get(key, "")


class _MissingError(Exception):
    """A number that a claim needs is missing."""


@dataclasses.dataclass(frozen=True)
class _Statement:
    """One statement about an interval that a claim needs.

    Attributes:
      holds: Whether it is true; None if inconclusive.
      why: The numbers.
      seeds: Number of seeds.
      margin: Distance of the interval's end from the limit, positive on the right side.
      premise: Premise of the statement.
    """

    holds: bool | None
    why: str
    seeds: int
    margin: float = math.inf
    premise: Premise = premises.MET

    @property
    def outcome(self) -> str:
        """The direction, or why there is none."""
        if self.premise.holds is False:
            return PREMISE
        if self.holds is None or self.premise.holds is None:
            return INCONCLUSIVE
        return _TRUE if self.holds else _FALSE


def check(figure: Figure, rows: Sequence[Value]) -> list[Verdict]:
    """Verdict on each claim."""
    known = {(row.configuration, row.measure): row for row in rows}
    return [_check(claim, figure, known) for claim in figure.claims]


def _check(claim: Claim, figure: Figure, known: Known) -> Verdict:
    if not claim.kind or (claim.needs and figure.data_kind != PAPER_DATA):
        return Verdict(claim, NOT_RUN, f"needs {claim.needs}", 0, 0.0)
    try:
        rows = KINDS[claim.kind](claim, figure, known)
        needed = [premises.learned(_values(operand, figure, known)) for operand in claim.premises]
    except _MissingError as missing:
        return Verdict(claim, NOT_RUN, f"no {missing}", 0, 0.0)
    shown = _all([_any(row) for row in rows])
    why, seeds = shown.why, min(one.seeds for row in rows for one in row)
    if claim.kind == "between" and not figure.has_paper_settings:
        return Verdict(claim, NOT_COMPARABLE, why, seeds, 0.0)
    if premise := next((one for one in (*needed, shown.premise) if not one.holds), None):
        status, word = (PREMISE, PREMISE) if premise.holds is False else (INCONCLUSIVE, "premise unknown")
        return Verdict(claim, status, f"{why}; {word}: {premise.why}", seeds, 0.0)
    if shown.holds is None:
        return Verdict(claim, INCONCLUSIVE, why, seeds, 0.0)
    holds, fails = (SAME, OPPOSITE) if figure.data_kind == STAND_IN else (AGREES, DISAGREES)
    error_probability = _TAIL * (max(map(len, rows)) if shown.holds else len(rows))
    return Verdict(claim, holds if shown.holds else fails, why, seeds, min(1.0, error_probability))


def _any(row: Sequence[_Statement]) -> _Statement:
    """The alternative that decides, as one suffices: the clearest of those with the deciding outcome."""
    outcome = min((one.outcome for one in row), key=(_TRUE, INCONCLUSIVE, PREMISE, _FALSE).index)
    return max((one for one in row if one.outcome == outcome), key=lambda one: one.margin)


def _all(some: Sequence[_Statement]) -> _Statement:
    """The statement that decides, as all are needed: the weakest of those with the deciding outcome."""
    outcome = min((one.outcome for one in some), key=(_FALSE, PREMISE, INCONCLUSIVE, _TRUE).index)
    return min((one for one in some if one.outcome == outcome), key=lambda one: one.margin)


def compare(value: Value, figure: Figure) -> tuple[str, str]:
    """Status of a number that the paper publishes, and the reason; see the module's docstring."""
    published = value.published
    if published is None:
        raise ValueError(f"{value.configuration} has no published {value.measure}.")
    if not figure.has_paper_settings or published.other_settings:
        return NOT_COMPARABLE, ""
    if value.is_picked:
        return INCONCLUSIVE, "a search's best point has no interval"
    if value.diverged:
        return INCONCLUSIVE, _lost(value)
    ours, theirs = value.interval, published.value
    if ours.size < 2 or not math.isfinite(ours.low):
        return INCONCLUSIVE, "one seed"
    near = max(NEAR * abs(theirs), published.unit / 2)
    if theirs - near <= ours.low and ours.high <= theirs + near:
        return AGREES, f"within {number(near)} ({OURS})"
    reach = (ours.high - ours.mean) * math.sqrt(1 + ours.size / figure.published_seeds) + published.unit / 2
    if abs(theirs - ours.mean) > reach:
        return (
            DISAGREES,
            f"95% of means of {words.seeds(figure.published_seeds)} of ours: {number(ours.mean)} ± {number(reach)}",
        )
    return INCONCLUSIVE, ""


def measure_of(figure: Figure, operand: str) -> Measure:
    """Measure that an operand names, or the figure's first."""
    _, name = parse_operand(operand)
    return _measure(figure, name) if name else figure.measures[0]


def _measure(figure: Figure, name: str) -> Measure:
    return next((one for one in figure.measures if one.name == name), Measure(name, ""))  # Or what a search picked.


def _values(operand: str, figure: Figure, known: Known) -> list[Value]:
    """Values of an operand's alternatives.

    Raises:
      _MissingError: If one is missing.
    """
    measure = measure_of(figure, operand).name
    found = []
    for configuration in parse_operand(operand)[0]:
        value = known.get((configuration, measure))
        if value is None or not any(map(math.isfinite, value.finite.values())):
            raise _MissingError(f"{measure} of {configuration}")
        found.append(value)
    return found


def _difference(one: Value, other: Value) -> Interval:
    """Interval of one value minus another, paired over common seeds; infinite if there is none."""
    alone = ["one"] if one.is_unpaired or other.is_unpaired else ()
    found = former.compare({"one": one.finite, "other": other.finite}, "other", unpaired=alone)["one"]
    never = [seed for seed, value in one.by_seed.items() if math.isinf(value) and value == other.by_seed.get(seed)]
    low, high = -math.inf, math.inf
    if found.is_judged and not (one.diverged or other.diverged or never):
        if found.deviation == 0 and found.pairs >= premises.CERTAIN_PAIRS:
            low = high = found.difference
        elif math.isfinite(found.low):
            low, high = found.low, found.high
    return Interval(found.difference, low, high, found.pairs)


def _described(one: Value, other: Value, difference: Interval) -> str:
    labels = [
        value.measure.replace("_", " ") if one.configuration == other.configuration else value.configuration
        for value in (one, other)
    ]
    shown = (one, other)
    if not (one.is_unpaired or other.is_unpaired):  # Means of the seeds that the difference is of.
        shown = _paired(one, other), _paired(other, one)
    means = ", ".join(
        f"{name} {number(value.mean)}{baseline_note(value)}" for name, value in zip(labels, shown, strict=True)
    )
    lost = "".join(f"; {note}" for value in (one, other) if (note := _lost(value)))
    return f"{means}: {difference.text(signed=True)}{lost}"


def _paired(value: Value, other: Value) -> Value:
    """A value over the seeds that it has in common with another."""
    common = {seed for seed, number in other.by_seed.items() if not math.isnan(number)}
    return dataclasses.replace(value, by_seed={seed: one for seed, one in value.by_seed.items() if seed in common})


def baseline_note(value: Value) -> str:
    """Note on a number that is not significantly above the uniform policy or the best fixed action."""
    against = value.baselines
    if against and against.beats_uniform and against.fixed and against.fixed.is_judged and not against.fixed.wins:
        return f" ({against.summary.rpartition(', ')[2]})"
    return baselines.note(against) if against else ""


def value_words(value: Value, figure: Figure) -> str:
    """Number with its interval; for rounds to a value, how many seeds reach it if not all do."""
    if _measure(figure, value.measure).rounds_to is not None and math.isinf(value.mean):
        reached = sum(map(math.isfinite, value.by_seed.values()))
        return f"reached by {reached} of {len(value.by_seed)} seeds"
    return value.interval.text()


def _lost(value: Value) -> str:
    """Diverged runs of a value, in words; empty for none."""
    count = len(value.diverged)
    return f"{value.configuration} diverged in {count} of {len(value.by_seed)} seeds" if count else ""


def minus(one: Value, other: Value) -> str:
    """Difference of two values over their common seeds, with its interval, as text."""
    return _difference(one, other).text(signed=True)


@functools.cache
def computed(one: Accounted) -> tuple[str, str]:
    """Status of an epsilon, which is computed without an interval, and our value with its flags."""
    mechanism, rounds = budget.build(budget.define().parse(["privacy_budget", *one.arguments]))
    epsilon = mechanism.epsilon(rounds)
    status = AGREES if abs(epsilon - one.value) <= max(NEAR * one.value, one.unit / 2) else DISAGREES
    ours = f"{mechanisms.digits(epsilon)}, computed by RDP, {mechanism.analyses[0].neighbours}"
    return status, f"{ours}: scripts.privacy_budget {' '.join(one.arguments)}"


def _statement(
    found: Interval, why: str, low: float = -math.inf, high: float = math.inf, premise: Premise = premises.MET
) -> _Statement:
    """Statement that a number lies between two limits: true or false for its whole interval, or inconclusive."""
    is_inside, is_outside = low <= found.low and found.high <= high, found.high < low or found.low > high
    holds = True if is_inside else False if is_outside else None
    return _Statement(holds, why, found.size, min(found.low - low, high - found.high), premise)


def _better(
    one: Value, other: Value, measure: Measure, within: float | None = None, premise: Premise = premises.MET
) -> _Statement:
    """Statement that one value is better than another; with a tolerance, that it is not worse by more than that."""
    difference = _difference(one, other)
    why = _described(one, other, difference)
    if within:
        why += f"; up to {100 * within:.3g}% {'more' if measure.smallest else 'less'} is close ({OURS})"
    if measure.smallest:
        difference = difference._replace(low=-difference.high, high=-difference.low)
    return _statement(difference, why, _POSITIVE if within is None else -_part(within, other), premise=premise)


def _part(share: float, value: Value) -> float:
    """Share of a value's mean; `Value.finite` counts values that are never reached."""
    return share * abs(statistics.fmean(value.finite.values()))


def _premise(one: Value, other: Value, measure: Measure, figure: Figure, known: Known) -> Premise:
    return premises.of_comparison(one, other, _difference(one, other), measure, figure, known)


def _pairs(operands, others, figure, known, within=None):
    """Statements that the best of each operand is better than all of the others' alternatives."""
    rows = []
    for operand, other in itertools.product(operands, others):
        measure = measure_of(figure, operand)
        firsts = _values(operand, figure, known)
        for second in _values(other, figure, known):
            needed = [_premise(one, second, measure, figure, known) for one in firsts]
            pairs = zip(firsts, needed, strict=True)
            rows.append([_better(one, second, measure, within, premise) for one, premise in pairs])
    return rows


def _order(claim, figure, known):
    groups = itertools.pairwise(claim.operands)
    return [row for one, other in groups for row in _pairs(one, other, figure, known)]


def _close(claim, figure, known):
    groups = claim.operands if len(claim.operands) > 1 else [(operand,) for operand in claim.operands[0]]
    found = [[value for operand in group for value in _values(operand, figure, known)] for group in groups]
    rows = []
    for one, other in (pair for two in itertools.combinations(found, 2) for pair in itertools.product(*two)):
        difference, within = _difference(one, other), _part(claim.within, other)
        why = f"{_described(one, other, difference)}; within {number(within)} is close ({OURS})"
        premise = _premise(one, other, _measure(figure, one.measure), figure, known)
        rows.append([_statement(difference, why, -within, within, premise)])
    return rows


def _apart(claim, figure, known):
    found = [one for row in _close(claim, figure, known) for one in row]
    return [
        [dataclasses.replace(one, holds=None if one.holds is None else not one.holds, margin=-one.margin)]
        for one in found
    ]


def _near_best(claim, figure, known):
    (operand,) = claim.operands[0]
    mine, measure = parse_operand(operand)
    of = f" @ {measure}" * bool(measure)
    others = [
        configuration.label + of
        for configuration in figure.configurations
        if configuration.is_drawn and configuration.label not in mine
    ]
    return _pairs([operand], others, figure, known, claim.within)


def _not_worse(claim, figure, known):
    return _pairs(*claim.operands, figure, known, claim.within)


def _larger_lead(claim, figure, known):
    one, other, third, fourth = _firsts(claim, figure, known)
    measure = measure_of(figure, claim.operands[0][0])
    needed = [_premise(*pair, measure, figure, known) for pair in ((one, other), (third, fourth))]
    premise = next((one for one in needed if not one.holds), premises.MET)
    return [[_better(_lead(one, other), _lead(third, fourth), measure, premise=premise)]]


def _firsts(claim: Claim, figure: Figure, known: Known) -> list[Value]:
    """Value of each group's only operand."""
    return [_values(group[0], figure, known)[0] for group in claim.operands]


def _lead(one: Value, other: Value) -> Value:
    """One value minus another, by common seed."""
    names = (
        (one.configuration, other.configuration)
        if one.configuration != other.configuration
        else (f"{one.configuration}: {one.measure}", other.measure)
    )
    return dataclasses.replace(
        one,
        configuration=" minus ".join(names),
        by_seed={seed: one.finite[seed] - other.finite[seed] for seed in one.finite if seed in other.finite},
        diverged=one.diverged | other.diverged,
        is_unpaired=one.is_unpaired or other.is_unpaired,
        baselines=None,
    )


def _between(claim, figure, known):
    values = _firsts(claim, figure, known)
    means = ", ".join(f"{value.configuration} {number(value.mean)}" for value in values)
    common = set.intersection(*(set(value.finite) for value in values))
    sizes = [values[0].finite[seed] - sum(value.finite[seed] for value in values[1:]) for seed in sorted(common)]
    found = intervals.of_mean(sizes)
    lost = list(filter(None, map(_lost, values)))
    if lost or not math.isfinite(found.low):
        return [[_Statement(None, "; ".join([means, *lost]), found.size)]]
    least, most = sorted(map(abs, found[1:3]))
    size = Interval(abs(found.mean), 0.0 if found.low < 0 < found.high else least, most, found.size)
    stated = f"{claim.low:g} to {claim.high:g}" if math.isfinite(claim.high) else f"{claim.low:g} or more"
    stated = f"range {stated} (ours)" if claim.our_range else f"stated {stated}"
    why = f"{means}: {'apart by ' * (len(values) > 1)}{size.text()}; {stated}"
    return [[_statement(size, why, claim.low, claim.high)]]


def _steady(claim, figure, known):
    (value,) = _firsts(claim, figure, known)
    seeds = len(value.finite)
    if seeds < 2 or value.diverged or not math.isfinite(value.deviation):
        return [[_Statement(None, _lost(value) or f"{value.configuration} {number(value.mean)}", seeds)]]
    from scipy import stats

    # Of a standard deviation, by chi squared, as for a normal distribution.
    low, high = (value.deviation * math.sqrt((seeds - 1) / stats.chi2.ppf(p, seeds - 1)) for p in (1 - _TAIL, _TAIL))
    within, deviation = _part(claim.within, value), Interval(value.deviation, low, high, seeds)
    why = f"{value.configuration}, standard deviation over seeds {deviation.text()}; "
    why += f"up to {number(within)} is small ({OURS})"
    return [[_statement(deviation, why, high=within)]]


def _beats_best_fixed(claim, figure, known):
    return [[_above_fixed(value) for value in _values(operand, figure, known)] for (operand,) in claim.operands]


def _above_fixed(value: Value) -> _Statement:
    against = value.baselines and value.baselines.fixed
    if not against:
        raise _MissingError(f"best fixed action beside {value.configuration}")
    low, high = (against.low, against.high) if against.is_judged else (-math.inf, math.inf)
    difference = Interval(against.difference, low, high, against.pairs)
    why = f"{value.configuration} {number(value.mean)}, best fixed action {number(against.reference_mean)}: "
    return _statement(difference, why + difference.text(signed=True), _POSITIVE)


KINDS: Mapping[str, Callable[[Claim, Figure, Known], list[list[_Statement]]]] = {
    "order": _order,
    "close": _close,
    "apart": _apart,
    "near_best": _near_best,
    "not_worse": _not_worse,
    "larger_lead": _larger_lead,
    "between": _between,
    "steady": _steady,
    "beats_best_fixed": _beats_best_fixed,
}
