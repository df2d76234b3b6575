"""Clients of a bandit's log as a simulator, with a reward of each action.

A log has only the logged action's reward. A cross-fitted regression of the log (`log_regression`) supplies the others:
as rewards to sample, or as doubly robust targets (Dudik, Langford and Li, "Doubly Robust Policy Evaluation
and Learning", 2011, eq. 1).
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from data import clients, interaction_log, keys, log_regression, text
from data.errors import UsageError

SIMULATOR, DOUBLY_ROBUST = "simulator", "doubly_robust"
LOG_COLUMNS = 3  # Action, reward and propensity.
_UNIFORM_TOLERANCE = 0.01  # Relative: a propensity may be written with few digits.


@dataclasses.dataclass(frozen=True)
class Rewards:
    """Reward models of a log.

    Attributes:
      regressions: Of the first and of the second half of the training clients, and of all of them.
      residuals: float64 [training rows], centred: errors of the other half's regression; empty for rewards with at most
        two values, which are sampled as such.
      low: Smallest logged reward of training clients.
      high: Largest logged reward of training clients.
    """

    regressions: tuple[log_regression.Regression, ...]
    residuals: np.ndarray
    low: float
    high: float

    def draw(self, predicted: np.ndarray, seed: int, client: int) -> np.ndarray:
        """Rewards of a client's rows, float64 [rows, actions]; the same at each call.

        Args:
          predicted: float64 [rows, actions], of the client's rows in their order.
          seed: Seed of all samples.
          client: The client's position in the log.
        """
        generator = keys.generator(seed, keys.Purpose.LOGGED_REWARDS, client)
        if not len(self.residuals):
            threshold = self.low + (self.high - self.low) * generator.random(predicted.shape)
            return np.where(threshold < predicted, self.high, self.low)
        missed = self.residuals[generator.integers(len(self.residuals), size=predicted.shape)]
        return np.clip(predicted + missed, self.low, self.high)


def halves(num_clients: int) -> np.ndarray:
    """Cross-fitting fold of each training client, int64 [clients], 0 or 1; with two clients, neither fold is empty."""
    order = keys.generator(0, keys.Purpose.LOG_FOLDS).permutation(num_clients)
    fold = np.zeros(num_clients, np.int64)
    fold[order[num_clients // 2 :]] = 1
    return fold


def learn(log: interaction_log.InteractionLog, num_features: int) -> Rewards:
    """Fits the reward models on the rows of at least two training clients.

    The penalty of each regression is chosen among its clients, on every fourth of them.
    """
    fold_of_row = halves(len(log.client_ids))[log.clients]

    def fit(rows: np.ndarray) -> log_regression.Regression:
        part = log.take(rows)
        is_tuned = part.clients % 4 == 3
        return log_regression.fit(
            _contexts(part), num_features, part.actions, part.rewards, len(log.action_names), is_tuned
        )

    everyone = np.arange(len(log))
    regressions = (*(fit(np.flatnonzero(fold_of_row == fold)) for fold in range(2)), fit(everyone))
    residuals = np.zeros(0)
    if len(np.unique(log.rewards)) > 2:
        residuals = np.empty(len(log))
        for fold in range(2):
            rows = np.flatnonzero(fold_of_row == fold)
            part = log.take(rows)
            predicted = regressions[1 - fold].predict(_contexts(part))
            residuals[rows] = part.rewards - predicted[np.arange(len(rows)), part.actions]
        residuals -= residuals.mean()
    return Rewards(regressions, residuals, float(log.rewards.min()), float(log.rewards.max()))


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedClients(clients.ClientData):
    """Clients of a log, with contexts as features, and a reward of each action as labels.

    Attributes:
      log: The rows of these clients alone.
      rewards: The reward models.
      regression_of: For each client, the regression of its rewards, fitted without them.
      feedback: Type of the labels: `simulator` for sampled rewards, `doubly_robust` for doubly robust targets.
      keeps_log: Whether each row's logged action, reward and propensity follow its labels.
      seed: Seed of the samples.
      numbers: For each client, its position in the whole log.
      digest: Digest of the source.
    """

    log: interaction_log.InteractionLog
    rewards: Rewards
    regression_of: Sequence[int] | np.ndarray
    feedback: str
    keeps_log: bool
    seed: int
    numbers: Sequence[int]
    digest: str

    @property
    def client_ids(self) -> Sequence[str]:
        return self.log.client_ids

    @property
    def checksum(self) -> str:
        return self.digest

    def load(self, index: int) -> clients.Examples:
        part, predicted = self.rows(index), self.predicted(index)
        if self.feedback == SIMULATOR:
            labels = self.rewards.draw(predicted, self.seed, self.numbers[index])
        else:
            labels = doubly_robust(predicted, part.actions, part.rewards, part.propensities)
        if self.keeps_log:
            labels = np.column_stack([labels, part.actions, part.rewards, part.propensities])
        return clients.Examples(_contexts(part), labels.astype(np.float32))

    def rows(self, index: int) -> interaction_log.InteractionLog:
        return self.log.take(np.arange(*np.searchsorted(self.log.clients, [index, index + 1])))

    def predicted(self, index: int) -> np.ndarray:
        """Predictions for a client's rows, float64 [rows, actions], of a regression fitted without it."""
        return self.rewards.regressions[self.regression_of[index]].predict(_contexts(self.rows(index)))

    def sampled_rewards(self, index: int) -> np.ndarray:
        """Sampled rewards of a client, float64 [rows, actions]."""
        return self.rewards.draw(self.predicted(index), self.seed, self.numbers[index])


def doubly_robust(
    predicted: np.ndarray, actions: np.ndarray, rewards: np.ndarray, propensities: np.ndarray
) -> np.ndarray:
    """Doubly robust scores, float64 [rows, actions]: q(x, a) + 1[a = logged] (r - q(x, a)) / propensity.

    Their mean is that of each action's reward if the predictions or the propensities are correct.

    Args:
      predicted: float64 [rows, actions], q.
      actions: int [rows], the logged ones.
      rewards: float64 [rows].
      propensities: float64 [rows].
    """
    targets, rows = predicted.copy(), np.arange(len(actions))
    targets[rows, actions] += (rewards - predicted[rows, actions]) / propensities
    return targets


def check_uniform(log: interaction_log.InteractionLog) -> None:
    """Refuses a log for replay, unless each action was logged with the same probability.

    Raises:
      UsageError: If it was not.
    """
    share, least, most = 1 / len(log.action_names), log.propensities.min(), log.propensities.max()
    if max(abs(least - share), abs(most - share)) > _UNIFORM_TOLERANCE * share:
        raise UsageError(
            "--learn_from=replay needs a log of uniformly random actions, of propensity "
            f"1/{len(log.action_names)}, but these range from {least:.4g} to {most:.4g}: rows where actions "
            "agree would not be representative of the policy. Use --learn_from=simulator, or "
            "scripts.evaluate_policy."
        )


def _contexts(log: interaction_log.InteractionLog) -> clients.Features:
    if log.contexts is None:
        raise ValueError("A log without contexts has no clients for a simulation.")
    return log.contexts


def num_features(contexts: np.ndarray | text.Bags, names: Sequence[str]) -> int:
    """Number of values in a context; for bags, the size of the vocabulary."""
    if isinstance(contexts, text.Bags):
        return len(names) or int(contexts.ids.max(initial=0)) + 1
    return int(np.prod(contexts.shape[1:]))
