"""Releases against dp-accounting, against sums over the densities, and against what no bound may fall below."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from scipy import special, stats

from optimization.privacy import accounting
from optimization.privacy.accounting import ORDERS, Gaussian, PoissonGaussian, SubsetConcentrated, SubsetGaussian

Relation = dp_accounting.NeighboringRelation


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "noise", "rounds", "grid"), [(0.02, 1.0, 800, 1e-3), (0.5, 2.0, 50, 1e-3)])
def test_poisson_samples_are_those_of_dp_accounting(rate, noise, rounds, grid):
    release = PoissonGaussian(rate, noise)
    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
    np.testing.assert_allclose(release.divergences, rdp.RdpAccountant().compose(event).rdp)
    accountant = pld.PLDAccountant(value_discretization_interval=grid).compose(event, rounds)
    found = release.losses(rounds, grid).get_epsilon_for_delta(1e-6)
    assert found == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-7)


def test_a_sample_of_all_is_a_plain_gaussian():
    np.testing.assert_allclose(Gaussian(2.0).divergences, ORDERS / 8)
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    expected = accountant.compose(dp_accounting.GaussianDpEvent(1.0), 4).get_epsilon(1e-6)
    for release in (Gaussian(1.0), PoissonGaussian(1.0, 1.0), SubsetGaussian(50, 50, 1.0)):
        np.testing.assert_allclose(release.divergences, ORDERS / 2)
        assert release.losses(4, 1e-3).get_epsilon_for_delta(1e-6) == pytest.approx(expected, rel=1e-7)


@pytest.mark.slow
def test_fixed_samples_have_the_rdp_of_dp_accounting_where_it_helps():
    event = dp_accounting.SampledWithoutReplacementDpEvent(500, 20, dp_accounting.GaussianDpEvent(0.5))
    accountant = rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(event)
    np.testing.assert_allclose(SubsetGaussian(500, 20, 0.5).divergences, np.minimum(accountant.rdp, 2 * ORDERS))


def _outcomes(rate: float, noise: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns probabilities and privacy losses of slices of the real line, for three pairs of densities."""
    edges = np.linspace(0.5 - 10 * noise, 0.5 + 10 * noise, 2001)
    first, second = (np.diff(stats.norm(mean, noise).cdf(edges)) for mean in (1, 0))
    middles = (edges[1:] + edges[:-1]) / 2
    ratio = (2 * middles - 1) / (2 * noise**2)
    mixture = rate * first + (1 - rate) * second, np.log(rate * np.exp(ratio) + 1 - rate)
    mirrored = first, -np.log(rate * np.exp(-ratio) + 1 - rate)
    probability, loss = np.where(middles > 0.5, mixture, mirrored)
    pieced = np.append(probability, 1 - probability.sum()), np.append(loss, 0.0)
    return {"mixture from second": mixture, "first from mixture": mirrored, "pieced": pieced}


def _two_rounds(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], epsilon: float) -> float:
    """Returns the hockey-stick divergence of two rounds by direct convolution."""
    loss = np.add.outer(one[1], other[1])
    return float((np.multiply.outer(one[0], other[0]) * -np.expm1(np.minimum(epsilon - loss, 0.0))).sum())


@pytest.mark.slow
@pytest.mark.parametrize(("cohort", "noise"), [(20, 0.5), (50, 1.0)])
def test_two_rounds_of_a_fixed_sample_are_the_direct_convolution(cohort, noise):
    pieced = _outcomes(cohort / 100, noise)["pieced"]
    found = SubsetGaussian(100, cohort, noise).losses(2, 1e-3)
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        expected = _two_rounds(pieced, pieced, epsilon)
        assert found.get_delta_for_epsilon(epsilon) == pytest.approx(expected, rel=1e-4, abs=1e-8)


