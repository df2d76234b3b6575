"""Whether this project's runs support what a paper states.

All comparisons of a figure are one family: the statements that its claims need, the published numbers that are
comparable, and the configurations compared with the figure's reference. Each is tested as in reports
(`bandits.results.comparison`): a t test of the differences paired by seed, Welch's where the seed does not determine a
run, the sign test where all differences are equal. Holm adjusts the p-values over the family, which counts equal tests
once. So at most 5% of figures have any wrong direction. Intervals are shown without adjustment.

- An order is tested against a difference of 0; a tolerance (`within`) and a range (`between`) at the limit that is
  nearest to our mean. There p is twice the one-sided p, so p < 5% means that the whole 95% interval lies on one side of
  the limit. A tolerance is this project's reading of words such as "similar", relative to the mean compared with.
- On the paper's data a claim `agrees` if each statement that it needs is true with adjusted p < 5%, and `disagrees` if
  one is false with adjusted p < 5%. On a stand-in these are called `same direction` and `opposite direction`: other
  data neither confirm nor refute a paper. Everything else is `inconclusive`, as is every result of one seed, of a
  configuration with a diverged run, and of two that both never reach what is counted.
- A published number is compared only at the paper's data and settings, else it is `not comparable`; so are claims that
  name numbers (`between`). If our mean lies within 5% of it, or half a unit of its last digit, `agrees` is tested as a
  tolerance. Otherwise `disagrees` is tested: whether it could be the mean of as many new seeds as the paper has (one,
  where it does not say). A rate that a search picked has no test. An epsilon is computed, not run: it agrees within the
  same bounds.

A claim whose premises fail is `premise not met`; its statements still count in the family:

- A claim about a strong initial model needs a model that beats the best fixed action (`Claim.premises`).
- A comparison with Greedy needs one of the two to beat the best fixed action: below it, both are failures.
- Where the worse of two was searched, its best point lies on no edge of its grid: beyond it, it could be the better.

"Beats" means significantly better, adjusted over the configurations with the same baselines, as in their table. Where
the best fixed action is unknown, so is the premise: `inconclusive`.
"""

import dataclasses
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from bandits.papers.plan import PAPER_DATA, STAND_IN, Accounted, Claim, Figure, Measure, Published, parse_operand
from bandits.papers.results import Value, number
from bandits.plans.plan import Configuration
from bandits.results import baselines, budget, comparison, words
from bandits.results.comparison import Comparison
from optimization.privacy import mechanisms
from optimization.study.intervals import Interval

AGREES, DISAGREES = "agrees", "disagrees"  # Of the paper's data.
SAME, OPPOSITE = "same direction", "opposite direction"  # Of a stand-in.
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
PREMISE, NOT_RUN = "premise not met", "not run"
STATUSES = (AGREES, DISAGREES, SAME, OPPOSITE, INCONCLUSIVE, PREMISE, NOT_COMPARABLE, NOT_RUN)
HOLDS, FAILS = (AGREES, SAME), (DISAGREES, OPPOSITE)
OURS = "our tolerance"
NEAR = 0.05  # Of a published number: within this part of it, ours is the same.
_TRUE, _FALSE = "true", "false"  # Outcomes of a statement, beside INCONCLUSIVE and PREMISE.
_GREEDY = "Greedy"  # The label of the strategy that does not explore.

