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
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from bandits.papers.plan import PAPER_DATA, STAND_IN, Claim, Measure, Published, parse_operand
from bandits.papers.results import ROUNDS, Results, number
from bandits.results import comparison, phrases
from bandits.results.comparison import Comparison
from bandits.results.configuration import Configuration, ReferenceValue
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
_VALUE, _RAW = "value", "raw"  # Columns of an operand: a value that is never reached is finite, or infinite.


class Verdict(NamedTuple):
    """The result of the tests of a claim or number.

    Attributes:
      status: One of `STATUSES`.
      why: Our numbers with their intervals and the adjusted p, and why there is no verdict.
      seeds: The smallest number of seeds behind a number of it.
    """

    status: str
    why: str
    seeds: int = 0


class Verdicts(NamedTuple):
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
class _Operand:
    """A measure of a configuration, or a difference of two.

    Attributes:
      label: Label of the configuration.
      measure: Name of the measure.
      numbers: The columns `_VALUE` and `_RAW`.
    """

    label: str
    measure: str
    numbers: Configuration

    @property
    def mean(self) -> float:
        """Mean over seeds; infinite if a seed never reaches the value."""
        return float(self.numbers.values[_RAW].mean())

    @property
    def finite_mean(self) -> float:
        """Mean over seeds, in which a value that is never reached counts as reached one round after the last."""
        return float(self.numbers.values[_VALUE].mean())

    @property
    def lost(self) -> str:
        """Diverged runs, in words; empty for none."""
        count = len(self.numbers.diverged)
        return f"{self.label} diverged in {count} of {len(self.numbers.values)} seeds" if count else ""


@dataclasses.dataclass
class _Statement:
    """A statement that a difference lies in a range, which a claim needs.

    Attributes:
      is_met: Whether our mean lies in the range.
      key: What is compared at which limit; equal for equal tests.
      p: Two-sided p of the test at the nearest limit; NaN if it is not judged.
      why: The numbers.
      seeds: Number of seeds.
      margin: Distance of the interval's end from the limit, positive inside of the range.
      premise: Why the premise of the statement fails, or is unknown; None if it holds.
      adjusted_p: `p` adjusted by Holm over the figure's statements; NaN until all are known.
    """

    is_met: bool
    key: Hashable
    p: float
    why: str
    seeds: int
    margin: float = 0.0
    premise: Verdict | None = None
    adjusted_p: float = math.nan

    @property
    def outcome(self) -> str:
        """The direction, or why there is none."""
        if self.premise:
            return self.premise.status
        if not self.adjusted_p < comparison.LEVEL:
            return INCONCLUSIVE
        return _TRUE if self.is_met else _FALSE

    def verdict(self, holds: str, fails: str, seeds: int) -> Verdict:
        """Verdict with the words for a statement that holds and one that fails."""
        why = self.why if math.isnan(self.p) else f"{self.why}; adjusted p {phrases.p_value(self.adjusted_p)}"
        return Verdict({_TRUE: holds, _FALSE: fails}.get(self.outcome, INCONCLUSIVE), why, seeds)


_Rows = list[list[_Statement]]  # All rows are needed, and one of each row's alternatives.


def judge(results: Results) -> Verdicts:
    """Judges all comparisons of a figure as one family; see the module's docstring."""
    figure = results.figure
    tested_claims = [_tested(claim, results) for claim in figure.claims]
    tested_numbers = [_tested_number(published, results) for published in figure.published]
    tests = _against_reference(results)
    statements = [one for rows in tested_claims if isinstance(rows, list) for row in rows for one in row]
    statements += [one for one in tested_numbers if isinstance(one, _Statement)]
    p_values = {statement.key: statement.p for statement in statements}
    p_values |= {key: test.p if test.is_judged else math.nan for key, test in tests.items()}
    adjusted = dict(zip(p_values, comparison.holm(list(p_values.values())), strict=True))
    level = comparison.LEVEL / max(1, sum(map(math.isfinite, p_values.values())))
    for statement in statements:
        statement.adjusted_p = adjusted[statement.key]
    pairs = zip(figure.claims, tested_claims, strict=True)
    return Verdicts(
        [tested if isinstance(tested, Verdict) else _verdict(claim, tested, results) for claim, tested in pairs],
        [one if isinstance(one, Verdict) else one.verdict(AGREES, DISAGREES, one.seeds) for one in tested_numbers],
        [dataclasses.replace(test, adjusted_p=adjusted[key], level=level) for key, test in tests.items()],
    )


