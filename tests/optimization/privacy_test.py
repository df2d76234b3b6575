"""Tests of optimization.privacy, against dp-accounting's own accountants, published figures and brute force."""

import dataclasses
import itertools
import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from optimization import privacy
from optimization.privacy import Mechanism

Relation = dp_accounting.NeighboringRelation

# Agarwal et al. 2023, section 5.3, and the tighter figures that PLD gives: all at delta 1e-6.
STACK_OVERFLOW = {"population": 342_477, "cohort": 64, "delta": 1e-6}
LARGE_COHORT = {"population": 340_000, "cohort": 6_400, "delta": 1e-6}
PUBLISHED = [
    (Mechanism("dpsgd", 0.3, **STACK_OVERFLOW), 1600, "15.8", 12.9),
    (Mechanism("dpsgd", 0.7, **STACK_OVERFLOW), 1600, "1.5", 0.194),
    (Mechanism("dpsgd", 1.0, **LARGE_COHORT), 800, "4.13", 3.7),
]
CYCLIC = {"population": 1000, "cohort": 100, "sampling": "cyclic"}


@pytest.mark.parametrize(("mechanism", "rounds", "by_rdp", "by_pld"), PUBLISHED)
def test_published_epsilons(mechanism, rounds, by_rdp, by_pld):
    decimals = len(by_rdp.split(".")[1])
    assert f"{mechanism.epsilon(rounds):.{decimals}f}" == by_rdp
    assert mechanism.analyses[0].pld_epsilon(rounds, mechanism.delta) == pytest.approx(by_pld, rel=0.02)


def test_rounds_add_up_to_the_accountant_of_the_whole_event():
    mechanism = Mechanism("dpsgd", 0.8, population=500, cohort=20, sampling="poisson")
    for rounds in (1, 7, 300):
        accountant = rdp.RdpAccountant().compose(mechanism.dp_event(rounds))
        epsilon, order = accountant.get_epsilon_and_optimal_order(mechanism.delta)
        assert mechanism.analyses[0].epsilon(rounds, mechanism.delta) == pytest.approx((epsilon, order), rel=1e-12)


def test_no_rounds_cost_nothing():
    mechanism = Mechanism("dpsgd", 0.8, population=500, cohort=20)
    assert mechanism.epsilon(0) == 0
    assert mechanism.dp_event(0) == dp_accounting.NoOpDpEvent()


def test_delta_has_the_stated_default():
    assert Mechanism("dpsgd", 1.0, population=3400, cohort=64).delta == pytest.approx(3400**-1.1)


def test_poisson_cohorts_need_no_assumption():
    (only,) = Mechanism("dpsgd", 1.0, population=500, cohort=20, sampling="poisson").analyses
    assert (only.relation, only.assumed) == (Relation.ADD_OR_REMOVE_ONE, False)


def test_a_fixed_cohort_is_labelled_and_accounted_without_the_assumption_too():
    assumed, exact = Mechanism("dpsgd", 1.0, population=500, cohort=20).analyses
    assert (assumed.relation, assumed.assumed) == (Relation.ADD_OR_REMOVE_ONE, True)
    assert (exact.relation, exact.assumed) == (Relation.REPLACE_ONE, False)
    event = dp_accounting.SampledWithoutReplacementDpEvent(500, 20, dp_accounting.GaussianDpEvent(0.5))
    accountant = rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(event, 50)
    assert exact.epsilon(50, 1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5))
    assert exact.pld_epsilon(50, 1e-5) is None


def test_a_cohort_of_everyone_is_a_plain_gaussian():
    added, replaced = Mechanism("dpsgd", 2.0, population=50, cohort=50, delta=1e-5).analyses
    assert not added.assumed
    for analysis, noise_multiplier in ((added, 2.0), (replaced, 1.0)):
        accountant = rdp.RdpAccountant().compose(dp_accounting.GaussianDpEvent(noise_multiplier), 30)
        assert analysis.epsilon(30, 1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5))


def test_clients_in_turns_are_accounted_by_their_turns():
    mechanism = Mechanism("dpsgd", 2.0, delta=1e-5, **CYCLIC)
    accountant = rdp.RdpAccountant().compose(dp_accounting.GaussianDpEvent(2.0), 3)
    assert mechanism.epsilon(21) == mechanism.epsilon(30) == pytest.approx(accountant.get_epsilon(1e-5))
    assert mechanism.epsilon(31) > mechanism.epsilon(30)


