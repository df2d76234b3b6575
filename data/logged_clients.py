"""Turns a bandit log into simulated clients, with a reward for each action.

A log has only the reward of the logged action. A cross-fitted regression on the log (`Regression`) supplies the others,
either as rewards to sample or as doubly robust targets (Dudik, Langford and Li, "Doubly Robust Policy Evaluation
and Learning", 2011, eq. 1). There is one ridge regression for each action, shrunk towards a regression on all actions.
If actions have features, there is instead one regression on the features of context and action, and on their products.
They are least-squares problems, which need no learning rates. This module does not import TensorFlow.

A linear model of rare clicks predicts some negative rewards, and clipping them would raise the mean. If rewards have
two values, predictions are therefore mapped to log-odds and calibrated on the fitted rows by a logistic regression with
one feature (Platt, "Probabilistic outputs for support vector machines", 1999). On these rows, the mean prediction then
equals the mean reward.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from data import clients, interaction_log, keys, text
from data.errors import UsageError

SIMULATOR, DOUBLY_ROBUST = "simulator", "doubly_robust"
LOG_COLUMNS = 3  # Action, reward and propensity.
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
_TOLERANCE = 1e-8  # Tolerance of LSQR; the default leaves visible errors.
# Products of context and action features are left out if there are more than this per row, or in all rows together.
_MOST_PRODUCTS, _MOST_NUMBERS = 2000, 200_000_000
_UNIFORM_TOLERANCE = 0.01  # Relative tolerance, because propensities may be written with few digits.


@dataclasses.dataclass(frozen=True)
class Regression:
    """Predicts the reward of each action.

    Attributes:
      base: Mean reward of the rows on which the regression was fitted.
      weights: float64 [features + 1, actions]. The linear prediction is added to `base`; the last row is the intercept.
      low: Smallest reward of those rows.
      high: Largest reward of those rows.
      penalty: Ridge penalty on the weights.
      log_odds: If rewards have two values, the intercept and slope that map the linear prediction without `base` to the
        log-odds of the larger reward; None for other rewards.
    """

    base: float
    weights: np.ndarray
    low: float
    high: float
    penalty: float
    log_odds: tuple[float, float] | None = None

    def predict(self, contexts: np.ndarray | text.Bags) -> np.ndarray:
        """Predicts rewards, float64 [rows, actions], within the range of the rewards in the fit."""
        return self.rewards(text.design(contexts, len(self.weights) - 1) @ self.weights)

    def rewards(self, added: np.ndarray) -> np.ndarray:
        """Maps linear predictions to rewards, float64 of the same shape."""
        if self.log_odds is None:
            return np.clip(self.base + added, self.low, self.high)
        intercept, slope = self.log_odds
        return self.low + (self.high - self.low) / (1 + np.exp(-intercept - slope * added))


def fit(
    contexts: np.ndarray | text.Bags,
    num_features: int,
    actions: np.ndarray,
    rewards: np.ndarray,
    num_actions: int,
    is_tuned: np.ndarray | None = None,
) -> Regression:
    """Fits the regression on some rows.

    There are two steps with the same penalty: a ridge regression on the rewards of all rows, and, for each action, a
    ridge regression on the residuals of its rows. For an action without rows, only the first one predicts the reward.

    Args:
      contexts: Contexts, [rows, ...] or bags of words.
      num_features: Number of values in a context, or of words in the vocabulary.
      actions: int [rows].
      rewards: float [rows].
      num_actions: Number of actions.
      is_tuned: bool [rows], the validation rows. The penalty with the smallest squared error on them is chosen, and the
        regression is then fitted on all rows. If it is None, or all rows are in one part, the middle penalty is used.
    """
    matrix = text.design(contexts, num_features)
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
    """Intercept and slope of the log-odds of `is_high`, bool [rows], as a function of `added`, float64 [rows]."""
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
        if len(rows) and num_actions > 1:
            weights[:, :, action] += _ridge(matrix[rows], left[:, rows], penalties)
    return [(base, each) for each in weights]


def _ridge(matrix: Any, targets: np.ndarray, penalties: Sequence[float]) -> np.ndarray:
    """Ridge weights, float64 [penalties, columns], for targets of shape [penalties, rows]."""
    from sklearn import linear_model

    solver = "cholesky" if isinstance(matrix, np.ndarray) else "lsqr"
    model = linear_model.Ridge(np.array(penalties), fit_intercept=False, solver=solver, tol=_TOLERANCE)
    return np.atleast_2d(model.fit(matrix, targets.T).coef_)


@dataclasses.dataclass(frozen=True)
class Rewards:
    """Reward models of a log.

    Attributes:
      regressions: Regressions on the first half, on the second half, and on all of the training clients.
      residuals: float64 [training rows], centred errors of the regression that was fitted on the other half of the
        clients. Empty if rewards have at most two values, because sampled rewards then have these values, too.
      low: Smallest logged reward of training clients.
      high: Largest logged reward of training clients.
    """

    regressions: tuple[Regression, ...]
    residuals: np.ndarray
    low: float
    high: float

    def draw(self, predicted: np.ndarray, seed: int, client: int) -> np.ndarray:
        """Samples the rewards of a client's rows, float64 [rows, actions]; every call returns the same rewards.

        Args:
          predicted: float64 [rows, actions], the predicted rewards of the client's rows, in order.
          seed: Random seed.
          client: Number of the client, as in `LoggedClients.numbers`.
        """
        generator = keys.generator(seed, keys.Purpose.LOGGED_REWARDS, client)
        if not len(self.residuals):
            threshold = self.low + (self.high - self.low) * generator.random(predicted.shape)
            return np.where(threshold < predicted, self.high, self.low)
        missed = self.residuals[generator.integers(len(self.residuals), size=predicted.shape)]
        return np.clip(predicted + missed, self.low, self.high)


def halves(num_clients: int) -> np.ndarray:
    """Cross-fitting fold of each training client, 0 or 1, int64 [clients]; with 2 or more clients, neither is empty."""
    order = keys.generator(0, keys.Purpose.LOG_FOLDS).permutation(num_clients)
    fold = np.zeros(num_clients, np.int64)
    fold[order[num_clients // 2 :]] = 1
    return fold


def learn(log: interaction_log.InteractionLog, num_features: int) -> Rewards:
    """Fits the reward models on the rows of at least two training clients.

    The penalty of each regression is tuned on one in four of its clients. If actions have features, each regression
    takes (context, action) pairs as contexts, and has a single action.
    """
    fold_of_row = halves(len(log.client_ids))[log.clients]
    most_products = min(_MOST_PRODUCTS, _MOST_NUMBERS // len(log))

    def fitted(rows: np.ndarray) -> Regression:
        part = log.take(rows)
        contexts, actions, num_actions = _logged(part, most_products)
        width = num_features if log.catalogue is None else contexts.shape[1]
        return fit(contexts, width, actions, part.rewards, num_actions, part.clients % 4 == 3)

    everyone = np.arange(len(log))
    regressions = (*(fitted(np.flatnonzero(fold_of_row == fold)) for fold in range(2)), fitted(everyone))
    residuals = np.zeros(0)
    if len(np.unique(log.rewards)) > 2:
        residuals = np.empty(len(log))
        for fold in range(2):
            rows = np.flatnonzero(fold_of_row == fold)
            part = log.take(rows)
            contexts, actions, _ = _logged(part, most_products)
            predicted = regressions[1 - fold].predict(contexts)
            residuals[rows] = part.rewards - predicted[np.arange(len(rows)), actions]
        residuals -= residuals.mean()
    return Rewards(regressions, residuals, float(log.rewards.min()), float(log.rewards.max()))


def predictions(regression: Regression, log: interaction_log.InteractionLog) -> np.ndarray:
    """Predicts the rewards of actions or slots, float64 [rows, actions]; 0 for actions that are not offered."""
    if log.catalogue is None:
        return np.where(log.offered, regression.predict(log.plain_contexts), 0)
    contexts = _vectors(log.plain_contexts, len(log))
    shape, (*weights, intercept) = (contexts.shape[1], log.catalogue.shape[1]), regression.weights[:, 0]
    of_context, of_action, of_products = np.split(weights, np.cumsum(shape))
    products = of_products.reshape(shape) if len(of_products) else np.zeros(shape)
    added = np.einsum("rsa,ra->rs", log.catalogue[log.contexts.entries], contexts @ products + of_action)
    return np.where(log.offered, regression.rewards(added + (contexts @ of_context + intercept)[:, np.newaxis]), 0)


def _logged(log: interaction_log.InteractionLog, most_products: int) -> tuple[Any, np.ndarray, int]:
    """Contexts, logged actions and number of actions for a regression; with features of actions, 0 is the only one."""
    if log.catalogue is None:
        return log.plain_contexts, log.actions, len(log.action_names)
    actions = log.catalogue[log.contexts.entries[np.arange(len(log)), log.actions]]
    return pairs(log.plain_contexts, actions, most_products), np.zeros(len(log), np.int32), 1


def pairs(contexts: np.ndarray | text.Bags, actions: np.ndarray, most_products: int = _MOST_PRODUCTS) -> np.ndarray:
    """Features of contexts and actions, and their products unless there are too many, float32 [pairs, features].

    Args:
      contexts: One context for each pair. Bags of words are left out, because there are too many words.
      actions: float32 [pairs, features of an action].
      most_products: Maximum number of products.
    """
    parts = [_vectors(contexts, len(actions)), actions]
    if parts[0].shape[1] * actions.shape[1] <= most_products:
        parts.append(np.einsum("pc,pa->pca", *parts).reshape(len(actions), -1))
    return np.concatenate(parts, axis=1, dtype=np.float32)


def _vectors(contexts: np.ndarray | text.Bags, rows: int) -> np.ndarray:
    return np.zeros((rows, 0)) if isinstance(contexts, text.Bags) else contexts.reshape(rows, -1)


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedClients(clients.ClientData):
    """Clients of a log, with contexts as features and a reward for each action as labels.

    Attributes:
      log: The rows of these clients only.
      rewards: The reward models.
      regression_of: For each client, the index in `Rewards.regressions` of the regression that predicts the client's
        rewards, which was fitted without the client.
      feedback: Type of the labels: `simulator` for sampled rewards, `doubly_robust` for doubly robust targets.
      keeps_log: Whether the logged action, reward and propensity are appended to the labels of each row.
      seed: Random seed.
      numbers: For each client, the number in its random keys, such as its position in the whole log.
      checksum: Digest of the source.
    """

    log: interaction_log.InteractionLog
    rewards: Rewards
    regression_of: Sequence[int] | np.ndarray
    feedback: str
    keeps_log: bool
    seed: int
    numbers: Sequence[int]
    checksum: str

    @property
    def client_ids(self) -> Sequence[str]:  # type: ignore[override]
        return self.log.client_ids

    def load(self, index: int) -> clients.Examples:
        part = self.rows(index)
        if self.feedback == SIMULATOR:
            labels = self.sampled_rewards(index)
        else:
            labels = doubly_robust(self.predicted(index), part.actions, part.rewards, part.propensities)
        if self.keeps_log:
            labels = np.column_stack([labels, part.actions, part.rewards, part.propensities])
        return clients.Examples(part.contexts, labels.astype(np.float32))

    def rows(self, index: int) -> interaction_log.InteractionLog:
        """Log of the client at this index."""
        return self.log.take(np.arange(*np.searchsorted(self.log.clients, [index, index + 1])))

    def predicted(self, index: int) -> np.ndarray:
        """Predictions for a client's rows, float64 [rows, actions], from a regression fitted without the client."""
        return predictions(self.rewards.regressions[self.regression_of[index]], self.rows(index))

    def sampled_rewards(self, index: int) -> np.ndarray:
        """Sampled rewards of a client, float64 [rows, actions]; 0 for actions that are not offered."""
        drawn = self.rewards.draw(self.predicted(index), self.seed, self.numbers[index])
        return np.where(self.rows(index).offered, drawn, 0)


