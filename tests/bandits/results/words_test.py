"""Tests of bandits.results.words."""

import math

import pytest

from bandits.results import comparison, words
from optimization.study.intervals import Interval

GREEDY = dict(enumerate([0.50, 0.52, 0.48, 0.55, 0.51, 0.49]))
SOFTMAX = dict(enumerate([0.58, 0.57, 0.57, 0.61, 0.60, 0.52]))


def _one(first, second=GREEDY, **settings):
    return comparison.compare({"softmax": first, "greedy": second}, "greedy", **settings)["softmax"]


def test_a_comparison_is_a_line():
    assert words.of(_one(SOFTMAX)) == (
        "softmax: +0.06667 (95% interval +0.04125 to +0.09209); 6 seeds; p 0.0011, by Holm 0.0011; by flipped signs "
        "0.031, by Holm 0.031; better in 100% of pairs: better than greedy"
    )
    assert words.of(_one(SOFTMAX, unpaired=["softmax"])).startswith(
        "softmax: +0.06667 (95% interval +0.02994 to +0.1034"
    )
    assert "6 and 6 seeds, unpaired" in words.of(_one(SOFTMAX, unpaired=["softmax"]))


def test_of_an_arm_that_is_not_judged_no_p_is_told():
    told = words.of(_one({**SOFTMAX, 6: math.nan}, {**GREEDY, 6: 0.5}))
    assert told.endswith(
        "6 seeds; better in 100% of pairs: not significantly different from greedy "
        "[softmax diverged with seed 6: not judged]"
    )
    assert words.found_by(_one({**SOFTMAX, 6: math.nan}, {**GREEDY, 6: 0.5})) == ""


def test_one_seed_is_said():
    assert words.of(_one({0: 0.6}, {0: 0.5})) == (
        "softmax: +0.1; 1 seed; better in 100% of pairs: not significantly different from greedy [one seed has no test]"
    )


def test_arms_without_a_common_seed_are_said():
    assert words.of(_one({7: 0.6})).startswith(
        "softmax: no difference is known: not significantly different from greedy ["
    )


def test_what_seeds_would_find_is_said_where_they_did_not():
    close = {seed: value + 0.001 * (-1) ** seed + 0.0002 for seed, value in GREEDY.items()}
    told = words.found_by(_one(close))
    assert told.startswith("These 6 seeds would find a difference of 0.0")
    assert "; the one seen, 0.0002, would need about " in told
    assert "would need" not in words.found_by(_one(SOFTMAX))
    assert words.found_by(_one({0: 0.6}, {0: 0.5})) == ""


def test_of_arms_that_are_not_paired_the_seeds_of_both_are_told():
    told = words.found_by(_one({0: 0.53, 1: 0.50, 2: 0.51}, unpaired=["softmax"]))
    assert told.startswith("These 3 and 6 seeds would find a difference of ")
    assert told.endswith(" of each.")


def test_no_p_is_0():
    assert words.p_value(0.0) == "< 0.0001"
    assert words.p_value(float("nan")) == "-"


def test_what_seeds_vary():
    assert words.what_seeds_vary() == "Seeds vary the cohorts, the first weights and the clients' draws."
    assert words.what_seeds_vary(partition=True, initial_model=False, noise=True) == (
        "Seeds vary the cohorts, the clients' draws, the noise and which client holds which examples."
    )


def test_what_intervals_are_over():
    assert words.what_intervals_are_over() == (
        "Intervals over seeds say what other seeds would give on this data, not what other clients would."
    )
    assert words.what_intervals_are_over("held-out").endswith(
        "; that over held-out clients, of the greedy policy at the last evaluation, says what other clients would earn "
        "with these seeds' models."
    )


def test_the_test_is_named():
    several = comparison.compare(
        {"softmax": SOFTMAX, "greedy": GREEDY, "falcon": GREEDY}, "greedy", unpaired=["falcon"]
    )
    assert words.family(several.values()) == (
        "Told apart: p below 5% by a paired t test and Welch's for arms that seeds do not determine, adjusted by Holm "
        "for 2 arms."
    )
    assert words.family([_one({0: 0.6}, {0: 0.5})]) == ""


@pytest.mark.parametrize("high", [0.5, math.nan, math.inf])
def test_an_estimate_without_a_width_has_three_significant_digits(high):
    told = words.estimate(Interval(0.123456, 0.5, high, 2))
    assert told.startswith("0.123")
    assert "95% CI" not in told


def test_an_estimate_has_the_decimals_of_its_interval_and_is_never_minus_zero():
    assert words.estimate(Interval(0.35949, 0.341, 0.378, 8)) == "0.359 (95% CI 0.341 to 0.378)"
    assert words.estimate(Interval(-0.0004, -0.1, 0.1, 8), signed=True) == "+0.00 (95% CI -0.10 to +0.10)"
