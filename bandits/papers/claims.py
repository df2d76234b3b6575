"""Tests whether this project's runs support what a paper states.

All comparisons of a figure are one family: the statements that its claims need, the published numbers that are
comparable, and the configurations compared with the figure's reference. Each is tested as in reports
(`bandits.results.comparison`): by a t test of the differences paired by seed, by Welch's t test if the seed does not
determine a run, or by the sign test if all differences are equal. Holm adjusts the p-values over the family, which
counts equal tests once. So at most 5% of figures have any false significant result. Intervals are shown without
adjustment.

- An order is tested against a difference of 0; a tolerance (`within`) and a range (`between`) are tested at the limit
  nearest to our mean. Then p is twice the one-sided p, so p < 5% means that the whole 95% interval lies on one side of
  the limit. A tolerance is this project's reading of words such as "similar", relative to the second mean.
- On the paper's data a claim `agrees` if each statement that it needs is true with adjusted p < 5%, and `disagrees` if
  one is false with adjusted p < 5%. On a stand-in these are called `same direction` and `opposite direction`: different
  data neither confirm nor refute a paper. Everything else is `inconclusive`, as is every result of a single
  seed, of a configuration with a diverged run, and of two configurations that both fail to reach the target.
- A published number is compared only on the paper's data and settings, otherwise it is `not comparable`; so are claims
  that name numbers (`between`). If our mean lies within 5% of it, or half a unit of its last digit, `agrees` is tested
  as a tolerance. Otherwise, the test of `disagrees` asks whether the number could be the mean of as many new seeds as
  the paper has (one, if unstated). A learning rate picked by a search has no test. An epsilon is computed without a
  run, and agrees within the same bounds.

A claim whose premises fail is `premise not met`; its statements still count in the family:

- A claim about a strong initial model needs a model that beats the best fixed action (`Claim.premises`).
- A comparison with Greedy needs one of the two to beat the best fixed action: below it, both are failures.
- If the worse of two was searched, its best point must not lie on the edge of its grid: a point beyond could be better.

"Beats" means significantly better, adjusted over the configurations with the same baselines. If the best fixed action
is unknown, so is the premise, and the claim is `inconclusive`.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from bandits.papers.plan import PAPER_DATA, STAND_IN, Claim, Figure, Published, parse_operand
from bandits.papers.results import MissingError, Operand, Results, baseline_note, interval_of, number, value_words
from bandits.plans import plan
from bandits.results import budget, comparison, phrases
from bandits.results.comparison import Comparison
from optimization.privacy import mechanisms
from optimization.study.intervals import Interval

AGREES, DISAGREES = "agrees", "disagrees"  # On the paper's data.
SAME, OPPOSITE = "same direction", "opposite direction"  # On stand-in data.
INCONCLUSIVE, NOT_COMPARABLE = "inconclusive", "not comparable"
PREMISE, NOT_RUN = "premise not met", "not run"
STATUSES = (AGREES, DISAGREES, SAME, OPPOSITE, INCONCLUSIVE, PREMISE, NOT_COMPARABLE, NOT_RUN)
HOLDS, FAILS = (AGREES, SAME), (DISAGREES, OPPOSITE)
OURS = "our tolerance"
NEAR = 0.05  # Our number is close to a published one if it differs by at most this fraction.
_TRUE, _FALSE = "true", "false"  # Outcomes of a statement, in addition to INCONCLUSIVE and PREMISE.
_GREEDY = "Greedy"  # The label of the strategy that does not explore.


class Verdict(NamedTuple):
    """The result of the tests of a claim or number.

    Attributes:
      status: One of `STATUSES`.
      why: Our numbers with their intervals and the adjusted p; and the reason if there is no verdict.
      seeds: Smallest number of seeds behind any of these numbers.
    """

    status: str
    why: str
    seeds: int = 0


@dataclasses.dataclass
class _Statement:
    """A statement that a difference lies in a range, which a claim needs.

    Attributes:
      is_met: Whether our mean lies in the range.
      key: The measures that are compared, and the limit; equal for equal tests.
      p: Two-sided p of the test at the nearest limit; NaN if it is not judged.
      why: The numbers.
      seeds: Number of seeds.
      margin: Distance of the interval's end from the limit, positive inside the range.
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
        """Whether the statement is true or false, or why that is open."""
        if self.premise:
            return self.premise.status
        if not self.adjusted_p < comparison.LEVEL:
            return INCONCLUSIVE
        return _TRUE if self.is_met else _FALSE

    def verdict(self, holds: str, fails: str, seeds: int) -> Verdict:
        """Verdict whose status is `holds` for a true statement, and `fails` for a false one."""
        why = self.why if math.isnan(self.p) else f"{self.why}; adjusted p {phrases.p_value(self.adjusted_p)}"
        return Verdict({_TRUE: holds, _FALSE: fails}.get(self.outcome, INCONCLUSIVE), why, seeds)


