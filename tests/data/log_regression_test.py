"""Tests of data.log_regression."""

import numpy as np
import pytest
from sklearn import linear_model

from data import log_regression, text

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
    found = [
        base + shared.predict(tested) + ridge(action == ACTIONS, left[action == ACTIONS]).predict(tested)
        for action in range(2)
    ]
    found.append(base + shared.predict(tested))  # The third action was never logged.
    return np.clip(np.stack(found, axis=1), REWARDS.min(), REWARDS.max())


def _fit(contexts=CONTEXTS, is_tuned=None, num_features=3):
    return log_regression.fit(contexts, num_features, ACTIONS, REWARDS, 3, is_tuned)


def test_predictions_are_those_of_two_ridge_regressions():
    tested = RNG.normal(size=(20, 3)).astype(np.float32)
    np.testing.assert_allclose(_fit().predict(tested), _by_sklearn(10.0, tested), atol=1e-9)


def test_bags_of_words_are_fitted_like_the_same_numbers():
    bags = text.Bags(np.tile(np.arange(3, dtype=np.int32), 300), CONTEXTS.ravel(), np.arange(0, 901, 3))
    np.testing.assert_allclose(_fit(bags).predict(bags), _fit().predict(CONTEXTS), atol=1e-6)


def test_more_features_than_rows_are_fitted_by_the_smaller_matrix():
    """The features beyond the third are 0 and change nothing."""
    wide = np.concatenate([CONTEXTS, np.zeros((300, 400), np.float32)], axis=1)
    found = _fit(wide, num_features=403)
    np.testing.assert_allclose(found.predict(wide), _fit().predict(CONTEXTS), atol=1e-9)
    np.testing.assert_allclose(found.weights[3:403], 0, atol=1e-12)


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 7.0), (-2.0, 100.0)])
def test_neither_the_unit_nor_the_direction_of_rewards_changes_the_fit(factor, offset):
    is_tuned = np.arange(300) % 4 == 3
    found = log_regression.fit(CONTEXTS, 3, ACTIONS, offset + factor * REWARDS, 3, is_tuned)
    expected = offset + factor * _fit(is_tuned=is_tuned).predict(CONTEXTS)
    np.testing.assert_allclose(found.predict(CONTEXTS), expected, rtol=1e-9)


@pytest.mark.parametrize(("noise", "expected"), [(0.0, 0.1), (50.0, 1000.0)])
def test_the_penalty_is_chosen_on_rows_that_were_not_fitted(noise, expected):
    rewards = CONTEXTS[:, 0] + noise * np.random.default_rng(0).normal(size=300)
    is_tuned = np.arange(300) % 4 == 3
    assert log_regression.fit(CONTEXTS, 3, ACTIONS, rewards, 2, is_tuned).penalty == expected


def test_predictions_stay_within_the_range_of_the_rewards():
    found = _fit().predict(100 * CONTEXTS)
    assert (found.min(), found.max()) == (REWARDS.min(), REWARDS.max())


def test_rare_clicks_keep_their_mean_and_their_order():
    draw = np.random.default_rng(3)
    contexts, actions = draw.normal(size=(20_000, 2)).astype(np.float32), draw.integers(2, size=20_000)
    chances = 0.02 / (1 + np.exp(-2 * contexts))  # Of each action, which a linear model predicts below 0.
    clicks = (draw.random(20_000) < chances[np.arange(20_000), actions]) * 5.0 - 1.0
    found = log_regression.fit(contexts, 2, actions, clicks, 2)
    predicted = found.predict(contexts)
    assert (predicted > -1).all()
    assert predicted[np.arange(20_000), actions].mean() == pytest.approx(clicks.mean(), abs=1e-5)
    assert np.corrcoef(predicted[:, 0], 5 * chances[:, 0] - 1)[0, 1] > 0.8


def test_two_rewards_that_no_context_explains_have_their_mean():
    found = log_regression.fit(np.zeros((4, 1), np.float32), 1, np.zeros(4, int), np.array([0.0, 0, 0, 1]), 2)
    np.testing.assert_allclose(found.predict(np.zeros((2, 1), np.float32)), 0.25)
