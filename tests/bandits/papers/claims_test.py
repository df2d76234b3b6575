"""Tests of bandits.papers.claims, with numbers made by hand."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from bandits.papers import claims
from bandits.papers.claims import AGREES, DISAGREES, INCONCLUSIVE, NOT_COMPARABLE, NOT_RUN, OPPOSITE, PREMISE, SAME
from bandits.papers.plan import PAPER, PAPER_DATA, REDUCED, SMALL, STAND_IN, Claim, Figure, Measure, Published
from bandits.papers.results import Results
from bandits.plans.plan import Configuration
from bandits.results import baselines, configuration
from bandits.results.baselines import BaselineComparison
from bandits.results.configuration import Baseline, ReferenceValue

T_2 = 4.302652729749464  # Student's t at 97.5% with 2 degrees of freedom.
SCORE, LOSS = Measure("score", "score"), Measure("loss", "loss", smallest=True)


def _figure(*claims: Claim, configurations="abc", data_kind: str = PAPER_DATA, scale: str = PAPER) -> Figure:
    return Figure(
        name="f1",
        text="Nobody 2020",
        about="Figure 1",
        binary="run_federated",
        configurations=tuple(
            one if isinstance(one, Configuration) else Configuration(one, (one,), ()) for one in configurations
        ),
        repeat=3,
        measures=(SCORE, LOSS),
        claims=claims,
        data_kind=data_kind,
        scale=scale,
    )


@dataclasses.dataclass(frozen=True)
class Value:
    """A measure of a configuration, or what a search picked."""

    configuration: str
    measure: str
    by_seed: dict[int, float]
    rounds: int = 9
    is_picked: bool = False
    is_edge: bool | None = None
    diverged: frozenset[int] = frozenset()
    baselines: BaselineComparison | None = None


def _against(label: str, by_seed: dict[int, float], **known: float | None) -> BaselineComparison:
    """Compares values with exact rewards of the uniform policy and the best fixed action."""
    names = {"uniform": Baseline.uniform_policy, "fixed": Baseline.best_fixed_action}
    references = {names[name]: ReferenceValue(name, reward) for name, reward in known.items() if reward is not None}
    values = configuration.of_values(label, "score", by_seed)
    return baselines.compare([(values, references)], "score", "up")[label]


def _results(figure: Figure, values: Sequence[Value]) -> Results:
    configurations = {}
    for label in dict.fromkeys(value.configuration for value in values):
        mine = [value for value in values if value.configuration == label]
        table = pd.DataFrame({one.measure: pd.Series(one.by_seed, dtype=float) for one in mine if not one.is_picked})
        for picked in (one for one in mine if one.is_picked):
            table = table if len(table) else pd.DataFrame(index=[0])
            table[f"picked:{picked.measure}"] = picked.by_seed[0]
            if picked.is_edge is not None:
                table[f"edge:{picked.measure}"] = int(picked.is_edge)
        lost = frozenset().union(*(value.diverged for value in mine))
        configurations[label] = configuration.Configuration(label, table.assign(rounds=mine[0].rounds), diverged=lost)
    results = Results(figure, configurations)
    results.__dict__["baselines"] = {value.configuration: value.baselines for value in values if value.baselines}
    return results


def _value(arm: str, *seeds: float, measure: str = "score", rounds: int = 9) -> Value:
    return Value(arm, measure, dict(enumerate(seeds)), rounds)


def _judge(claim: Claim, *rows: Value, **changes) -> claims.Verdict:
    (verdict,) = claims.judge(_results(_figure(claim, **changes), rows)).claims
    return verdict


def _compare(value: Value, published: Published, **changes) -> claims.Verdict:
    (verdict,) = claims.judge(
        _results(dataclasses.replace(_figure(**changes), published=(published,)), [value])
    ).numbers
    return verdict


ORDER = Claim("a is better", "section 1", "order", (("a",), ("b",)))


@pytest.mark.parametrize(
    ("ours", "status"),
    [
        ((3.9, 4.0, 4.1), AGREES),  # Differences 1.9, 2.0, 2.1: 2 ± 0.25.
        ((3.0, 4.0, 5.0), INCONCLUSIVE),  # 1, 2, 3: 2 ± 2.48, which reaches 0, though each seed has the right sign.
        ((0.1, 0.0, -0.1), DISAGREES),  # -1.9, -2.0, -2.1.
        ((4.0,), INCONCLUSIVE),  # One seed.
        ((4.0, math.nan, 4.1), INCONCLUSIVE),  # One has diverged.
    ],
)
def test_an_order_is_judged_by_the_interval_of_the_paired_differences(ours, status):
    assert _judge(ORDER, _value("a", *ours), _value("b", 2.0, 2.0, 2.0)).status == status


def test_a_diverged_run_is_inconclusive():
    ours, lost = _value("a", 3.9, 4.0, 4.1), dataclasses.replace(_value("b", 2.0, 2.0, 2.0), diverged=frozenset({1}))
    verdict = _judge(ORDER, ours, lost)
    assert verdict.status == INCONCLUSIVE
    assert verdict.why.endswith("; b diverged in 1 of 3 seeds")
    for claim in (
        Claim("", "", "close", (("a", "b"),), within=9.0),
        Claim("", "", "between", (("b",),), low=1.0, high=3.0),
        Claim("", "", "steady", (("b",),), within=9.0),
    ):
        assert _judge(claim, ours, lost).status == INCONCLUSIVE
    verdict = _compare(lost, Published("b", "score", 2.0, "Table 1"))
    assert (verdict.status, verdict.why) == (INCONCLUSIVE, "2 (the same in every seed); b diverged in 1 of 3 seeds")


def test_two_that_never_get_there_are_not_alike():
    never = [math.inf] * 8
    for claim in (ORDER, Claim("", "", "close", (("a", "b"),), within=1.0)):
        assert _judge(claim, _value("a", *never), _value("b", *never)).status == INCONCLUSIVE


def test_the_interval_is_reported_beside_the_means():
    verdict = _judge(ORDER, _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0))
    half = T_2 * 0.1 / math.sqrt(3)
    assert half == pytest.approx(0.2484, abs=1e-4)
    # Student's t of 2 / (0.1 / sqrt(3)) = 34.64 with 2 degrees of freedom: p = 1 - t / sqrt(t^2 + 2).
    assert 1 - 34.641 / math.sqrt(34.641**2 + 2) == pytest.approx(0.00083, abs=1e-5)
    assert verdict.why == "a 4, b 2: +2.00 (+1.75 to +2.25); adjusted p 0.00083"
    assert verdict.seeds == 3


def test_a_larger_lead_is_a_difference_of_differences_of_equal_seeds():
    claim = Claim("", "", "larger_lead", (("a",), ("b",), ("c",), ("d",)))
    leads = _value("a", 3.9, 24.0, 14.1, 9.0), _value("b", 2.0, 22.0, 12.0)  # 1.9, 2.0, 2.1
    others = _value("c", 7.0, 1.0, 3.0), _value("d", 6.0, 0.0, 2.0, 5.0)  # 1, 1, 1
    verdict = _judge(claim, *leads, *others, configurations="abcd")
    assert (verdict.status, verdict.seeds) == (AGREES, 3)
    assert verdict.why == "a minus b 2, c minus d 1: +1.00 (+0.75 to +1.25); adjusted p 0.0033"
    assert (
        _judge(
            dataclasses.replace(claim, operands=(("c",), ("d",), ("a",), ("b",))),
            *leads,
            *others,
            configurations="abcd",
        ).status
        == DISAGREES
    )
    lost = dataclasses.replace(others[1], diverged=frozenset({2}))
    assert _judge(claim, *leads, others[0], lost, configurations="abcd").status == INCONCLUSIVE


@pytest.mark.parametrize(("count", "status"), [(5, INCONCLUSIVE), (6, AGREES)])
def test_the_same_difference_in_every_seed_is_significant_from_six_seeds_on(count, status):
    assert _judge(ORDER, _value("a", *[2.0] * count), _value("b", *[1.0] * count)).status == status


def test_less_is_better_where_the_measure_says_so():
    claim = Claim("a has less loss", "", "order", (("a @ loss",), ("b @ loss",)))
    rows = _value("a", 1.0, 1.1, 0.9, measure="loss"), _value("b", 3.0, 3.0, 3.0, measure="loss")
    assert _judge(claim, *rows).status == AGREES
    assert _judge(Claim("", "", "order", (("b @ loss",), ("a @ loss",))), *rows).status == DISAGREES


def test_of_several_needed_differences_one_that_is_open_leaves_all_open_and_a_wrong_one_decides():
    claim = Claim("", "", "order", (("a", "b"), ("c",)))
    a, c = _value("a", 3.9, 4.0, 4.1), _value("c", 2.0, 2.0, 2.0)
    assert _judge(claim, a, _value("b", 2.9, 3.0, 3.1), c).status == AGREES
    assert _judge(claim, a, _value("b", 0.0, 3.0, 9.0), c).status == INCONCLUSIVE
    wrong = _judge(claim, a, _value("b", 0.9, 1.0, 1.1), c)
    assert wrong.status == DISAGREES
    assert wrong.why.startswith("b 1, c 2: -1")


def test_the_better_of_two_needs_one_of_them():
    claim = Claim("", "", "order", (("b | a",), ("c",)))
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 0.9, 1.0, 1.1), _value("c", 2.0, 2.0, 2.0)
    assert _judge(claim, *rows).status == AGREES
    assert _judge(Claim("", "", "order", (("c",), ("b | a",))), *rows).status == DISAGREES


@pytest.mark.parametrize(
    ("kind", "higher", "lower"),
    [(PAPER_DATA, AGREES, DISAGREES), (REDUCED, AGREES, DISAGREES), (STAND_IN, SAME, OPPOSITE)],
)
def test_a_stand_in_has_a_direction_and_neither_agrees_nor_disagrees(kind, higher, lower):
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0)
    assert _judge(ORDER, *rows, data_kind=kind).status == higher
    assert _judge(Claim("", "", "order", (("b",), ("a",))), *rows, data_kind=kind).status == lower
    assert _judge(ORDER, _value("a", 4.0), _value("b", 2.0), data_kind=kind).status == INCONCLUSIVE


def _stood(arm: str, *seeds: float, constant: float | None = 1.0) -> Value:
    """Returns a value of an arm with the best fixed action of its runs."""
    values = dict(enumerate(seeds))
    stand = _against(arm, values, uniform=0.1, fixed=constant)
    return Value(arm, "score", values, 9, baselines=stand)


EXPLORES = Claim("exploration helps", "", "order", (("a",), ("Greedy",)))


@pytest.mark.parametrize(
    ("explorer", "greedy", "status"),
    [
        ((0.79, 0.80, 0.81), (0.5, 0.5, 0.51), PREMISE),  # Both below 1, though one is clearly better.
        ((1.79, 1.80, 1.81), (0.5, 0.5, 0.51), AGREES),  # One beats it.
        ((0.79, 0.80, 0.81), (1.5, 1.5, 1.51), DISAGREES),  # Greedy does.
        ((0.9, 1.2, 1.4), (0.5, 0.5, 0.51), PREMISE),  # Above 1 by its mean, and not with its interval.
    ],
)
def test_an_edge_over_greedy_needs_one_that_beats_the_best_fixed_action(explorer, greedy, status):
    rows = _stood("a", *explorer), _stood("Greedy", *greedy)
    verdict = _judge(EXPLORES, *rows, configurations=("a", "Greedy"))
    assert verdict.status == status
    reason = "; premise not met: neither beats the best fixed action, 1"
    assert verdict.why.endswith(reason) == (status == PREMISE)


def test_a_claim_fails_where_one_comparison_fails_whatever_the_others_premises():
    claim = Claim("", "", "order", (("a", "b"), ("Greedy",)))
    rows = [_stood("a", 0.4, 0.41, 0.42), _stood("b", 0.5, 0.51, 0.52), _stood("Greedy", 0.7, 0.71, 0.72)]
    assert _judge(claim, *rows, configurations=("a", "b", "Greedy")).status == PREMISE
    rows[2] = _stood("Greedy", 1.7, 1.72, 1.75)
    assert _judge(claim, *rows, configurations=("a", "b", "Greedy")).status == DISAGREES


def test_where_the_best_fixed_action_is_unknown_so_is_the_premise():
    rows = _stood("a", 1.79, 1.80, 1.81, constant=None), _stood("Greedy", 0.5, 0.5, 0.51, constant=None)
    verdict = _judge(EXPLORES, *rows, configurations=("a", "Greedy"))
    assert verdict.status == INCONCLUSIVE
    assert verdict.why.endswith("; premise unknown: the best fixed action of a and Greedy is not recorded")
    assert _judge(ORDER, _stood("a", 0.4, 0.41, 0.43), _stood("b", 0.2, 0.21, 0.22)).status == AGREES  # It has none.


def test_a_claim_about_a_strong_initial_model_needs_one():
    claim = dataclasses.replace(ORDER, premises=("c",))
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0)
    assert _judge(claim, *rows, _stood("c", 1.1, 1.11, 1.12)).status == AGREES
    weak = _judge(claim, *rows, _stood("c", 0.9, 0.91, 0.92))
    assert weak.status == PREMISE
    assert weak.why.endswith("; premise not met: c does not beat the best fixed action, 1")
    assert _judge(claim, *rows).status == NOT_RUN


@pytest.mark.parametrize(("rate", "status"), [(0.5, PREMISE), (2.0, AGREES), (8.0, PREMISE)])
def test_a_searched_loser_on_an_edge_of_its_grid_decides_nothing(rate, status):
    arms = (Configuration("a", ("a",), ()), Configuration("b", ("b",), (), sweeps=("rate=0.5;2;8",)))
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0)
    picked = Value("b", "rate", {0: rate}, 9, is_picked=True)
    verdict = _judge(ORDER, *rows, picked, configurations=arms)
    assert verdict.status == status
    reason = f"; premise not met: the best point of b lies on the edge of its grid (rate {rate:g})"
    assert verdict.why.endswith(reason) == (status == PREMISE)
    winner = _value("b", 9.0, 9.0, 9.0)
    assert (
        _judge(ORDER, rows[0], winner, picked, configurations=arms).status == DISAGREES
    )  # Beyond the edge it could only gain.


@pytest.mark.parametrize(("is_edge", "status"), [(True, PREMISE), (False, AGREES)])
def test_the_grid_that_ran_decides_where_records_say_so(is_edge, status):
    arms = (Configuration("a", ("a",), ()), Configuration("b", ("b",), (), sweeps=("rate=0.5;2;8",)))
    picked = Value("b", "rate", {0: 2.0}, 9, is_picked=True, is_edge=is_edge)  # Inside of the declared grid.
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0)
    assert _judge(ORDER, *rows, picked, configurations=arms).status == status


def test_what_needs_the_paper_s_data_is_not_run_on_a_stand_in():
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0)
    claim = dataclasses.replace(ORDER, needs="EMNIST")
    assert _judge(claim, *rows).status == AGREES
    stood = _judge(claim, *rows, data_kind=STAND_IN)
    assert (stood.status, stood.why) == (NOT_RUN, "needs EMNIST")
    assert _judge(Claim("", "", "", (), needs="several searches"), *rows).status == NOT_RUN


def test_what_differs_is_the_contrary_of_what_is_close():
    rows = _value("a", 2.9, 3.0, 3.1), _value("b", 2.0, 2.0, 2.0)
    for within, status in ((0.1, AGREES), (0.5, INCONCLUSIVE), (0.9, DISAGREES)):
        assert _judge(Claim("", "", "apart", (("a", "b"),), within=within), *rows).status == status


def test_what_is_never_reached_counts_as_reached_after_the_last_round():
    late = Measure("late", "score", "rounds to 1", smallest=True)
    figure = _figure(Claim("", "", "order", (("a @ late",), ("b @ late",))))
    figure = dataclasses.replace(figure, measures=(late,))
    never = _value("b", math.inf, math.inf, 9.0, measure="late")
    (verdict,) = claims.judge(_results(figure, [_value("a", 1.0, 2.0, 1.0, measure="late"), never])).claims
    # Differences -9, -8, -8.
    assert (verdict.status, verdict.why) == (AGREES, "a 1.33, b infinite: -8.3 (-9.8 to -6.9); adjusted p 0.0016")


def test_a_value_that_some_seeds_never_reach_is_counted():
    late = Measure("late", "score", "rounds to 1", smallest=True)
    figure = dataclasses.replace(_figure(), measures=(late, LOSS))
    for seeds, words in (((3.0, math.inf, 5.0), "reached by 2 of 3 seeds"), ((3.0,) * 3, "3 (the same in every seed)")):
        assert _results(figure, [_value("a", *seeds, measure="late")]).value_words("a", "late") == words


def test_a_configuration_that_does_not_beat_the_best_fixed_action_is_noted():
    ours = {0: 0.5, 1: 0.51, 2: 0.52}
    below = " (below the best fixed action)", " (below the uniform policy)"
    for uniform, fixed, note in ((0.1, 0.9, below[0]), (0.1, 0.2, ""), (0.9, 0.95, below[1])):
        value = Value("a", "score", ours, baselines=_against("a", ours, uniform=uniform, fixed=fixed))
        assert _results(_figure(), [value]).baseline_note("a", "score") == note


@pytest.mark.parametrize(
    ("within", "ours", "status"),
    [(0.15, (2.1, 2.0, 1.9), AGREES), (0.1, (2.1, 2.0, 1.9), INCONCLUSIVE), (0.15, (3.1, 3.0, 2.9), DISAGREES)],
)
def test_similar_needs_the_whole_interval_within_the_tolerance(within, ours, status):
    claim = Claim("", "", "close", (("a", "b"),), within=within)
    assert _judge(claim, _value("a", *ours), _value("b", 2.0, 2.0, 2.0)).status == status  # 0 or 1, ± 0.25, of 2.


@pytest.mark.parametrize(("within", "status"), [(0.3, AGREES), (0.2, INCONCLUSIVE), (0.0, DISAGREES)])
def test_not_worse_is_judged_with_the_tolerance(within, status):
    claim = Claim("", "", "not_worse", (("a",), ("b",)), within=within)
    # -0.3 ± 0.25, of 2.
    verdict = _judge(claim, _value("a", 1.6, 1.7, 1.8), _value("b", 2.0, 2.0, 2.0))
    assert verdict.status == status
    tolerance = f"; up to {round(100 * within)}% less is close (our tolerance)" if within else ""
    assert verdict.why.startswith(f"a 1.7, b 2: -0.30 (-0.55 to -0.05){tolerance}; adjusted p ")


def test_a_tolerance_of_what_is_never_reached_is_finite():
    claim = Claim("", "", "not_worse", (("a",), ("b",)), within=0.5)
    assert _judge(claim, _value("a", *[1.0] * 8), _value("b", *[math.inf] * 8)).status == DISAGREES


def test_near_the_best_is_not_worse_than_any_other_configuration():
    claim = Claim("", "", "near_best", (("a",),), within=0.5)
    a, b = _value("a", 2.1, 2.0, 1.9), _value("b", 2.0, 2.0, 2.0)
    assert _judge(claim, a, b, configurations="ab").status == AGREES
    assert _judge(claim, a, b, _value("c", 9.0, 9.0, 9.0)).status == DISAGREES
    assert _judge(claim, a, b).status == NOT_RUN  # Without c nobody knows.


@pytest.mark.parametrize(
    ("low", "high", "status"), [(1.7, 2.3, AGREES), (1.9, 2.3, INCONCLUSIVE), (2.3, 3.0, DISAGREES)]
)
def test_a_stated_range_holds_the_whole_interval(low, high, status):
    claim = Claim("", "", "between", (("a",),), low=low, high=high)
    assert _judge(claim, _value("a", 1.9, 2.0, 2.1)).status == status
    assert _judge(claim, _value("a", 1.9, 2.0, 2.1), data_kind=STAND_IN).status == NOT_COMPARABLE


def test_a_stated_distance_has_no_sign():
    claim = Claim("", "", "between", (("a",), ("b",)), low=1.7, high=2.3)
    rows = _value("a", 1.9, 2.0, 2.1), _value("b", 4.0, 4.0, 4.0)
    assert _judge(claim, *rows).status == AGREES
    assert _judge(claim, *rows).why == "a 2, b 4: apart by 2.00 (1.75 to 2.25); stated 1.7 to 2.3; adjusted p 0.035"


@pytest.mark.parametrize(("within", "status"), [(0.35, AGREES), (0.05, INCONCLUSIVE), (0.025, DISAGREES)])
def test_steady_seeds_are_judged_by_the_interval_of_their_deviation(within, status):
    claim = Claim("", "", "steady", (("a",),), within=within)
    # Of 2. By chi squared with 2 degrees of freedom, 0.1 lies in 0.0521 to 0.628: 7.378 and 0.0506 at 97.5% and 2.5%.
    verdict = _judge(claim, _value("a", 1.9, 2.0, 2.1))
    assert verdict.status == status
    assert "0.10 (0.05 to 0.63)" in verdict.why
    assert _judge(claim, _value("a", 1.9)).status == INCONCLUSIVE


def _compared(published: float, *seeds: float, unit: float = 0.01, **changes) -> str:
    return _compare(_value("a", *seeds), Published("a", "score", published, "Table 1", unit), **changes).status


@pytest.mark.parametrize(
    ("published", "ours", "status"),
    [
        (2.0, (2.01, 2.02, 2.03), AGREES),  # 2.02 ± 0.025, within 5%: 1.9 to 2.1.
        (2.0, (1.5, 2.0, 2.5), INCONCLUSIVE),  # 2 ± 1.24: it could be anything near.
        (3.0, (1.5, 2.0, 2.5), INCONCLUSIVE),  # Another single seed: 2 ± 1.24 sqrt(1 + 3) = 2 ± 2.48.
        (5.0, (1.5, 2.0, 2.5), DISAGREES),
        (5.0, (2.0,), INCONCLUSIVE),
    ],
)
def test_a_number_agrees_by_our_interval_and_disagrees_by_what_other_seeds_would_give(published, ours, status):
    assert _compared(published, *ours) == status


def test_the_last_digit_of_a_published_number_is_no_difference():
    assert _compared(0.02, 0.0222, 0.0223, 0.0224, unit=0.01) == AGREES  # Written 0.02: 0.015 to 0.025.
    assert _compared(0.02, 0.0222, 0.0223, 0.0224, unit=0.001) == DISAGREES


def test_a_number_of_the_paper_s_data_at_fewer_rounds_is_not_comparable():
    assert _compared(2.0, 2.0, 2.0, 2.0, scale=SMALL) == NOT_COMPARABLE
    for kind in (REDUCED, STAND_IN):
        assert _compared(2.0, 2.0, 2.0, 2.0, data_kind=kind) == NOT_COMPARABLE
    published = Published("a", "score", 2.0, "Table 1", 0.01, other_settings=True)
    assert _compare(_value("a", 2.0, 2.0, 2.1), published).status == NOT_COMPARABLE


def test_a_rate_that_a_search_picked_has_no_test():
    verdict = _compare(Value("a", "rate", {0: 0.1}, 9, is_picked=True), Published("a", "rate", 0.1, "Table 1"))
    assert verdict.status == INCONCLUSIVE
    assert verdict.why == "0.1; selected on one tuning seed; a search's best point has no test"


def test_holm_adjusts_over_the_figure():
    # Alone, p is 0.00083 for a minus b and for the number 8, and 0.074 for c minus b: 1, 2 and 3, so t is 3.46.
    order, other = ORDER, Claim("c is better", "", "order", (("c",), ("b",)))
    rows = _value("a", 3.9, 4.0, 4.1), _value("b", 2.0, 2.0, 2.0), _value("c", 3.0, 4.0, 5.0)

    def adjusted(*judged: Claim, published: tuple[Published, ...] = (), reference: str | None = None) -> list[str]:
        figure = dataclasses.replace(_figure(*judged), published=published, reference=reference)
        verdicts = claims.judge(_results(figure, rows))
        tests = [f"{test.adjusted_p:.2g}" for test in verdicts.tests]
        return [*(one.why.rpartition(" ")[2] for one in (*verdicts.claims, *verdicts.numbers)), *tests]

    assert adjusted(order, other) == ["0.0017", "0.074"]
    assert adjusted(order, other, order) == ["0.0017", "0.074", "0.0017"]  # An equal test counts once.
    assert adjusted(order, other, published=(Published("a", "score", 8.0, "Table 1"),)) == ["0.0025", "0.074", "0.0025"]
    assert adjusted(order, reference="b") == ["0.0017", "0.0017", "0.074"]  # Table and claim have one p.


@pytest.mark.parametrize(
    ("ours", "status"),
    [
        ((3.9, 4.0, 4.1), AGREES),  # Above the best fixed action's 3 by 1 ± 0.25.
        ((2.0, 4.0, 6.0), INCONCLUSIVE),
        ((1.9, 2.0, 2.1), DISAGREES),
        ((4.0,), INCONCLUSIVE),
    ],
)
def test_a_configuration_is_compared_with_the_best_fixed_action_that_its_runs_recorded(ours, status):
    row = _value("a", *ours)
    row = dataclasses.replace(row, baselines=_against("a", row.by_seed, fixed=3.0))
    verdict = _judge(Claim("", "", "beats_best_fixed", (("a",),)), row)
    assert verdict.status == status
    assert verdict.why.startswith(f"a {np.mean(ours):.3g}, best fixed action 3: ")


def test_no_best_fixed_action_is_made_up():
    verdict = _judge(Claim("", "", "beats_best_fixed", (("a",),)), _value("a", 3.9, 4.0, 4.1))
    assert (verdict.status, verdict.why) == (NOT_RUN, "no best fixed action beside a")
