"""IPS and SNIPS of a policy from one noised sum over clients, with intervals that include the noise.

A client sends one vector. The terms of its rows are bounded first (`bounds.apply`): rewards are in [0, 1], weights in
[0, W], and at most m rows count. Its number of rows is then at most m, and its sums of w and of w r are at most m W; a
product of two sums is bounded by the product of their bounds. Each number is divided by its bound, and the whole vector
is clipped to one L2 norm. A client therefore moves the sum over clients by at most that norm if its rows are left out,
and by twice as much if they are replaced. The sum is released once, with Gaussian noise, and everything here is
computed from it.

The estimates have weights clipped to W. Clients with more than m rows count as if they had m, and clients whose vector
is longer than the norm count less. Intervals are extended by what clipped weights may leave out.

Where rewards are rare, or rewards other than the largest one, large-sample intervals are too narrow. Unless the noised
sums show that they are not rare, limits follow from Hoeffding's inequality in the form of Chernoff, which holds for any
number of clients (Hoeffding, "Probability inequalities for sums of bounded random variables", 1963, Theorem 1). Nothing
here imports TensorFlow.
"""

import dataclasses
import functools
import math
import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from bandits.evaluation import betting
from bandits.evaluation.bounds import Bounds
from bandits.evaluation.estimators import Terms, client_totals
from data.reward_bounds import RewardBounds
from optimization.privacy import mechanisms
from optimization.study import intervals

_ROWS, _WEIGHTS, _UNIFORM, _PAYOFFS = range(4)  # Columns: sums of 1, w, w of the uniform policy, and w r.
RATIOS = {"ips": (_PAYOFFS, _ROWS), "snips": (_PAYOFFS, _WEIGHTS)}
# Columns whose products the variances need.
_PAIRS = (
    (_WEIGHTS, _WEIGHTS), (_ROWS, _WEIGHTS), (_ROWS, _ROWS), (_UNIFORM, _UNIFORM), (_ROWS, _UNIFORM),
    (_PAYOFFS, _PAYOFFS), (_WEIGHTS, _PAYOFFS), (_ROWS, _PAYOFFS),
)  # fmt: skip
SIZE = 4 + len(_PAIRS)
# Part of an interval's probability of missing that is left to noised products that make a variance too small.
_VARIANCE_SHARE = 0.2
# Noise of at least so many times what one client can add makes a sum nearly normal, however rare rewards are.
_ENOUGH_NOISE = 1.25


class Value(NamedTuple):
    """A noised estimate.

    Attributes:
      name: `ips` or `snips`.
      interval: The estimate with clipped weights, which may lie outside [0, 1], and a 95% interval within [0, 1] for
        the value without clipping, over clients and noise.
      noise: Standard deviation of the estimate's noise.
      bias: Least and largest amount that clipping may have taken from the estimate, if propensities are exact. Let s be
        the share of the target's probability that clipped weights leave out, 1 minus the mean weight. With rewards in
        [0, 1], IPS is too low by 0 to s, and SNIPS of value v, which is IPS divided by 1 - s, by -s v to s (1 - v).
      is_finite_sample: Whether the interval holds for any number of rewards.
      is_vacuous: Whether the interval covers all possible values.
    """

    name: str
    interval: intervals.Interval
    noise: float
    bias: tuple[float, float]
    is_finite_sample: bool
    is_vacuous: bool

    def in_unit_of(self, bounds: RewardBounds) -> "Value":
        """The value of rewards that were mapped to [0, 1], in the user's unit."""
        low, high = self.bias
        return self._replace(
            interval=self.interval.scaled(bounds.span, bounds.low),
            noise=self.noise * bounds.span,
            bias=(low * bounds.span, high * bounds.span),
        )