def _tested(claim: Claim, results: Results) -> _Rows | Verdict:
    """Statements of a claim; a verdict if it is not tested."""
    if not claim.kind or (claim.needs and results.figure.data_kind != PAPER_DATA):
        return Verdict(NOT_RUN, f"needs {claim.needs}")
    try:
        rows = KINDS[claim.kind](claim, results)
        for operand in claim.premises:
            _operands(operand, results)
    except _MissingError as missing:
        return Verdict(NOT_RUN, f"no {missing}")
    if claim.kind == "between" and not results.figure.has_paper_settings:
        return Verdict(NOT_COMPARABLE, rows[0][0].why, rows[0][0].seeds)
    return rows


def _verdict(claim: Claim, rows: _Rows, results: Results) -> Verdict:
    shown = _all([_any(row) for row in rows])
    is_stand_in = results.figure.data_kind == STAND_IN
    seeds = min(statement.seeds for row in rows for statement in row)
    verdict = shown.verdict(SAME if is_stand_in else AGREES, OPPOSITE if is_stand_in else DISAGREES, seeds)
    needed = [_learned(_operands(operand, results), results) for operand in claim.premises]
    premise = next(filter(None, (*needed, shown.premise)), None)
    return verdict._replace(status=premise.status, why=f"{verdict.why}; {premise.why}") if premise else verdict


def _any(row: Sequence[_Statement]) -> _Statement:
    """The alternative that decides, as one suffices: the clearest of those with the deciding outcome."""
    outcome = min((one.outcome for one in row), key=(_TRUE, INCONCLUSIVE, PREMISE, _FALSE).index)
    return max((one for one in row if one.outcome == outcome), key=lambda one: one.margin)


def _all(some: Sequence[_Statement]) -> _Statement:
    """The statement that decides, as all are needed: the weakest of those with the deciding outcome."""
    outcome = min((one.outcome for one in some), key=(_FALSE, PREMISE, INCONCLUSIVE, _TRUE).index)
    return min((one for one in some if one.outcome == outcome), key=lambda one: one.margin)


def _tested_number(published: Published, results: Results) -> _Statement | Verdict:
    """Statement that our mean is close to a published number, or else that it could be; a verdict if not tested."""
    figure, label, name = results.figure, published.configuration, published.measure
    configuration = results.configurations.get(label)
    is_picked = configuration is not None and name in results.picked(label)
    if configuration is None or not (is_picked or name in configuration.values):
        return Verdict(NOT_RUN, "")
    shown, seeds = results.value_words(label, name) + results.baseline_note(label, name), 0
    if is_picked:
        count = len(figure.tuning_seeds)
        shown += f"; selected on {f'{count} tuning seeds' if count > 1 else 'one tuning seed'}"
    else:
        seeds = configuration.estimate(name).size
    if not figure.has_paper_settings or published.other_settings:
        return Verdict(NOT_COMPARABLE, shown, seeds)
    if is_picked:
        return Verdict(INCONCLUSIVE, f"{shown}; a search's best point has no test", seeds)
    value = _operand(label, name, results)
    if value.lost:
        return Verdict(INCONCLUSIVE, f"{shown}; {value.lost}", seeds)
    if seeds < 2 or not math.isfinite(value.mean):
        return Verdict(INCONCLUSIVE, f"{shown}; one seed" if seeds < 2 else shown, seeds)
    theirs, ours, rounding = published.value, value.mean, published.unit / 2
    near = max(NEAR * abs(theirs), rounding)
    if abs(ours - theirs) <= near:
        return _in_range(value, None, theirs - near, theirs + near, f"{shown}; within {number(near)} ({OURS})")
    from scipy import stats

    # The mean of new seeds varies, too, and the paper rounds it.
    error = float(value.numbers.values[_VALUE].std()) * math.sqrt(1 / seeds + 1 / figure.published_seeds)
    beyond = abs(ours - theirs) - rounding
    p = 2 * float(stats.t.sf(beyond / error, seeds - 1)) if error else _difference(value, None, theirs).p
    reach = float(stats.t.isf(comparison.LEVEL / 2, seeds - 1)) * error + rounding
    shown += f"; 95% of means of {phrases.seeds(figure.published_seeds)} of ours: {number(ours)} ± {number(reach)}"
    return _Statement(False, (label, name, "published"), p, shown, seeds)


