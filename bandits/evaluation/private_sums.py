"""Values of a policy from one noised sum over clients, with intervals that include the noise.

A client sends one vector. The terms of its rows are bounded first (`bounds.apply`): rewards are in [0, 1], weights in
[0, W], and at most m rows count. Its number of rows is then at most m, its sums of w and of w r at most m W, and those
of a doubly robust term are within m (W + 1); a product of two sums is bounded by the product of their bounds. Each
number is divided by its bound, and the whole vector is clipped to one L2 norm. A client therefore moves the sum over
clients by at most that norm if its rows are left out, and by twice as much if they are replaced. The sum is released
once, with Gaussian noise, and everything here is computed from it.

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

from bandits.evaluation import finite_sample, totals
from bandits.evaluation.bounds import Bounds
from bandits.evaluation.estimators import Estimator, Terms
from data.reward_bounds import RewardBounds
from optimization.privacy import mechanisms
from optimization.study import intervals

_ROWS, _WEIGHTS, _UNIFORM, _PAYOFFS = range(4)  # Columns; those of further numerators follow.
_IPS = Estimator("ips")
_CLIPPED = ("ips", "snips", "dr")  # What clipped weights leave out has known bounds.
# Part of an interval's probability of missing that is left to noised products that make a variance too small.
_VARIANCE_SHARE = 0.2
# Noise of at least so many times what one client can add makes a sum nearly normal, however rare rewards are.
_ENOUGH_NOISE = 1.25


class Value(NamedTuple):
    """A noised estimate.

    Attributes:
      estimator: The estimator.
      interval: The estimate with clipped weights, which may lie outside [0, 1], and a 95% interval within [0, 1] for
        the value without clipping, over clients and noise.
      noise: Standard deviation of the estimate's noise.
      lost: Estimated share of the target's probability that clipped weights leave out: 1 minus the mean weight.
      bias: Least and largest amount that clipping may have taken from the estimate, if propensities are exact. With
        s = `lost` and rewards in [0, 1]: IPS is too low by 0 to s, DR is off by at most s in either direction, and
        SNIPS of value v, which is IPS divided by 1 - s, is too low by -s v to s (1 - v). NaN for other estimators,
        whose own parameters bias them.
      is_finite_sample: Whether the interval holds for any number of rewards.
      is_vacuous: Whether the interval covers all possible values.
    """

    estimator: Estimator
    interval: intervals.Interval
    noise: float
    lost: float
    bias: tuple[float, float]
    is_finite_sample: bool
    is_vacuous: bool

    @property
    def is_biased(self) -> bool:
        """Whether the estimate has an unknown bias, so that its interval is not one of the policy's value."""
        return self.estimator.name not in ("logged", *_CLIPPED)

    @property
    def shown(self) -> intervals.Interval:
        """The interval of the value; without ends if the estimate is biased."""
        return self.interval._replace(low=math.nan, high=math.nan) if self.is_biased else self.interval

    def in_unit_of(self, bounds: RewardBounds) -> "Value":
        """The value of rewards that were mapped to [0, 1], in the user's unit."""
        low, high = self.bias
        return self._replace(
            interval=self.interval.scaled(bounds.span, bounds.low),
            noise=self.noise * bounds.span,
            bias=(low * bounds.span, high * bounds.span),
        )


class Answer(NamedTuple):
    """All that is computed from a release.

    Attributes:
      values: Estimates by each estimator.
      mean_weight: Mean weight of the policy, clipped; its expectation is at most 1 with correct propensities.
      uniform_weight: The same for the uniform policy, whose weight is 1 / propensity over the number of actions.
    """

    values: list[Value]
    mean_weight: intervals.Interval
    uniform_weight: intervals.Interval