def test_tree_aggregation_matches_the_event_of_dp_accounting():
    mechanism = Mechanism("dpftrl", 3.0, restart_frequency=10, delta=1e-5, **CYCLIC)
    accountant = rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_SPECIAL)
    accountant.compose(dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, 10), 4)
    accountant.compose(dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, 3))
    assert mechanism.epsilon(43) == pytest.approx(accountant.get_epsilon(1e-5))


def test_clients_that_take_part_once_pay_for_the_largest_tree_only():
    mechanism = Mechanism("dpftrl", 3.0, population=1000, cohort=10, sampling="cyclic", restart_frequency=40)
    event = dp_accounting.SingleEpochTreeAggregationDpEvent(3.0, [40, 40, 20])
    accountant = rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_SPECIAL).compose(event)
    assert mechanism.epsilon(100) == pytest.approx(accountant.get_epsilon(mechanism.delta))


def _patterns(rounds, min_separation):
    """Yields all rows of rounds in which one client may take part."""
    for row in itertools.product((0, 1), repeat=rounds):
        gaps = np.diff(np.flatnonzero(row))
        if not gaps.size or gaps.min() >= min_separation:
            yield np.array(row)


def _largest_tree_sum(rounds, restart_frequency, min_separation):
    def squared(row):
        trees = np.split(row, range(restart_frequency, rounds, restart_frequency))
        return sum(
            tree[start : start + width].sum() ** 2
            for tree in trees
            for width in (1, 2, 4, 8)
            for start in range(0, len(tree) - width + 1, width)
        )

    return max(map(squared, _patterns(rounds, min_separation)))


@pytest.mark.parametrize(("rounds", "restart_frequency"), [(8, 8), (8, 4), (7, 7), (11, 4), (12, 8)])
@pytest.mark.parametrize("min_separation", [1, 2, 3, 5])
def test_tree_sensitivity_bounds_every_pattern(rounds, restart_frequency, min_separation):
    largest = _largest_tree_sum(rounds, restart_frequency, min_separation)
    bound = privacy.tree_sensitivity(rounds, restart_frequency, min_separation)
    assert largest <= bound <= 1.6 * largest
    once_a_tree = rounds % restart_frequency == 0 and min_separation >= restart_frequency
    if once_a_tree or (min_separation == 1 and rounds == restart_frequency == 8):
        assert bound == largest


def test_a_tree_without_restarts_grows_with_the_rounds():
    assert [privacy.tree_sensitivity(rounds, 0, 100) for rounds in (0, 1, 2, 3, 4, 64)] == [0, 1, 2, 2, 3, 7]


@pytest.mark.parametrize("min_separation", [1, 2, 3, 10])
@pytest.mark.parametrize("bands", [1, 3, 6])
def test_banded_sensitivity_is_the_largest_of_all_patterns(bands, min_separation):
    column = np.zeros(10)
    column[:bands] = privacy.banded_factor(bands)
    matrix = np.array([[column[row - col] if row >= col else 0 for col in range(10)] for row in range(10)])
    largest = max(np.sum((matrix @ row) ** 2) for row in _patterns(10, min_separation))
    assert privacy.banded_sensitivity(10, bands, min_separation) == pytest.approx(largest)


def test_the_banded_factor_is_the_square_root_of_prefix_sums():
    column = privacy.banded_factor(6)
    assert column / column[0] == pytest.approx([1, 1 / 2, 3 / 8, 5 / 16, 35 / 128, 63 / 256])
    matrix = np.array([[column[row - col] if row >= col else 0 for col in range(6)] for row in range(6)])
    assert matrix @ matrix == pytest.approx(np.tril(np.ones((6, 6))) * column[0] ** 2)


def test_one_band_is_independent_noise():
    values = {"noise_multiplier": 2.0, "delta": 1e-5, **CYCLIC}
    assert Mechanism("mf_dpftrl", bands=1, **values).epsilon(57) == Mechanism("dpsgd", **values).epsilon(57)


def test_distributed_noise_follows_the_grid_of_tff():
    # TFF's factory with these arguments and 17 parameters measures scaled_inflated_l2 and scaled_local_stddev so, and
    # the sampler rounds the latter up.
    found = privacy.distributed_noise_multiplier(0.5, clip_norm=1.0, cohort=4, dimension=17, bits=16)
    assert found == pytest.approx(math.sqrt(4) * math.ceil(2431.3286) / 9731.067, rel=1e-6)


