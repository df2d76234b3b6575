"""Finite-sample intervals by betting, where few clients have a reward other than the most frequent one.

Without a single success a large-sample interval has no width at all. The intervals here need rewards in [0, 1]
(Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024; `anytime` has the
version that holds at every look).

Let v be a policy's value. A client has weights w that sum to k, and payoffs w r that sum to P, from 0 to k. Over
clients, E[P - v k] = 0. For a fixed stake f in [0, 1], the capital, the product over clients of
1 + f (P / v - k) / max k, is at least 0. Its expectation is at most 1: clients are independent, and a product of
factors whose mean is 1 is at most 1. The same is true of a weighted mean over stakes. By Markov's inequality the
capital reaches 2 / alpha with probability at most alpha / 2. It falls as v grows, and so excludes all values below a
limit. The upper limit is 1 minus the lower one of k - P. Neither depends on the unit of the rewards, nor on their
direction. The largest k of the log is taken for the largest possible one.

The limits of a difference follow from those of both values, which then hold jointly.
"""

from typing import NamedTuple

import numpy as np

from bandits.evaluation.estimators import Terms
from data import log_checks
from data.reward_bounds import UNIT, RewardBounds

# With fewer effective clients that have another reward, large-sample intervals hold the value in as few as 63% of logs,
# from there on in 93% or more. They stay if these are many of all effective clients (docs/logs.md).
FEW, FEW_OF_CLIENTS = 10, 0.25
# Large stakes for the limit on the side of the rare rewards, small ones for the other.
_STAKES = np.array([1, 0.75, 0.5, 0.25, *4.0 ** -np.arange(2, 9)])
_LOG_SHARES = np.log(np.repeat([1 / 8, 1 / 14], [4, 7]))  # Logarithms of the shares of the capital.
NAME = "few distinct outcomes"  # Name of the finding.
_STEPS = 40  # Halvings of [0, 1].


class Outcomes(NamedTuple):
    """Sums of clients' rows that bound the value of a policy or of the log.

    Attributes:
      mode: The most frequent reward, by weight.
      payoffs: float64 [clients], sums of w r; NaN without bounds of the rewards.
      weights: float64 [clients], sums of w.
      others: Effective number of clients with another reward.
      are_few: Whether there are too few of them for large-sample intervals.
    """

    mode: float
    payoffs: np.ndarray
    weights: np.ndarray
    others: float
    are_few: bool

    def limits(self, confidence: float) -> tuple[float, float]:
        """Limits of the value; NaN without bounds of the rewards."""
        if np.isnan(self.payoffs).any():
            return np.nan, np.nan
        low = _lower_limit(self.payoffs, self.weights, confidence)
        return low, 1 - _lower_limit(self.weights - self.payoffs, self.weights, confidence)


class FewOutcomes(NamedTuple):
    """Outcomes of a log in which, or a policy for which, there are too few for large-sample intervals.

    Attributes:
      log: Outcomes of the log.
      policy: Outcomes of the policy.
      is_same: Whether the policy is the log's, so that they do not differ.
    """

    log: Outcomes
    policy: Outcomes
    is_same: bool


def find(terms: Terms, bounds: RewardBounds | None) -> FewOutcomes | None:
    """Outcomes if there are few; None if large-sample intervals hold.

    Args:
      terms: Terms of the log's rows, with rewards in [0, 1] if there are bounds.
      bounds: Bounds in the user's unit; None if unknown.
    """
    clients = np.unique(terms.clients, return_inverse=True)[1]
    values, which = np.unique(terms.rewards, return_inverse=True)

    def of(weights: np.ndarray) -> Outcomes:
        mode = int(np.bincount(which, weights).argmax())
        others = log_checks.effective_sample_size(np.bincount(clients, weights * (which != mode)))
        of_clients = np.bincount(clients, weights)
        few = min(FEW, FEW_OF_CLIENTS * log_checks.effective_sample_size(of_clients))
        payoffs = np.bincount(clients, weights * (terms.rewards if bounds else np.nan))
        return Outcomes(float(values[mode]), payoffs, of_clients, others, others < few)

    found = FewOutcomes(of(np.ones(len(clients))), of(terms.weights), bool((terms.weights == 1).all()))
    return found if found.log.are_few or found.policy.are_few else None


def _lower_limit(payoffs: np.ndarray, sizes: np.ndarray, confidence: float) -> float:
    """Lower limit of the ratio of expected payoffs, at least 0, to expected sizes, float64 [clients] both."""
    pairs = np.stack([payoffs, sizes], axis=1) / sizes.max()
    (payoffs, sizes), counts = (each.T for each in np.unique(np.maximum(pairs, 0), axis=0, return_counts=True))
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):  # A stake of 1 can lose all.
            capitals = np.log1p(np.multiply.outer(_STAKES, payoffs / middle - sizes)) @ counts
        is_excluded = np.logaddexp.reduce(_LOG_SHARES + capitals) >= np.log(2 / (1 - confidence))
        low, high = (middle, high) if is_excluded else (low, middle)
    return low


def finding(found: FewOutcomes, bounds: RewardBounds | None) -> log_checks.Finding:
    """Which intervals are finite-sample ones, or missing, and why."""
    unit = bounds or UNIT  # Without bounds rewards are in the user's unit already.
    here = " and ".join(
        f"{one.others:.3g} {where} (other than {unit.low + unit.span * one.mode:g})"
        for where, one in (("in the log", found.log), ("for the policy", found.policy))
        if one.are_few
    )
    text = f"Finite-sample intervals (betting, rewards from {unit.low:g} to {unit.high:g})" if bounds else "No interval"
    text += f": large-sample intervals are too narrow if fewer than {FEW} effective clients have a reward other than "
    text += f"the most frequent one, here {here}."
    if not bounds:
        text += (
            " Declare the smallest and largest possible reward, --reward_bounds=LOW,HIGH, for finite-sample intervals."
        )
    return log_checks.Finding(NAME, not bounds, text)