Known = Mapping[tuple[str, str], Value]  # By configuration and measure.


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of the tests of a claim or number.

    Attributes:
      status: One of `STATUSES`.
      why: Our numbers with their intervals and the adjusted p, and why there is no verdict.
      seeds: The smallest number of seeds behind a number of it.
    """

    status: str
    why: str
    seeds: int = 0


@dataclasses.dataclass(frozen=True)
class Verdicts:
    """Verdicts on a figure.

    Attributes:
      claims: Verdict on each claim.
      numbers: Verdict on each published number.
      tests: First measure of each configuration compared with the reference of its figure; empty without a reference.
    """

    claims: Sequence[Verdict]
    numbers: Sequence[Verdict]
    tests: Sequence[Comparison]


class _MissingError(Exception):
    """A number that a claim needs is missing."""


@dataclasses.dataclass(frozen=True)
class _Premise:
    """Whether a comparison may be judged: `holds` is None where that is unknown, and `why` says what is wrong."""

    holds: bool | None = True
    why: str = ""


_MET = _Premise()


@dataclasses.dataclass
class _Statement:
    """A statement about a difference and a limit, which a claim needs.

    Attributes:
      is_met: Whether our mean lies on its side of the limit.
      key: What is compared at which limit; equal for equal tests.
      p: Two-sided p of the test at the limit; NaN if it is not judged.
      why: The numbers.
      seeds: Number of seeds.
      margin: Distance of the interval's end from the limit, positive on the right side.
      premise: Premise of the statement.
      adjusted_p: `p` adjusted by Holm over the figure's statements; NaN until all are known.
    """

    is_met: bool
    key: Hashable
    p: float
    why: str
    seeds: int
    margin: float = 0.0
    premise: _Premise = _MET
    adjusted_p: float = math.nan

    @property
    def outcome(self) -> str:
        """The direction, or why there is none."""
        if self.premise.holds is False:
            return PREMISE
        if not self.adjusted_p < comparison.LEVEL or self.premise.holds is None:
            return INCONCLUSIVE
        return _TRUE if self.is_met else _FALSE

    @property
    def numbers(self) -> str:
        """The numbers with the adjusted p, if there is a test."""
        return self.why if math.isnan(self.p) else f"{self.why}; adjusted p {words.p_value(self.adjusted_p)}"


def judge(figure: Figure, rows: Sequence[Value]) -> Verdicts:
    """Judges all comparisons of a figure as one family; see the module's docstring."""
    known = {(row.configuration, row.measure): row for row in rows}
    tested_claims = [_tested(claim, figure, known) for claim in figure.claims]
    tested_numbers = [_tested_number(published, figure, known) for published in figure.published]
    tests = _against_reference(figure, known)
    statements = [one for rows in tested_claims if isinstance(rows, list) for row in rows for one in row]
    statements += [one for one in tested_numbers if isinstance(one, _Statement)]
    p_values = {statement.key: statement.p for statement in statements}
    p_values |= {key: test.p if test.is_judged else math.nan for key, test in tests.items()}
    adjusted = dict(zip(p_values, comparison.holm(list(p_values.values())), strict=True))
    level = comparison.LEVEL / max(1, sum(map(math.isfinite, p_values.values())))
    for statement in statements:
        statement.adjusted_p = adjusted[statement.key]
    return Verdicts(
        [
            tested if isinstance(tested, Verdict) else _verdict(claim, tested, figure, known)
            for claim, tested in zip(figure.claims, tested_claims, strict=True)
        ],
        [tested if isinstance(tested, Verdict) else _number_verdict(tested) for tested in tested_numbers],
        [dataclasses.replace(test, adjusted_p=adjusted[key], level=level) for key, test in tests.items()],
    )


def reference_of(figure: Figure, configuration: Configuration) -> str:
    """Label of the configuration with the figure's reference on its axis; empty without one."""
    drawn = [other for other in figure.configurations if other.is_drawn]
    axis = next((other.words.index(figure.reference) for other in drawn if figure.reference in other.words), None)
    if axis is None or not configuration.is_drawn or configuration.words[axis] == figure.reference:
        return ""
    return ", ".join((*configuration.words[:axis], str(figure.reference), *configuration.words[axis + 1 :]))


def _against_reference(figure: Figure, known: Known) -> dict[Hashable, Comparison]:
    """First measures compared with the reference's, by `_key`."""
    measure = figure.measures[0]
    tests: dict[Hashable, Comparison] = {}
    for configuration in figure.configurations:
        first = known.get((configuration.label, measure.name))
        second = known.get((reference_of(figure, configuration), measure.name))
        if first and second:
            is_paired = not (first.is_unpaired or second.is_unpaired)
            pair = comparison.Pair(first.configuration, first.sound, second.configuration, second.sound, is_paired)
            (tests[_key(first, second)],) = comparison.family([pair], "down" if measure.smallest else "up")
    return tests if any(test.is_judged for test in tests.values()) else {}


def _key(first: Value, second: Value | None = None, shift: float = 0.0) -> tuple[object, ...]:
    """Key of a test, which does not depend on the order of the two."""
    names = [(value.configuration, value.measure) for value in (first, second) if value]
    return (*sorted(names), shift if names == sorted(names) else -shift)