def _against_reference(results: Results) -> dict[Hashable, Comparison]:
    """First measures compared with the reference's, by `_key`."""
    figure, known, measure = results.figure, results.configurations, results.figure.measures[0]
    tests: dict[Hashable, Comparison] = {}
    for planned in figure.configurations:
        reference = figure.reference_of(planned)
        if {planned.label, reference} <= set(known) and measure.name in results.measures:
            pair = known[planned.label], known[reference]
            key = (*sorted(((planned.label, measure.name), (reference, measure.name))), 0.0)
            (tests[key],) = comparison.compare([pair], measure.name, "down" if measure.smallest else "up")
    return tests if any(test.is_judged for test in tests.values()) else {}


def _operands(operand: str, results: Results) -> list[_Operand]:
    """Measures of an operand's alternatives.

    Raises:
      _MissingError: If one is missing.
    """
    measure = results.figure.measure_of(operand)
    return [_operand(label, measure.name, results) for label in parse_operand(operand)[0]]


def _operand(label: str, name: str, results: Results) -> _Operand:
    import numpy as np

    configuration = results.configurations.get(label)
    if configuration is None or name not in configuration.values or configuration.values[name].isna().all():
        raise _MissingError(f"{name} of {label}")
    values = configuration.values.rename(columns={name: _RAW})[[_RAW, ROUNDS]]
    if any(measure.name == name and measure.is_of_some_seeds for measure in results.figure.measures):
        values = values.dropna()
    late = values[ROUNDS].max() + 1
    numbers = values.assign(**{_VALUE: values[_RAW].replace(np.inf, late)})
    return _Operand(label, name, dataclasses.replace(configuration, name=f"{name} of {label}", values=numbers))


def _difference(first: _Operand, second: _Operand | None, shift: float = 0.0) -> Comparison:
    """Compares a measure with another plus a shift, or with the shift alone; not judged if it decides nothing."""
    reference: Configuration | ReferenceValue = ReferenceValue("limit", shift)
    is_never = False
    if second:
        reference = dataclasses.replace(second.numbers, values=second.numbers.values + shift)
        both = first.numbers.values[[_RAW]].join(second.numbers.values[_RAW], how="inner", rsuffix="_of_second")
        is_never = bool((both == math.inf).all(axis=1).any())
    (test,) = comparison.compare([(first.numbers, reference)], _VALUE)
    return test if test.is_judged and not is_never else dataclasses.replace(test, is_judged=False, p=math.nan)


def _interval(test: Comparison) -> Interval:
    """A difference with its interval: a point if it is the same in every seed, and the mean alone without a test."""
    if not test.is_judged:
        return Interval(test.difference, math.nan, math.nan, test.pairs)
    if test.deviation == 0:
        return Interval(test.difference, test.difference, test.difference, test.pairs)
    return test.interval


def minus(label: str, reference: str, name: str, results: Results) -> str:
    """Difference of two configurations' measures over their common seeds, with its interval, as text."""
    if reference not in results.configurations:
        return ""
    try:
        first, second = (_operand(one, name, results) for one in (label, reference))
    except _MissingError:
        return number(math.nan)
    return _interval(_difference(first, second)).text(signed=True)


def _learned(alternatives: Sequence[_Operand], results: Results) -> Verdict | None:
    """Why it is not so, or not known, that one of several configurations beats the best fixed action; None if it is."""
    compared = {one.label: results.against(one.label, one.measure) for one in alternatives}
    fixed = {label: against.fixed if against else None for label, against in compared.items()}
    known = [against for against in fixed.values() if against]
    if any(against.wins for against in known):
        return None
    if unknown := [label for label, against in fixed.items() if against is None]:
        return Verdict(
            INCONCLUSIVE, f"premise unknown: the best fixed action of {' and '.join(unknown)} is not recorded"
        )
    if not all(against.is_judged for against in known):
        return Verdict(INCONCLUSIVE, "premise unknown: one seed, or a run that diverged, against the best fixed action")
    verb = f"{alternatives[0].label} does not beat" if len(compared) == 1 else "neither beats"
    rewards = dict.fromkeys(number(against.reference_mean) for against in known)
    return Verdict(PREMISE, f"{PREMISE}: {verb} the best fixed action, {phrases.listed([*rewards])}")


