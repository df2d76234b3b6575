"""Tests of bandits.results.comparison, and of estimates of bandits.results.configuration."""

import math

import numpy as np
import pytest
from scipy import stats

from bandits.results import comparison
from bandits.results.configuration import ReferenceValue
from tests.bandits.results.tables import REWARD, configuration

GREEDY = [0.50, 0.52, 0.48, 0.55, 0.51, 0.49, 0.53, 0.50]
SOFTMAX = [0.58, 0.57, 0.57, 0.61, 0.60, 0.52, 0.62, 0.55]
FALCON = [0.51, 0.50, 0.50, 0.55, 0.52, 0.50, 0.51, 0.52]
NAN = math.nan


def _family(values, reference="greedy", unpaired=(), **settings):
    """Comparisons with a reference by the configuration's name."""
    some = {name: configuration(name, numbers, unpaired=name in unpaired) for name, numbers in values.items()}
    pairs = [(one, some[reference]) for name, one in some.items() if name != reference]
    return {one.configuration: one for one in comparison.compare(pairs, REWARD, **settings)}


VALUES = {"greedy": GREEDY, "softmax": SOFTMAX, "falcon": FALCON}


def _one(first, second, **settings):
    return _family({"arm": first, "reference": second}, "reference", **settings)["arm"]


def _against(numbers, *reference):
    (one,) = comparison.compare([(configuration("arm", numbers), ReferenceValue("chance", *reference))], REWARD)
    return one


def test_a_reference_of_a_sample_is_compared_by_welchs_test_as_scipy_has_it():
    one, exact = _against(SOFTMAX, 0.5, 0.02, 50), _against(SOFTMAX, 0.5)
    own = np.mean(SOFTMAX), np.std(SOFTMAX, ddof=1), 8
    expected = stats.ttest_ind_from_stats(*own, 0.5, 0.02 * 50**0.5, 50, equal_var=False)
    assert one.p == pytest.approx(expected.pvalue, rel=1e-10)
    assert (one.low + one.high) / 2 == pytest.approx(one.difference)
    assert "chance was estimated on a sample of 50 clients" in one.notes
    assert exact.p == pytest.approx(stats.ttest_1samp(SOFTMAX, 0.5).pvalue, rel=1e-10)
    assert (exact.reference, exact.reference_mean, exact.notes) == ("chance", 0.5, ())
    assert one.p > exact.p


def test_a_paired_difference_equals_scipy():
    found = _family(VALUES)
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
    found = _family(VALUES, unpaired=["softmax"])
    welch = stats.ttest_ind(SOFTMAX, GREEDY, equal_var=False)
    first, second = np.var(SOFTMAX, ddof=1) / 8, np.var(GREEDY, ddof=1) / 8
    freedom = (first + second) ** 2 / (first**2 / 7 + second**2 / 7)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(first + second)
    one = found["softmax"]
    assert (one.kind, found["falcon"].kind) == ("unpaired", "paired")
    assert {one.kind for one in _family(VALUES, unpaired=["greedy"]).values()} == {"unpaired"}
    assert one.p == pytest.approx(welch.pvalue, rel=1e-10)
    assert [one.low, one.high] == pytest.approx([one.difference - half, one.difference + half], rel=1e-10)


def test_one_seed_is_not_judged():
    one = _one([0.6], [0.5])
    assert one.difference == pytest.approx(0.1)
    assert all(map(math.isnan, (one.low, one.high, one.p, one.adjusted_p, one.detectable, one.seeds_needed)))
    assert (one.is_judged, one.notes) == (False, ("only one seed to compare",))


@pytest.mark.parametrize("unpaired", [(), ("arm",)])
def test_configurations_that_differ_by_floating_point_alone_are_equal(unpaired):
    for seeds in (1, 8):
        one = _one([0.1 * 3] * seeds, [0.3] * seeds, unpaired=unpaired)
        assert (one.difference, one.superiority, one.is_better) == (0.0, 0.5, None)
    assert (one.p, one.notes) == (1.0, ("equal in every seed",))


@pytest.mark.parametrize(("seeds", "word"), [(4, "not significantly different"), (7, "significantly different")])
def test_the_same_difference_in_every_seed_is_no_certainty(seeds, word):
    # 0.1 + 0.2 is not 0.3: what floating point adds is no spread.
    one = _one([0.3] * (seeds - 1) + [0.4], [0.2] * (seeds - 1) + [0.30000000000000004])
    assert (one.p, one.significance) == (2.0 ** (1 - seeds), word)
    assert math.isnan(one.low)
    assert one.notes[0] == "the same difference in every seed: no interval, and p is that of the sign test"


