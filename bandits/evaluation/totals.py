"""Sums over clients, of which values, differences and intervals are made.

A client sends its totals S_c, a number a column. Once the ratios A / B of their sums are known, it sends products of
its influences (A_c - (A / B) B_c) / B. From their sums the variance of a ratio follows by the delta method (Cochran,
Sampling Techniques, 1977, chapter 6, clients as units), with whatever dependence there is between a client's own rows.
Influences are differences already: no variance is lost where rewards are large beside their spread.

The bootstrap over clients has Poisson(1) weights instead of a draw with replacement (Chamandy, Muralidharan, Najmi and
Naidu, "Estimating uncertainty for massive data streams", 2012). Each client draws its own, so that only sums over
clients, [draws, k], are sent. Models are not fitted again.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation.estimators import Estimator, Terms
from data import keys
from optimization.study import intervals

_FIRST = 2  # Column of the first estimator's numerator.
# Together, the most weights of the bootstrap that are in memory at once: 8 MB.
_CLIENTS, _DRAWS = 1024, 1024
# P(at most k), up to where it is 1 in double precision.
_POISSON = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(20)])


class Ratio(NamedTuple):
    """A column's total over another's, by their numbers."""

    numerator: int
    denominator: int


class Sums(NamedTuple):
    """Sums over all clients.

    Attributes:
      clients: Number of clients.
      totals: float64 [k], sums of S_c.
      ratios: The ratios that have an interval.
      products: float64 [ratios, ratios], sums of the products of two influences of a client.
    """

    clients: int
    totals: np.ndarray
    ratios: tuple[Ratio, ...]
    products: np.ndarray


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which columns there are: rows, weights, and a numerator for each estimator.

    Attributes:
      estimators: The estimators, each once.

    Raises:
      ValueError: If an estimator is there twice.
    """

    estimators: tuple[Estimator, ...]

    def __post_init__(self):
        if len(set(self.estimators)) != len(self.estimators):
            raise ValueError("Each estimator must be there once.")

    def __len__(self) -> int:
        return _FIRST + len(self.estimators)

    def columns(self, terms: Terms, backend: Any = np) -> list[Any]:
        """Columns, float64 [rows] each; see `Estimator.numerator`."""
        numerators = [estimator.numerator(terms, backend) for estimator in self.estimators]
        return [backend.ones_like(terms.weights), terms.weights, *numerators]

    def ratio(self, estimator: Estimator) -> Ratio:
        """Indices of the columns that an estimator divides."""
        denominator = 0 if estimator.kind.denominator == "rows" else 1
        return Ratio(_FIRST + self.estimators.index(estimator), denominator)

    @property
    def ratios(self) -> tuple[Ratio, ...]:
        """The estimators' ratios, in their order."""
        return tuple(map(self.ratio, self.estimators))


def present(clients: np.ndarray, client_ids: Sequence[str]) -> list[str]:
    """Names of clients with rows, in the order of `of_clients`."""
    return [client_ids[client] for client in np.unique(clients)]