@dataclasses.dataclass(frozen=True)
class Query:
    """What each client sends.

    Attributes:
      estimators: Estimators, fixed beforehand with their parameters.
      bounds: Bounds of a client's contribution.
      clip_norm: L2 norm that its vector is clipped to; None for `typical_norm`.

    Raises:
      ValueError: If there is no estimator, or one twice, or the norm is not above 0.
    """

    estimators: tuple[Estimator, ...]
    bounds: Bounds
    clip_norm: float | None = None

    def __post_init__(self):
        if not self.estimators or len(set(self.estimators)) != len(self.estimators):
            raise ValueError("estimators must be at least one, and each there once.")
        if self.clip_norm is not None and not (math.isfinite(self.clip_norm) and self.clip_norm > 0):
            raise ValueError(f"clip_norm is {self.clip_norm}, not a finite number above 0.")

    @functools.cached_property
    def _numerators(self) -> list[Estimator]:
        """Estimators with a column of their own; SNIPS has the numerator of IPS."""
        return list(dict.fromkeys([_IPS, *(_IPS if one.name == "snips" else one for one in self.estimators)]))

    @functools.cached_property
    def largest(self) -> np.ndarray:
        """Bounds of a row's part of each column, float64 [columns]."""
        weight = self.bounds.largest_weight
        known = {"logged": 1.0, "dm": 1.0, "ips": weight, "clipped_ips": weight}
        return np.array([1.0, weight, weight, *(known.get(one.name, weight + 1) for one in self._numerators)])

    @functools.cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Columns whose products the variances need."""
        ratios = [(_WEIGHTS, _ROWS), (_UNIFORM, _ROWS), (_PAYOFFS, _WEIGHTS), *map(self.ratio, self.estimators)]
        pairs = [pair for top, bottom in ratios for pair in ((top, top), (bottom, top), (bottom, bottom))]
        return list(dict.fromkeys(pairs))

    @functools.cached_property
    def scales(self) -> np.ndarray:
        """Bounds of the vector's numbers, float64 [size]."""
        return _with_products((self.largest * self.bounds.max_rows)[np.newaxis], self._pairs)[0]

    @property
    def size(self) -> int:
        """Length of the vector."""
        return len(self.largest) + len(self._pairs)

    @functools.cached_property
    def norm(self) -> float:
        """L2 norm that a vector is clipped to."""
        return self.typical_norm if self.clip_norm is None else self.clip_norm

    @functools.cached_property
    def typical_norm(self) -> float:
        """Norm of a client of m rows whose weights average 1, as they should, and whose rewards are all 1.

        It follows from the bounds alone. A vector can be as long as the root of its size, which is many times that.
        """
        return float(np.linalg.norm(_with_products(1 / self.largest[np.newaxis], self._pairs)))

    def ratio(self, estimator: Estimator) -> totals.Ratio:
        """Columns that an estimator divides."""
        numerator = _PAYOFFS + self._numerators.index(_IPS if estimator.name == "snips" else estimator)
        return totals.Ratio(numerator, _ROWS if estimator.kind.denominator == "rows" else _WEIGHTS)

    def product(self, first: int, second: int) -> int:
        """Index of the product of two columns."""
        pair = (first, second) if (first, second) in self._pairs else (second, first)
        return len(self.largest) + self._pairs.index(pair)

    def vectors(self, terms: Terms, uniform_weights: np.ndarray) -> np.ndarray:
        """Vectors of the clients before they are clipped, float64 [clients, size].

        Args:
          terms: Terms of the rows, within their bounds.
          uniform_weights: float64 [rows], weights of the uniform policy.
        """
        numerators = [estimator.numerator(terms) for estimator in self._numerators]
        columns = [np.ones(len(terms.rewards)), terms.weights, uniform_weights, *numerators]
        # The bound holds whatever an estimator returns.
        bounded = [np.clip(column, -most, most) / most for column, most in zip(columns, self.largest, strict=True)]
        return _with_products(totals.of_clients(terms.clients, bounded) / self.bounds.max_rows, self._pairs)