_Rows = list[list[_Statement]]  # Every row must hold; a row holds if one of its alternatives does.


def judge(results: Results) -> tuple[list[Verdict], list[Comparison]]:
    """Judges all comparisons of a figure as one family; see the module's docstring.

    Returns:
      A verdict on each claim and then on each published number; and the first measure of each configuration compared
      with the figure's reference, empty without a reference.
    """
    figure = results.figure
    tested_claims = [_tested(claim, results) for claim in figure.claims]
    tested_numbers = [_tested_number(published, results) for published in figure.published]
    tests = _against_reference(results)
    statements = [item for rows in tested_claims if isinstance(rows, list) for row in rows for item in row]
    statements += [item for item in tested_numbers if isinstance(item, _Statement)]
    p_values = {statement.key: statement.p for statement in statements}
    p_values |= {key: test.p if test.is_judged else math.nan for key, test in tests.items()}
    adjusted = dict(zip(p_values, comparison.holm(list(p_values.values())), strict=True))
    level = comparison.LEVEL / max(1, sum(map(math.isfinite, p_values.values())))
    for statement in statements:
        statement.adjusted_p = adjusted[statement.key]
    pairs = zip(figure.claims, tested_claims, strict=True)
    verdicts = [tested if isinstance(tested, Verdict) else _verdict(claim, tested, results) for claim, tested in pairs]
    verdicts += [
        item if isinstance(item, Verdict) else item.verdict(AGREES, DISAGREES, item.seeds) for item in tested_numbers
    ]
    return verdicts, [dataclasses.replace(test, adjusted_p=adjusted[key], level=level) for key, test in tests.items()]


def _tested(claim: Claim, results: Results) -> _Rows | Verdict:
    """Statements of a claim; a verdict if it is not tested."""
    if not claim.kind or (claim.needs and results.figure.data_kind != PAPER_DATA):
        return Verdict(NOT_RUN, f"needs {claim.needs}")
    try:
        rows = KINDS[claim.kind](claim, results)
        for operand in claim.premises:
            results.operands(operand)
    except MissingError as missing:
        return Verdict(NOT_RUN, f"no {missing}")
    if claim.kind == "between" and not results.figure.has_paper_settings:
        return Verdict(NOT_COMPARABLE, rows[0][0].why, rows[0][0].seeds)
    return rows


def _verdict(claim: Claim, rows: _Rows, results: Results) -> Verdict:
    # One alternative per row suffices, so the clearest one counts. All rows must hold, so the weakest one counts.
    alternatives = [_deciding(row, (_TRUE, INCONCLUSIVE, PREMISE, _FALSE), max) for row in rows]
    shown = _deciding(alternatives, (_FALSE, PREMISE, INCONCLUSIVE, _TRUE), min)
    is_stand_in = results.figure.data_kind == STAND_IN
    seeds = min(statement.seeds for row in rows for statement in row)
    verdict = shown.verdict(SAME if is_stand_in else AGREES, OPPOSITE if is_stand_in else DISAGREES, seeds)
    needed = [_learned(results.operands(operand), results) for operand in claim.premises]
    premise = next(filter(None, (*needed, shown.premise)), None)
    return verdict._replace(status=premise.status, why=f"{verdict.why}; {premise.why}") if premise else verdict


def _deciding(statements: Sequence[_Statement], order: Sequence[str], pick: Callable[..., _Statement]) -> _Statement:
    """Picks a statement by its margin, among those whose outcome comes first in this order."""
    outcome = min((statement.outcome for statement in statements), key=order.index)
    return pick((item for item in statements if item.outcome == outcome), key=lambda item: item.margin)