def _premise(first: _Operand, second: _Operand, measure: Measure, results: Results) -> Verdict | None:
    """Why a comparison of two configurations is not judged; None if it is. See the module's docstring."""
    labels = [first.label, second.label]
    is_of_greedy = any(_GREEDY in label.replace(",", "").split() for label in labels)
    if labels[0] != labels[1] and is_of_greedy and (premise := _learned([first, second], results)):
        return premise
    difference = _difference(first, second).difference
    loser = labels[0] if (difference > 0 if measure.smallest else difference < 0) else labels[1]
    on_edge = results.edges(loser)
    why = f"{PREMISE}: the best point of {loser} lies on the edge of its grid ({', '.join(on_edge)})"
    return Verdict(PREMISE, why) if on_edge else None


def _described(first: _Operand, second: _Operand, results: Results) -> str:
    """Means of two measures over the seeds that are compared, and their difference."""
    test, is_same = _difference(first, second), first.label == second.label
    means = []
    for one, mean in ((first, test.mean), (second, test.reference_mean)):
        note = results.baseline_note(one.label, one.measure)
        mean = one.mean if math.isinf(one.mean) else mean
        means.append(f"{one.measure.replace('_', ' ') if is_same else one.label} {number(mean)}{note}")
    shown = f"{', '.join(means)}: {_interval(test).text(signed=True)}"
    return "; ".join(filter(None, [shown, first.lost, second.lost]))


def _in_range(
    first: _Operand, second: _Operand | None, low: float, high: float, why: str, premise: Verdict | None = None
) -> _Statement:
    """Statement that a measure minus another, or a measure alone, lies between two limits; tested at the nearest."""
    plain = _difference(first, second)
    size = plain.difference if second else plain.mean
    limit = min(filter(math.isfinite, (low, high)), key=lambda end: abs(end - size))
    test = _difference(first, second, limit)
    ends = _interval(test)
    margin = min(limit - low + ends.low, high - limit - ends.high)
    names = [(one.label, one.measure) for one in (first, second) if one]
    key = (*sorted(names), limit if names == sorted(names) else -limit)  # Does not depend on the order of the two.
    margin = -math.inf if math.isnan(margin) else margin
    return _Statement(low < size < high, key, test.p, why, test.pairs, margin, premise)


def _better(
    first: _Operand,
    second: _Operand,
    measure: Measure,
    results: Results,
    within: float | None = None,
    premise: Verdict | None = None,
) -> _Statement:
    """Statement that one measure is better than another; with a tolerance, that it is not worse by more than that."""
    why = _described(first, second, results)
    if within:
        why += f"; up to {100 * within:.3g}% {'more' if measure.smallest else 'less'} is close ({OURS})"
    limit = (within or 0.0) * abs(second.finite_mean)
    low, high = (-math.inf, limit) if measure.smallest else (-limit, math.inf)
    return _in_range(first, second, low, high, why, premise)


def _pairs(operands: Sequence[str], others: Sequence[str], results: Results, within: float | None = None) -> _Rows:
    """Statements that the best of each operand is better than all of the others' alternatives."""
    rows = []
    for operand, other in itertools.product(operands, others):
        measure = results.figure.measure_of(operand)
        firsts = _operands(operand, results)
        for second in _operands(other, results):
            premises = [_premise(first, second, measure, results) for first in firsts]
            pairs = zip(firsts, premises, strict=True)
            rows.append([_better(first, second, measure, results, within, premise) for first, premise in pairs])
    return rows


def _order(claim: Claim, results: Results) -> _Rows:
    return [row for first, second in itertools.pairwise(claim.operands) for row in _pairs(first, second, results)]


def _close(claim: Claim, results: Results) -> _Rows:
    groups = claim.operands if len(claim.operands) > 1 else [(operand,) for operand in claim.operands[0]]
    values = [[value for operand in group for value in _operands(operand, results)] for group in groups]
    rows = []
    for first, second in (pair for two in itertools.combinations(values, 2) for pair in itertools.product(*two)):
        within = claim.within * abs(second.finite_mean)
        why = f"{_described(first, second, results)}; within {number(within)} is close ({OURS})"
        premise = _premise(first, second, results.figure.measure_of(f"x @ {first.measure}"), results)
        statement = _in_range(first, second, -within, within, why, premise)
        if claim.kind == "apart":
            statement.is_met, statement.margin = not statement.is_met, -statement.margin
        rows.append([statement])
    return rows


def _near_best(claim: Claim, results: Results) -> _Rows:
    (operand,) = claim.operands[0]
    mine, measure = parse_operand(operand)
    others = [one.label for one in results.figure.configurations if one.is_drawn and one.label not in mine]
    return _pairs([operand], [label + f" @ {measure}" * bool(measure) for label in others], results, claim.within)


