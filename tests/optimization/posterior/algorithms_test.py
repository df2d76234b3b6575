"""SGLD's chain; clients and the other servers are tested with the rounds."""

import numpy as np
import pytest

from optimization.posterior import algorithms, flags

ZEROS = (np.zeros((300, 20), np.float32), np.zeros(50, np.float32))


def test_deviations_are_those_of_the_thesis_and_of_its_program():
    assert flags.deviation("sqrt_2_rate", 0.02) == pytest.approx(0.2)
    assert flags.deviation("2_rate", 0.02) == pytest.approx(0.04)


def test_a_state_is_the_step_and_noise_that_depends_on_seed_and_round():
    chain = algorithms.ServerChain(0, 0.3)
    weights = (ZEROS[0] + 7, ZEROS[1] - 2)
    first, second = chain.state(weights, seed=1, round_num=4)
    assert (first.shape, second.shape, first.dtype) == ((300, 20), (50,), np.float32)
    # 6,000 draws: standard errors 0.004 and 0.003.
    assert first.mean() == pytest.approx(7, abs=0.02)
    assert first.std() == pytest.approx(0.3, abs=0.015)
    assert second.mean() == pytest.approx(-2, abs=0.2)
    np.testing.assert_equal(chain.state(weights, seed=1, round_num=4), (first, second))
    for seed, round_num in ((1, 5), (2, 4)):
        assert (chain.state(weights, seed, round_num)[0] != first).all()


def test_the_average_after_the_burn_in_is_served():
    chain = algorithms.ServerChain(2, 0.3)
    served, found = (np.zeros(1),), []
    for round_num, state in enumerate((5.0, 9.0, 1.0, 2.0, 6.0), 1):
        served = chain.served(served, (np.array([state]),), round_num)
        found.append(float(served[0][0]))
    assert found == [5, 9, 1, 1.5, 3]