@pytest.mark.slow
def test_no_two_rounds_cost_more_than_the_bound_of_a_fixed_sample():
    # The others' updates may resemble one neighbour's in the first round, and the other neighbour's in the second.
    outcomes = _outcomes(0.2, 0.5)
    pairs = outcomes["mixture from second"], outcomes["first from mixture"]
    found = SubsetGaussian(100, 20, 0.5).losses(2, 1e-3)
    for epsilon in (0.1, 0.5, 1.0):
        most = max(_two_rounds(one, other, epsilon) for one in pairs for other in pairs)
        assert most < 0.99 * found.get_delta_for_epsilon(epsilon)


def test_rounds_of_a_fixed_sample_cost_more_than_one_mixture_says():
    release = SubsetGaussian(3400, 64, 0.5)
    alone = pld.privacy_loss_distribution.from_gaussian_mechanism(
        0.5, sampling_prob=64 / 3400, value_discretization_interval=5e-3
    ).self_compose(800)
    assert release.losses(800, 5e-3).get_epsilon_for_delta(1e-5) == pytest.approx(23.40, abs=0.01)
    assert alone.get_epsilon_for_delta(1e-5) == pytest.approx(20.66, abs=0.01)


def test_amplification_of_any_mechanism_is_the_theorem_by_hand():
    # Wang, Balle and Kasiviswanathan 2019, Theorem 9, at orders 2 and 3, and their moments' mean at 2.5.
    rate, own = 0.1, {2: 0.8, 3: 1.2}
    found = accounting.amplified_divergences(rate, lambda orders: 0.4 * orders)
    least = min(4 * (math.exp(own[2]) - 1), 2 * math.exp(own[2]))
    second = math.log(1 + rate**2 * least)
    third = math.log(1 + rate**2 * 3 * least + rate**3 * 2 * math.exp(2 * own[3]))
    at = dict(zip(ORDERS, found, strict=True))
    assert at[2.0] == pytest.approx(second)
    assert at[3.0] == pytest.approx(third / 2)
    assert at[2.5] == pytest.approx((second + third) / 2 / 1.5)
    assert at[1.5] == pytest.approx(second)


def test_amplification_of_any_mechanism_bounds_that_of_gaussian_noise():
    rate, noise = 0.05, 1.0
    found = accounting.amplified_divergences(rate, lambda orders: orders / (2 * noise**2))
    first, second = stats.norm(1, noise), stats.norm(0, noise)
    x = np.linspace(-40, 60, 200_001)
    mixture = np.logaddexp(math.log(rate) + first.logpdf(x), math.log1p(-rate) + second.logpdf(x))
    for order in (2.0, 2.5, 5.0, 20.0):
        log_moment = special.logsumexp(order * mixture + (1 - order) * second.logpdf(x)) + math.log(x[1] - x[0])
        assert log_moment / (order - 1) <= found[list(ORDERS).index(order)]


def test_concentrated_releases_take_what_is_least_at_each_order():
    zeroed, replaced = (SubsetConcentrated(1000, 10, 2.0, replaces) for replaces in (False, True))
    amplified = accounting.amplified_divergences(0.01, lambda orders: orders / 2)
    np.testing.assert_allclose(zeroed.divergences, np.minimum(ORDERS / 8, amplified))
    np.testing.assert_allclose(replaced.divergences, np.minimum(ORDERS / 2, amplified))
    assert (zeroed.divergences < ORDERS / 8).any()
    assert (zeroed.divergences == ORDERS / 8).any()
    assert not zeroed.has_losses(1, 1e-5)


@pytest.mark.parametrize("noise", [1e-300, 1e-5, 1e12, 1e300])
def test_noise_beyond_numbers_raises_nothing(noise):
    for release in (Gaussian(noise), PoissonGaussian(0.1, noise), SubsetGaussian(100, 10, noise)):
        assert (release.divergences > 0).all()
        assert np.isinf(release.divergences).all() == (noise == 1e-300)
    assert not np.isnan(SubsetConcentrated(100, 10, noise, True).divergences).any()
