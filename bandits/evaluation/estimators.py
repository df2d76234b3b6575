"""Estimators of a policy's value from rows that another policy logged, each a ratio of two sums over rows.

Their target is the mean reward of an interaction. Formulas as the Open Bandit Pipeline has them (Saito, Aihara,
Matsutani and Narita, "Open Bandit Dataset and Pipeline", 2021): IPS of Strehl et al. 2010, SNIPS of Swaminathan and
Joachims 2015, DM and DR of Dudik, Langford and Li 2011, SWITCH-DR of Wang, Agarwal and Dudik 2017, DRos of Su,
Dimakopoulou, Krishnamurthy and Dudik 2020.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from data import interaction_log


class Terms(NamedTuple):
    """Numbers of each row of a log that determine the value of the target policy.

    Attributes:
      clients: int32 [rows], ascending: the client of each row.
      weights: float64 [rows], target probability of the logged action divided by the propensity.
      rewards: float64 [rows], the logged reward.
      direct: float64 [rows], the model's value of the target, sum_a target(a | x) q(x, a); zeros without a model.
      predicted: float64 [rows], the model's reward of the logged action, q(x, a); zeros without a model.
    """

    clients: np.ndarray
    weights: np.ndarray
    rewards: np.ndarray
    direct: np.ndarray
    predicted: np.ndarray


class _Kind(NamedTuple):
    """An estimator's properties.

    Attributes:
      label: Printed name.
      parameter: Flag of its parameter; empty without one.
      needs_model: Whether it reads predictions of a reward model.
      denominator: Denominator: the number of `rows`, or the sum of `weights`.
    """

    label: str
    parameter: str = ""
    needs_model: bool = False
    denominator: str = "rows"


KINDS: Mapping[str, _Kind] = {
    "logged": _Kind("mean reward of the log"),
    "ips": _Kind("IPS"),  # Unbiased wherever the log supports the policy.
    "snips": _Kind("SNIPS", denominator="weights"),  # Has little bias, and stays in the range of the rewards.
    "clipped_ips": _Kind("clipped IPS", "clip"),  # Too low where clipping binds, if rewards are at least 0.
    "dm": _Kind("direct method", needs_model=True),  # As biased as the model.
    "dr": _Kind("doubly robust", needs_model=True),  # Unbiased if the propensities or the model are right.
    "switch_dr": _Kind("SWITCH-DR", "tau", needs_model=True),
    "dros": _Kind("DRos", "shrinkage", needs_model=True),
}


@dataclasses.dataclass(frozen=True)
class Estimator:
    """A ratio of two sums over rows; equal ones have equal columns.

    Attributes:
      name: One of `KINDS`.
      parameter: Largest weight that counts (clipped IPS) or corrects (SWITCH-DR), or lambda of DRos, at least 0.
        Infinite for IPS and DR, which have no limit.

    Raises:
      ValueError: If the parameter is negative or no number.
    """

    name: str
    parameter: float = math.inf

    def __post_init__(self):
        if not self.parameter >= 0:
            raise ValueError(f"{self.kind.parameter} must be at least 0, got {self.parameter}")

    @property
    def kind(self) -> _Kind:
        """Properties of all estimators of this name."""
        return KINDS[self.name]

    def numerator(self, terms: Terms, backend: Any = np) -> Any:
        """Each row's term of the numerator, float64 [rows].

        Args:
          terms: Terms in NumPy arrays, or in tensors.
          backend: `numpy`, or `tensorflow` for tensors.
        """
        if self.name == "logged":
            return terms.rewards
        if self.name == "dm":
            return terms.direct
        weights = self._used_weights(terms.weights, backend)
        if self.kind.needs_model:
            return terms.direct + weights * (terms.rewards - terms.predicted)
        return weights * terms.rewards

    def _used_weights(self, weights: Any, backend: Any) -> Any:
        if self.name == "clipped_ips":
            return backend.minimum(weights, self.parameter)
        if self.name == "switch_dr":
            return backend.where(weights <= self.parameter, weights, backend.zeros_like(weights))
        if self.name != "dros" or math.isinf(self.parameter):
            return weights
        if self.parameter == 0:  # 0 / 0 at a weight of 0.
            return backend.zeros_like(weights)
        return self.parameter * weights / (weights * weights + self.parameter)

    def is_biased(self, largest_weight: float) -> bool:
        """Whether an unknown bias remains with correct propensities, so that no interval is valid.

        Args:
          largest_weight: Largest weight of the log's rows.
        """
        if self.name == "dros":
            return not math.isinf(self.parameter)
        return self.name == "dm" or largest_weight > self.parameter

    def parts(self, terms: Terms) -> tuple[np.ndarray, np.ndarray]:
        """Each row's terms of the numerator and the denominator, float64 [rows] each."""
        return self.numerator(terms), np.ones(len(terms.rewards)) if self.kind.denominator == "rows" else terms.weights


LOGGED = Estimator("logged")


def terms_of_log(
    log: interaction_log.InteractionLog, target: np.ndarray, predictions: np.ndarray | None = None
) -> Terms:
    """Terms of a log's rows; see `terms_of_rows`."""
    return terms_of_rows(log.clients, log.actions, log.rewards, log.propensities, target, predictions)


def terms_of_rows(
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
      actions: int [rows], the chosen action.
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
