import dataclasses
import math
from collections.abc import Sequence

import pandas as pd
import pytest

from bandits.papers import claims, results
from bandits.papers.claims import AGREES, DISAGREES, INCONCLUSIVE, NOT_COMPARABLE, NOT_RUN, OPPOSITE, PREMISE, SAME
from bandits.papers.plan import PAPER, PAPER_DATA, REDUCED, SMALL, STAND_IN, Claim, Figure, Measure, Published
from bandits.plans.plan import Configuration
from bandits.results import baselines
from bandits.results.configuration import Baseline, ReferenceValue

NAN, NEVER = math.nan, math.inf
MEASURES = Measure("score", "score"), Measure("loss", "loss", smallest=True)


@dataclasses.dataclass(frozen=True)
class Values:
    label: str
    numbers: Sequence[float] = ()  # One per seed.
    measure: str = "score"
    fixed: float | None = None  # Recorded reward of its best fixed action, NaN where that is unknown.
    picked: float | None = None  # A searched rate.
    is_edge: bool | None = None
    diverged: Sequence[int] = ()


def _figure(*judged: Claim, configurations="abcd", **changes) -> Figure:
    named = [one if isinstance(one, Configuration) else Configuration(one, (one,), ()) for one in configurations]
    settings = {"name": "f1", "text": "Nobody 2020", "about": "Figure 1", "binary": "run_federated", "repeat": 3}
    settings |= {"measures": MEASURES, "data_kind": PAPER_DATA, "scale": PAPER}
    return Figure(configurations=tuple(named), claims=judged, **(settings | changes))


def _results(figure: Figure, values: Sequence[Values]) -> results.Results:
    tables, against = [], {}
    for one in values:
        columns = {"arm": one.label, one.measure: [*one.numbers] or [NAN], "rounds": 9}
        columns |= {} if one.picked is None else {"picked:rate": one.picked}
        columns |= {} if one.is_edge is None else {"edge:rate": int(one.is_edge)}
        table = pd.DataFrame(columns).rename_axis("seed").reset_index()
        tables.append(table.assign(diverged=table["seed"].isin(one.diverged).astype(int)))
    together = results.Results(figure, pd.concat(tables))
    for one in values:
        if one.fixed is not None:
            known = {Baseline.uniform_policy: ReferenceValue("uniform", 0.1)}
            known |= {} if math.isnan(one.fixed) else {Baseline.best_fixed_action: ReferenceValue("fixed", one.fixed)}
            against |= baselines.compare([(together.configurations[one.label], known)], "score", "up")
    together.__dict__["baselines"] = against
    return together


def _judge(claim: Claim, *values: Values, **changes) -> claims.Verdict:
    ((verdict,), _) = claims.judge(_results(_figure(claim, **changes), values))
    return verdict


def _claim(kind: str, *groups: str, **settings) -> Claim:
    """Returns a claim; commas separate the operands of a group."""
    return Claim("", "section 1", kind, tuple(tuple(group.split(", ")) for group in groups), **settings)


ORDER = _claim("order", "a", "b")
A, B, C = Values("a", (3.9, 4.0, 4.1)), Values("b", (2.0, 2.0, 2.0)), Values("c", (3.0, 4.0, 5.0))


@pytest.mark.parametrize(
    ("ours", "status"),
    [
        ((3.9, 4.0, 4.1), AGREES),  # Differences 1.9, 2.0, 2.1: 2 ± 0.25.
        ((3.0, 4.0, 5.0), INCONCLUSIVE),  # 1, 2, 3: 2 ± 2.48, which reaches 0, though each seed has the right sign.
        ((0.1, 0.0, -0.1), DISAGREES),  # -1.9, -2.0, -2.1.
        ((4.0,), INCONCLUSIVE),  # One seed.
        ((4.0, NAN, 4.1), INCONCLUSIVE),  # One has no value.
        ((2.0, 2.0, 2.0), INCONCLUSIVE),  # Equal in every seed.
    ],
)
def test_an_order_is_judged_by_the_paired_differences(ours, status):
    assert _judge(ORDER, Values("a", ours), B).status == status


