"""Tests of the mechanisms, against dp-accounting's own accountants, published figures and brute force."""

import dataclasses
import json
import math
import pathlib

import dp_accounting
import pytest
from dp_accounting import rdp

from optimization.privacy import mechanisms
from optimization.privacy.mechanisms import Mechanism

Relation = dp_accounting.NeighboringRelation

# Agarwal et al. 2023, section 5.3, and the tighter figures that PLD gives: all at delta 1e-6.
STACK_OVERFLOW = {"population": 342_477, "cohort": 64, "delta": 1e-6}
SMALL = {"kind": "dpsgd", "noise_multiplier": 1.0, "population": 100, "cohort": 10}
IN_TURNS = {"kind": "mf_dpftrl", "sampling": "cyclic_poisson"}
CYCLIC = {"population": 1000, "cohort": 100, "sampling": "cyclic"}


@pytest.mark.parametrize(
    ("mechanism", "rounds", "by_rdp", "by_pld"),
    [
        (Mechanism("dpsgd", 0.3, **STACK_OVERFLOW), 1600, "15.8", 12.9),
        (Mechanism("dpsgd", 0.7, **STACK_OVERFLOW), 1600, "1.5", 0.194),
        (Mechanism("dpsgd", 1.0, population=340_000, cohort=6_400, delta=1e-6), 800, "4.13", 3.7),
    ],
)
def test_published_epsilons(mechanism, rounds, by_rdp, by_pld):
    decimals = len(by_rdp.split(".")[1])
    assert f"{mechanism.epsilon(rounds):.{decimals}f}" == by_rdp
    assert mechanism.analyses[0].pld_epsilon(rounds, mechanism.delta) == pytest.approx(by_pld, rel=0.02)


def test_rounds_add_up_to_the_accountant_of_the_whole_event():
    mechanism = Mechanism("dpsgd", 0.8, population=500, cohort=20, sampling="poisson")
    for rounds in (1, 7, 300):
        event = dp_accounting.PoissonSampledDpEvent(0.04, dp_accounting.GaussianDpEvent(0.8))
        accountant = rdp.RdpAccountant().compose(event, rounds)
        epsilon, order = accountant.get_epsilon_and_optimal_order(mechanism.delta)
        assert mechanism.analyses[0].epsilon(rounds, mechanism.delta) == pytest.approx((epsilon, order), rel=1e-12)


@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_clients_that_may_be_absent_count_in_every_round(sampling):
    """Nothing is amplified, and no cohort needs to be secret."""
    mechanism = Mechanism("dpsgd", 5.0, population=1000, cohort=20, sampling=sampling, may_be_absent=True)
    zeroed, replaced = mechanism.analyses
    assert (zeroed.relation, replaced.relation) == (Relation.REPLACE_SPECIAL, Relation.REPLACE_ONE)
    for analysis, noise in ((zeroed, 5.0), (replaced, 2.5)):
        accountant = rdp.RdpAccountant().compose(dp_accounting.GaussianDpEvent(noise), 30)
        expected = accountant.get_epsilon(mechanism.delta)
        assert analysis.epsilon(30, mechanism.delta)[0] == pytest.approx(expected, rel=1e-6)
        assert (analysis.assumed, analysis.sampling) == (False, "none, because a client may be in every cohort")
    assert not mechanism.rests_on_cohorts
    assert mechanism.report(30)["mechanism"]["may_be_absent"]
    (warning,) = mechanism.warnings(36)
    expected = "a client may be in every cohort, so its absence can change the releases of 36 rounds by 6 clip"
    assert warning.startswith(expected)


@pytest.mark.parametrize("kind", ["dpsgd", "dpftrl", "mf_dpftrl"])
def test_missing_a_turn_costs_no_more_than_taking_it(kind):
    everyone = Mechanism(kind, 4.0, **CYCLIC)
    fewer = dataclasses.replace(everyone, may_be_absent=True)
    assert fewer.epsilon(35) == everyone.epsilon(35)
    assert fewer.analyses[0].sampling == everyone.analyses[0].sampling == "none, because clients take turns"


