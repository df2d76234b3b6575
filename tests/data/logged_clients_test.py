"""Tests of data.logged_clients."""

import dataclasses

import numpy as np
import pytest
from sklearn import linear_model

from data import action_sets, interaction_log, logged_clients, text
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
    others = 1 - logged_clients.halves(len(log.client_ids))
    options = {"feedback": feedback, "keeps_log": keeps_log, "seed": seed, "checksum": "digest"}
    return logged_clients.LoggedClients(
        log, logged_clients.learn(log, 3), others, numbers=range(len(others)), **options
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
def test_sampled_rewards_are_the_two_logged_values_with_the_predicted_mean(low, high):
    log, means = make(400)
    logged = clients_of(dataclasses.replace(log, rewards=low + (high - low) * log.rewards))
    drawn, predicted = (
        (np.concatenate([each(index) for index in range(400)]) - low) / (high - low)
        for each in (logged.sampled_rewards, logged.predicted)
    )
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(axis=0), predicted.mean(axis=0), atol=0.01)  # 4 standard errors of 20,000.
    assert np.sqrt(np.mean((predicted - means) ** 2)) < 0.05


def test_other_rewards_are_predictions_and_residuals_within_the_range_of_the_log():
    log, means = make(100, binary=False)
    logged = clients_of(log)
    drawn = np.concatenate([logged.load(index).labels for index in range(100)])
    assert log.rewards.min() - 1e-6 <= drawn.min() < drawn.max() <= log.rewards.max() + 1e-6
    assert np.std(drawn - means) == pytest.approx(0.1, abs=0.02)
    np.testing.assert_allclose(drawn.mean(axis=0), means.mean(axis=0), atol=0.02)


def test_the_sampled_rewards_of_a_client_depend_on_the_client_and_the_seed_alone():
    log, _ = make()
    one, again, other = clients_of(log), clients_of(log), clients_of(log, seed=1)
    again.load(3)
    np.testing.assert_array_equal(one.load(5).labels, again.load(5).labels)
    assert (one.load(5).labels != other.load(5).labels).any()
    assert (one.load(5).labels != one.load(6).labels).any()


def test_doubly_robust_rewards_are_unbiased_though_the_regression_is_wrong():
    predicted = np.array([[0.5, 0.2], [0.1, 0.4]])
    by_hand = logged_clients.doubly_robust(predicted, np.array([0, 1]), np.array([1.0, 0.0]), np.array([0.5, 0.8]))
    np.testing.assert_allclose(by_hand, [[1.5, 0.2], [0.1, -0.1]], atol=1e-15)
    log, means = make(1000)
    wrong = np.full((len(log), 3), 0.9)
    corrected = logged_clients.doubly_robust(wrong, log.actions, log.rewards, log.propensities)
    np.testing.assert_allclose(corrected.mean(axis=0), means.mean(axis=0), atol=0.03)  # 4 errors of the rarest.


def test_labels_end_in_what_was_logged():
    log, _ = make()
    labels = clients_of(log, "doubly_robust", keeps_log=True).load(2).labels
    assert labels.shape == (50, 6)
    rows = log.clients == 2
    np.testing.assert_allclose(labels[:, 3], log.actions[rows])
    np.testing.assert_allclose(labels[:, 4:], np.stack([log.rewards, log.propensities], axis=1)[rows], rtol=1e-6)


def test_replay_accepts_only_uniform_choices_also_from_sets_of_different_sizes():
    uniform = make(uniform=True)[0]
    logged_clients.check_uniform(uniform)
    with pytest.raises(UsageError, match=r"with propensity 1/3, but propensities range from 0.1 to 0.6"):
        logged_clients.check_uniform(make()[0])
    of_sets = with_features(uniform)
    logged_clients.check_uniform(dataclasses.replace(of_sets, propensities=1 / of_sets.offered.sum(axis=1)))
    with pytest.raises(UsageError, match="needs a log of uniformly random actions"):
        logged_clients.check_uniform(dataclasses.replace(of_sets, propensities=np.full(len(of_sets), 1 / 3)))


def test_folds_are_two_halves_and_those_of_recorded_runs():
    assert logged_clients.halves(8).tolist() == [1, 1, 1, 0, 0, 1, 0, 0]
    assert sorted(logged_clients.halves(2).tolist()) == [0, 1]


RNG = np.random.default_rng(3)
CONTEXTS = RNG.normal(size=(300, 3)).astype(np.float32)
ACTIONS = RNG.integers(0, 2, 300)
REWARDS = 0.5 * CONTEXTS[:, 0] * (ACTIONS == 0) - CONTEXTS[:, 1] * (ACTIONS == 1) + 0.1 * RNG.normal(size=300)


def _by_sklearn(penalty: float, tested: np.ndarray) -> np.ndarray:
    """The two steps by another library's ridge regression, the constant among the penalized columns."""
    matrix, tested = (np.column_stack([part, np.ones(len(part))]).astype(float) for part in (CONTEXTS, tested))

    def ridge(rows, targets):
        return linear_model.Ridge(penalty, fit_intercept=False, solver="svd").fit(matrix[rows], targets)

    base = REWARDS.mean()
    shared = ridge(slice(None), REWARDS - base)
    left = REWARDS - base - shared.predict(matrix)
    of_all = base + shared.predict(tested)
    of_each = [of_all + ridge(action == ACTIONS, left[action == ACTIONS]).predict(tested) for action in range(2)]
    predicted = np.stack([*of_each, of_all], axis=1)  # The third action was never logged.
    return np.clip(predicted, REWARDS.min(), REWARDS.max())


