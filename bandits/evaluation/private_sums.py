"""IPS and SNIPS of a policy from one noised sum over clients, with intervals that include the noise.

Each client sends one vector. The terms of its rows are bounded first (`bounds.apply`): rewards are in [0, 1], weights
are in [0, W], and at most m rows count. The client's number of rows is then at most m, its sums of w and of w r are at
most m W, and a product of two sums is bounded by the product of their bounds. Each number is divided by its bound, and
the whole vector is clipped to a fixed L2 norm. A client therefore changes the sum over clients by at most this norm if
its rows are removed, and by at most twice as much if they are replaced. The sum is released once, with Gaussian noise,
and everything in this module is computed from it.

The estimates use weights that are clipped to W. Clients with more than m rows count as if they had m rows, and clients
whose vector exceeds the norm count less. Intervals are extended by the amount that clipped weights may leave out.

Large-sample intervals are too narrow if rewards above 0, or rewards below the largest one, are rare. Unless the noised
sums show that neither is rare, the limits follow from Hoeffding's inequality in its Chernoff form, which holds for any
number of clients (Hoeffding, "Probability inequalities for sums of bounded random variables", 1963, Theorem 1). This
module does not import TensorFlow.
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
# Pairs of columns whose products are needed for the variances.
_PAIRS = (
    (_WEIGHTS, _WEIGHTS), (_ROWS, _WEIGHTS), (_ROWS, _ROWS), (_UNIFORM, _UNIFORM), (_ROWS, _UNIFORM),
    (_PAYOFFS, _PAYOFFS), (_WEIGHTS, _PAYOFFS), (_ROWS, _PAYOFFS),
)  # fmt: skip
SIZE = 4 + len(_PAIRS)
# Fraction of an interval's miss probability that is reserved for variances that noised products make too small.
_VARIANCE_SHARE = 0.2
# With noise of at least this multiple of one client's maximum contribution, a sum is nearly normal even if rewards are
# very rare.
_ENOUGH_NOISE = 1.25


class Value(NamedTuple):
    """A noised estimate.

    Attributes:
      name: `ips` or `snips`.
      interval: The estimate with clipped weights, which may lie outside [0, 1], and a 95% interval within [0, 1] for
        the value without clipping, which accounts for clients and noise.
      noise: Standard deviation of the estimate's noise.
      bias: Smallest and largest amount by which clipping may have lowered the estimate, if propensities are exact. Let
        s be the fraction of the target's probability that clipped weights leave out, which is 1 minus the mean weight.
        With rewards in [0, 1], IPS is too low by 0 to s. SNIPS is IPS divided by 1 - s; if its value is v, it is too
        low by -s v to s (1 - v).
      is_finite_sample: Whether the interval is valid even if rewards above 0, or below the largest one, are rare.
      is_vacuous: Whether the interval covers all possible values.
    """

    name: str
    interval: intervals.Interval
    noise: float
    bias: tuple[float, float]
    is_finite_sample: bool
    is_vacuous: bool

    def in_unit_of(self, bounds: RewardBounds) -> "Value":
        """Converts the value of rewards that were mapped to [0, 1] to the user's unit."""
        low, high = self.bias
        return self._replace(
            interval=self.interval.scaled(bounds.span, bounds.low),
            noise=self.noise * bounds.span,
            bias=(low * bounds.span, high * bounds.span),
        )


class Answer(NamedTuple):
    """All results that are computed from a release.

    Attributes:
      values: IPS and SNIPS.
      mean_weight: Mean clipped weight of the policy. If propensities are correct, its expectation is at most 1.
      uniform_weight: The same for the uniform policy, whose weights are 1 / (propensity * number of actions).
    """

    values: list[Value]
    mean_weight: intervals.Interval
    uniform_weight: intervals.Interval