class Answer(NamedTuple):
    """Everything that is computed from a release.

    Attributes:
      values: IPS and SNIPS.
      mean_weight: Mean weight of the policy, clipped; its expectation is at most 1 with correct propensities.
      uniform_weight: The same for the uniform policy, whose weight is 1 / propensity over the number of actions.
    """

    values: list[Value]
    mean_weight: intervals.Interval
    uniform_weight: intervals.Interval


@dataclasses.dataclass(frozen=True)
class Query:
    """The vector that each client sends.

    Attributes:
      bounds: Bounds of a client's contribution.
      clip_norm: L2 norm that its vector is clipped to; None for that of a client with m rows whose weights average 1,
        as they should, and whose rewards are all 1. It follows from the bounds alone. A vector can be as long as the
        root of its size, which is many times that.
    """

    bounds: Bounds
    clip_norm: float | None = None

    @functools.cached_property
    def largest(self) -> np.ndarray:
        """Bounds of a row's part of each column, float64 [columns]."""
        return np.array([1.0, *[self.bounds.largest_weight] * 3])

    @functools.cached_property
    def scales(self) -> np.ndarray:
        """Bounds of the vector's numbers, float64 [size]."""
        return _with_products((self.largest * self.bounds.max_rows)[np.newaxis])[0]

    @functools.cached_property
    def norm(self) -> float:
        """L2 norm that a vector is clipped to."""
        return self.clip_norm or float(np.linalg.norm(_with_products(1 / self.largest[np.newaxis])))

    def vectors(self, terms: Terms, uniform_weights: np.ndarray) -> np.ndarray:
        """Vectors of the clients before they are clipped, float64 [clients, size].

        Args:
          terms: Terms of the rows, within their bounds.
          uniform_weights: float64 [rows], weights of the uniform policy.
        """
        columns = [np.ones(len(terms.rewards)), terms.weights, uniform_weights, terms.weights * terms.rewards]
        bounded = [np.clip(column, 0, most) / most for column, most in zip(columns, self.largest, strict=True)]
        return _with_products(client_totals(terms.clients, bounded) / self.bounds.max_rows)


def _with_products(single: np.ndarray) -> np.ndarray:
    first, second = np.transpose(_PAIRS)
    return np.concatenate([single, single[:, first] * single[:, second]], axis=1)


def clipped(vectors: np.ndarray, norm: float) -> np.ndarray:
    """Vectors clipped to an L2 norm, float64 [clients, size]."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * (norm / np.maximum(norms, norm))


def release(
    vectors: np.ndarray,
    query: Query,
    mechanism: mechanisms.Mechanism,
    gauss: Callable[[float, float], float] | None = None,
) -> np.ndarray:
    """Noisy sum over clients, float64 [size]. Every call spends privacy.

    Noise comes from the system's entropy, so nothing repeats it. The last bits of floating-point numbers, which can
    give away a sum (Mironov 2012), are not covered.

    Args:
      vectors: Vectors of all clients, float64 [clients, size].
      query: Definition of the vectors.
      mechanism: The accounted mechanism.
      gauss: Draws a normal number with a mean and a standard deviation, for simulations that are to be repeated, which
        have no guarantee. None for the system's entropy.
    """
    draw, deviation = gauss or secrets.SystemRandom().gauss, mechanism.noise_multiplier * query.norm
    return clipped(vectors, query.norm).sum(axis=0) + np.array([draw(0.0, deviation) for _ in range(SIZE)])


class _Part(NamedTuple):
    """Each client's total of one column plus a factor times that of another one."""

    column: int
    other: int = _ROWS
    factor: float = 0.0


