import dataclasses

import pytest

from data.errors import UsageError
from optimization import options
from optimization.privacy import calibration
from optimization.study import aggregation_flags, cli


def resolve(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("")
    flags.group("Aggregation and privacy", options.Aggregation, options.Cohorts, options.Target)
    return flags.parse(["test", *arguments]).checked(aggregation_flags.check)


def mechanism(*arguments: str, cohort_size: int = 50, population: int = 1000):
    settings = resolve(*arguments)
    cohorts = options.Cohorts(cohort_size, settings.cohort_sampling)
    return aggregation_flags.mechanism(aggregation_flags.options(settings), cohorts, population, 7)


DPSGD = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=0.5")
BANDED = ("--aggregator_type=mf_dpftrl", "--clip_norm=1")


def test_the_mean_clips_adaptively_and_private_sums_do_not_unless_reported():
    mean, private, adaptive = resolve(), resolve(*DPSGD), resolve(*DPSGD[:2], "--adaptive_clipping")
    assert (mean.adaptive_clipping, mean.clip_norm, mean.unclip_quantile) == (True, 0.1, 0.8)
    assert {**mean} == {**resolve("--aggregator_type=none")}
    assert (private.adaptive_clipping, private.clip_norm) == (False, 0.5)
    assert (adaptive.adaptive_clipping, adaptive.clip_norm, adaptive.unclip_quantile) == (True, 0.1, 0.8)


def test_the_mechanism_is_that_of_the_flags():
    found = mechanism(*DPSGD, "--cohort_sampling=poisson", "--target_delta=1e-5", "--accountant=pld")
    assert (found.kind, found.noise_multiplier, found.clip_norm, found.sampling) == ("dpsgd", 1.0, 0.5, "poisson")
    assert (found.population, found.cohort, found.delta, found.accountant) == (1000, 50, 1e-5, "pld")
    assert {mechanism(*flags).kind for flags in ((), ("--aggregator_type=secure_sum",))} == {"none"}
    assert mechanism(*DPSGD).delta == pytest.approx(1000**-1.1)


def test_a_tree_lasts_as_long_as_a_clients_turn():
    arguments = ["--aggregator_type=dpftrl", "--noise_multiplier=1", "--clip_norm=1"]
    assert mechanism(*arguments, cohort_size=30).restart_frequency == 33
    assert mechanism(*arguments, "--dpftrl_restart_rounds=5", cohort_size=30).restart_frequency == 5


def plan(*arguments: str, population: int = 1000, rounds: int = 40, dimension: int = 7):
    settings = resolve(*BANDED, *arguments)
    cohorts = options.Cohorts(50, settings.cohort_sampling)
    found = aggregation_flags.plan(aggregation_flags.options(settings), cohorts, population, dimension, rounds)
    return found.mechanism


@pytest.mark.parametrize("sampling", ["cyclic", "fixed"])
def test_bands_have_the_least_noise_on_the_prefix_sums_at_one_privacy_loss(sampling):
    chosen = plan("--noise_multiplier=1", f"--cohort_sampling={sampling}")
    epsilon = chosen.epsilon(40)
    for bands in (1, 2, 4, 8, 20, 40):
        other = dataclasses.replace(chosen, bands=bands)
        other = dataclasses.replace(other, noise_multiplier=calibration.calibrate(other, 40, epsilon))
        assert chosen.prefix_noise(40) < 1.002 * other.prefix_noise(40), bands


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        (*BANDED, "--cohort_sampling=cyclic_poisson", "--target_epsilon=3"),
        (*BANDED, "--cohort_sampling=cyclic", "--target_epsilon=3", "--mf_bands=5"),
        (*BANDED, "--cohort_sampling=cyclic", "--noise_multiplier=1"),
        ("--aggregator_type=dpftrl", "--cohort_sampling=cyclic", "--target_epsilon=3"),
        ("--aggregator_type=dpsgd", "--target_epsilon=3", "--accountant=pld"),
    ],
)
def test_a_run_adds_and_accounts_for_the_noise_that_was_planned(arguments):
    settings = resolve(*arguments)
    cohorts, aggregation = options.Cohorts(50, settings.cohort_sampling), aggregation_flags.options(settings)
    plan = aggregation_flags.plan(aggregation, cohorts, 1000, 7, 40)
    planned = aggregation_flags.planned(aggregation, cohorts, 1000, plan.mechanism)
    assert aggregation_flags.mechanism(*planned, 1000, 7) == plan.mechanism
    if settings.target_epsilon:
        assert 2.99 < plan.mechanism.epsilon(40) <= 3
    assert ("if Poisson" in plan.reason) == (aggregation.kind == "dpsgd")  # Of a fixed size, cohorts are assumed.


def test_a_target_beyond_all_noise_is_refused():
    with pytest.raises(UsageError, match=r"--target_epsilon=1e[+]08 needs no search"):
        plan("--cohort_sampling=cyclic_poisson", "--target_epsilon=1e8", population=100, rounds=3)


def test_groups_are_as_many_as_bands_and_bands_no_more_than_cohorts_and_memory_allow():
    chosen = plan("--noise_multiplier=1", "--cohort_sampling=cyclic_poisson", "--mf_bands=5")
    assert (chosen.bands, chosen.groups, chosen.rate) == (5, 5, 0.25)
    assert plan("--noise_multiplier=1", "--cohort_sampling=cyclic", dimension=2**28).bands == 1  # Within the memory.
    with pytest.raises(UsageError, match="--mf_bands=21"):
        plan("--noise_multiplier=1", "--cohort_sampling=cyclic_poisson", "--mf_bands=21")


def test_noise_that_does_not_fit_the_cohort_is_refused():
    with pytest.raises(UsageError, match=r"noise of more than 1\.5"):
        mechanism("--aggregator_type=dpsgd", "--noise_multiplier=3", "--adaptive_clipping", cohort_size=20)
