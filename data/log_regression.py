"""Reward regression of a log in closed form: a ridge regression for each action, shrunk towards one of all actions.

It is the reward model of simulated rewards and of doubly robust targets. Least squares needs only sums over clients,
and no learning rates; nothing here imports TensorFlow.

A linear model of rare clicks predicts negative rewards, and cutting them off raises the mean. Predictions of rewards
with two values are therefore mapped to log-odds, and calibrated on the fitted rows by a logistic regression of one
feature (Platt, "Probabilistic outputs for support vector machines", 1999). Their mean there is that of the rewards.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from data import text

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_TOLERANCE = 1e-8  # Of LSQR, whose default leaves visible errors.


@dataclasses.dataclass(frozen=True)
class Regression:
    """Predicts the reward of each action.

    Attributes:
      base: Mean reward of the rows that it was fitted on.
      weights: float64 [features + 1, actions], added to it; the last row is for the constant 1.
      low: Smallest reward of those rows.
      high: Largest reward of those rows.
      penalty: Ridge penalty on the weights.
      log_odds: Of the larger of two rewards: intercept, and slope in what the weights add; None for other rewards.
    """

    base: float
    weights: np.ndarray
    low: float
    high: float
    penalty: float
    log_odds: tuple[float, float] | None = None

    def predict(self, contexts: np.ndarray | text.Bags) -> np.ndarray:
        """Predicted rewards, float64 [rows, actions], within the range of the rewards in the fit."""
        added = design(contexts, len(self.weights) - 1) @ self.weights
        if self.log_odds is None:
            return np.clip(self.base + added, self.low, self.high)
        intercept, slope = self.log_odds
        return self.low + (self.high - self.low) / (1 + np.exp(-intercept - slope * added))


def design(contexts: np.ndarray | text.Bags, num_features: int) -> Any:
    """Features with a last column of ones, [rows, features + 1]: an array, or of bags a sparse matrix."""
    if isinstance(contexts, text.Bags):
        from scipy import sparse

        rows = len(contexts.offsets) - 1
        words = sparse.csr_matrix(
            (contexts.values.astype(np.float64), contexts.ids, contexts.offsets), shape=(rows, num_features)
        )
        return sparse.hstack([words, np.ones((rows, 1))], format="csr")
    flat = contexts.reshape(len(contexts), num_features)
    return np.concatenate([flat.astype(np.float64), np.ones((len(flat), 1))], axis=1)


def fit(
    contexts: np.ndarray | text.Bags,
    num_features: int,
    actions: np.ndarray,
    rewards: np.ndarray,
    num_actions: int,
    is_tuned: np.ndarray | None = None,
) -> Regression:
    """Fits the regression on some rows.

    Two steps share a penalty: a ridge regression of all rows' rewards, and, for each action, one of its
    rows' residuals. An action without a row has the prediction of the first.

    Args:
      contexts: [rows, ...] or bags.
      num_features: Number of values in a context, or of words.
      actions: int [rows].
      rewards: float [rows].
      num_actions: Number of actions.
      is_tuned: bool [rows], rows on which the penalty is chosen, by the squared error of a fit on the others; then all
        rows are fitted. None, or all rows on one side, selects the middle penalty.
    """
    matrix = design(contexts, num_features)
    penalty = PENALTIES[len(PENALTIES) // 2]
    if is_tuned is not None and is_tuned.any() and not is_tuned.all():
        rest = ~is_tuned
        candidates = _fits(matrix[rest], actions[rest], rewards[rest], num_actions, PENALTIES)
        tried, truth, places = matrix[is_tuned], rewards[is_tuned], (np.arange(is_tuned.sum()), actions[is_tuned])
        errors = [np.mean(((tried @ weights)[places] + base - truth) ** 2) for base, weights in candidates]
        penalty = PENALTIES[int(np.argmin(errors))]
    ((base, weights),) = _fits(matrix, actions, rewards, num_actions, [penalty])
    log_odds = None
    if len(np.unique(rewards)) == 2:
        log_odds = _log_odds((matrix @ weights)[np.arange(len(rewards)), actions], rewards == rewards.max())
    return Regression(base, weights, float(rewards.min()), float(rewards.max()), penalty, log_odds)


def _log_odds(added: np.ndarray, is_high: np.ndarray) -> tuple[float, float]:
    """Intercept and slope of the log-odds of `is_high`, bool [rows], given float64 [rows]."""
    from sklearn import linear_model

    scale, share = added.std(), is_high.mean()
    if not scale:
        return float(np.log(share / (1 - share))), 0.0
    model = linear_model.LogisticRegression(tol=1e-8).fit(added[:, np.newaxis] / scale, is_high)
    return float(model.intercept_[0]), float(model.coef_[0, 0] / scale)


def _fits(
    matrix: Any, actions: np.ndarray, rewards: np.ndarray, num_actions: int, penalties: Sequence[float]
) -> list[tuple[float, np.ndarray]]:
    """Mean reward and weights, float64 [features + 1, actions], for each penalty."""
    base = float(rewards.mean())
    shared = _ridge(matrix, np.tile(rewards - base, (len(penalties), 1)), penalties)
    weights = np.repeat(shared[:, :, np.newaxis], num_actions, axis=2)
    left = rewards - base - (matrix @ shared.T).T
    for action in range(num_actions):
        rows = np.flatnonzero(actions == action)
        if len(rows):
            weights[:, :, action] += _ridge(matrix[rows], left[:, rows], penalties)
    return [(base, each) for each in weights]


def _ridge(matrix: Any, targets: np.ndarray, penalties: Sequence[float]) -> np.ndarray:
    """Ridge weights, float64 [penalties, columns], of targets float64 [penalties, rows]."""
    if not isinstance(matrix, np.ndarray):
        from scipy.sparse import linalg

        return np.stack(
            [
                linalg.lsqr(matrix, target, damp=np.sqrt(penalty), atol=_TOLERANCE, btol=_TOLERANCE)[0]
                for target, penalty in zip(targets, penalties, strict=True)
            ]
        )
    rows, columns = matrix.shape
    is_wide = rows < columns
    gram = matrix @ matrix.T if is_wide else matrix.T @ matrix
    weights = np.empty((len(penalties), columns))
    for place, (target, penalty) in enumerate(zip(targets, penalties, strict=True)):
        ridged = gram + penalty * np.eye(len(gram))
        if is_wide:  # X' (X X' + penalty)^-1 y is the same, with a smaller matrix.
            weights[place] = matrix.T @ np.linalg.solve(ridged, target)
        else:
            weights[place] = np.linalg.solve(ridged, matrix.T @ target)
    return weights
