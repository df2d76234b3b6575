"""Noise of a recommendation and its guarantee, clients that train alone, and rounds that grow."""

import math
import types

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from bandits import metrics
from bandits.advice import findings, inputs, stages
from bandits.advice.plan import GREEDY
from bandits.references import References
from bandits.results import configuration
from bandits.results.configuration import Baseline, ReferenceValue
from optimization import options
from optimization.privacy import mechanisms
from optimization.study import aggregation_flags, cli
from optimization.study.intervals import Interval


def _deployment(*arguments, apart_from=()):
    flags = cli.FlagSet("x")
    flags.group("Privacy", inputs.Privacy)
    return inputs.deployment(flags.parse(["x", *arguments]), 60, 20, apart_from)


@pytest.mark.slow
def test_runs_have_the_noise_of_the_deployment_that_is_accounted():
    found = stages.noise(_deployment("--population=342477", "--target_delta=1e-6"), 150, 20, 3.0)
    z = found["noise_multiplier"]
    assert found["run_noise_multiplier"] / 20 == pytest.approx(z / 1000, rel=1e-5)
    groups = found["bands"]  # Each client is in one group. Groups take turns.
    assert groups > 1
    event = dp_accounting.PoissonSampledDpEvent(groups * 1000 / 342477, dp_accounting.GaussianDpEvent(z))
    expected = rdp.RdpAccountant().compose(event, -(-150 // groups)).get_epsilon(1e-6)
    assert found["guarantee"]["epsilon"] == pytest.approx(expected, rel=0.01)
    assert 2.97 < found["guarantee"]["epsilon"] <= 3.0
    assert not found["guarantee"]["guarantees"][0]["sampling_assumed"]
    flags = cli.FlagSet("x")
    flags.group("Aggregation and privacy", options.Aggregation, options.Cohorts)
    run = flags.parse(["x", *stages.noise_flags(0.1, 1.0, groups)]).checked(aggregation_flags.check)
    cohorts = options.Cohorts(20, run.cohort_sampling)
    mechanism = aggregation_flags.plan(aggregation_flags.options(run), cohorts, 60, 7, 150).mechanism
    deployed = mechanisms.of_values(found["guarantee"]["mechanism"])
    np.testing.assert_array_equal(mechanism.column(150), deployed.column(150))


@pytest.mark.slow
def test_without_a_population_the_guarantee_is_for_the_clients_of_the_data():
    found = stages.noise(_deployment(apart_from=("the means of 3 columns",)), 150, 20, 10.0)
    assert found["run_noise_multiplier"] == found["noise_multiplier"]
    assert "too small for a guarantee" in " ".join(found["guarantee"]["warnings"])
    assert "the means of 3 columns" in " ".join(found["guarantee"]["epsilon_assumes"])
    out_of_reach = mechanisms.Mechanism("dpsgd", 1.0, 60, 20, "poisson", 0.5)
    assert "reaches epsilon 1e+06" in stages.noise(out_of_reach, 1, 20, 1e6)["error"]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--availability=diurnal",), "not Poisson samples"),
        (("--drop_out=0",), ""),
        (("--reset=model",), "the clients' losses"),
        (("--reset=model", "--reset_when=window", "--reset_window=20"), ""),
    ],
)
def test_no_noise_is_advised_if_its_guarantee_would_not_hold(flags, reason):
    refused = stages.refused_noise(("--task_type=digits", *flags))
    assert reason in refused
    assert bool(refused) == bool(reason)


def test_clients_train_alone_if_the_flags_and_their_number_allow_it():
    assert stages.refused_federation(("--task_type=digits",), 60) == ""
    assert "--reset" in stages.refused_federation(("--task_type=digits", "--reset=model"), 60)
    many = ("--task_type=digits", "--total_rounds=1000", "--clients_per_round=10")
    assert "1,000" in stages.refused_federation(many, 5000)


@pytest.mark.parametrize(
    ("learned", "searched", "is_far"), [(0.5, 0.4, True), (0.7, 0.2, True), (0.7, 0.4, False), (math.nan, 0.4, True)]
)
def test_rounds_double_until_a_model_and_the_rewards_come_near_the_linear_model(monkeypatch, learned, searched, is_far):
    uniform = {Baseline.uniform_policy: ReferenceValue("", 0.1)}
    monkeypatch.setattr(findings, "recorded_baselines", lambda results: uniform)
    one = configuration.of_values(GREEDY, findings.REWARD, {1000: searched})
    one.values[metrics.HELD_OUT_REWARD] = learned
    found = findings.Findings(searched={GREEDY: one})
    near = References({}, Interval(0.6, 0.5, 0.7, 9), (0.1, 0.7))  # Near are 0.58, and a mean of 0.4.
    nothing_to_reach = References({}, Interval(0.0, -0.1, 0.1, 9), (0.1, 0.1))
    for references, expected in ((near, is_far), (None, False), (nothing_to_reach, False)):
        data = types.SimpleNamespace(references=references)
        assert stages.Stages(None, {}, data, None, (), found)._is_far() is expected