@pytest.mark.slow
def test_a_fixed_cohort_is_labelled_and_accounted_without_the_assumption_too():
    assumed, exact = Mechanism("dpsgd", 1.0, population=500, cohort=20).analyses
    assert (assumed.relation, assumed.assumed) == (Relation.ADD_OR_REMOVE_ONE, True)
    assert (exact.relation, exact.assumed) == (Relation.REPLACE_ONE, False)
    event = dp_accounting.SampledWithoutReplacementDpEvent(500, 20, dp_accounting.GaussianDpEvent(0.5))
    accountant = rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(event, 50)
    assert exact.epsilon(50, 1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5))
    assert exact.pld_epsilon(50, 1e-5) < exact.epsilon(50, 1e-5)[0]


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


def test_the_proven_figure_of_distributed_noise_is_the_headline():
    mechanism = Mechanism("ddp", 1.0, population=3400, cohort=64, dimension=100, delta=1e-5)
    zeroed, replaced, heuristic = mechanism.analyses
    epsilons = [one.epsilon(50, 1e-5)[0] for one in (heuristic, zeroed, replaced)]
    assert epsilons == sorted(epsilons)
    assert mechanism.epsilon(50) == mechanism.report(50)["epsilon_proven"] == epsilons[1]
    assert (zeroed.assumed, replaced.assumed, heuristic.assumed) == (False, False, True)
    assert heuristic.report(50, 1e-5)["note"].startswith("a heuristic ")
    assert zeroed.pld_epsilon(50, 1e-5) is None
    report = mechanism.report(50)
    assert report["epsilon_assumes"] == []
    assert report["summary"].startswith(f"Privacy: epsilon {epsilons[1]:.3g} by RDP (order 2), at delta 1e-05 after 50")
    assert f" Not proven: {epsilons[0]:.3g} by RDP (order 7.5), " in report["summary"]


def test_pretraining_is_added():
    earlier = Mechanism("dpsgd", 2.0, population=100, cohort=10)
    later = Mechanism("dpsgd", 1.0, population=1000, cohort=10, delta=1e-5, pretraining=earlier, pretraining_rounds=30)
    accountant = rdp.RdpAccountant()
    for rate, noise, rounds in ((0.1, 2.0, 30), (0.01, 1.0, 50)):
        event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
        accountant.compose(event, rounds)
    assert later.epsilon(50) == pytest.approx(accountant.get_epsilon(1e-5))


def _two_trainings(**values):
    earlier = Mechanism("dpsgd", 1.0, population=100, cohort=10, sampling="poisson")
    values = {"noise_multiplier": 1.0, "population": 1000, "cohort": 10, "sampling": "poisson", **values}
    return Mechanism("dpsgd", delta=1e-5, pretraining=earlier, pretraining_rounds=30, **values)


@pytest.mark.slow
def test_disjoint_populations_cost_the_larger_epsilon_at_one_delta():
    both = _two_trainings(pretraining_disjoint=True)
    first = dataclasses.replace(both.pretraining, delta=1e-5)
    second = dataclasses.replace(both, pretraining=None, pretraining_rounds=0, pretraining_disjoint=False)
    assert both.epsilon(30) == first.epsilon(30) > second.epsilon(30)
    assert both.epsilon(9000) == second.epsilon(9000) > first.epsilon(30)
    assert both.analyses[0].pld_epsilon(30, 1e-5) == first.analyses[0].pld_epsilon(30, 1e-5)
    assert both.analyses[0].relation is Relation.REPLACE_SPECIAL
    assert "No client is in both trainings, so this is the larger of their two epsilons" in both.report(30)["summary"]
    assert _two_trainings().epsilon(30) > both.epsilon(30)


SILENT, VOIDED = Mechanism("none", 0.0, 100, 10), Mechanism("dpsgd", 1.0, 100, 10, voided="the noise is known")


@pytest.mark.parametrize(
    ("mechanism", "reason"),
    [
        (SILENT, "there is no noise"),
        (dataclasses.replace(VOIDED, voided="", noise_multiplier=0.0), "there is no noise"),
        (VOIDED, "the noise is known"),
        (dataclasses.replace(_two_trainings(), noise_multiplier=0.0), "there is no noise"),
        (
            dataclasses.replace(_two_trainings(pretraining_disjoint=True), pretraining=VOIDED),
            "in the earlier training on private clients, the noise is known",
        ),
        (mechanisms.load(pathlib.Path("nowhere"))[0], "the privacy that it spent is not known"),
    ],
)
def test_without_a_guarantee_the_report_says_why(mechanism, reason):
    report = mechanism.report(5)
    assert (mechanism.epsilon(5), report["epsilon"], report["guarantees"]) == (math.inf, None, [])
    assert report["summary"] == f"Privacy: no guarantee, because {reason}."


