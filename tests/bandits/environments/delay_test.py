"""Tests of bandits.environments.delay."""

import numpy as np
import pytest

from bandits.environments import delay


def _arrived(chosen, waited, count=20_000, **where):
    return chosen.observed(**{"seed": 1, "period": 2, "client": 3} | where, count=count, waited=waited)


@pytest.mark.parametrize(
    ("chosen", "shares"),
    [
        (delay.Delay("uniform", 3), [0.25, 0.5, 0.75, 1, 1]),
        (delay.Delay("uniform", 0), [1, 1, 1, 1, 1]),
        (delay.Delay("uniform", 1, never=0.2), [0.4, 0.8, 0.8, 0.8, 0.8]),
        # The chance of a round is 1 / (1 + mean).
        (delay.Delay("geometric", 1), [1 / 2, 3 / 4, 7 / 8, 15 / 16, 31 / 32]),
        (delay.Delay("geometric", 0, never=1), [0, 0, 0, 0, 0]),
    ],
)
def test_as_many_are_there_as_the_distribution_says(chosen, shares):
    # The standard error of a share of 20,000 is at most 0.0036.
    np.testing.assert_allclose([_arrived(chosen, waited).mean() for waited in range(5)], shares, atol=0.015)


def test_what_is_there_stays():
    chosen = delay.Delay("geometric", 4, never=0.1)
    before = _arrived(chosen, 0)
    for waited in range(1, 8):
        now = _arrived(chosen, waited)
        assert (now >= before).all()
        assert now.sum() > before.sum()
        before = now


@pytest.mark.parametrize(
    ("chosen", "deploy_every", "warning"),
    [
        (delay.Delay("uniform", 0), 10, "--reward_delay=uniform delays nothing: see --delay_rounds=0"),
        (delay.Delay("uniform", 0, never=0.5), 10, ""),
        (delay.Delay("uniform", 999), 10, ""),  # A hundredth.
        (delay.Delay("uniform", 1999), 10, "--reward_delay=uniform lets 0.005 of the rewards arrive"),
        # 1 - (999 / 1000)^4 = 0.004.
        (delay.Delay("geometric", 999), 4, "--reward_delay=geometric lets 0.004 of the rewards arrive"),
        (delay.Delay("geometric", 1), 1, ""),
        (delay.Delay("geometric", 0, never=0.999), 1, "--reward_delay=geometric lets 0.001 of the rewards arrive"),
        (delay.NONE, 1, ""),
    ],
)
def test_a_delay_of_nothing_or_of_nearly_all_is_reported(chosen, deploy_every, warning):
    found = chosen.warning(deploy_every)
    assert (found.startswith(warning), bool(found)) == (True, bool(warning))


@pytest.mark.parametrize("other", [{"seed": 2}, {"period": 3}, {"client": 4}])
def test_each_client_waits_anew_in_each_period(other):
    chosen = delay.Delay("uniform", 5)
    np.testing.assert_array_equal(_arrived(chosen, 2), _arrived(chosen, 2))
    assert (_arrived(chosen, 2) != _arrived(chosen, 2, **other)).mean() == pytest.approx(0.5, abs=0.03)