def _fit(contexts=CONTEXTS, is_tuned=None, num_features=3):
    return logged_clients.fit(contexts, num_features, ACTIONS, REWARDS, 3, is_tuned)


def test_predictions_are_those_of_two_ridge_regressions_also_of_bags_of_words():
    tested = RNG.normal(size=(20, 3)).astype(np.float32)
    np.testing.assert_allclose(_fit().predict(tested), _by_sklearn(10.0, tested), atol=1e-9)
    far = _fit().predict(100 * CONTEXTS)
    assert (far.min(), far.max()) == (REWARDS.min(), REWARDS.max())
    bags = text.Bags(np.tile(np.arange(3, dtype=np.int32), 300), CONTEXTS.ravel(), np.arange(0, 901, 3))
    np.testing.assert_allclose(_fit(bags).predict(bags), _fit().predict(CONTEXTS), atol=1e-6)


def test_more_features_than_rows_are_fitted_by_the_smaller_matrix():
    """The features beyond the third are 0 and change nothing."""
    wide = np.concatenate([CONTEXTS, np.zeros((300, 400), np.float32)], axis=1)
    fitted = _fit(wide, num_features=403)
    np.testing.assert_allclose(fitted.predict(wide), _fit().predict(CONTEXTS), atol=1e-9)
    np.testing.assert_allclose(fitted.weights[3:403], 0, atol=1e-12)


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 7.0), (-2.0, 100.0)])
def test_neither_the_unit_nor_the_direction_of_rewards_changes_the_fit(factor, offset):
    is_tuned = np.arange(300) % 4 == 3
    fitted = logged_clients.fit(CONTEXTS, 3, ACTIONS, offset + factor * REWARDS, 3, is_tuned)
    expected = offset + factor * _fit(is_tuned=is_tuned).predict(CONTEXTS)
    np.testing.assert_allclose(fitted.predict(CONTEXTS), expected, rtol=1e-9)


@pytest.mark.parametrize(("noise", "expected"), [(0.0, 0.1), (50.0, 1000.0)])
def test_the_penalty_is_chosen_on_rows_that_were_not_fitted(noise, expected):
    rewards = CONTEXTS[:, 0] + noise * np.random.default_rng(0).normal(size=300)
    is_tuned = np.arange(300) % 4 == 3
    assert logged_clients.fit(CONTEXTS, 3, ACTIONS, rewards, 2, is_tuned).penalty == expected


def test_rare_clicks_keep_their_mean_and_their_order():
    draw = np.random.default_rng(3)
    contexts, actions = draw.normal(size=(20_000, 2)).astype(np.float32), draw.integers(2, size=20_000)
    chances = 0.02 / (1 + np.exp(-2 * contexts))  # One per action; a linear model predicts values below 0.
    clicks = (draw.random(20_000) < chances[np.arange(20_000), actions]) * 5.0 - 1.0
    predicted = logged_clients.fit(contexts, 2, actions, clicks, 2).predict(contexts)
    assert (predicted > -1).all()
    assert predicted[np.arange(20_000), actions].mean() == pytest.approx(clicks.mean(), abs=1e-5)
    assert np.corrcoef(predicted[:, 0], 5 * chances[:, 0] - 1)[0, 1] > 0.8


def with_features(log, *, offers_all=False):
    """The log with sets of at least two of the actions, whose features are their numbers and one-hot codes."""
    draw, order = np.random.default_rng(1), np.arange(3)
    is_offered = np.ones((len(log), 3), bool)
    is_offered[np.arange(len(log)), (log.actions + draw.integers(1, 3, len(log))) % 3] = offers_all
    entries = np.array([[*row, -1][:3] for row in (order[each].tolist() for each in is_offered)], np.int32)
    slots = (entries == log.actions[:, np.newaxis]).argmax(axis=1).astype(np.int32)
    sets = action_sets.of_entries(log.contexts, entries)
    catalogue = np.column_stack([np.eye(3), order]).astype(np.float32)
    return dataclasses.replace(log, contexts=sets, actions=slots, catalogue=catalogue, catalogue_actions=order)


def test_actions_with_features_share_one_regression_on_their_pairs_with_contexts():
    log, means = make(200)
    log = with_features(log)
    part = clients_of(log)
    entries = log.contexts.entries
    predicted = np.concatenate([part.predicted(index) for index in range(200)])
    assert (predicted[entries < 0] == 0).all()
    expected = np.take_along_axis(means, entries, axis=1)
    assert np.corrcoef(predicted[entries >= 0], expected[entries >= 0])[0, 1] > 0.9
    rows = log.clients == 3
    labels = part.load(3).labels
    assert labels.shape == (50, 3)
    assert set(np.unique(labels)) <= {0, 1}
    assert (labels[entries[rows] < 0] == 0).all()
    logged = clients_of(log, "doubly_robust", keeps_log=True).load(3).labels
    np.testing.assert_array_equal(logged[:, 3], log.actions[rows])
    assert (logged[:, :3][entries[rows] < 0] == 0).all()


def test_the_shared_regression_is_ridge_on_contexts_actions_and_products():
    log = with_features(make(10)[0], offers_all=True)
    fitted = logged_clients.learn(log, 3).regressions[2]
    actions = log.catalogue[log.contexts.entries[np.arange(len(log)), log.actions]]
    x = log.contexts.contexts
    pairs = np.hstack([x, actions, np.einsum("ra,rb->rab", x, actions).reshape(len(log), -1), np.ones((len(log), 1))])
    solved = np.linalg.solve(pairs.T @ pairs + fitted.penalty * np.eye(20), pairs.T @ (log.rewards - fitted.base))
    np.testing.assert_allclose(fitted.weights[:, 0], solved, rtol=1e-4, atol=1e-5)
