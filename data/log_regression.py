"""Reward regression of a log in closed form: a ridge regression for each action, shrunk towards one of all actions.

It is the reward model of simulated rewards and of doubly robust targets. Least squares needs only sums over clients,
and no learning rates; nothing here imports TensorFlow.
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
    """

    base: float
    weights: np.ndarray
    low: float
    high: float
    penalty: float

    def predict(self, contexts: np.ndarray | text.Bags) -> np.ndarray:
        """Predicted rewards, float64 [rows, actions], clipped to the range of the rewards in the fit."""
        return np.clip(self.base + design(contexts, len(self.weights) - 1) @ self.weights, self.low, self.high)


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
    return Regression(base, weights, float(rewards.min()), float(rewards.max()), penalty)


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
