import numpy as np
import pytest

from bandits import policies, schedules
from bandits.theory import bounds, regret, worlds


@pytest.mark.parametrize(
    ("periods", "every", "after_each"),
    [(1, 1.000, 0.263), (2, 0.571, 0.190), (10, 0.167, 0.087), (100, 0.036, 0.028)],
)
def test_delay_costs_what_equations_9_and_10_say(periods, every, after_each):
    total = 1000 * periods
    assert bounds.delayed(1000, periods, 20) / total == pytest.approx(every, abs=5e-4)
    assert bounds.delayed(1, total, 20) / total == pytest.approx(after_each, abs=5e-4)


def test_bounds_equal_hand_computed_ones():
    assert bounds.delayed(1000, 1, 1e9) == 1000  # The sum is empty.
    log_term = schedules.complexity(np.log(8), 0.05, 2)
    assert log_term == pytest.approx(np.log(320))
    assert bounds.error(log_term, 100, 0.01, constant=2) == pytest.approx(2 * (np.log(320) / 100 + 0.01))
    assert bounds.greedy_regret(5, 0.1, 0.04) == pytest.approx(2.0)
    assert bounds.falcon_regret(4, 0.01, 3) == pytest.approx(0.6)
    assert bounds.third_root_epsilon(5, 2.0, 10_000) == pytest.approx(0.1)
    assert bounds.third_root_epsilon(5, 2.0, 1) == 1


def test_the_measured_constant_makes_equation_7_hold_in_the_share_of_runs():
    errors = np.random.default_rng(0).exponential(size=1000)
    constant = bounds.measured_constant(errors, 3.0, 50, 0.05)
    assert (errors > bounds.error(3.0, 50, constant=constant)).mean() == pytest.approx(0.05, abs=0.002)


def test_the_floor_of_inverse_gap_weighting_is_the_regret_of_the_policy_that_knows_all():
    generator = np.random.default_rng(1)
    for mu, gamma in ((6.0, 10.0), (7.5, 1000.0), (100.0, 50.0)):
        rewards = generator.random((4, 6))
        world = worlds.one_client(rewards, rewards[:, None])
        floor = bounds.inverse_gap_floor(rewards, world.contexts, mu, gamma)
        acting = regret.probabilities(policies.InverseGapWeighting(mu, gamma), rewards[None])
        np.testing.assert_allclose(regret.of_policy(world, acting), [floor], rtol=1e-4)
        assert floor < 5 / gamma