def test_the_report_names_data_outside_the_guarantee():
    mechanism = _two_trainings(apart_from=("the table's means",))
    earlier = dataclasses.replace(mechanism.pretraining, apart_from=("the vocabulary",))
    report = json.loads(json.dumps(dataclasses.replace(mechanism, pretraining=earlier).report(5)))
    assert "), apart from the table's means; the vocabulary." in report["summary"]
    assert report["epsilon_assumes"] == [
        "that nothing is learnt from the table's means",
        "that nothing is learnt from the vocabulary",
    ]


@pytest.mark.slow
def test_the_accountant_determines_the_headline():
    mechanism = Mechanism("dpsgd", 1.0, population=1000, cohort=10, sampling="poisson", accountant="pld")
    (only,) = mechanism.report(50)["guarantees"]
    assert mechanism.epsilon(50) == mechanism.report(50)["epsilon"] == only["epsilon_pld"] < only["epsilon_rdp"]


def test_a_mechanism_is_read_back(tmp_path):
    path = tmp_path / "privacy.json"
    mechanism = _two_trainings(apart_from=("the vocabulary",), pretraining_disjoint=True, accountant="pld")
    path.write_text(json.dumps(mechanism.report(7)))
    assert mechanisms.load(path) == (mechanism, 7)


@pytest.mark.parametrize("missing", ["voided", "apart_from", "pretraining_disjoint", "accountant"])
def test_files_that_lack_a_value_guarantee_nothing(tmp_path, missing):
    path = tmp_path / "privacy.json"
    for inside in ("mechanism", "pretraining"):
        report = json.loads(json.dumps(_two_trainings().report(7)))
        values = report["mechanism"]
        del (values if inside == "mechanism" else values["pretraining"])[missing]
        path.write_text(json.dumps(report))
        found, rounds = mechanisms.load(path)
        assert found.epsilon(rounds) == math.inf
        assert "no guarantee, because the privacy that it spent is not known" in found.report(rounds)["summary"]


def test_the_report_is_json_and_says_what_was_assumed():
    mechanism = Mechanism("dpsgd", 1.0, population=500, cohort=20, delta=1e-5)
    report = json.loads(json.dumps(mechanism.report(40)))
    assumed, exact = report["guarantees"]
    assert report["epsilon"] == assumed["epsilon_rdp"] == mechanism.epsilon(40)
    assert (assumed["sampling"], assumed["sampling_assumed"]) == ("Poisson", True)
    assert assumed["epsilon_pld"] < assumed["epsilon_rdp"] < exact["epsilon_rdp"]
    assert exact["epsilon_pld"] == report["epsilon_proven"] < exact["epsilon_rdp"]
    assert report["epsilon_assumes"] == ["Poisson sampling, though cohorts have a fixed size"]
    assert Mechanism(**report["mechanism"]) == mechanism
    proven = f"{exact['epsilon_rdp']:.3g} by RDP (order {exact['rdp_order']:g}), {exact['epsilon_pld']:.3g} by PLD"
    assert f": epsilon {proven}, at delta 1e-05 after 40 rounds (one client replaced). " in report["summary"]
    assert f" If Poisson: {assumed['epsilon_rdp']:.3g} by RDP " in report["summary"]


@pytest.mark.parametrize(("noise_multiplier", "rounds"), [(0.003, 1000), (10.0, 2_000_000)])
def test_the_report_says_if_pld_overflows(noise_multiplier, rounds):
    mechanism = Mechanism("dpsgd", noise_multiplier, 500, 20, "poisson", accountant="pld")
    (only,) = mechanism.report(rounds)["guarantees"]
    assert (only["epsilon_pld"], only["note"]) == (None, "outside the numeric range of PLD")
    assert mechanism.epsilon(rounds) == only["epsilon_rdp"]