@dataclasses.dataclass(frozen=True)
class Query:
    """The vector that each client sends.

    Attributes:
      bounds: Bounds on a client's contribution.
      clip_norm: L2 norm that vectors are clipped to. The default, None, stands for the norm of a client that has m rows
        with a mean weight of 1, which is the expected mean, and whose rewards are all 1. It depends only on the bounds.
        The norm of an unclipped vector can be as large as the square root of its size, which is many times the default.
    """

    bounds: Bounds
    clip_norm: float | None = None

    @functools.cached_property
    def largest(self) -> np.ndarray:
        """Bound on a row's contribution to each column, float64 [columns]."""
        return np.array([1.0, *[self.bounds.largest_weight] * 3])

    @functools.cached_property
    def scales(self) -> np.ndarray:
        """Bound on each number of the vector, float64 [size]."""
        return _with_products((self.largest * self.bounds.max_rows)[np.newaxis])[0]

    @functools.cached_property
    def norm(self) -> float:
        """L2 norm that vectors are clipped to."""
        return self.clip_norm or float(np.linalg.norm(_with_products(1 / self.largest[np.newaxis])))

    def vectors(self, terms: Terms, uniform_weights: np.ndarray) -> np.ndarray:
        """The clients' vectors before clipping, float64 [clients, size].

        Args:
          terms: Terms of the rows, which must be within the bounds.
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

    The noise comes from the system's entropy, so it cannot be reproduced. There is no protection against attacks on the
    low-order bits of floating-point numbers, which can reveal a sum (Mironov 2012).

    Args:
      vectors: Vectors of all clients, float64 [clients, size].
      query: Definition of the vectors.
      mechanism: The accounted mechanism.
      gauss: Function that samples from a normal distribution with a given mean and standard deviation. It is meant for
        reproducible simulations, which have no privacy guarantee. None to use the system's entropy.
    """
    draw, deviation = gauss or secrets.SystemRandom().gauss, mechanism.noise_multiplier * query.norm
    return clipped(vectors, query.norm).sum(axis=0) + np.array([draw(0.0, deviation) for _ in range(SIZE)])


class _Part(NamedTuple):
    """Each client's total of one column plus a factor times its total of another column."""

    column: int
    other: int = _ROWS
    factor: float = 0.0


class _Noised:
    """A noised sum in its original unit, with the standard deviations of its noise."""

    def __init__(self, noised: np.ndarray, query: Query, mechanism: mechanisms.Mechanism):
        self._sums, self._query, self._clients = noised * query.scales, query, mechanism.population
        self._relative_noise = mechanism.noise_multiplier * query.norm

    def _weighted(self, places: Sequence[int], factors: np.ndarray) -> tuple[float, float]:
        noise = np.linalg.norm(factors * self._relative_noise * self._query.scales[places])
        return float(factors @ self._sums[places]), float(noise)

    def total(self, part: _Part) -> tuple[float, float]:
        """Sum over clients, and the standard deviation of its noise."""
        return self._weighted([part.column, part.other], np.array([1.0, part.factor]))

    def squares(self, part: _Part) -> tuple[float, float]:
        """Sum of squares over clients, and the standard deviation of its noise."""
        pairs = (part.column, part.column), (part.column, part.other), (part.other, part.other)
        places = [4 + _PAIRS.index(pair if pair in _PAIRS else pair[::-1]) for pair in pairs]
        return self._weighted(places, np.array([1.0, 2 * part.factor, part.factor**2]))

    def has_few(self, part: _Part, miss: float) -> bool:
        """Whether the noised sums fail to show that enough clients have a part above 0.

        Clients are counted as in `log_checks.effective_sample_size`. Parts must be at least 0.
        """
        if self._relative_noise >= _ENOUGH_NOISE:
            return False
        (total, of_total), (squares, of_squares) = self.total(part), self.squares(part)
        quantile = stats.norm.isf(miss / 2)
        least = max(0.0, total - quantile * of_total)
        most_squares = max(0.0, squares) + quantile * of_squares  # Noise can make a sum of squares negative.
        return least**2 < betting.FEW * most_squares or not least

    def limits(self, part: _Part, miss: float) -> tuple[float, float]:
        """Limits of the expected sum of parts that are at least 0; each fails with at most the given probability."""
        total, deviation = self.total(part)
        largest = self._clients * float(self._query.scales[part.column])
        noise = stats.norm.isf(miss / 2) * deviation
        level = -math.log(miss / 2 if deviation else miss) / self._clients
        high = _upper_limit((total + noise) / largest, level)
        return (1 - _upper_limit(1 - (total - noise) / largest, level)) * largest, high * largest

    def ratio(self, top: int, bottom: int, miss: float) -> tuple[intervals.Interval, float]:
        """Large-sample interval for the ratio of two columns with a given miss probability, and the ratio's noise."""
        clients = self._clients
        (numerator, of_numerator), (denominator, of_denominator) = self.total(_Part(top)), self.total(_Part(bottom))
        if not (denominator > 0 and self._sums[_ROWS] > 0):  # The noise exceeds the signal.
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
        """Mean over rows of a column whose numbers are at least 0."""
        interval, _ = self.ratio(column, _ROWS, miss)
        if not self.has_few(_Part(column), miss):
            return interval
        (low, high), (fewest, most) = self.limits(_Part(column), miss / 4), self.limits(_Part(_ROWS), miss / 4)
        return interval._replace(low=low / most, high=high / fewest if fewest > 0 else math.inf)

    def finite_sample(self, gains: _Part, losses: _Part, lost: float, miss: float) -> tuple[float, float]:
        """Limits of a value that are valid even if few clients have a reward above 0, or below the largest reward.

        Args:
          gains: Parts w r.
          losses: Parts w (1 - r).
          lost: Upper limit of the fraction that clipped weights leave out.
          miss: Probability with which the limits may fail. It is divided equally among six bounds.
        """
        fewest, most = self.limits(_Part(_ROWS), miss / 6)
        if not fewest > 0:
            return 0.0, 1.0
        (gain, largest_gain), (loss, largest_loss) = (self.limits(part, miss / 6) for part in (gains, losses))
        low = max(gain / most, 1 - largest_loss / fewest - lost)
        return low, min(largest_gain / fewest + lost, 1 - loss / most)