def _tested(claim: Claim, figure: Figure, known: Known) -> list[list[_Statement]] | Verdict:
    """Statements of a claim: all rows are needed, and one of each row's alternatives. A verdict if it is not tested."""
    if not claim.kind or (claim.needs and figure.data_kind != PAPER_DATA):
        return Verdict(NOT_RUN, f"needs {claim.needs}")
    try:
        rows = KINDS[claim.kind](claim, figure, known)
        for operand in claim.premises:
            _values(operand, figure, known)
    except _MissingError as missing:
        return Verdict(NOT_RUN, f"no {missing}")
    if claim.kind == "between" and not figure.has_paper_settings:
        return Verdict(NOT_COMPARABLE, rows[0][0].why, rows[0][0].seeds)
    return rows


def _verdict(claim: Claim, rows: list[list[_Statement]], figure: Figure, known: Known) -> Verdict:
    shown = _all([_any(row) for row in rows])
    seeds = min(statement.seeds for row in rows for statement in row)
    needed = [_learned(_values(operand, figure, known)) for operand in claim.premises]
    if premise := next((premise for premise in (*needed, shown.premise) if not premise.holds), None):
        status, word = (PREMISE, PREMISE) if premise.holds is False else (INCONCLUSIVE, "premise unknown")
        return Verdict(status, f"{shown.numbers}; {word}: {premise.why}", seeds)
    holds, fails = (SAME, OPPOSITE) if figure.data_kind == STAND_IN else (AGREES, DISAGREES)
    return Verdict({_TRUE: holds, _FALSE: fails}.get(shown.outcome, INCONCLUSIVE), shown.numbers, seeds)


def _any(row: Sequence[_Statement]) -> _Statement:
    """The alternative that decides, as one suffices: the clearest of those with the deciding outcome."""
    outcome = min((one.outcome for one in row), key=(_TRUE, INCONCLUSIVE, PREMISE, _FALSE).index)
    return max((one for one in row if one.outcome == outcome), key=lambda one: one.margin)


def _all(some: Sequence[_Statement]) -> _Statement:
    """The statement that decides, as all are needed: the weakest of those with the deciding outcome."""
    outcome = min((one.outcome for one in some), key=(_FALSE, PREMISE, INCONCLUSIVE, _TRUE).index)
    return min((one for one in some if one.outcome == outcome), key=lambda one: one.margin)


def _tested_number(published: Published, figure: Figure, known: Known) -> _Statement | Verdict:
    """Statement that our mean is close to a published number, or else that it could be; a verdict if not tested."""
    value = known.get((published.configuration, published.measure))
    if value is None:
        return Verdict(NOT_RUN, "")
    shown, seeds = value_words(value, figure) + baseline_note(value), len(value.finite)
    if value.is_picked:
        count = len(figure.tuning_seeds)
        shown += f"; selected on {f'{count} tuning seeds' if count > 1 else 'one tuning seed'}"
    if not figure.has_paper_settings or published.other_settings:
        return Verdict(NOT_COMPARABLE, shown, seeds)
    if value.is_picked:
        return Verdict(INCONCLUSIVE, f"{shown}; a search's best point has no test", seeds)
    if value.diverged:
        return Verdict(INCONCLUSIVE, f"{shown}; {_lost(value)}", seeds)
    if seeds < 2 or not math.isfinite(value.mean):
        return Verdict(INCONCLUSIVE, f"{shown}; one seed" if seeds < 2 else shown, seeds)
    theirs, ours, key = published.value, value.mean, (published.configuration, published.measure, "published")
    near = max(NEAR * abs(theirs), published.unit / 2)
    if abs(ours - theirs) <= near:
        test = _difference(value, None, theirs + math.copysign(near, ours - theirs))
        return _Statement(True, key, test.p, f"{shown}; within {number(near)} ({OURS})", seeds)
    from scipy import stats

    # The mean of new seeds varies, too, and the paper rounds it.
    error = value.deviation * math.sqrt(1 / seeds + 1 / figure.published_seeds)
    rounding, beyond = published.unit / 2, abs(ours - theirs) - published.unit / 2
    p = 2 * float(stats.t.sf(beyond / error, seeds - 1)) if error else _difference(value, None, theirs).p
    reach = number(float(stats.t.isf(comparison.LEVEL / 2, seeds - 1)) * error + rounding)
    new_seeds = words.seeds(figure.published_seeds)
    return _Statement(False, key, p, f"{shown}; 95% of means of {new_seeds} of ours: {number(ours)} ± {reach}", seeds)