def of_clients(clients: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Each client's totals, float64 [clients, k], in ascending order of the clients with rows.

    Args:
      clients: int [rows], ascending. For intervals that take rows for independent, all different.
      columns: k columns, float64 [rows] each.

    Raises:
      ValueError: If clients are not in ascending order.
    """
    if np.any(np.diff(clients) < 0):
        raise ValueError("Rows must be in ascending order of their clients.")
    if not len(clients):
        return np.zeros((0, len(columns)))
    starts = np.flatnonzero(np.diff(clients, prepend=clients[0] - 1))
    return np.stack([np.add.reduceat(column, starts, dtype=np.float64) for column in columns], axis=1)


def summed(client_totals: np.ndarray, ratios: Sequence[Ratio]) -> Sums:
    """Sums of clients' totals, float64 [clients, k].

    Args:
      client_totals: Totals, see `of_clients`.
      ratios: Ratios that have an interval.
    """
    together = client_totals.sum(axis=0)
    influences = client_totals @ gradients(together, ratios).T
    return Sums(len(client_totals), together, tuple(ratios), influences.T @ influences)


def sums(terms: Terms, layout: Layout) -> Sums:
    """Sums of a log by NumPy; `federated.sums` computes the same with TFF."""
    return summed(of_clients(terms.clients, layout.columns(terms)), layout.ratios)


def value(totals: np.ndarray, ratio: Ratio) -> np.ndarray:
    """Ratio of totals float64 [..., k]; NaN where the denominator is 0."""
    denominator = totals[..., ratio.denominator]
    return np.divide(
        totals[..., ratio.numerator], denominator, out=np.full(denominator.shape, np.nan), where=denominator != 0
    )


def has_weight(sums: Sums) -> bool:
    """Whether the target policy chooses any of the logged actions."""
    return bool(sums.totals[1] > 0)


def gradients(totals: np.ndarray, ratios: Sequence[Ratio]) -> np.ndarray:
    """Derivative of each ratio by each total, float64 [ratios, k]; 0 where the denominator is 0.

    Its product with a client's totals are that client's influences, whose sum over clients is 0.
    """
    changes = np.zeros((len(ratios), len(totals)))
    for change, ratio in zip(changes, ratios, strict=True):
        if totals[ratio.denominator]:
            change[ratio.numerator] += 1 / totals[ratio.denominator]
            change[ratio.denominator] -= totals[ratio.numerator] / totals[ratio.denominator] ** 2
    return changes


# Where all clients agree, rounding errors leave a standard error, and a difference, of this many times the values.
_ROUNDING = 1e-13


def interval(
    sums: Sums, ratio: Ratio, minus: Ratio | None = None, confidence: float = intervals.CONFIDENCE
) -> intervals.Interval:
    """A value, or the difference of two, with an interval over clients.

    The delta method, with Student's t of clients - 1 degrees. There is no interval of fewer than two clients, of a
    value in which all clients agree, or of a difference that is 0 for all of them. There is no value of 0 without any
    spread: no row earned anything, or the policy chooses none of the logged actions, so that nothing can be estimated.

    Args:
      sums: Sums of a log's clients.
      ratio: The value; one of the sums' ratios.
      minus: Another one of the sums' ratios, of the same clients, which is subtracted; None for none.
      confidence: Confidence level.
    """
    first, second = float(value(sums.totals, ratio)), float(value(sums.totals, minus)) if minus else 0.0
    mean = first - second
    if sums.clients < 2 or not math.isfinite(mean):
        return intervals.Interval(mean, math.nan, math.nan, sums.clients)
    weights = np.zeros(len(sums.ratios))
    weights[sums.ratios.index(ratio)] += 1
    if minus:
        weights[sums.ratios.index(minus)] -= 1
    variance = max(0.0, float(weights @ sums.products @ weights)) * sums.clients / (sums.clients - 1)
    rounding = _ROUNDING * (abs(first) + abs(second))
    if math.sqrt(variance) <= rounding:
        if not minus:
            return intervals.Interval(mean or math.nan, math.nan, math.nan, sums.clients)
        if abs(mean) <= rounding:
            return intervals.Interval(0.0, math.nan, math.nan, sums.clients)
    deviation = math.sqrt(variance * sums.clients)  # Of one client's part in a mean over clients.
    half = float(intervals.half_width(deviation, sums.clients, confidence))
    return intervals.Interval(mean, mean - half, mean + half, sums.clients)


def client_weights(name: str, seed: int, draws: int, first: int = 0) -> np.ndarray:
    """A client's weight in each resample, uint8 [draws]: Poisson(1), a function of its name and the draw.

    Args:
      name: Name of the client.
      seed: Random seed.
      draws: Number of resamples.
      first: Number of the first resample.
    """
    generator = keys.generator(seed, keys.Purpose.BOOTSTRAP, keys.number_of(name))
    if first:  # A uniform number each.
        generator.bit_generator.advance(first)  # type: ignore[attr-defined]
    return np.searchsorted(_POISSON, generator.random(draws), side="right").astype(np.uint8)


def drawn_totals(client_totals: np.ndarray, names: Sequence[str], seed: int, draws: int) -> np.ndarray:
    """Totals of each resample, float64 [draws, k], in memory that does not otherwise grow with the draws.

    Args:
      client_totals: float64 [clients, k], of `of_clients`.
      names: Names of the clients, in this order.
      seed: Random seed.
      draws: Number of resamples.
    """
    resampled = np.zeros((draws, client_totals.shape[1]))
    for of_draws in _parts(draws, _DRAWS):
        for of_clients in _parts(len(names), _CLIENTS):
            weights = np.stack(
                [
                    client_weights(name, seed, of_draws.stop - of_draws.start, of_draws.start)
                    for name in names[of_clients]
                ]
            )
            resampled[of_draws] += weights.T.astype(np.float64) @ client_totals[of_clients]
    return resampled


def _parts(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def bootstrap_interval(
    sums: Sums, drawn: np.ndarray, ratio: Ratio, minus: Ratio | None = None, confidence: float = intervals.CONFIDENCE
) -> intervals.Interval:
    """A value, or the difference of two, with a percentile interval over resampled clients.

    Args:
      sums: Sums of the clients without resampling.
      drawn: float64 [draws, k], of `drawn_totals` or of `federated`.
      ratio: The value.
      minus: Ratio that is subtracted; None for none.
      confidence: Confidence level.
    """
    values = value(drawn, ratio) - (value(drawn, minus) if minus else 0)
    values = values[np.isfinite(values)]
    mean = float(value(sums.totals, ratio) - (value(sums.totals, minus) if minus else 0))
    if not len(values):
        return intervals.Interval(mean, math.nan, math.nan, sums.clients)
    low, high = np.percentile(values, [50 * (1 - confidence), 50 * (1 + confidence)])
    return intervals.Interval(mean, float(low), float(high), sums.clients)
