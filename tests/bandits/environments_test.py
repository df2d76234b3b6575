"""Environments, where clients stand among them, and delays, by hand."""

import itertools

import numpy as np
import pytest

from bandits.environments import NO_DELAY, NO_DRIFT, Delay, Drift

MATRIX = np.array([[1, 0, 0], [0, 1, 0.5], [0, 0, 1]], np.float32)


def test_no_action_keeps_its_rewards_and_none_is_lost():
    matrix = np.arange(35, dtype=np.float32).reshape(5, 7)
    own, *others = matrices = Drift("abrupt", environments=4).matrices(matrix)
    np.testing.assert_array_equal(own, matrix)
    for before, environment in itertools.pairwise(matrices):  # One change after the other.
        np.testing.assert_array_equal(np.sort(environment, axis=1), matrix)
        columns = np.argsort(before[0])[environment[0].astype(int)]
        np.testing.assert_array_equal(environment, before[:, columns])
        assert (columns != np.arange(7)).all()
        place, length = int(columns[0]), 1
        while place:  # One cycle goes through all actions.
            place, length = int(columns[place]), length + 1
        assert length == 7
    assert len({environment.tobytes() for environment in others}) == 3


@pytest.mark.parametrize(
    ("environment", "rounds", "warning"),
    [
        (Drift("abrupt", start=31, environments=2), 30, "--reward_drift=abrupt changes nothing up to round 30"),
        (Drift("seasonal", period=60, environments=2), 30, "--reward_drift=seasonal changes nothing up to round 30"),
        (Drift("abrupt", start=16, every=15, environments=2), 30, "--drift_every=15 changes nothing up to round 30"),
        (Drift("abrupt", start=30, environments=2), 30, ""),
        (Drift("abrupt", start=1, environments=2), 30, "--reward_drift=abrupt changes nothing up to round 30: all"),
        (NO_DRIFT, 30, ""),
    ],
)
def test_a_change_that_does_not_come_is_reported(environment, rounds, warning):
    found = environment.warning(rounds)
    assert (found.startswith(warning), bool(found)) == (True, bool(warning))


@pytest.mark.parametrize(
    ("environment", "points"),
    [
        (Drift("abrupt", start=4, environments=2), [0, 0, 0, 1, 1, 1, 1, 1]),
        (Drift("abrupt", start=3, every=2, environments=4), [0, 0, 1, 1, 2, 2, 3, 3]),
        (Drift("linear", start=3, rounds=4, environments=2), [0, 0, 0.25, 0.5, 0.75, 1, 1, 1]),
        (Drift("seasonal", period=4, environments=2), [0, 0, 1, 1, 0, 0, 1, 1]),
        (Drift("seasonal", period=8, overlap=0.5, environments=2), [0, 0, 0, 0.5, 1, 1, 1, 0.5]),
        (Drift("client", start=2, rounds=4, environments=2), [0, 0.25, 0.5, 0.75, 1, 1, 1, 1]),  # The mean client.
    ],
)
def test_where_all_stand_by_hand(environment, points):
    np.testing.assert_array_equal(environment.at(range(1, 9), None), points)
    if environment.kind != "client":
        np.testing.assert_array_equal(environment.at(range(1, 9), 5), points)


def test_each_client_changes_once_at_its_own_time():
    environment = Drift("client", start=10, rounds=8, environments=2)
    points = np.array([environment.at(range(1, 31), client) for client in range(4000)])
    assert set(np.unique(points)) == {0, 1}
    assert (np.diff(points, axis=1) >= 0).all()
    times = 31 - points.sum(axis=1)
    assert (times.min(), times.max()) == (10, 17)
    # Uniform over 8 rounds: the standard error of a share of 4000 is at most 0.008.
    np.testing.assert_allclose(points.mean(axis=0), environment.at(range(1, 31), None), atol=0.03)
    np.testing.assert_array_equal(points[7], Drift("client", start=10, rounds=8, environments=2).at(range(1, 31), 7))


def test_the_mean_matrix_of_rounds_by_hand():
    environment = Drift("abrupt", start=3, every=1, environments=3)
    own, second, third = environment.matrices(MATRIX).astype(float)
    np.testing.assert_allclose(environment.mean_matrix(MATRIX, range(1, 6), None), (2 * own + second + 2 * third) / 5)
    between = Drift("linear", start=1, rounds=4, environments=2)
    own, second = between.matrices(MATRIX).astype(float)
    np.testing.assert_allclose(between.mean_matrix(MATRIX, [1], None), 0.75 * own + 0.25 * second)


def _arrived(chosen, waited, count=20_000, **where):
    return chosen.observed(**{"seed": 1, "period": 2, "client": 3} | where, count=count, waited=waited)


@pytest.mark.parametrize(
    ("chosen", "shares"),
    [
        (Delay("uniform", 3), [0.25, 0.5, 0.75, 1, 1]),
        (Delay("uniform", 0), [1, 1, 1, 1, 1]),
        (Delay("uniform", 1, never=0.2), [0.4, 0.8, 0.8, 0.8, 0.8]),
        # The chance of a round is 1 / (1 + mean).
        (Delay("geometric", 1), [1 / 2, 3 / 4, 7 / 8, 15 / 16, 31 / 32]),
    ],
)
def test_as_many_are_there_as_the_distribution_says(chosen, shares):
    # The standard error of a share of 20,000 is at most 0.0036.
    np.testing.assert_allclose([_arrived(chosen, waited).mean() for waited in range(5)], shares, atol=0.015)


@pytest.mark.parametrize(
    ("chosen", "deploy_every", "warning"),
    [
        (Delay("uniform", 0), 10, "--reward_delay=uniform delays no reward: change --delay_rounds=0"),
        (Delay("uniform", 999), 10, ""),  # A hundredth.
        (Delay("uniform", 1999), 10, "--reward_delay=uniform lets 0.005 of the rewards arrive"),
        # 1 - (999 / 1000)^4 = 0.004.
        (Delay("geometric", 999), 4, "--reward_delay=geometric lets 0.004 of the rewards arrive"),
        (Delay("geometric", 0, never=0.999), 1, "--reward_delay=geometric lets 0.001 of the rewards arrive"),
        (NO_DELAY, 1, ""),
    ],
)
def test_a_delay_of_nothing_or_of_nearly_all_is_reported(chosen, deploy_every, warning):
    found = chosen.warning(deploy_every)
    assert (found.startswith(warning), bool(found)) == (True, bool(warning))


@pytest.mark.parametrize("other", [{"seed": 2}, {"period": 3}, {"client": 4}])
def test_each_client_waits_anew_in_each_period(other):
    chosen = Delay("uniform", 5)
    np.testing.assert_array_equal(_arrived(chosen, 2), _arrived(chosen, 2))
    assert (_arrived(chosen, 2) != _arrived(chosen, 2, **other)).mean() == pytest.approx(0.5, abs=0.03)