def _number_verdict(tested: _Statement) -> Verdict:
    return Verdict({_TRUE: AGREES, _FALSE: DISAGREES}.get(tested.outcome, INCONCLUSIVE), tested.numbers, tested.seeds)


@functools.cache
def computed(one: Accounted) -> Verdict:
    """Verdict on an epsilon, which is computed without a run, with our value and its flags."""
    mechanism, rounds = budget.build(budget.define().parse(["privacy_budget", *one.arguments]))
    epsilon = mechanism.epsilon(rounds)
    status = AGREES if abs(epsilon - one.value) <= max(NEAR * one.value, one.unit / 2) else DISAGREES
    ours = f"{mechanisms.digits(epsilon)}, computed by RDP, {mechanism.analyses[0].neighbours}"
    return Verdict(status, f"{ours}: scripts.privacy_budget {' '.join(one.arguments)}")


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
    values = []
    for configuration in parse_operand(operand)[0]:
        value = known.get((configuration, measure))
        if value is None or not any(map(math.isfinite, value.finite.values())):
            raise _MissingError(f"{measure} of {configuration}")
        values.append(value)
    return values


def _difference(first: Value, second: Value | None, shift: float = 0.0) -> Comparison:
    """Compares a value with another plus a shift, or with the shift alone; not judged if it decides nothing."""
    landmark: comparison.Landmark = shift
    if second:
        landmark = {seed: value + shift for seed, value in second.finite.items()}
    values = [first, *filter(None, [second])]
    is_paired = not any(value.is_unpaired for value in values)
    (found,) = comparison.family([comparison.Pair("first", first.finite, "second", landmark, is_paired)])
    both = second and any(
        math.isinf(value) and value == second.by_seed.get(seed) for seed, value in first.by_seed.items()
    )
    if both or any(value.diverged for value in values):
        return dataclasses.replace(found, is_judged=False, p=math.nan, low=math.nan, high=math.nan)
    return found if found.is_judged else dataclasses.replace(found, p=math.nan)


def _interval(tested: Comparison) -> Interval:
    """A difference with its interval: a point if it is the same in every seed."""
    if tested.is_judged and tested.deviation == 0:
        return Interval(tested.difference, tested.difference, tested.difference, tested.pairs)
    return tested.interval


def minus(first: Value, second: Value) -> str:
    """Difference of two values over their common seeds, with its interval, as text."""
    return _interval(_difference(first, second)).text(signed=True)


def _described(first: Value, second: Value) -> str:
    """Means of two values, and their difference."""
    is_same = first.configuration == second.configuration
    pair = [first, second]
    if not (first.is_unpaired or second.is_unpaired):  # Means of the seeds that the difference is of.
        pair = [_paired(first, second), _paired(second, first)]
    names = [value.measure.replace("_", " ") if is_same else value.configuration for value in pair]
    means = [f"{name} {number(value.mean)}{baseline_note(value)}" for name, value in zip(names, pair, strict=True)]
    return "; ".join([f"{', '.join(means)}: {minus(first, second)}", *filter(None, map(_lost, pair))])


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


def _learned(alternatives: Sequence[Value]) -> _Premise:
    """Premise that one of several configurations is significantly better than the best fixed action."""
    compared = {value.configuration: value.baselines.fixed if value.baselines else None for value in alternatives}
    fixed = [against for against in compared.values() if against]
    if any(against.wins for against in fixed):
        return _MET
    if unknown := [label for label, against in compared.items() if against is None]:
        return _Premise(None, f"the best fixed action of {' and '.join(unknown)} is not recorded")
    if not all(against.is_judged for against in fixed):
        return _Premise(None, "one seed, or a run that diverged, against the best fixed action")
    verb = f"{alternatives[0].configuration} does not beat" if len(compared) == 1 else "neither beats"
    rewards = dict.fromkeys(number(against.reference_mean) for against in fixed)
    return _Premise(False, f"{verb} the best fixed action, {words.listed([*rewards])}")


