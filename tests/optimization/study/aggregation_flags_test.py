import pytest

from data.errors import UsageError
from optimization import options
from optimization.study import aggregation_flags, cli


def resolve(*arguments: str) -> cli.Settings:
    flags = cli.FlagSet("")
    flags.group(aggregation_flags.Aggregation)
    return aggregation_flags.resolve(flags.parse(["test", *arguments]).settled())


def mechanism(*arguments: str, cohort_size: int = 50, population: int = 1000):
    settings = resolve(*arguments)
    cohorts = options.Cohorts(cohort_size, settings.cohort_sampling)
    return aggregation_flags.mechanism(aggregation_flags.options(settings), cohorts, population, 7)


DPSGD = ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=0.5")


def test_the_mean_clips_adaptively_and_private_sums_do_not_unless_told():
    mean, private, adaptive = resolve(), resolve(*DPSGD), resolve(*DPSGD[:2], "--adaptive_clipping")
    assert (mean.adaptive_clipping, mean.clip_norm, mean.unclip_quantile) == (True, 0.1, 0.8)
    assert (private.adaptive_clipping, private.clip_norm) == (False, 0.5)
    assert (adaptive.adaptive_clipping, adaptive.clip_norm, adaptive.unclip_quantile) == (True, 0.1, 0.8)


def test_none_is_the_mean():
    assert resolve("--aggregator_type=none") == {**resolve()}


def test_the_mechanism_is_that_of_the_flags():
    found = mechanism(*DPSGD, "--cohort_sampling=poisson", "--target_delta=1e-5")
    assert (found.kind, found.noise_multiplier, found.clip_norm, found.sampling) == ("dpsgd", 1.0, 0.5, "poisson")
    assert (found.population, found.cohort, found.delta) == (1000, 50, 1e-5)
    assert mechanism(*DPSGD).delta == pytest.approx(1000**-1.1)


def test_without_noise_nothing_is_guaranteed():
    silent = ("--aggregator_type=dpsgd", "--noise_multiplier=0", "--clip_norm=1")
    for arguments in ((), silent, ("--aggregator_type=secure_sum",)):
        assert mechanism(*arguments).epsilon(3) == float("inf")


def test_a_tree_lasts_as_long_as_a_clients_turn():
    arguments = ["--aggregator_type=dpftrl", "--noise_multiplier=1", "--clip_norm=1"]
    assert mechanism(*arguments, cohort_size=30).restart_frequency == 33
    assert mechanism(*arguments, "--dpftrl_restart_rounds=5", cohort_size=30).restart_frequency == 5


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cohort_sampling=cyclic"], 3),
        ([], 8),
        (["--cohort_sampling=cyclic", "--mf_bands=5"], 5),
    ],
)
def test_bands_span_no_more_than_a_clients_return_unless_told(arguments, expected):
    banded = ("--aggregator_type=mf_dpftrl", "--noise_multiplier=1", "--clip_norm=1")
    assert mechanism(*banded, *arguments, cohort_size=300).bands == expected


def test_the_accountant_is_that_of_the_flags():
    by_rdp, by_pld = (mechanism(*DPSGD, f"--accountant={name}") for name in ("rdp", "pld"))
    assert by_pld.epsilon(20) == by_pld.report(20)["guarantees"][0]["epsilon_pld"] < by_rdp.epsilon(20)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aggregator_type=dpsgd", "--noise_multiplier=3", "--adaptive_clipping"], "noise of more than 1.5"),
        (["--aggregator_type=ddp", "--noise_multiplier=1", "--clip_norm=1", "--ddp_bits=4"], "bits are too few"),
    ],
)
def test_noise_that_does_not_fit_the_cohort_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        mechanism(*arguments, cohort_size=20)


def test_a_cohort_above_the_population_is_refused():
    with pytest.raises(UsageError, match="--clients_per_round=20 is more than the 10 clients that take part"):
        mechanism(cohort_size=20, population=10)