def test_distributed_noise_approaches_the_central_one_with_finer_grids():
    found = [privacy.distributed_noise_multiplier(1.0, 1.0, 100, 1000, bits) for bits in (10, 14, 18, 22)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(1.0, rel=1e-3)


def test_distributed_noise_earns_no_amplification():
    assumed, zeroed, replaced = Mechanism("ddp", 1.0, population=1000, cohort=10, dimension=100).analyses
    assert assumed.assumed
    assert not zeroed.assumed
    assert assumed.epsilon(10, 1e-5)[0] < zeroed.epsilon(10, 1e-5)[0] < replaced.epsilon(10, 1e-5)[0]
    assert {analysis.pld_epsilon(10, 1e-5) for analysis in (assumed, zeroed, replaced)} == {None}


def test_pretraining_is_added():
    earlier = Mechanism("dpsgd", 2.0, population=100, cohort=10)
    later = Mechanism("dpsgd", 1.0, population=1000, cohort=10, delta=1e-5, pretraining=earlier, pretraining_rounds=30)
    accountant = rdp.RdpAccountant().compose(earlier.dp_event(30))
    accountant.compose(dataclasses.replace(later, pretraining=None, pretraining_rounds=0).dp_event(50))
    assert later.epsilon(50) == pytest.approx(accountant.get_epsilon(1e-5))
    whole = rdp.RdpAccountant().compose(later.dp_event(50))
    assert later.epsilon(50) == pytest.approx(whole.get_epsilon(1e-5))


def test_pretraining_passes_its_assumptions_on():
    earlier = Mechanism("dpsgd", 2.0, population=100, cohort=10)
    tree = Mechanism("dpftrl", 2.0, restart_frequency=10, pretraining=earlier, pretraining_rounds=5, **CYCLIC)
    assert (tree.analyses[0].relation, tree.analyses[0].assumed) == (Relation.REPLACE_SPECIAL, True)


@pytest.mark.parametrize(
    "mechanism",
    [
        Mechanism("none", 0.0, population=10, cohort=2),
        Mechanism("dpsgd", 0.0, population=10, cohort=2),
        Mechanism(
            "dpsgd",
            1.0,
            population=10,
            cohort=2,
            pretraining=Mechanism("none", 0.0, population=10, cohort=2),
            pretraining_rounds=1,
        ),
    ],
)
def test_without_noise_there_is_no_guarantee(mechanism):
    assert mechanism.epsilon(5) == math.inf
    assert mechanism.dp_event(5) == dp_accounting.NonPrivateDpEvent()
    report = mechanism.report(5)
    assert (report["epsilon"], report["guarantees"]) == (None, [])
    assert report["summary"].startswith("Privacy: no guarantee")


def test_the_report_is_json_and_says_what_was_assumed():
    mechanism = Mechanism("dpsgd", 1.0, population=500, cohort=20, delta=1e-5)
    report = json.loads(json.dumps(mechanism.report(40)))
    assumed, exact = report["guarantees"]
    assert report["epsilon"] == assumed["epsilon_rdp"] == mechanism.epsilon(40)
    assert (assumed["sampling"], assumed["sampling_assumed"]) == ("Poisson", True)
    assert assumed["epsilon_pld"] < assumed["epsilon_rdp"] < exact["epsilon_rdp"]
    assert exact["note"] == "dp-accounting has no PLD of this sampling"
    assert Mechanism(**report["mechanism"]) == mechanism
    assert "at delta 1e-05 after 40 rounds" in report["summary"]
    assert "This assumes Poisson sampling, but the cohort's size is fixed; without that, " in report["summary"]


def test_epsilons_beyond_pld_are_said_to_be():
    (only,) = Mechanism("dpsgd", 0.05, population=500, cohort=20, sampling="poisson").report(100)["guarantees"]
    assert only["epsilon_rdp"] > 1e4
    assert (only["epsilon_pld"], only["note"]) == (None, "epsilon is too large for PLD")


def test_noise_is_split_as_published():
    # Andrew et al. 2021, Theorem 1: z^-2 = z_delta^-2 + (2 sigma_b)^-2.
    split = privacy.split_noise(1.0, clipped_count_stddev=5.0)
    assert split == pytest.approx((1 - 1 / 100) ** -0.5)
    assert split**-2 + 10.0**-2 == pytest.approx(1.0)
    assert privacy.split_noise(0.0, clipped_count_stddev=0.0) == 0.0
    with pytest.raises(ValueError, match=r"noise of more than 1 on the clipped count, not 0\.5"):
        privacy.split_noise(2.0, clipped_count_stddev=0.5)


def _random_setting(seed):
    draw = np.random.default_rng(seed)
    population = int(10 ** draw.uniform(2, 6))
    kind = ["dpsgd", "dpsgd", "dpsgd", "dpftrl", "mf_dpftrl"][seed % 5]
    mechanism = Mechanism(
        kind,
        0.0,
        population=population,
        cohort=max(1, int(population * 10 ** draw.uniform(-3, -0.5))),
        sampling="cyclic" if kind != "dpsgd" else ("poisson", "fixed")[seed % 2],
        restart_frequency=16 if kind == "dpftrl" else 0,
        bands=4 if kind == "mf_dpftrl" else 1,
    )
    return mechanism, int(draw.integers(10, 2000)), float(10 ** draw.uniform(-0.5, 1.3))


@pytest.mark.parametrize("seed", range(20))
def test_calibrated_noise_spends_just_less_than_the_target(seed):
    mechanism, rounds, target = _random_setting(seed)
    noise_multiplier = privacy.calibrate(mechanism, rounds, target)
    epsilon = dataclasses.replace(mechanism, noise_multiplier=noise_multiplier).epsilon(rounds)
    assert 0.999 * target <= epsilon <= target


@pytest.mark.parametrize(
    ("target", "message"),
    [(1e9, "a noise multiplier of 0.01 spends no more than"), (1e-9, "a noise multiplier of 1e\\+06 still spends")],
)
def test_unreachable_targets_are_explained(target, message):
    with pytest.raises(ValueError, match=message):
        privacy.calibrate(Mechanism("dpsgd", 0.0, population=100, cohort=100, delta=1e-9), 10, target)


def test_the_study_s_extrapolation():
    # Noise 0.01 with a cohort of 64 becomes 1 with 6,400, at epsilon 4.13.
    tolerated = Mechanism("dpsgd", 0.01, population=340_000, cohort=64, delta=1e-6)
    grown = privacy.scale_cohort(tolerated, 800, 4.1331)
    assert (grown.cohort, grown.noise_multiplier) == (6400, pytest.approx(1.0))
    smaller = dataclasses.replace(grown, cohort=6399, noise_multiplier=0.01 * 6399 / 64)
    assert smaller.epsilon(800) > 4.1331


def test_no_cohort_may_be_large_enough():
    with pytest.raises(ValueError, match="a cohort of the whole population still spends"):
        privacy.scale_cohort(Mechanism("dpsgd", 0.01, population=100, cohort=64), 800, 1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "none"}, "noise_multiplier is 1.0, but kind is none"),
        ({"kind": "laplace"}, "kind is 'laplace', not one of none, dpsgd"),
        ({"sampling": "shuffled"}, "sampling is 'shuffled', not one of fixed"),
        ({"noise_multiplier": -1.0}, "noise_multiplier is -1.0, not a finite number of at least 0"),
        ({"noise_multiplier": math.nan}, "noise_multiplier is nan"),
        ({"cohort": 101}, "cohort is 101, not between 1 and the population of 100"),
        ({"cohort": 0}, "cohort is 0, not between 1"),
        ({"delta": 0.0}, "delta is 0.0, not between 0 and 1"),
        ({"delta": 1.0}, "delta is 1.0, not between 0 and 1"),
        ({"bands": 0}, "bands and dimension at least 1"),
        ({"kind": "ddp", "sampling": "poisson"}, "ddp cannot use Poisson sampling"),
        ({"pretraining_rounds": 3}, "pretraining_rounds is 3, but there is no pretraining"),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Mechanism(**{"kind": "dpsgd", "noise_multiplier": 1.0, "population": 100, "cohort": 10, **values})


def test_too_few_bits_are_refused():
    with pytest.raises(ValueError, match="4 bits are too few for the sum of 100 clients"):
        privacy.distributed_noise_multiplier(1.0, 1.0, 100, 1000, bits=4)
