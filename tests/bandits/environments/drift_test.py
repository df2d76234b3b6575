"""Tests of bandits.environments.drift: environments and where clients stand among them, by hand."""

import dataclasses
import itertools

import numpy as np
import pytest

from bandits.environments import drift

MATRIX = np.array([[1, 0, 0], [0, 1, 0.5], [0, 0, 1]], np.float32)


def test_no_action_keeps_its_rewards_and_none_is_lost():
    matrix = np.arange(35, dtype=np.float32).reshape(5, 7)
    own, *others = environments = drift.Drift("abrupt", environments=4).matrices(matrix)
    np.testing.assert_array_equal(own, matrix)
    for before, environment in itertools.pairwise(environments):  # One change after the other.
        np.testing.assert_array_equal(np.sort(environment, axis=1), matrix)
        columns = np.argsort(before[0])[environment[0].astype(int)]
        np.testing.assert_array_equal(environment, before[:, columns])
        assert (columns != np.arange(7)).all()
        place, length = int(columns[0]), 1
        while place:  # One cycle goes through all actions.
            place, length = int(columns[place]), length + 1
        assert length == 7
    assert len({environment.tobytes() for environment in others}) == 3


def test_two_actions_swap_at_each_change():
    environments = drift.Drift("abrupt", environments=4).matrices(np.eye(2, dtype=np.float32))
    np.testing.assert_array_equal(environments, [[[1, 0], [0, 1]], [[0, 1], [1, 0]]] * 2)


def test_more_environments_are_the_same_ones_first():
    few, more = (drift.Drift("abrupt", environments=count, seed=3).matrices(MATRIX) for count in (2, 5))
    np.testing.assert_array_equal(more[:2], few)
    assert (drift.Drift("abrupt", environments=5, seed=4).matrices(MATRIX)[2:] != more[2:]).any()


@pytest.mark.parametrize("kind", drift.KINDS)
def test_one_environment_alone_is_that_of_the_drift_in_every_round(kind):
    changing = drift.Drift(kind, start=3, every=1, rounds=4, period=4, overlap=0.5, environments=4, seed=2)
    stays = dataclasses.replace(changing, only=2)
    np.testing.assert_array_equal(stays.matrices(MATRIX), changing.matrices(MATRIX)[2])
    np.testing.assert_array_equal(stays.at(range(1, 9), 5), [2] * 8)
    np.testing.assert_array_equal(stays.shares(range(1, 9), None), [0, 0, 1, 0])
    np.testing.assert_array_equal(stays.mean_matrix(MATRIX, [1, 7], None), changing.matrices(MATRIX)[2])


@pytest.mark.parametrize(
    ("environment", "rounds", "warning"),
    [
        (drift.Drift("abrupt", start=31, environments=2), 30, "--reward_drift=abrupt changes nothing up to round 30"),
        (
            drift.Drift("seasonal", period=60, environments=2),
            30,
            "--reward_drift=seasonal changes nothing up to round 30",
        ),
        (
            drift.Drift("abrupt", start=16, every=15, environments=2),
            30,
            "--drift_every=15 changes nothing up to round 30",
        ),
        (drift.Drift("abrupt", start=16, every=15, environments=3), 31, ""),
        (drift.Drift("abrupt", start=30, environments=2), 30, ""),
        (
            drift.Drift("abrupt", start=1, environments=2),
            30,
            "--reward_drift=abrupt changes nothing up to round 30: all",
        ),
        (drift.Drift("linear", start=1, rounds=1, environments=2), 30, "--reward_drift=linear changes nothing"),
        (drift.Drift("linear", start=1, rounds=2, environments=2), 30, ""),
        (drift.Drift("abrupt", start=31, environments=2, only=1), 30, ""),
        (drift.NONE, 30, ""),
    ],
)
def test_a_change_that_does_not_come_is_reported(environment, rounds, warning):
    found = environment.warning(rounds)
    assert (found.startswith(warning), bool(found)) == (True, bool(warning))


def test_a_change_within_the_only_period_of_a_kept_cache_is_reported():
    changing, rounds = drift.Drift("abrupt", start=16, environments=2), np.arange(1, 31)
    assert "--cache=persistent" in changing.warning(30, np.ones(30, int))
    assert not changing.warning(30, rounds - (rounds - 1) % 20)  # Deployed in round 20: whoever acts in 21 meets it.


def test_without_drift_there_is_one_world():
    assert drift.NONE.matrices(MATRIX) is MATRIX
    assert drift.NONE.mean_matrix(MATRIX, [1, 2], 0) is MATRIX
    assert drift.NONE.at(5, 0) == 0


@pytest.mark.parametrize(
    ("environment", "points"),
    [
        (drift.Drift("abrupt", start=4, environments=2), [0, 0, 0, 1, 1, 1, 1, 1]),
        (drift.Drift("abrupt", start=3, every=2, environments=4), [0, 0, 1, 1, 2, 2, 3, 3]),
        (drift.Drift("linear", start=3, rounds=4, environments=2), [0, 0, 0.25, 0.5, 0.75, 1, 1, 1]),
        (drift.Drift("linear", start=3, rounds=1, environments=2), [0, 0, 1, 1, 1, 1, 1, 1]),
        (drift.Drift("seasonal", period=4, environments=2), [0, 0, 1, 1, 0, 0, 1, 1]),
        (drift.Drift("seasonal", period=8, overlap=0.5, environments=2), [0, 0, 0, 0.5, 1, 1, 1, 0.5]),
        (drift.Drift("seasonal", period=8, overlap=1.0, environments=2), [0, 0.25, 0.5, 0.75, 1, 0.75, 0.5, 0.25]),
        (
            drift.Drift("client", start=2, rounds=4, environments=2),
            [0, 0.25, 0.5, 0.75, 1, 1, 1, 1],
        ),  # The mean client.
    ],
)
def test_where_all_stand_by_hand(environment, points):
    np.testing.assert_array_equal(environment.at(range(1, 9), None), points)
    if environment.kind != "client":
        np.testing.assert_array_equal(environment.at(range(1, 9), 5), points)


def test_each_client_changes_once_at_its_own_time():
    environment = drift.Drift("client", start=10, rounds=8, environments=2)
    points = np.array([environment.at(range(1, 31), client) for client in range(4000)])
    assert set(np.unique(points)) == {0, 1}
    assert (np.diff(points, axis=1) >= 0).all()
    times = 31 - points.sum(axis=1)
    assert (times.min(), times.max()) == (10, 17)
    # Uniform over 8 rounds: the standard error of a share of 4000 is at most 0.008.
    np.testing.assert_allclose(points.mean(axis=0), environment.at(range(1, 31), None), atol=0.03)
    np.testing.assert_array_equal(
        points[7], drift.Drift("client", start=10, rounds=8, environments=2).at(range(1, 31), 7)
    )


def test_the_mean_matrix_of_rounds_by_hand():
    environment = drift.Drift("abrupt", start=3, every=1, environments=3)
    own, second, third = environment.matrices(MATRIX).astype(float)
    np.testing.assert_allclose(environment.mean_matrix(MATRIX, range(1, 6), None), (2 * own + second + 2 * third) / 5)
    between = drift.Drift("linear", start=1, rounds=4, environments=2)
    own, second = between.matrices(MATRIX).astype(float)
    np.testing.assert_allclose(between.mean_matrix(MATRIX, [1], None), 0.75 * own + 0.25 * second)
