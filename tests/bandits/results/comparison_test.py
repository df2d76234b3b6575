"""Tests of bandits.results.comparison."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats import multitest

from bandits.results import comparison
from bandits.results.comparison import compare_values

GREEDY = [0.50, 0.52, 0.48, 0.55, 0.51, 0.49, 0.53, 0.50]
SOFTMAX = [0.58, 0.57, 0.57, 0.61, 0.60, 0.52, 0.62, 0.55]
FALCON = [0.51, 0.50, 0.50, 0.55, 0.52, 0.50, 0.51, 0.52]
NAN = math.nan
POINTS = [0.3, 0.9, 0.1, 0.5, 0.5]


def _seeds(numbers):
    return dict(enumerate(numbers))


VALUES = {"greedy": _seeds(GREEDY), "softmax": _seeds(SOFTMAX), "falcon": _seeds(FALCON)}


def _one(first, second, **settings):
    return compare_values({"arm": _seeds(first), "reference": _seeds(second)}, "reference", **settings)["arm"]


def test_a_reference_of_a_sample_is_compared_by_welchs_test_as_scipy_has_it():
    sampled = comparison.Sampled(0.5, 0.02, 50)
    one = comparison.against({"arm": _seeds(SOFTMAX)}, "chance", sampled)["arm"]
    own = np.mean(SOFTMAX), np.std(SOFTMAX, ddof=1), 8
    expected = stats.ttest_ind_from_stats(*own, 0.5, 0.02 * 50**0.5, 50, equal_var=False)
    assert one.p == pytest.approx(expected.pvalue, rel=1e-10)
    assert (one.low + one.high) / 2 == pytest.approx(one.difference)
    assert one.low > 0
    exact = comparison.against({"arm": _seeds(SOFTMAX)}, "chance", 0.5)["arm"]
    assert one.p > exact.p
    assert "chance is of 50 clients, a sample" in one.notes


def test_against_a_sample_of_clients_power_is_that_of_the_same_test():
    one = comparison.against({"arm": _seeds(SOFTMAX)}, "chance", comparison.Sampled(0.5, 0.02, 50))["arm"]
    own, other = np.var(SOFTMAX, ddof=1) / 8, 0.02**2
    freedom = (own + other) ** 2 / (own**2 / 7 + other**2 / 49)
    least, shift = stats.t.ppf(0.975, freedom), one.detectable / math.sqrt(own + other)
    found = stats.nct.sf(least, freedom, shift) + stats.nct.cdf(-least, freedom, shift)
    assert found == pytest.approx(0.8, abs=0.002)  # It takes Welch's degrees of freedom for known.
    near = comparison.against({"arm": _seeds(SOFTMAX)}, "chance", comparison.Sampled(0.57, 0.02, 50))["arm"]
    assert (near.significance, near.seeds_needed) == ("not significantly different", math.inf)


def test_a_paired_difference_equals_scipy():
    found = compare_values(VALUES, "greedy")
    assert list(found) == ["softmax", "falcon"]
    for arm, numbers in (("softmax", SOFTMAX), ("falcon", FALCON)):
        differences = np.subtract(numbers, GREEDY)
        ends = stats.t.interval(0.95, 7, loc=differences.mean(), scale=stats.sem(differences))
        one = found[arm]
        assert (one.kind, one.pairs) == ("paired", 8)
        np.testing.assert_allclose([one.difference, one.low, one.high], [differences.mean(), *ends], rtol=1e-10)
        np.testing.assert_allclose(one.p, stats.ttest_rel(numbers, GREEDY).pvalue, rtol=1e-10)
    assert _one(SOFTMAX, GREEDY, better="down").loses
    assert (found["softmax"].significance, found["softmax"].wins) == ("significantly different", True)
    assert (found["falcon"].significance, found["falcon"].wins) == ("not significantly different", False)


def test_a_configuration_that_seeds_do_not_determine_is_compared_by_welch():
    found = compare_values(VALUES, "greedy", unpaired=["softmax"])
    welch = stats.ttest_ind(SOFTMAX, GREEDY, equal_var=False)
    first, second = np.var(SOFTMAX, ddof=1) / 8, np.var(GREEDY, ddof=1) / 8
    freedom = (first + second) ** 2 / (first**2 / 7 + second**2 / 7)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(first + second)
    one = found["softmax"]
    assert (one.kind, found["falcon"].kind) == ("unpaired", "paired")
    assert {one.kind for one in compare_values(VALUES, "greedy", unpaired=["greedy"]).values()} == {"unpaired"}
    assert one.p == pytest.approx(welch.pvalue, rel=1e-10)
    assert [one.low, one.high] == pytest.approx([one.difference - half, one.difference + half], rel=1e-10)


def test_superiority_counts_ties_as_one_half():
    assert _one([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 4.0, 1.0]).superiority == (0.5 + 1 + 0 + 1) / 4
    assert _one([1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 4.0, 1.0], better="down").superiority == (0.5 + 0 + 1 + 0) / 4


def test_one_seed_is_not_judged():
    one = _one([0.6], [0.5])
    assert one.difference == pytest.approx(0.1)
    assert all(map(math.isnan, (one.low, one.high, one.p, one.adjusted_p, one.detectable, one.seeds_needed)))
    assert (one.significance, one.is_judged, one.notes) == (
        "not significantly different",
        False,
        ("one seed has no test",),
    )


def test_equal_configurations_are_not_distinguished():
    one = _one(GREEDY, GREEDY)
    assert (one.difference, one.p, one.superiority, one.is_better) == (0.0, 1.0, 0.5, None)
    assert (one.significance, one.notes) == ("not significantly different", ("equal in every seed",))


@pytest.mark.parametrize("seeds", [1, 8])
@pytest.mark.parametrize("unpaired", [(), ("arm",)])
def test_configurations_that_differ_by_floating_point_alone_are_equal(seeds, unpaired):
    one = _one([0.1 * 3] * seeds, [0.3] * seeds, unpaired=unpaired)
    assert (one.difference, one.superiority, one.is_better) == (0.0, 0.5, None)
    if seeds > 1:
        assert (one.p, one.notes) == (1.0, ("equal in every seed",))


@pytest.mark.parametrize(("seeds", "word"), [(4, "not significantly different"), (7, "significantly different")])
def test_the_same_difference_in_every_seed_is_no_certainty(seeds, word):
    # 0.1 + 0.2 is not 0.3: what floating point adds is no spread.
    one = _one([0.3] * (seeds - 1) + [0.4], [0.2] * (seeds - 1) + [0.30000000000000004])
    assert (one.p, one.significance) == (2.0 ** (1 - seeds), word)
    assert math.isnan(one.low)
    assert one.notes[0] == "the same difference in every seed: no interval, and p is that of the sign test"


def test_unpaired_configurations_without_any_spread_are_not_tested():
    one = _one([0.3, 0.3], [0.2, 0.2], unpaired=["arm"])
    assert (one.significance, one.is_judged, math.isnan(one.p)) == ("not significantly different", False, True)
    assert one.notes == ("every seed gives the same value: no interval, no test",)


def test_a_configuration_that_diverged_with_a_seed_is_not_judged():
    one = _one([*SOFTMAX, NAN], [*GREEDY, 0.5])
    assert (one.pairs, one.difference) == (8, _one(SOFTMAX, GREEDY).difference)
    assert (one.significance, one.is_judged) == ("not significantly different", False)
    assert one.notes == ("arm diverged with seed 8: not judged",)
    assert math.isnan(one.detectable)
    assert math.isnan(one.seeds_needed)


def test_a_configuration_that_is_not_judged_counts_in_no_family():
    found = compare_values({**VALUES, "lost": _seeds([*SOFTMAX[:-1], NAN])}, "greedy")
    assert math.isnan(found["lost"].adjusted_p)
    without = compare_values(VALUES, "greedy")
    assert all(found[arm].adjusted_p == without[arm].adjusted_p for arm in without)
    assert found["softmax"].level == 0.025


def test_seeds_of_one_configuration_alone_are_left_out_and_said():
    values = {"arm": _seeds(SOFTMAX), "reference": _seeds([*GREEDY, 0.9])}
    one = compare_values(values, "reference")["arm"]
    assert one.difference == _one(SOFTMAX, GREEDY).difference
    assert (one.notes, one.wins) == (("seed 8 of reference alone: left out",), True)


def test_configurations_without_a_seed_in_common_are_not_judged():
    one = compare_values({"arm": {1: 0.5}, "reference": {2: 0.5}}, "reference")["arm"]
    assert (one.pairs, one.is_judged) == (0, False)
    assert "no seed in common" in one.notes
    assert math.isnan(one.difference)


@pytest.mark.parametrize("settings", [{"reference": "ucb"}, {"reference": "greedy", "unpaired": ["ucb"]}])
def test_configurations_that_are_not_there_are_refused(settings):
    with pytest.raises(ValueError, match="There is no configuration ucb: there are greedy, softmax, falcon"):
        compare_values(VALUES, **settings)


def test_a_number_is_compared_as_one_sample():
    one = comparison.against({"arm": _seeds(SOFTMAX)}, "chance", 0.5)["arm"]
    assert one.p == pytest.approx(stats.ttest_1samp(SOFTMAX, 0.5).pvalue, rel=1e-10)
    assert (one.reference, one.reference_mean, one.notes) == ("chance", 0.5, ())


@pytest.mark.slow
@pytest.mark.parametrize("unpaired", [(), ("arm",)])
def test_intervals_hold_a_known_difference_as_often_as_they_say(unpaired):
    """2000 studies: a difference of 0.1 between arms whose seeds share what they vary by, or share nothing."""
    generator = np.random.default_rng(18)
    shared = generator.normal(0.5, 0.05, (2000, 5)) if not unpaired else np.full((2000, 5), 0.5)
    first = shared + 0.1 + generator.normal(0, 0.03, (2000, 5))
    second = shared + generator.normal(0, 0.06, (2000, 5))
    held = [
        one.low <= 0.1 <= one.high
        for rows in zip(first, second, strict=True)
        for one in [_one(*rows, unpaired=unpaired)]
    ]
    assert 0.93 <= np.mean(held) <= 0.97


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1, never falling; what is no test takes no part.
    assert comparison.holm([0.04, 0.01, math.nan, 0.02]) == pytest.approx([0.04, 0.03, math.nan, 0.04], nan_ok=True)
    assert comparison.holm([math.nan]) == pytest.approx([math.nan], nan_ok=True)


@pytest.mark.slow
def test_holm_equals_statsmodels():
    p_values = np.random.default_rng(0).uniform(0, 0.2, 30)
    assert comparison.holm(p_values) == pytest.approx(multitest.multipletests(p_values, method="holm")[1], rel=1e-12)


def test_superiority_over_all_pairs_is_mann_and_whitneys():
    first, second = np.random.default_rng(0).normal(size=(2, 8)).round(1)
    u = stats.mannwhitneyu(first, second).statistic
    assert comparison.superiority(first, second, is_paired=False) == pytest.approx(u / 64, rel=1e-12)


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("better", "best"), [("up", max), ("down", min)])
def test_it_is_the_mean_over_all_draws(budget, better, best):
    drawn = [best(some) for some in itertools.combinations(POINTS, budget)]
    assert comparison.expected_best(POINTS, budget, better=better) == pytest.approx(sum(drawn) / len(drawn), rel=1e-12)


def test_points_that_diverged_count_as_the_worst():
    assert comparison.expected_best([0.2, math.nan], 1) == 0.2
    assert comparison.expected_best([0.2, 0.6, math.nan], 1) == pytest.approx(1.0 / 3)
    assert math.isnan(comparison.expected_best([math.nan, math.inf], 1))


@pytest.mark.parametrize("budget", [0, 6])
def test_budgets_beyond_the_points_are_refused(budget):
    with pytest.raises(ValueError, match=f"A budget of {budget} must be 1 to the 5 points"):
        comparison.expected_best(POINTS, budget)
