"""One row's numbers, of which all estimators of a policy's value are made."""

from typing import NamedTuple

import numpy as np

from data import interaction_log


class Terms(NamedTuple):
    """What a logged row says of the target policy; the client's own, like the row.

    Attributes:
      clients: int32 [rows], ascending: whose row it is.
      weights: float64 [rows], target probability of the logged action over the row's own propensity.
      rewards: float64 [rows], the logged reward.
      direct: float64 [rows], the model's value of the target, sum_a target(a | x) q(x, a); zeros without a model.
      predicted: float64 [rows], the model's reward of the logged action, q(x, a); zeros without a model.
    """

    clients: np.ndarray
    weights: np.ndarray
    rewards: np.ndarray
    direct: np.ndarray
    predicted: np.ndarray


def of_log(log: interaction_log.InteractionLog, target: np.ndarray, predictions: np.ndarray | None = None) -> Terms:
    """Terms of a log's rows; see `of_rows`."""
    return of_rows(log.clients, log.actions, log.rewards, log.propensities, target, predictions)


def of_rows(
    clients: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    propensities: np.ndarray,
    target: np.ndarray,
    predictions: np.ndarray | None = None,
) -> Terms:
    """Terms of logged rows.

    Args:
      clients: int [rows], ascending.
      actions: int [rows], the action that was chosen.
      rewards: float [rows].
      propensities: float [rows], in (0, 1].
      target: float [rows, actions], the target policy; or [rows], its probability of the logged action, which is enough
        without a model.
      predictions: float [rows, actions], q(x, a) of a model that was not trained on the row's client; None for none.

    Raises:
      ValueError: If there is a model, but no probability of each action.
    """
    rewards = np.asarray(rewards, np.float64)
    each = np.arange(len(rewards))
    logged = np.asarray(target if np.ndim(target) == 1 else target[each, actions], np.float64)
    direct = predicted = np.zeros(len(rewards))
    if predictions is not None:
        if np.ndim(target) != 2:
            raise ValueError("A model's value of a policy needs its probability of each action, not of the logged one.")
        direct = np.einsum("ij,ij->i", target, predictions, dtype=np.float64)
        predicted = np.asarray(predictions[each, actions], np.float64)
    return Terms(
        np.asarray(clients, np.int32), logged / np.asarray(propensities, np.float64), rewards, direct, predicted
    )