def _tested_number(published: Published, results: Results) -> _Statement | Verdict:
    """Statement that our mean is close to a published number, or could equal it; a verdict if not tested."""
    if published.privacy_flags:
        return _computed(published)
    figure, label, name = results.figure, published.configuration, published.measure
    is_picked = label in results.configurations and name in results.picked(label)
    if not is_picked and (label not in results.configurations or name not in results.measures):
        return Verdict(NOT_RUN, "")
    shown, seeds = value_words(label, name, results), results.estimate(label, name).size
    shown += baseline_note(label, name, results)
    if is_picked:
        count = len(figure.tuning_seeds)
        shown += f"; selected on {f'{count} tuning seeds' if count > 1 else 'one tuning seed'}"
    if not figure.has_paper_settings or published.other_settings:
        return Verdict(NOT_COMPARABLE, shown, seeds)
    if is_picked:
        return Verdict(INCONCLUSIVE, f"{shown}; a search's best point has no test", seeds)
    value = results.operand(label, name)
    if value.lost or seeds < 2 or not math.isfinite(value.estimate.mean):
        why = value.lost or ("one seed" if seeds < 2 else "")
        return Verdict(INCONCLUSIVE, "; ".join(filter(None, [shown, why])), seeds)
    theirs, ours, rounding = published.value, value.estimate.mean, published.unit / 2
    near = max(NEAR * abs(theirs), rounding)
    if abs(ours - theirs) <= near:
        return _in_range(value, None, theirs - near, theirs + near, f"{shown}; within {number(near)} ({OURS})")
    from scipy import stats

    # The mean of new seeds varies, too, and the paper rounds it.
    error = float(value.finite.std()) * math.sqrt(1 / seeds + 1 / figure.published_seeds)
    beyond = abs(ours - theirs) - rounding
    p = 2 * float(stats.t.sf(beyond / error, seeds - 1)) if error else value.minus(None, theirs).p
    reach = float(stats.t.isf(comparison.LEVEL / 2, seeds - 1)) * error + rounding
    shown += f"; 95% prediction interval, {phrases.seeds(figure.published_seeds)}: {number(ours)} ± {number(reach)}"
    return _Statement(False, (label, name, "published"), p, shown, seeds)


@functools.cache
def _computed(one: Published) -> Verdict:
    """Verdict on an epsilon, which is computed without a run, with our value and its flags."""
    mechanism, rounds = budget.build(budget.define().parse(["privacy_budget", *one.privacy_flags.split()]))
    epsilon = mechanism.epsilon(rounds)
    status = AGREES if abs(epsilon - one.value) <= max(NEAR * one.value, one.unit / 2) else DISAGREES
    ours = f"{mechanisms.digits(epsilon)}, computed by RDP, {mechanism.analyses[0].neighbours}"
    return Verdict(status, f"{ours}: scripts.privacy_budget {one.privacy_flags}")


def reference_of(figure: Figure, configuration: plan.Configuration) -> str:
    """The configuration's label with the figure's reference swapped in; empty without one."""
    drawn = [other for other in figure.configurations if other.is_drawn]
    axis = next((other.words.index(figure.reference) for other in drawn if figure.reference in other.words), None)
    if axis is None or not configuration.is_drawn or configuration.words[axis] == figure.reference:
        return ""
    return ", ".join((*configuration.words[:axis], str(figure.reference), *configuration.words[axis + 1 :]))


def _against_reference(results: Results) -> dict[Hashable, Comparison]:
    """First measures compared with the reference's, by `_Statement.key`."""
    figure, known, measure = results.figure, results.configurations, results.figure.measures[0]
    tests: dict[Hashable, Comparison] = {}
    for planned in figure.configurations:
        reference = reference_of(figure, planned)
        if {planned.label, reference} <= set(known) and measure.name in results.measures:
            pair = known[planned.label], known[reference]
            key = (*sorted(((planned.label, measure.name), (reference, measure.name))), 0.0)
            (tests[key],) = comparison.compare([pair], measure.name, "down" if measure.smallest else "up")
    return tests if any(test.is_judged for test in tests.values()) else {}


def _against_fixed(one: Operand, results: Results) -> Comparison | None:
    """A configuration compared with the best fixed action; None if that action is unknown."""
    against = results.against_baselines(one.label, one.measure.name)
    return against.fixed if against else None