def test_differences_are_of_equal_seeds():
    # Seeds differ by far more than configurations do; each pair by 0.5 ± 0.1.
    verdict = _judge(ORDER, Values("a", (10.5, 20.6, 30.4)), Values("b", (10.0, 20.0, 30.0, 77.0)))
    assert (verdict.status, verdict.seeds) == (AGREES, 3)


def test_the_interval_and_p_are_reported_beside_the_means():
    verdict = _judge(ORDER, A, B)
    # Student's t of 2 / (0.1 / sqrt(3)) = 34.64 with 2 degrees of freedom: p = 1 - t / sqrt(t^2 + 2); 4.303 at 97.5%.
    assert 1 - 34.641 / math.sqrt(34.641**2 + 2) == pytest.approx(0.00083, abs=1e-5)
    assert 4.302653 * 0.1 / math.sqrt(3) == pytest.approx(0.2484, abs=1e-4)
    assert (verdict.why, verdict.seeds) == ("a 4.00, b 2: +2.00 (+1.75 to +2.25); adjusted p 0.00083", 3)


def test_holm_adjusts_over_the_figure():
    # Alone, p is 0.00083 for a minus b and for the number 8, and 0.074 for c minus b: 1, 2 and 3, so t is 3.46.
    other = _claim("order", "c", "b")

    def adjusted(*judged: Claim, **changes) -> list[str]:
        verdicts, tests = claims.judge(_results(_figure(*judged, **changes), (A, B, C)))
        return [*(one.why.rpartition(" ")[2] for one in verdicts), *(f"{test.adjusted_p:.2g}" for test in tests)]

    assert adjusted(ORDER, other) == ["0.0017", "0.074"]
    assert adjusted(ORDER, other, _claim("order", "a", "b")) == ["0.0017", "0.074", "0.0017"]  # Equal tests count once.
    number = (Published("a", "score", 8.0, "Table 1"),)
    assert adjusted(ORDER, other, published=number) == ["0.0025", "0.074", "0.0025"]
    assert adjusted(ORDER, reference="b") == ["0.0017", "0.0017", "0.074"]  # Table and claim have one p.


@pytest.mark.parametrize(
    "claim", [ORDER, *(_claim(kind, group, within=9.0) for kind, group in (("close", "a, b"), ("steady", "b")))]
)
def test_a_diverged_run_is_inconclusive(claim):
    lost = dataclasses.replace(B, diverged=(1,))
    verdict = _judge(claim, A, lost)
    assert verdict.status == INCONCLUSIVE
    assert "b diverged in 1 of 3 seeds" in verdict.why
    number = Published("b", "score", 2.0, "Table 1")
    ((stated,), _) = claims.judge(_results(_figure(published=(number,)), [lost]))
    assert (stated.status, stated.why) == (INCONCLUSIVE, "2 (the same in every seed); b diverged in 1 of 3 seeds")


@pytest.mark.parametrize("claim", [ORDER, _claim("close", "a, b", within=1.0)])
def test_two_that_never_get_there_are_not_alike(claim):
    assert _judge(claim, Values("a", [NEVER] * 8), Values("b", [NEVER] * 8)).status == INCONCLUSIVE


def test_what_is_never_reached_counts_as_reached_after_the_last_round():
    late = (Measure("late", "score", "rounds to 1", smallest=True),)
    some = Values("a", (1.0, 2.0, 1.0), "late"), Values("b", (NEVER, NEVER, 9.0), "late")
    verdict = _judge(ORDER, *some, measures=late)
    # Differences -9, -8, -8.
    assert (verdict.status, verdict.why) == (AGREES, "a 1.3, b infinite: -8.3 (-9.8 to -6.9); adjusted p 0.0016")
    found = _results(_figure(measures=late), some)
    assert results.value_words("b", "late", found) == "reached by 1 of 3 seeds"
    assert results.value_words("a", "late", found) == "1.3 (-0.1 to 2.8)"
    tolerant = _claim("not_worse", "a", "b", within=0.5)
    assert _judge(tolerant, Values("a", [1.0] * 8), Values("b", [NEVER] * 8)).status == DISAGREES