def test_a_configuration_that_diverged_with_a_seed_is_not_judged_and_counts_in_no_family():
    one = _one([*SOFTMAX, NAN], [*GREEDY, 0.5])
    assert (one.pairs, one.difference) == (8, _one(SOFTMAX, GREEDY).difference)
    assert (one.significance, one.is_judged) == ("not significantly different", False)
    assert one.notes == ("arm diverged with seed 8: not tested",)
    assert all(map(math.isnan, (one.detectable, one.seeds_needed)))
    found, without = _family({**VALUES, "lost": [*SOFTMAX[:-1], NAN]}), _family(VALUES)
    assert math.isnan(found["lost"].adjusted_p)
    assert all(found[arm].adjusted_p == without[arm].adjusted_p for arm in without)
    assert found["softmax"].level == 0.025
    missing = configuration("short", [0.5, NAN, 0.4], diverged=frozenset())
    (one,) = comparison.compare([(missing, configuration("greedy", GREEDY))], REWARD)
    assert (one.is_judged, one.notes[0]) == (False, "short has no value for seed 1: not tested")


def test_holm_by_hand():
    # Sorted 0.01, 0.02, 0.04 times 3, 2, 1, never falling; what is no test takes no part.
    assert comparison.holm([0.04, 0.01, math.nan, 0.02]) == pytest.approx([0.04, 0.03, math.nan, 0.04], nan_ok=True)
    assert comparison.holm([math.nan]) == pytest.approx([math.nan], nan_ok=True)


def test_superiority_over_all_pairs_is_mann_and_whitneys():
    first, second = np.random.default_rng(0).normal(size=(2, 8)).round(1)
    u = stats.mannwhitneyu(first, second).statistic
    assert comparison.superiority(first, second, is_paired=False) == pytest.approx(u / 64, rel=1e-12)


def _power(size, seeds, alpha):
    """Of a two-sided paired t test, by the noncentral t distribution."""
    least = stats.t.ppf(1 - alpha / 2, seeds - 1)
    shift = size * math.sqrt(seeds)
    return stats.nct.sf(least, seeds - 1, shift) + stats.nct.cdf(-least, seeds - 1, shift)


@pytest.mark.parametrize(("seeds", "alpha"), [(3, 0.05), (8, 0.05), (8, 0.05 / 4), (30, 0.05)])
def test_the_minimum_detectable_difference_has_a_power_of_80_percent(seeds, alpha):
    found = comparison.minimum_detectable(0.2, seeds, alpha)
    assert _power(found / 0.2, seeds, alpha) == pytest.approx(0.8, abs=1e-6)


def test_the_minimum_detectable_difference_of_unpaired_configurations_is_cohens():
    # Cohen 1988: two samples of 64 find half a standard deviation with a power of 0.80.
    assert comparison.minimum_detectable(1.0, 64, 0.05, other=(1 / 8, 64)) == pytest.approx(0.5, abs=0.005)
    assert comparison.seeds_required(0.5, 1.0, 0.05, others=1.0) == 64
    assert comparison.seeds_required(-0.5, 1.0, 0.05) == 34  # Cohen's Tables 2.3.5 and 2.4.1, one sample.


def test_a_power_that_scipy_calls_not_a_number_ends_no_search(monkeypatch):
    # SciPy 1.17 gives NaN for the wrong side of six seeds and more, and the search went on to sixteen.
    assert comparison.seeds_required(3.0, 1.0, 0.01) == 5
    assert _power(3.0, 4, 0.01) < 0.8 <= _power(3.0, 5, 0.01)
    exact = stats.nct.cdf
    monkeypatch.setattr(stats.nct, "cdf", lambda *at: math.nan if exact(*at) < 1e-16 else exact(*at))
    assert comparison.seeds_required(3.0, 1.0, 0.01) == 5


def test_seeds_make_the_error_of_a_sample_no_smaller():
    # By hand, with as good as normal numbers: (1.96 + 0.8416)^2 s^2 / (difference^2 - 2.8016^2 e^2).
    normal = 2.8016**2 * 0.2**2 / (0.05**2 - 2.8016**2 * 0.01**2)
    assert comparison.seeds_required(0.05, 0.2, 0.05, sample=(0.01, 100_000)) == pytest.approx(normal, rel=0.02)
    assert comparison.seeds_required(0.028, 0.2, 0.05, sample=(0.01, 100_000)) == math.inf
    assert comparison.minimum_detectable(0.2, 10**6, 0.05, other=(0.01, 100_000)) == pytest.approx(0.028, abs=1e-4)


def test_estimate_is_the_mean_over_seeds_with_students_interval():
    one = configuration("softmax", [0.5, 0.7, 0.75])
    estimate = one.estimate(REWARD)
    assert estimate.mean == pytest.approx(0.65)
    assert estimate.high - estimate.mean == pytest.approx(4.302653 * 0.1322876 / math.sqrt(3))
    assert one.estimate("unknown").size == 0
    lost = configuration("lost", [0.5, 0.6, 0.1], diverged=frozenset([2]))
    assert lost.estimate(REWARD).mean == pytest.approx(0.4)  # A diverged seed counts here, but not in tests.
    assert lost.by_seed(REWARD) == pytest.approx({0: 0.5, 1: 0.6, 2: NAN}, nan_ok=True)
    never_reached = configuration("slow", [10.0, math.inf]).estimate(REWARD)
    assert never_reached.mean == math.inf
    assert math.isnan(never_reached.low)