class _Noised:
    """A noised sum in its own unit, with the standard deviations of its noise."""

    def __init__(self, noised: np.ndarray, query: Query, mechanism: mechanisms.Mechanism):
        self._sums, self._query, self._clients = noised * query.scales, query, mechanism.population
        self._relative_noise = mechanism.noise_multiplier * query.norm

    def _weighted(self, places: Sequence[int], factors: np.ndarray) -> tuple[float, float]:
        noise = np.linalg.norm(factors * self._relative_noise * self._query.scales[places])
        return float(factors @ self._sums[places]), float(noise)

    def total(self, part: _Part) -> tuple[float, float]:
        """Sum over clients, and the deviation of its noise."""
        return self._weighted([part.column, part.other], np.array([1.0, part.factor]))

    def squares(self, part: _Part) -> tuple[float, float]:
        """Sum of squares over clients, and the deviation of its noise."""
        pairs = (part.column, part.column), (part.column, part.other), (part.other, part.other)
        places = [4 + _PAIRS.index(pair if pair in _PAIRS else pair[::-1]) for pair in pairs]
        return self._weighted(places, np.array([1.0, 2 * part.factor, part.factor**2]))

    def has_few(self, part: _Part, miss: float) -> bool:
        """Whether the noised sums do not show that enough clients have a part above 0.

        Their effective number is that of `log_checks.effective_sample_size`. Parts are at least 0.
        """
        if self._relative_noise >= _ENOUGH_NOISE:
            return False
        (total, of_total), (squares, of_squares) = self.total(part), self.squares(part)
        quantile = stats.norm.isf(miss / 2)
        least = max(0.0, total - quantile * of_total)
        most_squares = max(0.0, squares) + quantile * of_squares  # Noise can make a sum of squares negative.
        return least**2 < betting.FEW * most_squares or not least

    def limits(self, part: _Part, miss: float) -> tuple[float, float]:
        """Limits of the expected sum of parts that are at least 0; each is wrong with at most this probability."""
        total, deviation = self.total(part)
        largest = self._clients * float(self._query.scales[part.column])
        noise = stats.norm.isf(miss / 2) * deviation
        level = -math.log(miss / 2 if deviation else miss) / self._clients
        high = _upper_limit((total + noise) / largest, level)
        return (1 - _upper_limit(1 - (total - noise) / largest, level)) * largest, high * largest

    def ratio(self, top: int, bottom: int, miss: float) -> tuple[intervals.Interval, float]:
        """Large-sample interval for the ratio of two columns, which misses with a given probability, and its noise."""
        clients = self._clients
        (numerator, of_numerator), (denominator, of_denominator) = self.total(_Part(top)), self.total(_Part(bottom))
        if not (denominator > 0 and self._sums[_ROWS] > 0):  # Noise has drowned the rows.
            return intervals.Interval(math.nan, 0.0, 1.0, clients), math.inf
        mean = numerator / denominator
        squares, deviation = self.squares(_Part(top, bottom, -mean))
        share = _VARIANCE_SHARE if deviation else 0.0
        above = stats.norm.ppf(1 - miss * share) * deviation if share else 0.0
        variance = max(0.0, squares + above) * clients / max(1, clients - 1)
        quantile = stats.t.ppf(1 - miss * (1 - share) / 2, max(1, clients - 1)) ** 2
        low, high = _fieller(numerator, denominator, variance + of_numerator**2, of_denominator**2, quantile)
        noise = math.hypot(of_numerator, mean * of_denominator) / denominator
        return intervals.Interval(mean, low, high, clients), noise

    def mean(self, column: int, miss: float) -> intervals.Interval:
        """Mean of a column over rows, of numbers at least 0."""
        interval, _ = self.ratio(column, _ROWS, miss)
        if not self.has_few(_Part(column), miss):
            return interval
        (low, high), (fewest, most) = self.limits(_Part(column), miss / 4), self.limits(_Part(_ROWS), miss / 4)
        return interval._replace(low=low / most, high=high / fewest if fewest > 0 else math.inf)

    def finite_sample(self, gains: _Part, losses: _Part, lost: float, miss: float) -> tuple[float, float]:
        """Limits of a value for any number of clients with a reward, or with another reward than the largest one.

        Args:
          gains: Parts w r.
          losses: Parts w (1 - r).
          lost: The most that clipped weights leave out.
          miss: Probability that the limits may fail; each of six bounds has a sixth of it.
        """
        fewest, most = self.limits(_Part(_ROWS), miss / 6)
        if not fewest > 0:
            return 0.0, 1.0
        (gain, largest_gain), (loss, largest_loss) = (self.limits(part, miss / 6) for part in (gains, losses))
        low = max(gain / most, 1 - largest_loss / fewest - lost)
        return low, min(largest_gain / fewest + lost, 1 - loss / most)