@pytest.mark.parametrize(("last", "status"), [(0.2, AGREES), (0.895, INCONCLUSIVE)])
def test_a_fall_after_the_chosen_peak_is_judged_by_the_seeds_that_did_not_choose_it(last, status):
    measures = (Measure("peak", "auc", "chosen peak"), Measure("end", "auc"))
    peaks = Values("a", [NAN, 0.9] * 6, "peak")
    ends = Values("b", [last + 0.001 * seed for seed in range(12)], "end")
    found = _results(_figure(_claim("order", "a @ peak", "b @ end"), measures=measures), [peaks, ends])
    ((verdict,), _) = claims.judge(found)
    assert (verdict.status, verdict.seeds) == (status, 6)
    assert f"b {found.estimate('b', 'end').text().partition(' ')[0]}: " in verdict.why  # The mean of all seeds.
    assert " over 6 seeds that both have;" in verdict.why


def test_less_is_better_where_the_measure_says_so():
    values = Values("a", (1.0, 1.1, 0.9), "loss"), Values("b", (3.0, 3.0, 3.0), "loss")
    assert _judge(_claim("order", "a @ loss", "b @ loss"), *values).status == AGREES
    assert _judge(_claim("order", "b @ loss", "a @ loss"), *values).status == DISAGREES


@pytest.mark.parametrize(
    ("groups", "second", "third", "status", "shown"),
    [
        (("a, b", "c"), (2.9, 3.0, 3.1), (2.0, 2.0, 2.0), AGREES, "b 3.00, c 2"),  # The weakest is shown.
        (("a, b", "c"), (0.0, 3.0, 9.0), (2.0, 2.0, 2.0), INCONCLUSIVE, "b 4, c 2"),
        (("a, b", "c"), (0.9, 1.0, 1.1), (2.0, 2.0, 2.0), DISAGREES, "b 1.00, c 2"),
        (("b | a", "c"), (0.9, 1.0, 1.1), (2.0, 2.0, 2.0), AGREES, "a 4.00, c 2"),  # The better of two suffices.
        (("c", "b | a"), (0.9, 1.0, 1.1), (2.0, 2.0, 2.0), DISAGREES, "c 2, a 4.00"),
        (("b | a", "c"), (0.9, 1.0, 1.1), (6.0, 6.0, 6.0), DISAGREES, "a 4.00, c 6"),
        # b is open, though its interval reaches further down than a's, which is clearly below.
        (("b | a", "c"), (0.0, 3.0, 9.0), (4.9, 5.0, 5.11), INCONCLUSIVE, "b 4, c 5.00"),
    ],
)
def test_the_comparison_that_decides_is_shown(groups, second, third, status, shown):
    verdict = _judge(_claim("order", *groups), A, Values("b", second), Values("c", third))
    assert verdict.status == status
    assert verdict.why.startswith(f"{shown}: ")


def test_a_larger_lead_is_a_difference_of_differences_of_equal_seeds():
    leads = Values("a", (3.9, 24.0, 14.1, 9.0)), Values("b", (2.0, 22.0, 12.0))  # 1.9, 2.0, 2.1
    others = Values("c", (7.0, 1.0, 3.0)), Values("d", (6.0, 0.0, 2.0, 5.0))  # 1, 1, 1
    verdict = _judge(_claim("larger_lead", "a", "b", "c", "d"), *leads, *others)
    assert (verdict.status, verdict.seeds) == (AGREES, 3)
    assert verdict.why == "a minus b 2.00, c minus d 1: +1.00 (+0.75 to +1.25); adjusted p 0.0033"
    reverse = _claim("larger_lead", "c", "d", "a", "b")
    assert _judge(reverse, *leads, *others).status == DISAGREES
    assert _judge(reverse, *leads, others[0], dataclasses.replace(others[1], diverged=(2,))).status == INCONCLUSIVE


