"""Estimators of a policy's value from rows that another policy logged, with intervals over clients.

The estimand is the mean reward of an interaction. Each estimator is a ratio of two sums over rows. The formulas are the
same as in the Open Bandit Pipeline (Saito, Aihara, Matsutani and Narita, "Open Bandit Dataset and Pipeline", 2021): IPS
from Strehl et al. 2010, SNIPS from Swaminathan and Joachims 2015, DM and DR from Dudik, Langford and Li 2011, SWITCH-DR
from Wang, Agarwal and Dudik 2017, and DRos from Su, Dimakopoulou, Krishnamurthy and Dudik 2020.

Clients are the sampling units of all intervals. If client c has totals A_c and B_c, its influence on the ratio A / B is
(A_c - (A / B) B_c) / B. The delta method gives the variance of the ratio from the squared influences (Cochran, Sampling
Techniques, 1977, chapter 6), and the rows of a client may depend on each other in any way. Influences are already
differences, so no precision is lost if rewards are large compared with their spread.

The bootstrap gives each client a Poisson(1) weight instead of sampling clients with replacement (Chamandy,
Muralidharan, Najmi and Naidu, "Estimating uncertainty for massive data streams", 2012). Models are not refitted.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from data import interaction_log, keys
from optimization.study import intervals

# If all clients agree, rounding errors cause standard errors and differences of about this fraction of the values.
_ROUNDING = 1e-13
# Distribution function of Poisson(1); for larger values it is 1 in double precision.
_POISSON = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(20)])


class Terms(NamedTuple):
    """The numbers in each row of a log that determine the value of the target policy.

    Attributes:
      clients: int32 [rows], ascending: the client of each row.
      weights: float64 [rows], target probability of the logged action divided by the propensity.
      rewards: float64 [rows], the logged reward.
      direct: float64 [rows], the target's value under the model, sum_a target(a | x) q(x, a); zeros without a model.
      predicted: float64 [rows], the model's prediction for the logged action, q(x, a); zeros without a model.
    """

    clients: np.ndarray
    weights: np.ndarray
    rewards: np.ndarray
    direct: np.ndarray
    predicted: np.ndarray


class _Kind(NamedTuple):
    """Properties of all estimators with the same name.

    Attributes:
      label: Printed name.
      parameter: Flag that sets the estimator's parameter; empty if it has none.
      needs_model: Whether the estimator uses predictions of a reward model.
    """

    label: str
    parameter: str = ""
    needs_model: bool = False


KINDS: Mapping[str, _Kind] = {
    "logged": _Kind("mean reward in the log"),
    "ips": _Kind("IPS"),  # Unbiased wherever the log supports the policy.
    "snips": _Kind("SNIPS"),  # Has little bias, and stays within the range of the rewards.
    "clipped_ips": _Kind("clipped IPS", "clip"),  # Too low if weights are clipped and rewards are at least 0.
    "dm": _Kind("direct method", needs_model=True),  # As biased as the model.
    "dr": _Kind("doubly robust", needs_model=True),  # Unbiased if the propensities or the model are right.
    "switch_dr": _Kind("SWITCH-DR", "tau", needs_model=True),
    "dros": _Kind("DRos", "shrinkage", needs_model=True),
}


@dataclasses.dataclass(frozen=True)
class Estimator:
    """A ratio of two sums over rows.

    Attributes:
      name: One of `KINDS`.
      parameter: A positive number, or infinity for estimators without a parameter. It is the weight at which clipped
        IPS clips, the largest weight with which SWITCH-DR corrects the model, or lambda for DRos.
    """

    name: str
    parameter: float = math.inf

    def is_biased(self, largest_weight: float) -> bool:
        """Whether an unknown bias remains with correct propensities, so that no interval is valid.

        Args:
          largest_weight: Largest weight of the log's rows.
        """
        return self.name in ("dm", "dros") or largest_weight > self.parameter

    def parts(self, terms: Terms) -> tuple[np.ndarray, np.ndarray]:
        """Each row's terms in the numerator and in the denominator, float64 [rows] each."""
        weights = terms.weights
        if self.name == "clipped_ips":
            weights = np.minimum(weights, self.parameter)
        elif self.name == "switch_dr":
            weights = np.where(weights <= self.parameter, weights, 0.0)
        elif self.name == "dros":  # lambda w / (w^2 + lambda)
            weights = weights / (1 + weights**2 / self.parameter)
        if self.name in ("logged", "dm"):
            numerator = terms.rewards if self.name == "logged" else terms.direct
        elif KINDS[self.name].needs_model:
            numerator = terms.direct + weights * (terms.rewards - terms.predicted)
        else:
            numerator = weights * terms.rewards
        return numerator, terms.weights if self.name == "snips" else np.ones(len(terms.rewards))

    def totals(self, terms: Terms) -> np.ndarray:
        """Each client's sums of the two parts, float64 [clients with rows, 2]."""
        return client_totals(terms.clients, self.parts(terms))


LOGGED = Estimator("logged")