def _upper_limit(mean: float, level: float) -> float:
    """Largest expectation of numbers in [0, 1] whose relative entropy to their mean is at most a level."""
    mean = min(max(mean, 0.0), 1.0)
    if mean == 1:
        return 1.0

    def excess(value: float) -> float:
        return special.rel_entr(mean, value) + special.rel_entr(1 - mean, 1 - value) - level

    return optimize.bisect(excess, mean, 1.0)


def values(noised: np.ndarray, query: Query, mechanism: mechanisms.Mechanism) -> Answer:
    """IPS and SNIPS from the noisy sum alone; spends no more privacy.

    The variance of a ratio A / B at v is that of A - v B: the sum over clients of (A_c - v B_c)^2, from noised
    products, plus that of the noise on the totals. As the noise of the products may make it too small, it is raised to
    an upper limit that fails in a fifth of the cases in which an interval may miss. The rest is left to the interval,
    which solves (A - v B)^2 <= t^2 variance for v (Fieller), so that a noised denominator counts too.

    The interval misses half of the 5%. The other half is for the lower limit of the mean clipped weight, by which the
    interval is extended: see `Value.bias`.

    Args:
      noised: float64 [size].
      query: Definition of the released vector.
      mechanism: The accounted mechanism.
    """
    sums, miss = _Noised(noised, query, mechanism), 1 - intervals.CONFIDENCE
    mean_weight = sums.mean(_WEIGHTS, miss)  # Only its lower limit is used, which fails with probability miss / 2.
    lost, results = 1 - min(max(0.0, mean_weight.low), 1.0), []
    gains, losses = _Part(_PAYOFFS, _WEIGHTS), _Part(_WEIGHTS, _PAYOFFS, -1.0)
    is_few = sums.has_few(gains, miss) or sums.has_few(losses, miss)
    for name, ratio in RATIOS.items():
        interval, noise = sums.ratio(*ratio, miss / 2)
        if is_few:
            low, high = sums.finite_sample(gains, losses, lost, miss / 2)
            low, high = min(low, interval.mean), max(high, interval.mean)  # Contains the estimate.
        else:
            low = interval.low + _bias(name, lost, interval.low)[0]
            high = interval.high + _bias(name, lost, interval.high)[1]
        interval = interval._replace(low=max(low, 0.0), high=min(high, 1.0))
        bias = _bias(name, 1 - mean_weight.mean, interval.mean)
        results.append(Value(name, interval, noise, bias, is_few, interval.low <= 0 and interval.high >= 1))
    return Answer(results, mean_weight, sums.mean(_UNIFORM, miss))


def _bias(name: str, lost: float, value: float) -> tuple[float, float]:
    """Least and largest amount that clipping takes from an estimate; see `Value.bias`."""
    lost, value = min(max(lost, 0.0), 1.0), min(max(value, 0.0), 1.0)
    return (0.0 * lost, lost) if name == "ips" else (-lost * value, lost * (1 - value))


def _fieller(top: float, bottom: float, of_top: float, of_bottom: float, quantile: float) -> tuple[float, float]:
    """Interval of v with (top - v bottom)^2 <= quantile (of_top + v^2 of_bottom); [0, 1] if unbounded."""
    leading = bottom**2 - quantile * of_bottom
    if leading <= 0:
        return 0.0, 1.0
    root = math.sqrt(max(0.0, (top * bottom) ** 2 - leading * (top**2 - quantile * of_top)))
    return (top * bottom - root) / leading, (top * bottom + root) / leading