@pytest.mark.parametrize(
    ("kind", "higher", "lower"),
    [(PAPER_DATA, AGREES, DISAGREES), (REDUCED, AGREES, DISAGREES), (STAND_IN, SAME, OPPOSITE)],
)
def test_a_stand_in_has_a_direction_and_neither_agrees_nor_disagrees(kind, higher, lower):
    assert _judge(ORDER, A, B, data_kind=kind).status == higher
    assert _judge(_claim("order", "b", "a"), A, B, data_kind=kind).status == lower
    assert _judge(ORDER, Values("a", [4.0]), Values("b", [2.0]), data_kind=kind).status == INCONCLUSIVE


@pytest.mark.parametrize(
    ("explorer", "greedy", "fixed", "status"),
    [
        ((0.79, 0.80, 0.81), (0.5, 0.5, 0.51), 1.0, PREMISE),  # Both below 1, though one is clearly better.
        ((1.79, 1.80, 1.81), (0.5, 0.5, 0.51), 1.0, AGREES),  # One beats it.
        ((0.79, 0.80, 0.81), (1.5, 1.5, 1.51), 1.0, DISAGREES),  # Greedy does.
        ((0.9, 1.2, 1.4), (0.5, 0.5, 0.51), 1.0, PREMISE),  # Above 1 by its mean, and not significantly.
        ((1.79, 1.80, 1.81), (0.5, 0.5, 0.51), NAN, INCONCLUSIVE),
    ],
)
def test_an_edge_over_greedy_needs_one_that_beats_the_best_fixed_action(explorer, greedy, fixed, status):
    values = Values("a", explorer, fixed=fixed), Values("Greedy", greedy, fixed=fixed)
    verdict = _judge(_claim("order", "a", "Greedy"), *values, configurations=("a", "Greedy"))
    assert verdict.status == status
    reason = "premise not met: neither beats the best fixed action, 1"
    assert verdict.why.endswith(reason) == (status == PREMISE)
    reason = "premise unknown: the best fixed action of a and Greedy is not recorded"
    assert verdict.why.endswith(reason) == (status == INCONCLUSIVE)


@pytest.mark.parametrize(("greedy", "status"), [((0.7, 0.71, 0.72), PREMISE), ((1.7, 1.72, 1.75), DISAGREES)])
def test_a_claim_fails_where_one_comparison_fails_whatever_the_others_premises(greedy, status):
    values = [Values("a", (0.4, 0.41, 0.42), fixed=1.0), Values("b", (0.5, 0.51, 0.52), fixed=1.0)]
    values.append(Values("Greedy", greedy, fixed=1.0))
    claim = _claim("order", "a, b", "Greedy")
    assert _judge(claim, *values, configurations=("a", "b", "Greedy")).status == status


def test_a_claim_about_a_strong_initial_model_needs_one():
    claim = dataclasses.replace(ORDER, premises=("c",))
    assert _judge(claim, A, B, Values("c", (1.1, 1.11, 1.12), fixed=1.0)).status == AGREES
    weak = _judge(claim, A, B, Values("c", (0.9, 0.91, 0.92), fixed=1.0))
    assert weak.status == PREMISE
    assert weak.why.endswith("; premise not met: c does not beat the best fixed action, 1")
    assert _judge(claim, A, B).status == NOT_RUN


@pytest.mark.parametrize(
    ("rate", "is_edge", "status"),
    [(0.5, None, PREMISE), (2.0, None, AGREES), (8.0, None, PREMISE), (2.0, True, PREMISE), (0.5, False, AGREES)],
)
def test_a_searched_loser_on_an_edge_of_the_grid_that_ran_decides_nothing(rate, is_edge, status):
    searched = (Configuration("a", ("a",), ()), Configuration("b", ("b",), (), sweeps=("rate=0.5;2;8",)))
    loser = dataclasses.replace(B, picked=rate, is_edge=is_edge)
    verdict = _judge(ORDER, A, loser, configurations=searched)
    assert verdict.status == status
    reason = f"; premise not met: the best point of b lies on the edge of its grid (rate {rate:g})"
    assert verdict.why.endswith(reason) == (status == PREMISE)
    winner = dataclasses.replace(loser, numbers=(9.0, 9.0, 9.0))  # Beyond the edge it could only gain.
    assert _judge(ORDER, A, winner, configurations=searched).status == DISAGREES