def _learned(alternatives: Sequence[Operand], results: Results) -> Verdict | None:
    """Why no configuration is known to beat the best fixed action; None if at least one of them does."""
    fixed = {one.label: _against_fixed(one, results) for one in alternatives}
    known = [against for against in fixed.values() if against]
    if any(against.wins for against in known):
        return None
    if unknown := [label for label, against in fixed.items() if against is None]:
        why = f"premise unknown: the best fixed action of {' and '.join(unknown)} is not recorded"
        return Verdict(INCONCLUSIVE, why)
    if not all(against.is_judged for against in known):
        why = "premise unknown: one seed, or a run that diverged, against the best fixed action"
        return Verdict(INCONCLUSIVE, why)
    verb = f"{alternatives[0].label} does not beat" if len(fixed) == 1 else "neither beats"
    rewards = dict.fromkeys(number(against.reference_mean) for against in known)
    return Verdict(PREMISE, f"{PREMISE}: {verb} the best fixed action, {phrases.listed([*rewards])}")


def premise(first: Operand, second: Operand, results: Results) -> Verdict | None:
    """Why a comparison of two configurations is not judged; None if it is judged. See the module's docstring."""
    labels = [first.label, second.label]
    is_of_greedy = any(_GREEDY in label.replace(",", "").split() for label in labels)
    if labels[0] != labels[1] and is_of_greedy and (premise := _learned([first, second], results)):
        return premise
    lead = first.minus(second).difference
    loser = labels[0] if (lead > 0 if first.measure.smallest else lead < 0) else labels[1]
    on_edge = results.edges(loser)
    why = f"{PREMISE}: the best point of {loser} lies on the edge of its grid ({', '.join(on_edge)})"
    return Verdict(PREMISE, why) if on_edge else None


def _described(first: Operand, second: Operand, results: Results) -> str:
    """Means of two measures, and their difference over the seeds that are compared."""
    test, is_same = first.minus(second), first.label == second.label
    means = []
    for one in (first, second):
        name = one.measure.name.replace("_", " ") if is_same else one.label
        means.append(f"{name} {one.estimate.mean_text()}{baseline_note(one.label, one.measure.name, results)}")
    shown = f"{', '.join(means)}: {interval_of(test).text(signed=True)}"
    if {first.estimate.size, second.estimate.size} != {test.pairs}:
        shown += f" over {phrases.seeds(test.pairs)} that both have"
    return "; ".join(filter(None, [shown, first.lost, second.lost]))


def _in_range(first: Operand, second: Operand | None, low: float, high: float, why: str) -> _Statement:
    """Statement that a measure minus another, or a measure alone, lies between two limits; tested at the nearest."""
    size = first.minus(second).difference
    limit = min(filter(math.isfinite, (low, high)), key=lambda end: abs(end - size))
    test = first.minus(second, limit)
    ends = interval_of(test)
    margin = min(limit - low + ends.low, high - limit - ends.high)
    names = [(one.label, one.measure.name) for one in (first, second) if one]
    key = (*sorted(names), limit if names == sorted(names) else -limit)  # Does not depend on the order of the two.
    margin = -math.inf if math.isnan(margin) else margin
    return _Statement(low < size < high, key, test.p, why, test.pairs, margin)


def _better(first: Operand, second: Operand, results: Results, within: float = 0.0) -> _Statement:
    """Statement that one measure is better than another; with a tolerance, that it is not worse by more than that."""
    why, is_smallest, limit = _described(first, second, results), first.measure.smallest, within * second.size
    if within:
        why += f"; up to {100 * within:.3g}% {'more' if is_smallest else 'less'} is close ({OURS})"
    statement = _in_range(first, second, *((-math.inf, limit) if is_smallest else (-limit, math.inf)), why)
    statement.premise = premise(first, second, results)
    return statement


def _pairs(operands: Sequence[str], others: Sequence[str], results: Results, within: float = 0.0) -> _Rows:
    """Statements that the best of each operand is better than all of the others' alternatives."""
    rows = []
    for operand, other in itertools.product(operands, others):
        firsts = results.operands(operand)
        rows += [[_better(first, second, results, within) for first in firsts] for second in results.operands(other)]
    return rows


def _order(claim: Claim, results: Results) -> _Rows:
    return [row for first, second in itertools.pairwise(claim.operands) for row in _pairs(first, second, results)]


def _close(claim: Claim, results: Results) -> _Rows:
    groups = claim.operands if len(claim.operands) > 1 else [(operand,) for operand in claim.operands[0]]
    values = [[value for operand in group for value in results.operands(operand)] for group in groups]
    rows = []
    for first, second in (pair for two in itertools.combinations(values, 2) for pair in itertools.product(*two)):
        within = claim.within * second.size
        why = f"{_described(first, second, results)}; within {number(within)} is close ({OURS})"
        statement = _in_range(first, second, -within, within, why)
        statement.premise = premise(first, second, results)
        if claim.kind == "apart":
            statement.is_met, statement.margin = not statement.is_met, -statement.margin
        rows.append([statement])
    return rows


