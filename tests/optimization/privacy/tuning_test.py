"""The privacy of a search, against dp-accounting and calculation by hand."""

import dataclasses
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from dp_accounting.rdp import rdp_privacy_accountant

from optimization.privacy import releases, tuning
from optimization.privacy.mechanisms import Mechanism

POISSON = Mechanism("dpsgd", 1.0, 1000, 10, "poisson", delta=1e-5)


def test_all_runs_are_composed():
    found = tuning.composed_divergences(np.array([releases.Gaussian(noise).divergences for noise in (1.0, 2.0)]))
    np.testing.assert_allclose(found, releases.ORDERS * (1 / 2 + 1 / 8))


def test_a_poisson_number_of_runs_is_the_theorem_of_dp_accounting():
    one = releases.Gaussian(4.0).divergences
    event = dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(4.0), mean=12, shape=math.inf)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    np.testing.assert_allclose(tuning.poisson_divergences(np.tile(one, (12, 1))), accountant.compose(event).rdp)


def test_a_poisson_number_of_runs_by_hand():
    # At order 2, one run is (log 2, delta')-private, and delta' of the Gaussian is known in closed form.
    noise, runs, at = 4.0, 5, list(releases.ORDERS).index(2.0)
    one = releases.Gaussian(noise).divergences
    delta = rdp_privacy_accountant.compute_delta(releases.ORDERS, one, math.log(2))[0]
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    exact = phi(0.5 / noise - noise * math.log(2)) - 2 * phi(-0.5 / noise - noise * math.log(2))
    assert exact < delta < 20 * exact
    found = tuning.poisson_divergences(np.tile(one, (runs, 1)))[at]
    assert found == pytest.approx(2 / (2 * noise**2) + runs * delta + math.log(runs))


def test_the_least_private_point_counts():
    quiet, loud = releases.Gaussian(8.0).divergences, releases.Gaussian(4.0).divergences
    found = tuning.poisson_divergences(np.array([quiet, loud, quiet]))
    np.testing.assert_array_equal(found, tuning.poisson_divergences(np.tile(loud, (3, 1))))


def test_a_grid_says_what_its_runs_cost_together():
    fixed = dataclasses.replace(POISSON, sampling="fixed", delta=1e-6)
    found = tuning.describe([(POISSON, 50), (fixed, 100)])
    event = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    whole = rdp.RdpAccountant().compose(event, 150).get_epsilon(1e-6)
    least = dp_event.RepeatAndSelectDpEvent(dp_accounting.SelfComposedDpEvent(event, 100), 2, math.inf)
    best = rdp.RdpAccountant().compose(least).get_epsilon(1e-6)
    assert f"The 2 runs together spend epsilon {whole:.3g} by RDP, at delta 1e-06 (one client added" in found
    assert "), if Poisson. A Poisson-distributed number of runs of mean 2, " in found
    assert f"would spend {best:.3g} if nothing but the best were looked at" in found


def test_a_run_without_a_guarantee_leaves_none_to_the_grid_and_a_grid_without_noise_says_nothing():
    silent = Mechanism("none", 0.0, 1000, 10)
    assert tuning.describe([(silent, 5), (silent, 5)]) == ""
    assert tuning.describe([(POISSON, 5), (silent, 5)]) == (
        "Privacy: choosing among runs on private data costs privacy. The 2 runs together guarantee nothing, because in "
        "1 of them there is no noise."
    )


def test_disjoint_trainings_cost_the_larger_at_every_order():
    both = dataclasses.replace(POISSON, pretraining=POISSON, pretraining_rounds=30, pretraining_disjoint=True)
    (own,) = POISSON.analyses
    for rounds in (10, 50):
        np.testing.assert_array_equal(both.analyses[0].divergences(rounds), own.divergences(max(rounds, 30)))