def test_what_needs_other_data_or_configurations_is_not_run():
    claim = dataclasses.replace(ORDER, needs="EMNIST")
    assert _judge(claim, A, B).status == AGREES
    assert _judge(claim, A, B, data_kind=STAND_IN) == (NOT_RUN, "needs EMNIST", 0)
    assert _judge(Claim("", "", "", (), needs="several searches"), A, B).status == NOT_RUN
    assert _judge(ORDER, A) == (NOT_RUN, "no score of b", 0)


@pytest.mark.parametrize(
    ("kind", "within", "ours", "status"),
    [  # Of 2; differences of 0, 1 and -0.3, each ± 0.25.
        ("close", 0.15, (2.1, 2.0, 1.9), AGREES),
        ("close", 0.1, (2.1, 2.0, 1.9), INCONCLUSIVE),
        ("close", 0.15, (3.1, 3.0, 2.9), DISAGREES),
        ("apart", 0.1, (2.9, 3.0, 3.1), AGREES),
        ("apart", 0.5, (2.9, 3.0, 3.1), INCONCLUSIVE),
        ("apart", 0.9, (2.9, 3.0, 3.1), DISAGREES),
        ("not_worse", 0.3, (1.6, 1.7, 1.8), AGREES),
        ("not_worse", 0.2, (1.6, 1.7, 1.8), INCONCLUSIVE),
        ("not_worse", 0.0, (1.6, 1.7, 1.8), DISAGREES),
    ],
)
def test_a_tolerance_is_tested_at_its_limit(kind, within, ours, status):
    groups = ("a", "b") if kind == "not_worse" else ("a, b",)
    verdict = _judge(_claim(kind, *groups, within=within), Values("a", ours), B)
    assert verdict.status == status
    assert ("(our tolerance)" in verdict.why) == (within > 0)


def test_near_the_best_is_not_worse_than_any_other_configuration():
    claim, near = _claim("near_best", "a", within=0.5), Values("a", (2.1, 2.0, 1.9))
    assert _judge(claim, near, B, configurations="ab").status == AGREES
    assert _judge(claim, near, B, Values("c", (9.0, 9.0, 9.0)), configurations="abc").status == DISAGREES
    assert _judge(claim, near, B, configurations="abc").status == NOT_RUN  # Without c nobody knows.


def test_what_is_close_to_another_group_need_not_be_close_within_its_own():
    values = [Values(label, [score] * 9) for label, score in (("a", 0.95), ("b", 1.05), ("c", 1.0))]
    assert _judge(_claim("close", "a, b", "c", within=0.06), *values).status == AGREES
    assert _judge(_claim("close", "a, b, c", within=0.06), *values).status == DISAGREES


@pytest.mark.parametrize(
    ("low", "high", "status"), [(1.7, 2.3, AGREES), (1.9, 2.3, INCONCLUSIVE), (2.3, 3.0, DISAGREES)]
)
def test_a_stated_range_is_tested_at_its_nearest_end(low, high, status):
    ours = Values("a", (1.9, 2.0, 2.1))
    assert _judge(_claim("between", "a", low=low, high=high), ours).status == status
    distance = _judge(_claim("between", "a", "b", low=low, high=high), ours, Values("b", (4.0, 4.0, 4.0)))
    assert distance.status == status  # Without a sign.
    assert distance.why.startswith(f"a 2.00, b 4: apart by 2.00 (1.75 to 2.25); stated {low:g} to {high:g}; adjusted")
    assert _judge(_claim("between", "a", low=low, high=high), ours, data_kind=STAND_IN).status == NOT_COMPARABLE


def test_a_stated_range_may_have_no_end():
    verdict = _judge(_claim("between", "a", low=0.9, high=math.inf), Values("a", [1.0] * 6))
    assert verdict == (AGREES, "a 1: 1 (the same in every seed); stated 0.9 or more; adjusted p 0.031", 6)