def _near_best(claim: Claim, results: Results) -> _Rows:
    (operand,) = claim.operands[0]
    mine, measure = parse_operand(operand)
    others = [one.label for one in results.figure.configurations if one.is_drawn and one.label not in mine]
    return _pairs([operand], [label + f" @ {measure}" * bool(measure) for label in others], results, claim.within)


def _not_worse(claim: Claim, results: Results) -> _Rows:
    return _pairs(claim.operands[0], claim.operands[1], results, claim.within)


def _larger_lead(claim: Claim, results: Results) -> _Rows:
    first, second, third, fourth = (results.operands(group[0])[0] for group in claim.operands)
    statement = _better(first.lead(second), third.lead(fourth), results)
    statement.premise = premise(first, second, results) or premise(third, fourth, results)
    return [[statement]]


def _between(claim: Claim, results: Results) -> _Rows:
    values = [results.operands(group[0])[0] for group in claim.operands]
    first, second = values[0], values[1] if len(values) > 1 else None
    test = first.minus(second)
    means = ", ".join(f"{value.label} {value.estimate.mean_text()}" for value in values)
    size, low, high = interval_of(test), claim.low, claim.high
    if size.mean < 0:  # A distance has no sign.
        size = Interval(-size.mean, -size.high, -size.low, size.size)
        low, high = -high, -low
    stated = f"{claim.low:g} to {claim.high:g}" if math.isfinite(claim.high) else f"{claim.low:g} or more"
    stated = f"range {stated} (ours)" if claim.our_range else f"stated {stated}"
    apart = "apart by " * (len(values) > 1)
    shown = f"{means}: {apart}{size.within(0.0, math.inf).text()}; {stated}" if test.is_judged else means
    return [[_in_range(first, second, low, high, "; ".join(filter(None, [shown, *(one.lost for one in values)])))]]


def _steady(claim: Claim, results: Results) -> _Rows:
    (value,) = results.operands(claim.operands[0][0])
    seeds, key = len(value.finite), (value.label, value.measure.name, "steady")
    deviation, within = float(value.finite.std()), claim.within * value.size
    if seeds < 2 or value.lost or not math.isfinite(deviation):
        return [[_Statement(False, key, math.nan, value.lost or f"{value.label} {value.estimate.mean_text()}", seeds)]]
    from scipy import stats

    # Chi-squared interval of a standard deviation, which assumes a normal distribution.
    law, tail = stats.chi2(seeds - 1), comparison.LEVEL / 2
    low, high = (deviation * math.sqrt((seeds - 1) / law.ppf(p)) for p in (1 - tail, tail))
    ratio = (seeds - 1) * (deviation / within) ** 2
    p = 2 * min(float(law.cdf(ratio)), float(law.sf(ratio)))
    shown = Interval(deviation, low, high, seeds).text()
    why = f"{value.label}, standard deviation over seeds {shown}; up to {number(within)} is small ({OURS})"
    return [[_Statement(deviation < within, key, p, why, seeds)]]


def _beats_best_fixed(claim: Claim, results: Results) -> _Rows:
    return [[_above_fixed(value, results) for value in results.operands(operand)] for (operand,) in claim.operands]


def _above_fixed(value: Operand, results: Results) -> _Statement:
    against = _against_fixed(value, results)
    if not against:
        raise MissingError(f"best fixed action beside {value.label}")
    shown, key = interval_of(against), (value.label, value.measure.name, "best fixed action")
    why = f"{value.label} {value.estimate.mean_text()}, best fixed action {number(against.reference_mean)}: "
    p, margin = (against.p, shown.low) if against.is_judged else (math.nan, -math.inf)
    return _Statement(bool(against.is_better), key, p, why + shown.text(signed=True), against.pairs, margin)


KINDS: Mapping[str, Callable[[Claim, Results], _Rows]] = {
    "order": _order,
    "close": _close,
    "apart": _close,
    "near_best": _near_best,
    "not_worse": _not_worse,
    "larger_lead": _larger_lead,
    "between": _between,
    "steady": _steady,
    "beats_best_fixed": _beats_best_fixed,
}