def test_noise_too_small_for_a_finite_epsilon_is_no_guarantee():
    for kind, values in (("dpsgd", {}), ("dpftrl", {"sampling": "cyclic"})):
        report = Mechanism(kind, 1e-300, population=500, cohort=20, **values).report(5)
        assert (report["epsilon"], report["epsilon_proven"], report["guarantees"]) == (None, None, [])
        assert report["summary"] == "Privacy: no guarantee, because there is too little noise for a finite epsilon."


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({"delta": 0.299}, "delta 0.299 is above 0.001, which is too large for a guarantee."),
        ({"population": 20}, "a population of 20 is too small for a guarantee."),
        ({"sampling": "fixed"}, 'cohorts have a fixed size, so the epsilons after "If Poisson" are not proven: give'),
        ({"kind": "mf_dpftrl", "sampling": "fixed"}, "absence can change the releases of 16 rounds by 4 clip norms"),
        ({"kind": "dpftrl", "sampling": "poisson"}, "can change the releases of 16 rounds by 22.27 clip norms"),
    ],
)
def test_a_weak_guarantee_has_a_warning(given, warning):
    usual = {"kind": "dpsgd", "noise_multiplier": 1.0, "population": 1000, "cohort": 10, "delta": 1e-5}
    mechanism = Mechanism(**{"sampling": "poisson", **usual, **given})
    first, *others = warnings = mechanism.warnings(16)
    assert warning in first
    unit = ["epsilon protects one client"] if "delta" in given or "population" in given else []
    assert [other[:27] for other in others] == unit
    assert mechanism.report(16)["summary"].endswith("".join(f"\nWarning: {one}" for one in warnings))
    assert dataclasses.replace(mechanism, voided="its noise is known").warnings(16) == ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "none"}, "noise_multiplier is 1.0, but kind is none"),
        ({"kind": "laplace"}, "kind is 'laplace', not one of none, dpsgd"),
        ({"noise_multiplier": -1.0}, "noise_multiplier is -1.0, not a finite number of at least 0"),
        ({"cohort": 101}, "cohort is 101, not between 1 and the population of 100"),
        ({"delta": 0.0}, "delta is 0.0, not between 0 and 1"),
        ({"bands": 0}, "bands and dimension at least 1"),
        ({"kind": "ddp", "sampling": "poisson"}, "ddp cannot use Poisson sampling"),
        ({"accountant": "moments"}, "accountant is 'moments', not one of rdp, pld"),
        ({"kind": "ddp", "accountant": "pld"}, "the privacy loss distribution of ddp is not known: use rdp"),
        ({"pretraining_rounds": 3}, "pretraining_rounds is 3, but there is no pretraining"),
        ({"kind": "ddp", "may_be_absent": True}, "ddp needs all sampled clients: without the absent ones"),
        ({**IN_TURNS, "bands": 5, "groups": 4}, "groups is 4, below bands, 5"),
        ({**IN_TURNS, "bands": 5, "groups": 11}, "at most 10 groups and bands are possible"),
        ({**IN_TURNS, "may_be_absent": True}, "clients may be absent"),
        ({**IN_TURNS, "kind": "dpsgd"}, "cyclic_poisson sampling needs mf_dpftrl"),
    ],
)
def test_bad_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Mechanism(**SMALL | values)


def test_a_guarantee_needs_secret_cohorts_if_sampling_amplifies_it():
    amplified = [{}, {"sampling": "poisson"}, {"kind": "ddp"}]
    others = [{"sampling": "cyclic"}, {"cohort": 100}, {"kind": "dpftrl"}, {"kind": "mf_dpftrl"}]
    others += [{"noise_multiplier": 0.0}, {"voided": "the noise is known"}]
    for changes in amplified + others:
        assert Mechanism(**SMALL | changes).rests_on_cohorts == (changes in amplified), changes


def test_each_training_on_private_clients_is_a_separate_phase():
    first = Mechanism("dpsgd", 1.0, 100, 10)
    second = dataclasses.replace(first, pretraining=first, pretraining_rounds=2)
    assert [first.phase, second.phase, dataclasses.replace(second, pretraining=second).phase] == [0, 1, 2]


def test_before_the_first_round_nothing_is_spent():
    mechanism = Mechanism("none", 0.0, 100, 10)
    assert (mechanism.epsilon(0), mechanism.report(0)["epsilon"]) == (0.0, 0.0)
    summary = "Privacy: epsilon 0, because nothing that was trained on private clients was released."
    assert mechanism.report(0)["summary"] == summary