def terms_of_log(
    log: interaction_log.InteractionLog, target: np.ndarray, predictions: np.ndarray | None = None
) -> Terms:
    """Terms of a log's rows.

    Args:
      log: The log.
      target: float [rows, actions], the target policy's action probabilities. Without a model, the probabilities of the
        logged actions are sufficient, float [rows].
      predictions: float [rows, actions], q(x, a) from a model that was not trained on the row's client; None without a
        model.

    Raises:
      ValueError: If there is a model, but `target` does not have the probabilities of all actions.
    """
    each = np.arange(len(log.rewards))
    logged = np.asarray(target if np.ndim(target) == 1 else target[each, log.actions], np.float64)
    direct = predicted = np.zeros(len(each))
    if predictions is not None:
        if np.ndim(target) != 2:
            raise ValueError("A model-based value needs the probability of every action, not only the logged one.")
        direct = np.einsum("ij,ij->i", target, predictions, dtype=np.float64)
        predicted = np.asarray(predictions[each, log.actions], np.float64)
    return Terms(log.clients, logged / log.propensities, np.asarray(log.rewards, np.float64), direct, predicted)


def client_totals(clients: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Each client's totals, float64 [clients, k], in ascending order of the clients with rows.

    Args:
      clients: int [rows], ascending.
      columns: k columns, float64 [rows] each.
    """
    starts = np.flatnonzero(np.diff(clients, prepend=-1))
    return np.add.reduceat(np.stack(columns, axis=1), starts, dtype=np.float64)


def ratio(totals: np.ndarray) -> np.ndarray:
    """Ratio of the first total to the second, for float64 [..., 2]; NaN where the second is 0."""
    denominator = totals[..., 1]
    return np.divide(totals[..., 0], denominator, out=np.full(denominator.shape, np.nan), where=denominator != 0)


def influences(totals: np.ndarray) -> np.ndarray:
    """Each client's influence on the ratio of the two totals, float64 [clients]; see the module. The sum is 0."""
    together = totals.sum(axis=0)
    return (totals[:, 0] - ratio(together) * totals[:, 1]) / (together[1] or np.nan)


def interval(
    totals: np.ndarray, minus: np.ndarray | None = None, confidence: float = intervals.CONFIDENCE
) -> intervals.Interval:
    """A value, or the difference of two, with an interval over clients.

    The interval uses the delta method and Student's t distribution with clients - 1 degrees of freedom. There is no
    interval for fewer than two clients, for a value on which all clients agree, or for a difference that is 0 for all
    of them. If the value would be 0 without any spread, there is no value either: no row earned anything, or the policy
    chooses none of the logged actions, so nothing can be estimated.

    Args:
      totals: float64 [clients, 2], numerator and denominator; see `Estimator.totals`.
      minus: float64 [clients, 2], the same clients' totals for a value to subtract; None to subtract nothing.
      confidence: Confidence level.
    """
    both, size = [totals] if minus is None else [totals, minus], len(totals)
    first, second = (*(float(ratio(each.sum(axis=0))) for each in both), 0.0)[:2]
    mean = first - second
    if size < 2 or not math.isfinite(mean):
        return intervals.Interval(mean, math.nan, math.nan, size)
    own = influences(totals) - (0 if minus is None else influences(minus))
    error = math.sqrt((own @ own) * size / (size - 1))
    rounding = _ROUNDING * (abs(first) + abs(second))
    if error <= rounding and minus is None:
        return intervals.Interval(mean or math.nan, math.nan, math.nan, size)
    if error <= rounding and abs(mean) <= rounding:
        return intervals.Interval(0.0, math.nan, math.nan, size)
    deviation = error * math.sqrt(size)  # Standard deviation of one client's part in a mean over clients.
    half = float(intervals.half_width(deviation, size, confidence))
    return intervals.Interval(mean, mean - half, mean + half, size)


def client_weights(name: str, seed: int, draws: int) -> np.ndarray:
    """A client's Poisson(1) weight in each resample, uint8 [draws]; it depends on the name, the seed and the draw."""
    generator = keys.generator(seed, keys.Purpose.BOOTSTRAP, keys.number_of(name))
    return np.searchsorted(_POISSON, generator.random(draws), side="right").astype(np.uint8)


def resampled(totals: np.ndarray, names: Sequence[str], seed: int, draws: int) -> np.ndarray:
    """Totals for each resample of the clients, float64 [draws, ...].

    Args:
      totals: float64 [clients, ...].
      names: Names of the clients, in the order of `totals`.
      seed: Random seed.
      draws: Number of resamples.
    """
    drawn = np.zeros((draws, *totals.shape[1:]))
    for name, own in zip(names, totals, strict=True):
        drawn += np.multiply.outer(client_weights(name, seed, draws), own)
    return drawn


def percentiles(values: np.ndarray, confidence: float = intervals.CONFIDENCE) -> tuple[float, float]:
    """Percentile interval of the bootstrap; NaN if no resample has a finite value.

    Args:
      values: float64 [draws], the value of each resample.
      confidence: Confidence level.
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return math.nan, math.nan
    low, high = np.percentile(finite, [50 * (1 - confidence), 50 * (1 + confidence)])
    return float(low), float(high)
