"""Sums over clients, of which values, differences and intervals are made.

A client sends its totals S_c, a number a column, and their products S_c S_c'. From the sums of both, the variance of a
ratio of totals follows by the delta method (Cochran, Sampling Techniques, 1977, chapter 6, clients as units), with
whatever dependence there is between a client's own rows.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation.estimators import Estimator
from bandits.evaluation.terms import Terms
from optimization.study import intervals


class Sums(NamedTuple):
    """What all clients together send.

    Attributes:
      clients: How many there are.
      totals: float64 [k], sums of S_c.
      products: float64 [k, k], sums of S_c S_c'.
    """

    clients: int
    totals: np.ndarray
    products: np.ndarray


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which columns there are: rows, weights, their squares where asked for, and a numerator for each estimator.

    Attributes:
      estimators: The estimators, each once.
      squares: Whether squared weights are a column, of which the effective sample size is made.

    Raises:
      ValueError: If an estimator is there twice.
    """

    estimators: tuple[Estimator, ...]
    squares: bool = True

    def __post_init__(self):
        if len(set(self.estimators)) != len(self.estimators):
            raise ValueError("Each estimator must be there once.")

    @functools.cached_property
    def _first(self) -> int:
        return 3 if self.squares else 2

    def __len__(self) -> int:
        return self._first + len(self.estimators)

    def columns(self, terms: Terms, backend: Any = np) -> list[Any]:
        """Returns the columns, float64 [rows] each; see `Estimator.numerator`."""
        squares = [terms.weights * terms.weights] if self.squares else []
        numerators = [estimator.numerator(terms, backend) for estimator in self.estimators]
        return [backend.ones_like(terms.weights), terms.weights, *squares, *numerators]

    def ratio(self, estimator: Estimator) -> "Ratio":
        """Returns which columns an estimator divides."""
        denominator = 0 if estimator.denominator == "rows" else 1
        return Ratio(self._first + self.estimators.index(estimator), denominator)


class Ratio(NamedTuple):
    """A column's total over another's, by their numbers."""

    numerator: int
    denominator: int


def present(clients: np.ndarray, client_ids: Sequence[str]) -> list[str]:
    """Returns the names of clients that have rows, in the order of `of_clients`."""
    return [client_ids[client] for client in np.unique(clients)]


def of_clients(clients: np.ndarray, columns: Sequence[np.ndarray]) -> np.ndarray:
    """Returns each client's totals, float64 [clients, k], in ascending order of those that have rows.

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


def summed(client_totals: np.ndarray) -> Sums:
    """Returns what clients' totals, float64 [clients, k], add up to."""
    return Sums(len(client_totals), client_totals.sum(axis=0), client_totals.T @ client_totals)


def sums(terms: Terms, layout: Layout) -> Sums:
    """Returns the sums of a log by NumPy; `federated.sums` plays the same through TFF."""
    return summed(of_clients(terms.clients, layout.columns(terms)))


def value(totals: np.ndarray, ratio: Ratio) -> np.ndarray:
    """Returns a ratio, from totals float64 [..., k]; not a number where nothing is divided by."""
    denominator = totals[..., ratio.denominator]
    return np.divide(
        totals[..., ratio.numerator], denominator, out=np.full(denominator.shape, np.nan), where=denominator != 0
    )


class Overlap(NamedTuple):
    """How much of a log speaks of the target policy.

    Attributes:
      effective_sample_size: Rows of equal weight that would be worth as much (Kish), at most the log's.
      mean_weight: Near 1 where propensities are right and the log plays what the target plays.
    """

    effective_sample_size: float
    mean_weight: float


def overlap(sums: Sums) -> Overlap:
    """Returns the overlap, of the sums of a layout with squares."""
    rows, weights, squares = sums.totals[:3]
    return Overlap(float(weights**2 / squares) if squares else 0.0, float(weights / rows))


def gradient(totals: np.ndarray, ratio: Ratio) -> np.ndarray:
    """Returns float64 [k], the change of a ratio with each total; its product with the totals is 0."""
    change = np.zeros(len(totals))
    change[ratio.numerator] += 1 / totals[ratio.denominator]
    change[ratio.denominator] -= totals[ratio.numerator] / totals[ratio.denominator] ** 2
    return change


def interval(sums: Sums, ratio: Ratio, minus: Ratio | None = None) -> intervals.Interval:
    """Returns a value, or the difference of two, with a 95% interval over clients.

    The delta method, with Student's t of clients - 1 degrees. There is no interval of fewer than two clients.

    Args:
      sums: Of a log's clients.
      ratio: The value.
      minus: What is taken from it; the same clients' terms lie in both, and the interval knows.
    """
    mean = float(value(sums.totals, ratio) - (value(sums.totals, minus) if minus else 0))
    if sums.clients < 2 or not math.isfinite(mean):
        return intervals.Interval(mean, math.nan, math.nan, sums.clients)
    change = gradient(sums.totals, ratio) - (gradient(sums.totals, minus) if minus else 0)
    # As gradients times totals are 0, the products are those of deviations from the mean already.
    variance = max(0.0, float(change @ sums.products @ change)) * sums.clients / (sums.clients - 1)
    deviation = math.sqrt(variance * sums.clients)  # Of one client's part in a mean over clients.
    half = float(intervals.half_width(deviation, sums.clients))
    return intervals.Interval(mean, mean - half, mean + half, sums.clients)