def edges(figure: Figure, rows: Iterable[Value], label: str) -> list[str]:
    """Flags of a configuration's best point that lie on an edge of its grid, with their values.

    The grid is the one that ran. Where records do not say whether a pick was on its edge, it is the declared one.
    """
    configuration = next((one for one in figure.configurations if one.label == label), None)
    picked = {row.measure: row for row in rows if row.is_picked and row.configuration == label}
    declared = configuration.edges({flag: row.mean for flag, row in picked.items()}) if configuration else []
    on_edge = {flag: flag in declared if row.is_edge is None else row.is_edge for flag, row in picked.items()}
    return [f"{flag.replace('_', ' ')} {number(picked[flag].mean)}" for flag, is_edge in on_edge.items() if is_edge]


def _premise(first: Value, second: Value, measure: Measure, figure: Figure, known: Known) -> _Premise:
    """Premise of a comparison of two configurations; see the module's docstring."""
    labels = [first.configuration, second.configuration]
    if labels[0] != labels[1] and any(_GREEDY in label.replace(",", "").split() for label in labels):
        learned = _learned([first, second])
        if not learned.holds:
            return learned
    difference = _difference(first, second).difference
    loser = labels[0] if (difference > 0 if measure.smallest else difference < 0) else labels[1]
    why = f"the best point of {loser} lies on the edge of its grid"
    on_edge = edges(figure, known.values(), loser)
    return _Premise(False, f"{why} ({', '.join(on_edge)})") if on_edge else _MET


def _better(
    first: Value, second: Value, measure: Measure, within: float | None = None, premise: _Premise = _MET
) -> _Statement:
    """Statement that one value is better than another; with a tolerance, that it is not worse by more than that."""
    why, sign = _described(first, second), -1 if measure.smallest else 1
    if within:
        why += f"; up to {100 * within:.3g}% {'more' if measure.smallest else 'less'} is close ({OURS})"
    shift = -sign * _part(within or 0.0, second)
    test = _difference(first, second, shift)
    ends = [sign * end for end in _interval(test)[1:3]]
    is_met, key = sign * test.difference > 0, _key(first, second, shift)
    return _Statement(is_met, key, test.p, why, test.pairs, _least(ends), premise)


def _least(ends: Iterable[float]) -> float:
    """The lower end of an interval; minus infinity if it is unknown."""
    least = min(ends)
    return -math.inf if math.isnan(least) else least


def _part(share: float, value: Value) -> float:
    """Share of a value's mean; `Value.finite` counts values that are never reached."""
    return share * abs(statistics.fmean(value.finite.values()))


def _pairs(operands, others, figure, known, within=None):
    """Statements that the best of each operand is better than all of the others' alternatives."""
    rows = []
    for operand, other in itertools.product(operands, others):
        measure = measure_of(figure, operand)
        for second in _values(other, figure, known):
            rows.append(
                [
                    _better(first, second, measure, within, _premise(first, second, measure, figure, known))
                    for first in _values(operand, figure, known)
                ]
            )
    return rows


def _order(claim, figure, known):
    groups = itertools.pairwise(claim.operands)
    return [row for first, second in groups for row in _pairs(first, second, figure, known)]


def _close(claim, figure, known):
    groups = claim.operands if len(claim.operands) > 1 else [(operand,) for operand in claim.operands[0]]
    values = [[value for operand in group for value in _values(operand, figure, known)] for group in groups]
    rows = []
    for first, second in (pair for two in itertools.combinations(values, 2) for pair in itertools.product(*two)):
        within = _part(claim.within, second)
        side = math.copysign(1.0, _difference(first, second).difference)
        test = _difference(first, second, side * within)
        why = f"{_described(first, second)}; within {number(within)} is close ({OURS})"
        premise = _premise(first, second, _measure(figure, first.measure), figure, known)
        margin = _least(-side * end for end in _interval(test)[1:3])
        is_met, key = side * test.difference < 0, _key(first, second, side * within)
        rows.append([_Statement(is_met, key, test.p, why, test.pairs, margin, premise)])
    return rows


