"""Tests of data.logged_clients."""

import dataclasses

import numpy as np
import pytest

from data import interaction_log, logged_clients
from data.errors import UsageError


def make(clients=40, rows=50, *, binary=True, uniform=False, seed=0):
    """Log of an environment where action k earns more if feature k is large, and the mean rewards."""
    draw, count = np.random.default_rng(seed), clients * rows
    contexts = draw.normal(size=(count, 3)).astype(np.float32)
    means = np.clip(0.5 + 0.2 * contexts, 0.05, 0.95)
    shares = np.full((count, 3), 1 / 3) if uniform else np.tile([0.6, 0.3, 0.1], (count, 1))
    actions = (shares.cumsum(axis=1) > draw.random((count, 1))).argmax(axis=1)
    each = np.arange(count)
    earned = means[each, actions]
    rewards = (draw.random(count) < earned) * 1.0 if binary else earned + 0.1 * draw.normal(size=count)
    columns = {"actions": actions, "rewards": rewards, "propensities": shares[each, actions]}
    names = [f"client {number:03d}" for number in range(clients)]
    return interaction_log.ordered(names, np.repeat(np.arange(clients), rows), contexts, list("abc"), columns), means


def clients_of(log, feedback="simulator", *, keeps_log=False, seed=0):
    known = logged_clients.learn(log, 3)
    others = 1 - logged_clients.halves(len(log.client_ids))
    return logged_clients.LoggedClients(
        log,
        known,
        others,
        feedback=feedback,
        keeps_log=keeps_log,
        seed=seed,
        numbers=range(len(others)),
        digest="digest",
    )


def test_no_client_is_predicted_by_a_regression_that_has_seen_it():
    log, _ = make()
    changed, client = log.rewards.copy(), 7
    changed[log.clients == client] = 1 - changed[log.clients == client]
    before, after = clients_of(log), clients_of(dataclasses.replace(log, rewards=changed))
    np.testing.assert_array_equal(before.predicted(client), after.predicted(client))
    other = int(np.flatnonzero(logged_clients.halves(40) != logged_clients.halves(40)[client])[0])
    assert (before.predicted(other) != after.predicted(other)).any()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.0, 1000.0)])
def test_drawn_rewards_are_the_two_logged_values_with_the_predicted_mean(low, high):
    log, means = make(400)
    found = clients_of(dataclasses.replace(log, rewards=low + (high - low) * log.rewards))
    drawn, predicted = (
        (np.concatenate([each(index) for index in range(400)]) - low) / (high - low)
        for each in (found.sampled_rewards, found.predicted)
    )
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(axis=0), predicted.mean(axis=0), atol=0.01)  # 4 standard errors of 20,000.
    assert np.sqrt(np.mean((predicted - means) ** 2)) < 0.05


def test_other_rewards_are_predictions_and_residuals_within_the_range_of_the_log():
    log, means = make(100, binary=False)
    found = clients_of(log)
    drawn = np.concatenate([found.load(index).labels for index in range(100)])
    assert log.rewards.min() - 1e-6 <= drawn.min() < drawn.max() <= log.rewards.max() + 1e-6
    assert np.std(drawn - means) == pytest.approx(0.1, abs=0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), means.mean(axis=0), atol=0.02)


def test_a_client_draws_the_same_rewards_whenever_and_others_with_another_seed():
    log, _ = make()
    one, again, other = clients_of(log), clients_of(log), clients_of(log, seed=1)
    again.load(3)
    np.testing.assert_array_equal(one.load(5).labels, again.load(5).labels)
    assert (one.load(5).labels != other.load(5).labels).any()
    assert (one.load(5).labels != one.load(6).labels).any()


def test_doubly_robust_rewards_are_unbiased_though_the_regression_is_wrong():
    by_hand = logged_clients.doubly_robust(
        np.array([[0.5, 0.2], [0.1, 0.4]]), np.array([0, 1]), np.array([1.0, 0.0]), np.array([0.5, 0.8])
    )
    np.testing.assert_allclose(by_hand, [[1.5, 0.2], [0.1, -0.1]], atol=1e-15)
    log, means = make(1000)
    wrong = np.full((len(log), 3), 0.9)
    found = logged_clients.doubly_robust(wrong, log.actions, log.rewards, log.propensities)
    np.testing.assert_allclose(found.mean(axis=0), means.mean(axis=0), atol=0.03)  # 4 standard errors of the rarest.


def test_labels_end_in_what_was_logged():
    log, _ = make()
    labels = clients_of(log, "doubly_robust", keeps_log=True).load(2).labels
    assert labels.shape == (50, 6)
    rows = log.clients == 2
    np.testing.assert_allclose(labels[:, 3], log.actions[rows])
    np.testing.assert_allclose(labels[:, 4:], np.stack([log.rewards, log.propensities], axis=1)[rows], rtol=1e-6)


def test_replay_takes_uniform_propensities_alone():
    logged_clients.check_uniform(make(uniform=True)[0])
    with pytest.raises(UsageError, match=r"of propensity 1/3, but these range from 0.1 to 0.6"):
        logged_clients.check_uniform(make()[0])


def test_folds_are_two_halves_and_those_of_recorded_runs():
    assert logged_clients.halves(8).tolist() == [1, 1, 1, 0, 0, 1, 0, 0]
    assert sorted(logged_clients.halves(2).tolist()) == [0, 1]