def _with_products(single: np.ndarray, pairs: Sequence[tuple[int, int]]) -> np.ndarray:
    first, second = np.transpose(pairs)
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

    Noise and sample come from the system's entropy, so nothing repeats them. The last bits of floating-point numbers,
    which can give away a sum (Mironov 2012), are not covered.

    Args:
      vectors: Vectors of all clients, float64 [clients, size].
      query: What they contain.
      mechanism: The accounted mechanism.
      gauss: Draws a normal number of a mean and a standard deviation, for simulations that are to be repeated, which
        have no guarantee. None for the system's entropy.
    """
    if mechanism.sampling == "poisson":
        coin = secrets.SystemRandom().random
        vectors = vectors[[coin() < mechanism.cohort / mechanism.population for _ in vectors]]
    draw, deviation = gauss or secrets.SystemRandom().gauss, mechanism.noise_multiplier * query.norm
    return clipped(vectors, query.norm).sum(axis=0) + np.array([draw(0.0, deviation) for _ in range(query.size)])


class _Part(NamedTuple):
    """Each client's total of one column plus a factor times that of another one."""

    column: int
    other: int
    factor: float


class _Noised:
    """A noised sum in its own unit, with the standard deviations of its noise."""

    def __init__(self, noised: np.ndarray, query: Query, mechanism: mechanisms.Mechanism):
        self._sums, self._query, self._mechanism = noised * query.scales, query, mechanism
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
        places = [self._query.product(*pair) for pair in pairs]
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
        return least**2 < finite_sample.FEW * (squares + quantile * of_squares) or not least

    def limits(self, part: _Part, miss: float) -> tuple[float, float]:
        """Limits of the expected sum of parts that are at least 0; each is wrong with at most this probability."""
        total, deviation = self.total(part)
        clients, share = self._mechanism.population, miss / 2 if deviation else miss
        largest = clients * self._query.bounds.max_rows * float(self._query.largest[part.column])
        noise = stats.norm.isf(miss / 2) * deviation
        level = -math.log(share) / clients
        high = _upper_limit((total + noise) / largest, level)
        return (1 - _upper_limit(1 - (total - noise) / largest, level)) * largest, high * largest

    def ratio(self, ratio: totals.Ratio, miss: float) -> tuple[intervals.Interval, float]:
        """A ratio's large-sample interval, which misses with a given probability, and the deviation of its noise."""
        (top, of_top), (bottom, of_bottom) = (self.total(_Part(column, _ROWS, 0.0)) for column in ratio)
        clients = self._mechanism.cohort
        if not (bottom > 0 and self._sums[_ROWS] > 0):  # Noise has drowned the rows.
            return intervals.Interval(math.nan, 0.0, 1.0, clients), math.inf
        mean = top / bottom
        squares, deviation = self.squares(_Part(*ratio, -mean))
        share = _VARIANCE_SHARE if deviation else 0.0
        above = stats.norm.ppf(1 - miss * share) * deviation if share else 0.0
        variance = max(0.0, squares + above) * clients / max(1, clients - 1)
        quantile = stats.t.ppf(1 - miss * (1 - share) / 2, max(1, clients - 1)) ** 2
        low, high = _fieller(top, bottom, variance + of_top**2, of_bottom**2, quantile)
        return intervals.Interval(mean, low, high, clients), math.hypot(of_top, mean * of_bottom) / bottom

    def mean(self, column: int, miss: float) -> intervals.Interval:
        """Mean of a column over rows, of numbers at least 0."""
        interval, _ = self.ratio(totals.Ratio(column, _ROWS), miss)
        part = _Part(column, _ROWS, 0.0)
        if not self.has_few(part, miss):
            return interval
        (low, high), (fewest, most) = self.limits(part, miss / 4), self.limits(_Part(_ROWS, _ROWS, 0.0), miss / 4)
        return interval._replace(low=low / most, high=high / fewest if fewest > 0 else math.inf)

    def finite_sample(self, gains: _Part, losses: _Part, lost: float, miss: float) -> tuple[float, float]:
        """Limits of a value for any number of clients with a reward, or with another reward than the largest one.

        Args:
          gains: Parts w r, or r for the log's own value.
          losses: Parts w (1 - r), or 1 - r.
          lost: The most that clipped weights leave out.
          miss: Probability that the limits may fail; each of six bounds has a sixth of it.
        """
        fewest, most = self.limits(_Part(_ROWS, _ROWS, 0.0), miss / 6)
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
    """Estimates by each estimator from the noisy sum alone; spends no more privacy.

    The variance of a ratio A / B at v is that of A - v B: the sum over clients of (A_c - v B_c)^2, from noised
    products, plus that of the noise on the totals. As the noise of the products may make it too small, it is raised to
    an upper limit that fails in a fifth of the cases in which an interval may miss. The rest is left to the interval,
    which solves (A - v B)^2 <= t^2 variance for v (Fieller), so that a noised denominator counts too.

    If weights are clipped, the interval misses half of the 5%. The other half is for the lower limit of the mean
    clipped weight, by which the interval is extended: see `Value.bias`.

    Args:
      noised: float64 [size].
      query: What was released.
      mechanism: The accounted mechanism.
    """
    sums, miss = _Noised(noised, query, mechanism), 1 - intervals.CONFIDENCE
    mean_weight = sums.mean(_WEIGHTS, miss)  # Only its lower limit is used, which fails with probability miss / 2.
    lost, found = 1 - min(max(0.0, mean_weight.low), 1.0), []
    for estimator in query.estimators:
        is_clipped = estimator.name in _CLIPPED
        share = miss / 2 if is_clipped else miss
        top, bottom = query.ratio(estimator) if estimator.name == "logged" else (_PAYOFFS, _WEIGHTS)
        gains, losses = _Part(top, bottom, 0.0), _Part(bottom, top, -1.0)
        interval, noise = sums.ratio(query.ratio(estimator), share)
        low, high = interval.low, interval.high
        is_few = sums.has_few(gains, miss) or sums.has_few(losses, miss)
        if is_few:
            low, high = sums.finite_sample(gains, losses, lost * is_clipped, share)
            low, high = min(low, interval.mean), max(high, interval.mean)  # Contains the estimate.
        elif is_clipped:
            low, high = low + _bias(estimator.name, lost, low)[0], high + _bias(estimator.name, lost, high)[1]
        interval = interval._replace(low=max(low, 0.0), high=min(high, 1.0))
        mean_lost, is_vacuous = 1 - mean_weight.mean, interval.low <= 0 and interval.high >= 1
        bias = _bias(estimator.name, mean_lost, interval.mean)
        found.append(Value(estimator, interval, noise, mean_lost, bias, is_few, is_vacuous))
    return Answer(found, mean_weight, sums.mean(_UNIFORM, miss))


def _bias(name: str, lost: float, value: float) -> tuple[float, float]:
    """Least and largest amount that clipping takes from an estimate; see `Value.bias`."""
    lost, value = min(max(lost, 0.0), 1.0), min(max(value, 0.0), 1.0)
    ratios = {"logged": (0.0, 0.0), "ips": (0.0, 1.0), "dr": (-1.0, 1.0), "snips": (-value, 1 - value)}
    low, high = ratios.get(name, (math.nan, math.nan))
    return lost * low, lost * high


def _fieller(top: float, bottom: float, of_top: float, of_bottom: float, quantile: float) -> tuple[float, float]:
    """Interval of v with (top - v bottom)^2 <= quantile (of_top + v^2 of_bottom); [0, 1] if unbounded."""
    leading = bottom**2 - quantile * of_bottom
    if leading <= 0:
        return 0.0, 1.0
    root = math.sqrt(max(0.0, (top * bottom) ** 2 - leading * (top**2 - quantile * of_top)))
    return (top * bottom - root) / leading, (top * bottom + root) / leading