def _apart(claim, figure, known):
    statements = [statement for row in _close(claim, figure, known) for statement in row]
    return [[dataclasses.replace(one, is_met=not one.is_met, margin=-one.margin)] for one in statements]


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
    first, second, third, fourth = _firsts(claim, figure, known)
    measure = measure_of(figure, claim.operands[0][0])
    needed = [_premise(*pair, measure, figure, known) for pair in ((first, second), (third, fourth))]
    premise = next((one for one in needed if not one.holds), _MET)
    return [[_better(_lead(first, second), _lead(third, fourth), measure, premise=premise)]]


def _firsts(claim: Claim, figure: Figure, known: Known) -> list[Value]:
    """Value of each group's only operand."""
    return [_values(group[0], figure, known)[0] for group in claim.operands]


def _lead(first: Value, second: Value) -> Value:
    """One value minus another, by common seed."""
    names = (
        (first.configuration, second.configuration)
        if first.configuration != second.configuration
        else (f"{first.configuration}: {first.measure}", second.measure)
    )
    return dataclasses.replace(
        first,
        configuration=" minus ".join(names),
        by_seed={seed: first.finite[seed] - second.finite[seed] for seed in first.finite if seed in second.finite},
        diverged=first.diverged | second.diverged,
        is_unpaired=first.is_unpaired or second.is_unpaired,
        baselines=None,
    )


def _between(claim, figure, known):
    values = _firsts(claim, figure, known)
    means = ", ".join(f"{value.configuration} {number(value.mean)}" for value in values)
    first, second = values[0], values[1] if len(values) > 1 else None
    plain = _difference(first, second)
    if not plain.is_judged:
        why = "; ".join([means, *filter(None, map(_lost, values))])
        return [[_Statement(False, _key(first, second), math.nan, why, plain.pairs)]]
    size, side = abs(plain.difference), math.copysign(1.0, plain.difference)
    limit = min((end for end in (claim.low, claim.high) if end > 0), key=lambda end: abs(end - size))
    least, most = sorted(map(abs, _interval(plain)[1:3]))
    shown = Interval(size, 0.0 if plain.low < 0 < plain.high else least, most, plain.pairs)
    stated = f"{claim.low:g} to {claim.high:g}" if math.isfinite(claim.high) else f"{claim.low:g} or more"
    stated = f"range {stated} (ours)" if claim.our_range else f"stated {stated}"
    why = f"{means}: {'apart by ' * (len(values) > 1)}{shown.text()}; {stated}"
    p, key = _difference(first, second, side * limit).p, _key(first, second, side * limit)
    return [[_Statement(claim.low <= size <= claim.high, key, p, why, plain.pairs)]]


def _steady(claim, figure, known):
    (value,) = _firsts(claim, figure, known)
    deviation, seeds, key = value.deviation, len(value.finite), (*_key(value), "steady")
    if seeds < 2 or value.diverged or not math.isfinite(deviation):
        why = _lost(value) or f"{value.configuration} {number(value.mean)}"
        return [[_Statement(False, key, math.nan, why, seeds)]]
    from scipy import stats

    # Of a standard deviation, by chi squared, as for a normal distribution.
    law, tail, within = stats.chi2(seeds - 1), comparison.LEVEL / 2, _part(claim.within, value)
    low, high = (deviation * math.sqrt((seeds - 1) / law.ppf(p)) for p in (1 - tail, tail))
    shown = Interval(deviation, low, high, seeds).text()
    ratio = (seeds - 1) * (deviation / within) ** 2
    p = 2 * min(float(law.cdf(ratio)), float(law.sf(ratio)))
    why = f"{value.configuration}, standard deviation over seeds {shown}; up to {number(within)} is small ({OURS})"
    return [[_Statement(deviation < within, key, p, why, seeds)]]


def _beats_best_fixed(claim, figure, known):
    return [[_above_fixed(value) for value in _values(operand, figure, known)] for (operand,) in claim.operands]


def _above_fixed(value: Value) -> _Statement:
    against = value.baselines and value.baselines.fixed
    if not against:
        raise _MissingError(f"best fixed action beside {value.configuration}")
    shown = _interval(against)
    why = f"{value.configuration} {number(value.mean)}, best fixed action {number(against.reference_mean)}: "
    p = against.p if against.is_judged else math.nan
    key, why = (*_key(value), "best fixed action"), why + shown.text(signed=True)
    return _Statement(bool(against.is_better), key, p, why, against.pairs, _least(shown[1:3]))


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
