"""Estimators of a policy's value from rows that another policy logged, each a ratio of two sums over rows.

Their target is the mean reward of an interaction. Formulas as the Open Bandit Pipeline has them (Saito, Aihara,
Matsutani and Narita, "Open Bandit Dataset and Pipeline", 2021): IPS of Strehl et al. 2010, SNIPS of Swaminathan and
Joachims 2015, DM and DR of Dudik, Langford and Li 2011, SWITCH-DR of Wang, Agarwal and Dudik 2017, DRos of Su,
Dimakopoulou, Krishnamurthy and Dudik 2020.
"""

import abc
import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from bandits.evaluation.terms import Terms


@dataclasses.dataclass(frozen=True)
class Estimator(abc.ABC):
    """A ratio of two sums over rows; equal ones have equal columns.

    Attributes:
      name: What it is called.
      needs_model: Whether it reads a model's predictions.
      denominator: Whether it divides by the number of rows or by the sum of weights: `rows` or `weights`.
    """

    name: ClassVar[str]
    needs_model: ClassVar[bool] = False
    denominator: ClassVar[str] = "rows"

    @abc.abstractmethod
    def numerator(self, terms: Terms, backend: Any = np) -> Any:
        """Each row's term of the numerator, float64 [rows].

        Args:
          terms: Of NumPy arrays, or of tensors.
          backend: `numpy`, or `tensorflow` for tensors.
        """

    def is_biased(self, largest_weight: float) -> bool:
        """Whether an unknown bias remains with correct propensities, so that no interval is valid.

        Args:
          largest_weight: Of the log's rows.
        """
        del largest_weight
        return False

    def parts(self, terms: Terms) -> tuple[np.ndarray, np.ndarray]:
        """Each row's terms of the numerator and the denominator, float64 [rows] each."""
        denominator = np.ones(len(terms.rewards)) if self.denominator == "rows" else terms.weights
        return self.numerator(terms), denominator


def _not_negative(name: str, value: float) -> None:
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0, got {value}")


@dataclasses.dataclass(frozen=True)
class Logged(Estimator):
    """The mean reward of the rows: the logging policy's own value."""

    name = "logged"

    def numerator(self, terms, backend=np):
        return terms.rewards


@dataclasses.dataclass(frozen=True)
class Ips(Estimator):
    """Inverse propensity scoring: mean of w r. Unbiased wherever the log supports the policy."""

    name = "ips"

    def numerator(self, terms, backend=np):
        return terms.weights * terms.rewards


@dataclasses.dataclass(frozen=True)
class Snips(Ips):
    """Self-normalized IPS: sum of w r over sum of w. Of little bias, and of rewards' own range."""

    name = "snips"
    denominator = "weights"


@dataclasses.dataclass(frozen=True)
class ClippedIps(Estimator):
    """Mean of min(w, clip) r. Its bias is downwards where rewards are at least 0.

    Attributes:
      clip: Largest weight, at least 0; infinite for IPS.
    """

    name = "clipped_ips"
    clip: float

    def __post_init__(self):
        _not_negative("clip", self.clip)

    def numerator(self, terms, backend=np):
        return backend.minimum(terms.weights, self.clip) * terms.rewards

    def is_biased(self, largest_weight):
        return largest_weight > self.clip


@dataclasses.dataclass(frozen=True)
class DirectMethod(Estimator):
    """The mean of what a model predicts of the policy's actions; as biased as the model."""

    name = "dm"
    needs_model = True

    def numerator(self, terms, backend=np):
        return terms.direct

    def is_biased(self, largest_weight):
        return True


class _Corrected(Estimator):
    """Mean of the direct method's value and of a weight times the model's error at the logged action."""

    needs_model = True

    @abc.abstractmethod
    def correction(self, weights: Any, backend: Any) -> Any:
        """Weight of the model's error, from the row's importance weight, float64 [rows] both."""

    def numerator(self, terms, backend=np):
        return terms.direct + self.correction(terms.weights, backend) * (terms.rewards - terms.predicted)


@dataclasses.dataclass(frozen=True)
class DoublyRobust(_Corrected):
    """Corrects by w. Unbiased if the propensities are right or the model is."""

    name = "dr"

    def correction(self, weights, backend):
        return weights


@dataclasses.dataclass(frozen=True)
class SwitchDr(_Corrected):
    """Corrects by w where w is at most tau, and not elsewhere.

    Attributes:
      tau: Largest weight that corrects, at least 0; infinite for DR.
    """

    name = "switch_dr"
    tau: float

    def __post_init__(self):
        _not_negative("tau", self.tau)

    def correction(self, weights, backend):
        return backend.where(weights <= self.tau, weights, backend.zeros_like(weights))

    def is_biased(self, largest_weight):
        return largest_weight > self.tau


@dataclasses.dataclass(frozen=True)
class ShrunkDr(_Corrected):
    """DRos, optimistic shrinkage: corrects by shrinkage w / (w^2 + shrinkage).

    Attributes:
      shrinkage: Lambda of the paper, at least 0: 0 for DM, infinite for DR.
    """

    name = "dros"
    shrinkage: float

    def __post_init__(self):
        _not_negative("shrinkage", self.shrinkage)

    def correction(self, weights, backend):
        if math.isinf(self.shrinkage):
            return weights
        if self.shrinkage == 0:  # 0 / 0 at a weight of 0.
            return backend.zeros_like(weights)
        return self.shrinkage * weights / (weights * weights + self.shrinkage)

    def is_biased(self, largest_weight):
        return not math.isinf(self.shrinkage)
