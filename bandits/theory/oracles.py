"""Federated regression oracles of finite environments (Agarwal et al. 2023, Definition 1), and of linear ones.

An oracle sees sums over samples alone. Sums over clients are sums over all their samples: who holds a sample changes
no bit of what the exact ones return.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from bandits.theory import environments

_HALVINGS = 60  # Of the interval in which an early stop lies.


class Log(NamedTuple):
    """Sums over all samples so far.

    Attributes:
      counts: int64 [runs, contexts, actions], samples.
      successes: int64 of the same shape, those with reward 1.
    """

    counts: np.ndarray
    successes: np.ndarray

    def plus(self, other: "Log") -> "Log":
        """Sum of both logs."""
        return Log(self.counts + other.counts, self.successes + other.successes)


def exact(environment: environments.FiniteEnvironment, log: Log) -> np.ndarray:
    """Function in F with the smallest squared loss, float64 [runs, contexts, actions]; epsilon_fed-opt is 0.

    Of equally good rows it takes the first.
    """
    # sum (f - r)^2 = sum count f^2 - 2 f successes, and what does not depend on f.
    losses = np.einsum("rxa,xma->rxm", log.counts, environment.candidates**2)
    losses -= 2 * np.einsum("rxa,xma->rxm", log.successes, environment.candidates)
    return environment.candidates[np.arange(len(environment.rewards)), losses.argmin(axis=2)]


def means(log: Log, otherwise: np.ndarray) -> np.ndarray:
    """Mean reward of each cell, the best fit of all functions; `otherwise` for cells without samples."""
    return np.where(log.counts > 0, log.successes / np.maximum(log.counts, 1), otherwise)


@dataclasses.dataclass(frozen=True)
class StoppedEarly:
    """Gradient flow on the pooled squared loss over all functions, stopped where it is `fed_opt` above the least.

    It starts at the model so far. Frequent cells are learnt first, as by gradient descent.

    Attributes:
      fed_opt: epsilon_fed-opt, of the mean over samples.
    """

    fed_opt: float

    def __call__(self, log: Log, start: np.ndarray) -> np.ndarray:
        """Predictions where training stops, float64 [runs, contexts, actions]; `start` if that is accurate enough."""
        best = means(log, start)
        shares = log.counts / log.counts.sum(axis=(1, 2), keepdims=True)
        away = start - best

        def excess(times: np.ndarray) -> np.ndarray:
            return (shares * (away * np.exp(-shares * times[:, None, None])) ** 2).sum(axis=(1, 2))

        low, high = np.zeros(len(start)), np.full(len(start), 1e12)
        high[excess(low) <= self.fed_opt] = 0.0
        for _ in range(_HALVINGS):
            # The middle of orders of magnitude, from 1 on.
            middle = np.expm1((np.log1p(low) + np.log1p(high)) / 2)
            above = excess(middle) > self.fed_opt
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return best + away * np.exp(-shares * high[:, None, None])


class Moments(NamedTuple):
    """Sums over samples by action, of linear regressions.

    Attributes:
      squares: float64 [..., actions, 1 + d, 1 + d], sums of features' products.
      products: float64 [..., actions, 1 + d], sums of features times reward.
      samples: float64 [...], samples of all actions.
      rewards: float64 [...], sum of squared rewards.
    """

    squares: np.ndarray
    products: np.ndarray
    samples: np.ndarray
    rewards: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, actions: np.ndarray, rewards: np.ndarray, num_actions: int) -> "Moments":
        """Sums of float64 [..., samples, 1 + d], and int and float64 [..., samples]."""
        chosen = np.eye(num_actions)[actions]
        weighted = chosen[..., None] * features[..., None, :]  # [..., samples, actions, 1 + d]
        squares = np.einsum("...nki,...nj->...kij", weighted, features, optimize=True)
        products = np.einsum("...nki,...n->...ki", weighted, rewards)
        return cls(squares, products, np.full(rewards.shape[:-1], rewards.shape[-1], float), (rewards**2).sum(axis=-1))

    def plus(self, other: "Moments") -> "Moments":
        """Sum of both."""
        return Moments(*(mine + others for mine, others in zip(self, other, strict=True)))

    def pooled(self) -> "Moments":
        """Sums over the clients' axis, the last before the actions."""
        return Moments(
            self.squares.sum(axis=-4), self.products.sum(axis=-3), self.samples.sum(axis=-1), self.rewards.sum(axis=-1)
        )

    def loss(self, coefficients: np.ndarray) -> np.ndarray:
        """Mean squared loss of coefficients, float64 [..., 1 + d, actions], as float64 [...]."""
        fitted = np.einsum("...kij,...ik,...jk->...", self.squares, coefficients, coefficients, optimize=True)
        return (fitted - 2 * np.einsum("...ki,...ik->...", self.products, coefficients) + self.rewards) / self.samples


def least_squares(moments: Moments) -> np.ndarray:
    """Minimum-norm least-squares coefficients, float64 [..., 1 + d, actions]."""
    found = np.einsum("...kij,...kj->...ki", np.linalg.pinv(moments.squares, hermitian=True), moments.products)
    return np.swapaxes(found, -1, -2)
