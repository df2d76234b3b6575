"""Environments with known true rewards f* in the fitted class F (Agarwal et al. 2023, Assumption 1)."""

import dataclasses

import numpy as np

MIDDLE = 0.5  # An average action's reward.


@dataclasses.dataclass(frozen=True, eq=False)
class FiniteEnvironment:
    """Finitely many contexts, actions and functions; rewards are 0 or 1, with mean f*(context, action).

    F is a product: a function takes one of a context's candidate rows at each context. So the best fit is found
    context by context.

    Attributes:
      rewards: float64 [contexts, actions] in [0, 1], f*.
      candidates: float64 [contexts, candidates, actions] in [0, 1], each context's rows, f*'s among them; rows
        may be repeated.
      contexts: float64 [contexts], the frequency of each context.

    Raises:
      ValueError: If `contexts` is not a distribution, a reward lies outside [0, 1], or f* is not in F.
    """

    rewards: np.ndarray
    candidates: np.ndarray
    contexts: np.ndarray

    def __post_init__(self):
        for name in ("rewards", "candidates"):
            values = getattr(self, name)
            if not ((values >= 0) & (values <= 1)).all():
                raise ValueError(f"{name} must lie in [0, 1], got {values.min():g} to {values.max():g}")
        if (self.contexts < 0).any() or not np.isclose(self.contexts.sum(), 1):
            raise ValueError(f"contexts must be a distribution: its sum is {self.contexts.sum()}")
        if not (self.candidates == self.rewards[:, None]).all(axis=2).any(axis=1).all():
            raise ValueError("candidates must hold the row of rewards at each context")

    @property
    def num_actions(self) -> int:
        """K."""
        return self.rewards.shape[1]

    @property
    def log_class_size(self) -> float:
        """The logarithm of the number of functions, ln |F|."""
        return float(sum(np.log(len(np.unique(rows, axis=0))) for rows in self.candidates))

    @property
    def exploration_cost(self) -> float:
        """E[max f* - mean f*], the regret of a uniformly random action."""
        return float(self.contexts @ (self.rewards.max(axis=1) - self.rewards.mean(axis=1)))


def hidden_best(num_actions: int, gap: float) -> FiniteEnvironment:
    """One context whose last action earns `gap` more than the others; F contains every such action.

    Raises:
      ValueError: If rewards would leave [0, 1].
    """
    rows = MIDDLE + gap * np.eye(num_actions)
    return FiniteEnvironment(rows[-1:], rows[None], np.ones(1))