@pytest.mark.parametrize(("within", "status"), [(0.35, AGREES), (0.05, INCONCLUSIVE), (0.025, DISAGREES)])
def test_steady_seeds_are_judged_by_the_interval_of_their_deviation(within, status):
    # Of 2. By chi squared with 2 degrees of freedom, 0.1 lies in 0.0521 to 0.628: 7.378 and 0.0506 at 97.5% and 2.5%.
    verdict = _judge(_claim("steady", "a", within=within), Values("a", (1.9, 2.0, 2.1)))
    assert verdict.status == status
    assert "0.10 (0.05 to 0.63)" in verdict.why
    assert _judge(_claim("steady", "a", within=within), Values("a", [1.9])).status == INCONCLUSIVE


@pytest.mark.parametrize(
    ("ours", "status"),
    [  # Above the best fixed action's 3 by 1 ± 0.25; by 1 ± 4.97; by -1 ± 0.25.
        ((3.9, 4.0, 4.1), AGREES),
        ((2.0, 4.0, 6.0), INCONCLUSIVE),
        ((1.9, 2.0, 2.1), DISAGREES),
    ],
)
def test_a_configuration_is_compared_with_the_best_fixed_action_that_its_runs_recorded(ours, status):
    found = _results(_figure(_claim("beats_best_fixed", "a")), [Values("a", ours, fixed=3.0)])
    ((verdict,), _) = claims.judge(found)
    assert verdict.status == status
    assert verdict.why.startswith(f"a {found.estimate('a', 'score').text().partition(' ')[0]}, best fixed action 3: ")
    assert _judge(_claim("beats_best_fixed", "a"), A) == (NOT_RUN, "no best fixed action beside a", 0)


@pytest.mark.parametrize(("fixed", "note"), [(0.9, " (below the best fixed action)"), (0.2, ""), (NAN, "")])
def test_a_configuration_that_does_not_beat_the_best_fixed_action_is_noted(fixed, note):
    found = _results(_figure(), [Values("a", (0.5, 0.51, 0.52), fixed=fixed)])
    assert results.baseline_note("a", "score", found) == note
    weak = _results(_figure(), [Values("a", (0.05, 0.04, 0.06), fixed=fixed)])
    assert results.baseline_note("a", "score", weak).startswith(" (below the uniform policy")


def _compared(published: Published, values: Values, **changes) -> claims.Verdict:
    ((verdict,), _) = claims.judge(_results(_figure(published=(published,), **changes), [values]))
    return verdict


@pytest.mark.parametrize(
    ("theirs", "unit", "ours", "status"),
    [
        (2.0, 0.01, (2.01, 2.02, 2.03), AGREES),  # 2.02 ± 0.025, within 5%: 1.9 to 2.1.
        (2.0, 0.01, (1.5, 2.0, 2.5), INCONCLUSIVE),  # 2 ± 1.24: it could be anything near.
        (3.0, 0.01, (1.5, 2.0, 2.5), INCONCLUSIVE),  # Another single seed: 2 ± 1.24 sqrt(1 + 3) = 2 ± 2.48.
        (5.0, 0.01, (1.5, 2.0, 2.5), DISAGREES),
        (5.0, 0.01, (2.0,), INCONCLUSIVE),
        (0.02, 0.01, (0.0222, 0.0223, 0.0224), AGREES),  # Written 0.02: 0.015 to 0.025.
        (0.02, 0.001, (0.0222, 0.0223, 0.0224), DISAGREES),
    ],
)
def test_a_number_agrees_by_our_interval_and_disagrees_by_what_other_seeds_would_give(theirs, unit, ours, status):
    published = Published("a", "score", theirs, "Table 1", unit)
    assert _compared(published, Values("a", ours)).status == status
    for changes in ({"scale": SMALL}, {"data_kind": REDUCED}, {"data_kind": STAND_IN}):
        assert _compared(published, Values("a", ours), **changes).status == NOT_COMPARABLE
    other = dataclasses.replace(published, other_settings=True)
    assert _compared(other, Values("a", ours)).status == NOT_COMPARABLE


def test_a_rate_that_a_search_picked_has_no_test():
    verdict = _compared(Published("a", "rate", 0.1, "Table 1"), dataclasses.replace(A, picked=0.1))
    assert verdict.status == INCONCLUSIVE
    assert verdict.why == "0.1; selected on one tuning seed; a search's best point has no test"