def _upper_limit(mean: float, level: float) -> float:
    """Largest expectation v at which the relative entropy of a mean in [0, 1] to v is at most `level`."""
    mean = min(max(mean, 0.0), 1.0)
    if mean == 1:
        return 1.0

    def excess(value: float) -> float:
        return special.rel_entr(mean, value) + special.rel_entr(1 - mean, 1 - value) - level

    return optimize.bisect(excess, mean, 1.0)


def values(noised: np.ndarray, query: Query, mechanism: mechanisms.Mechanism) -> Answer:
    """Computes IPS and SNIPS from the noisy sum alone, which spends no additional privacy.

    The variance of a ratio A / B at v is the variance of A - v B. It is the sum over clients of (A_c - v B_c)^2, which
    follows from the noised products, plus the variance of the noise on the totals. Noise on the products may make the
    variance too small, so it is replaced by an upper limit, which gets a fifth of the interval's miss probability. The
    rest is for the interval itself, which solves (A - v B)^2 <= t^2 variance for v (Fieller) and therefore accounts for
    noise on the denominator, too.

    The interval gets half of the total miss probability of 5%. The other half is for the lower limit of the mean
    clipped weight, which determines how far the interval is extended; see `Value.bias`.

    Args:
      noised: float64 [size].
      query: Definition of the released vector.
      mechanism: The accounted mechanism.
    """
    sums, miss = _Noised(noised, query, mechanism), 1 - intervals.CONFIDENCE
    mean_weight = sums.mean(_WEIGHTS, miss)  # Only the lower limit is used, which fails with probability miss / 2.
    lost, results = 1 - min(max(0.0, mean_weight.low), 1.0), []
    gains, losses = _Part(_PAYOFFS, _WEIGHTS), _Part(_WEIGHTS, _PAYOFFS, -1.0)
    is_few = sums.has_few(gains, miss) or sums.has_few(losses, miss)
    for name, ratio in RATIOS.items():
        interval, noise = sums.ratio(*ratio, miss / 2)
        if is_few:
            low, high = sums.finite_sample(gains, losses, lost, miss / 2)
            low, high = min(low, interval.mean), max(high, interval.mean)  # The interval includes the estimate.
        else:
            low = interval.low + _bias(name, lost, interval.low)[0]
            high = interval.high + _bias(name, lost, interval.high)[1]
        interval = interval._replace(low=max(low, 0.0), high=min(high, 1.0))
        bias = _bias(name, 1 - mean_weight.mean, interval.mean)
        results.append(Value(name, interval, noise, bias, is_few, interval.low <= 0 and interval.high >= 1))
    return Answer(results, mean_weight, sums.mean(_UNIFORM, miss))


def _bias(name: str, lost: float, value: float) -> tuple[float, float]:
    """Smallest and largest amount by which clipping lowers an estimate; see `Value.bias`."""
    lost, value = min(max(lost, 0.0), 1.0), min(max(value, 0.0), 1.0)
    return (0.0 * lost, lost) if name == "ips" else (-lost * value, lost * (1 - value))


def _fieller(top: float, bottom: float, of_top: float, of_bottom: float, quantile: float) -> tuple[float, float]:
    """Interval of all v with (top - v bottom)^2 <= quantile (of_top + v^2 of_bottom); [0, 1] if it is unbounded."""
    leading = bottom**2 - quantile * of_bottom
    if leading <= 0:
        return 0.0, 1.0
    root = math.sqrt(max(0.0, (top * bottom) ** 2 - leading * (top**2 - quantile * of_top)))
    return (top * bottom - root) / leading, (top * bottom + root) / leading
