"""Tests of optimization.privacy, against dp-accounting's own accountants, published figures and brute force."""

import dataclasses
import json
import math

import dp_accounting
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


def test_one_band_is_independent_noise():
    values = {"noise_multiplier": 2.0, "delta": 1e-5, **CYCLIC}
    assert Mechanism("mf_dpftrl", bands=1, **values).epsilon(57) == Mechanism("dpsgd", **values).epsilon(57)


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


def _two_trainings(**values):
    earlier = Mechanism("dpsgd", 1.0, population=100, cohort=10, sampling="poisson")
    values = {"noise_multiplier": 1.0, "population": 1000, "cohort": 10, "sampling": "poisson", **values}
    return Mechanism("dpsgd", delta=1e-5, pretraining=earlier, pretraining_rounds=30, **values)


def test_disjoint_populations_cost_the_larger_epsilon_at_one_delta():
    both = _two_trainings(pretraining_disjoint=True)
    first = dataclasses.replace(both.pretraining, delta=1e-5)
    second = dataclasses.replace(both, pretraining=None, pretraining_rounds=0, pretraining_disjoint=False)
    assert both.epsilon(30) == first.epsilon(30) > second.epsilon(30)
    assert both.epsilon(9000) == second.epsilon(9000) > first.epsilon(30)
    assert both.analyses[0].pld_epsilon(30, 1e-5) == first.analyses[0].pld_epsilon(30, 1e-5)
    assert both.analyses[0].relation is Relation.REPLACE_SPECIAL
    assert "No client is in both trainings: this is the larger of their epsilons" in both.report(30)["summary"]
    assert _two_trainings().epsilon(30) > both.epsilon(30)


def test_one_training_of_two_without_noise_leaves_no_guarantee():
    silent = Mechanism("none", 0.0, population=100, cohort=10)
    seeded = Mechanism("dpsgd", 1.0, population=100, cohort=10, voided="the noise is drawn from --seed")
    for disjoint in (False, True):
        for values in ({"pretraining": silent}, {"pretraining": seeded}, {"noise_multiplier": 0.0}):
            both = dataclasses.replace(_two_trainings(pretraining_disjoint=disjoint), **values)
            assert both.epsilon(5) == math.inf
    report = dataclasses.replace(_two_trainings(), pretraining=seeded).report(5)
    assert (
        report["summary"]
        == "Privacy: no guarantee, because in the earlier training on private clients the noise is drawn from --seed."
    )


def test_what_voids_a_guarantee_is_said():
    mechanism = Mechanism("dpsgd", 1.0, population=1000, cohort=10, voided="clients are chosen by their data")
    report = mechanism.report(5)
    assert (mechanism.epsilon(5), report["epsilon"], report["guarantees"]) == (math.inf, None, [])
    assert report["summary"] == "Privacy: no guarantee, because clients are chosen by their data."


def test_what_a_guarantee_leaves_out_is_said():
    mechanism = _two_trainings(apart_from=("the table's means",))
    earlier = dataclasses.replace(mechanism.pretraining, apart_from=("the vocabulary",))
    report = json.loads(json.dumps(dataclasses.replace(mechanism, pretraining=earlier).report(5)))
    assert "), apart from the table's means; the vocabulary." in report["summary"]
    assert report["epsilon_assumes"] == [
        "that nothing is learnt from the table's means",
        "that nothing is learnt from the vocabulary",
    ]


def test_the_accountant_chooses_the_headline():
    mechanism = Mechanism("dpsgd", 1.0, population=1000, cohort=10, sampling="poisson", accountant="pld")
    (only,) = mechanism.report(50)["guarantees"]
    assert mechanism.epsilon(50) == mechanism.report(50)["epsilon"] == only["epsilon_pld"] < only["epsilon_rdp"]


def test_a_mechanism_is_read_back(tmp_path):
    path = tmp_path / "privacy.json"
    mechanism = _two_trainings(apart_from=("the vocabulary",), pretraining_disjoint=True, accountant="pld")
    path.write_text(json.dumps(mechanism.report(7)))
    assert privacy.load(path) == (mechanism, 7)


def test_files_without_the_newer_fields_are_read(tmp_path):
    path = tmp_path / "privacy.json"
    report = _two_trainings().report(7)
    newer = {"pretraining_disjoint", "voided", "apart_from", "accountant"}
    for values in (report["mechanism"], report["mechanism"]["pretraining"]):
        for name in newer:
            del values[name]
    path.write_text(json.dumps(report))
    assert privacy.load(path) == (_two_trainings(), 7)


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
        ({"accountant": "moments"}, "accountant is 'moments', not one of rdp, pld"),
        ({"kind": "ddp", "accountant": "pld"}, "the privacy loss distribution of ddp is not known: use rdp"),
        ({"pretraining_rounds": 3}, "pretraining_rounds is 3, but there is no pretraining"),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Mechanism(**{"kind": "dpsgd", "noise_multiplier": 1.0, "population": 100, "cohort": 10, **values})