def _larger_lead(claim: Claim, results: Results) -> _Rows:
    first, second, third, fourth = (_operands(group[0], results)[0] for group in claim.operands)
    measure = results.figure.measure_of(claim.operands[0][0])
    premise = _premise(first, second, measure, results) or _premise(third, fourth, measure, results)
    return [[_better(_lead(first, second), _lead(third, fourth), measure, results, premise=premise)]]


def _lead(first: _Operand, second: _Operand) -> _Operand:
    """One measure minus another, by common seed."""
    is_same = first.label == second.label
    names = (f"{first.label}: {first.measure}", second.measure) if is_same else (first.label, second.label)
    lead = (first.numbers.values[_VALUE] - second.numbers.values[_VALUE]).dropna()
    numbers = dataclasses.replace(
        first.numbers,
        values=lead.to_frame(_VALUE).assign(**{_RAW: lead}),
        diverged=first.numbers.diverged | second.numbers.diverged,
        unpaired=first.numbers.unpaired or second.numbers.unpaired,
    )
    return _Operand(" minus ".join(names), first.measure, numbers)


def _between(claim: Claim, results: Results) -> _Rows:
    values = [_operands(group[0], results)[0] for group in claim.operands]
    first, second = values[0], values[1] if len(values) > 1 else None
    test = _difference(first, second)
    means = ", ".join(f"{value.label} {number(value.mean)}" for value in values)
    size = _interval(test)
    low, high = claim.low, claim.high
    if size.mean < 0:  # A distance has no sign.
        size = Interval(-size.mean, -size.high, -size.low, size.size)
        low, high = -high, -low
    size = size.within(0.0, math.inf)
    stated = f"{claim.low:g} to {claim.high:g}" if math.isfinite(claim.high) else f"{claim.low:g} or more"
    stated = f"range {stated} (ours)" if claim.our_range else f"stated {stated}"
    shown = f"{means}: {'apart by ' * (len(values) > 1)}{size.text()}; {stated}" if test.is_judged else means
    why = "; ".join(filter(None, [shown, *(value.lost for value in values)]))
    return [[_in_range(first, second, low, high, why)]]


def _steady(claim: Claim, results: Results) -> _Rows:
    (value,) = _operands(claim.operands[0][0], results)
    numbers, key = value.numbers.values[_VALUE], (value.label, value.measure, "steady")
    deviation, seeds = float(numbers.std()), len(numbers)
    if seeds < 2 or value.lost or not math.isfinite(deviation):
        return [[_Statement(False, key, math.nan, value.lost or f"{value.label} {number(value.mean)}", seeds)]]
    from scipy import stats

    # Of a standard deviation, by chi squared, as for a normal distribution.
    law, tail, within = stats.chi2(seeds - 1), comparison.LEVEL / 2, claim.within * abs(value.finite_mean)
    low, high = (deviation * math.sqrt((seeds - 1) / law.ppf(p)) for p in (1 - tail, tail))
    ratio = (seeds - 1) * (deviation / within) ** 2
    p = 2 * min(float(law.cdf(ratio)), float(law.sf(ratio)))
    shown = Interval(deviation, low, high, seeds).text()
    why = f"{value.label}, standard deviation over seeds {shown}; up to {number(within)} is small ({OURS})"
    return [[_Statement(deviation < within, key, p, why, seeds)]]


def _beats_best_fixed(claim: Claim, results: Results) -> _Rows:
    return [[_above_fixed(value, results) for value in _operands(operand, results)] for (operand,) in claim.operands]


def _above_fixed(value: _Operand, results: Results) -> _Statement:
    baseline = results.against(value.label, value.measure)
    against = baseline.fixed if baseline else None
    if not against:
        raise _MissingError(f"best fixed action beside {value.label}")
    shown = _interval(against)
    why = f"{value.label} {number(value.mean)}, best fixed action {number(against.reference_mean)}: "
    p, margin = (against.p, shown.low) if against.is_judged else (math.nan, -math.inf)
    key, why = (value.label, value.measure, "best fixed action"), why + shown.text(signed=True)
    return _Statement(bool(against.is_better), key, p, why, against.pairs, margin)


KINDS: Mapping[str, Callable[[Claim, Results], _Rows]] = {
    "order": _order,
    "close": _close,
    "apart": _close,
    "near_best": _near_best,
    "not_worse": lambda claim, results: _pairs(claim.operands[0], claim.operands[1], results, claim.within),
    "larger_lead": _larger_lead,
    "between": _between,
    "steady": _steady,
    "beats_best_fixed": _beats_best_fixed,
}