def doubly_robust(
    predicted: np.ndarray, actions: np.ndarray, rewards: np.ndarray, propensities: np.ndarray
) -> np.ndarray:
    """Doubly robust scores, float64 [rows, actions]: q(x, a) + 1[a = logged] (r - q(x, a)) / propensity.

    For each action, their expectation is the expected reward if either the predictions or the propensities are correct.

    Args:
      predicted: float64 [rows, actions], the predictions q.
      actions: int [rows], the logged actions.
      rewards: float64 [rows].
      propensities: float64 [rows].
    """
    targets, rows = predicted.copy(), np.arange(len(actions))
    targets[rows, actions] += (rewards - predicted[rows, actions]) / propensities
    return targets


def check_uniform(log: interaction_log.InteractionLog) -> None:
    """Checks that the logging policy was uniform, which replay requires.

    Raises:
      UsageError: If the actions were logged with different probabilities.
    """
    sizes, (least, most) = log.offered.sum(axis=1), (log.propensities.min(), log.propensities.max())
    if np.abs(log.propensities * sizes - 1).max() > _UNIFORM_TOLERANCE:
        raise UsageError(
            f"--learn_from=replay needs a log of uniformly random actions, with propensity 1/{sizes.max()}, "
            f"but propensities range from {least:.4g} to {most:.4g}, so the rows where actions agree would not be "
            "representative of the policy: use --learn_from=simulator, or scripts.evaluate_policy."
        )
