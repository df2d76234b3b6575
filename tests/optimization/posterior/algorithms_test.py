"""Tests of the algorithms' clients and of SGLD's chain; the servers are tested with the rounds."""

import numpy as np
import pytest

from optimization import client_work, models
from optimization.posterior import algorithms, flags

SGD = client_work.LocalSgd(0.1, 4, epochs=2, momentum=0.5)


def build(name: str, **values) -> algorithms.Algorithm:
    return algorithms.build(flags.Posterior(name, **values), SGD, models.mlp(4, (), 3), cohort_size=5)


@pytest.mark.parametrize("name", ["fedpa", "fedkppa"])
def test_chains_step_like_the_plain_training_of_the_burn_in(name):
    algorithm = build(name, burn_in_rounds=3, steps_per_sample=5)
    chain = algorithm.work_of(4)
    assert algorithm.work_of(3) == chain.sgd == SGD
    assert chain.steps_per_sample == 5


def test_client_work_is_equal_if_and_only_if_its_options_are():
    assert hash(build("fedpa").client_work) == hash(build("fedpa").client_work)
    assert build("fedpa").client_work == build("fedkppa").client_work != build("fedpa", shrinkage=0.2).client_work


# SGLD at the server.


ZEROS = (np.zeros((300, 20), np.float32), np.zeros(50, np.float32))


def test_deviations_are_those_of_the_thesis_and_of_its_program():
    assert flags.deviation("sqrt_2_rate", 0.02) == pytest.approx(0.2)
    assert flags.deviation("2_rate", 0.02) == pytest.approx(0.04)


def test_a_state_is_the_step_and_noise_of_the_deviation():
    chain = algorithms.ServerChain(0, 0.3)
    weights = (ZEROS[0] + 7, ZEROS[1] - 2)
    first, second = chain.state(weights, seed=1, round_num=4)
    assert (first.shape, second.shape, first.dtype) == ((300, 20), (50,), np.float32)
    # 6,000 draws: standard errors 0.004 and 0.003.
    assert first.mean() == pytest.approx(7, abs=0.02)
    assert first.std() == pytest.approx(0.3, abs=0.015)
    assert second.mean() == pytest.approx(-2, abs=0.2)


def test_noise_is_a_function_of_seed_and_round():
    chain = algorithms.ServerChain(0, 0.3)
    again = chain.state(ZEROS, seed=1, round_num=4)
    for found, same in zip(chain.state(ZEROS, seed=1, round_num=4), again, strict=True):
        np.testing.assert_array_equal(found, same)
    for seed, round_num in ((1, 5), (2, 4)):
        assert (chain.state(ZEROS, seed, round_num)[0] != again[0]).all()


def test_the_average_after_the_burn_in_is_served():
    chain = algorithms.ServerChain(2, 0.3)
    served, found = (np.zeros(1),), []
    for round_num, state in enumerate((5.0, 9.0, 1.0, 2.0, 6.0), 1):
        served = chain.served(served, (np.array([state]),), round_num)
        found.append(float(served[0][0]))
    assert found == [5, 9, 1, 1.5, 3]
