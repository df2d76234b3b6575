"""The noise that runs with few clients add, and what is guaranteed where many would take part."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp

from bandits.advice import privacy
from data.errors import UsageError
from optimization import options
from optimization.privacy import mechanisms
from optimization.study import aggregation_flags, cli


def _settings(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("x")
    flags.group(privacy.Privacy)
    return flags.parse(["x", *arguments])


def _epsilon(z: float, share: float, rounds: int, delta: float) -> float:
    """By the accounting library alone."""
    event = dp_accounting.PoissonSampledDpEvent(share, dp_accounting.GaussianDpEvent(z))
    return rdp.RdpAccountant().compose(event, rounds).get_epsilon(delta)


@pytest.mark.slow
def test_a_run_adds_the_noise_on_the_mean_that_the_deployment_would_and_that_one_is_accounted():
    where = privacy.deployment(_settings("--population=342477", "--target_delta=1e-6"), 60, 20, ())
    assert (where.population, where.cohort) == (342477, 1000)
    found = privacy.noise(where, 150, 20, 3.0)
    z = found["noise_multiplier"]
    assert found["run_noise_multiplier"] / 20 == pytest.approx(z / 1000, rel=1e-5)
    groups = found["bands"]  # A client is in one of so many groups, which take turns.
    assert groups > 1
    expected = _epsilon(z, groups * 1000 / 342477, -(-150 // groups), 1e-6)
    assert found["guarantee"]["epsilon"] == pytest.approx(expected, rel=0.01)
    assert 2.97 < found["guarantee"]["epsilon"] <= 3.0
    assert found["guarantee"]["rounds"] == 150
    assert not found["guarantee"]["guarantees"][0]["sampling_assumed"]


@pytest.mark.slow
def test_the_noise_of_a_run_is_correlated_as_in_the_deployment():
    found = privacy.noise(privacy.deployment(_settings("--population=342477"), 60, 20, ()), 150, 20, 3.0)
    flags = cli.FlagSet("x")
    flags.group(aggregation_flags.Aggregation)
    run = aggregation_flags.resolve(flags.parse(["x", *privacy.flags_of(0.1, 1.0, found["bands"])]).settled())
    cohorts = options.Cohorts(20, run.cohort_sampling)
    plan = aggregation_flags.plan(aggregation_flags.options(run), cohorts, 60, 7, 150)
    deployed = mechanisms.of_values(found["guarantee"]["mechanism"])
    np.testing.assert_array_equal(plan.mechanism.column(150), deployed.column(150))


@pytest.mark.slow
def test_without_a_population_the_guarantee_is_for_the_clients_of_the_data():
    where = privacy.deployment(_settings(), 60, 20, ("the means of 3 columns",))
    found = privacy.noise(where, 150, 20, 10.0)
    assert (where.population, where.cohort, where.is_table) == (60, 20, True)
    assert found["run_noise_multiplier"] == found["noise_multiplier"]
    assert "too small for a guarantee" in " ".join(found["guarantee"]["warnings"])
    assert "the means of 3 columns" in " ".join(found["guarantee"]["epsilon_assumes"])


@pytest.mark.parametrize(
    ("arguments", "clients", "reason"),
    [
        ((), 19, "with 19 clients to protect, delta is 0.039, above 0.001, so no epsilon is a meaningful guarantee"),
        ((), 534, ""),
        (("--population=40000",), 19, ""),
        (("--target_delta=0.0001",), 19, ""),
    ],
)
def test_no_cost_is_reported_where_delta_makes_epsilon_meaningless(arguments, clients, reason):
    where = privacy.deployment(_settings(*arguments), clients, 5, ())
    assert privacy.no_guarantee(where).startswith(reason)
    assert bool(privacy.no_guarantee(where)) == bool(reason)


@pytest.mark.parametrize(
    ("arguments", "cohort"),
    [
        (("--population=5000",), 50),
        (("--population=1500",), 20),
        (("--population=10000000",), 1000),
        (("--population=5000", "--population_clients_per_round=700"), 700),
    ],
)
def test_the_cohort_of_a_deployment(arguments, cohort):
    assert privacy.deployment(_settings(*arguments), 60, 20, ()).cohort == cohort


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("--population=50",), "--population=50 is less than the 60 clients"),
        (("--population=5000", "--population_clients_per_round=19"), "--population_clients_per_round=19 is less than"),
    ],
)
def test_a_population_and_its_rounds_hold_their_samples(arguments, flag):
    with pytest.raises(UsageError, match=flag):
        privacy.deployment(_settings(*arguments), 60, 20, ())


@pytest.mark.slow
def test_an_epsilon_out_of_reach_is_reported():
    where = privacy.Deployment(60, 20, True, delta=0.5)
    assert "reaches epsilon 1e+06" in privacy.noise(where, 1, 20, 1e6)["error"]


def test_epsilons_are_numbers_above_0_in_the_order_given():
    for text in ("", "1,,2", "0", "-1", "a", "inf"):
        with pytest.raises(UsageError, match="--target_epsilons"):
            _settings(f"--target_epsilons={text}")
    assert _settings("--target_epsilons=8,2").target_epsilons == (8.0, 2.0)
    assert _settings().target_epsilons == (3.0, 10.0, 1.0)


def test_runs_under_noise_are_seeded_and_say_so():
    assert "--insecure_seeded_noise" in privacy.flags_of(0.5, 0.1)
    assert "--insecure_seeded_noise" not in privacy.flags_of(0.0, 0.1)
    assert {"--aggregator_type=mf_dpftrl", "--mf_bands=16"} < {*privacy.flags_of(0.5, 0.1, 16)}
