"""The one vector that a client sends where a log is evaluated under differential privacy, and its bounds.

A row's terms are bounded first (`bounds.apply`): rewards in [0, 1], weights in [0, W], at most m rows a client. Then a
client's rows number at most m, its sums of w and of w r are at most m W, those of a doubly robust term are within
m (W + 1); products of two have the product of their bounds. Each number of the vector is divided by its bound and so
lies in [-1, 1]; then the whole vector, of all candidate policies, is clipped to one L2 norm. So a client moves the sum
over clients by at most that norm if its rows are left out, and by twice as much if they are replaced.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import estimators as estimators_lib
from bandits.evaluation import totals
from bandits.evaluation.bounds import Bounds
from bandits.evaluation.estimators import Estimator
from bandits.evaluation.terms import Terms


class _Column(NamedTuple):
    """A sum over a client's rows: of ones, of a candidate's weights, or of an estimator's numerators.

    Attributes:
      candidate: Number of the candidate policy; -1 for the rows.
      estimator: Whose numerator; None for rows and weights.
      largest: Bound of a row's part.
    """

    candidate: int
    estimator: Estimator | None
    largest: float


@dataclasses.dataclass(frozen=True)
class Query:
    """What is asked of each client.

    Attributes:
      candidates: Names of the target policies.
      estimators: Estimators of each one's value, fixed beforehand like everything here.
      bounds: Bounds of a client's part.
      clip_norm: L2 norm that its vector is clipped to; None for `typical_norm`.

    Raises:
      ValueError: If there is nothing to ask, or twice the same, or the norm is not above 0.
    """

    candidates: tuple[str, ...]
    estimators: tuple[Estimator, ...]
    bounds: Bounds
    clip_norm: float | None = None

    def __post_init__(self):
        for name, asked in (("candidates", self.candidates), ("estimators", self.estimators)):
            if not asked or len(set(asked)) != len(asked):
                raise ValueError(f"{name} must be at least one, and each there once.")
        if self.clip_norm is not None and not (math.isfinite(self.clip_norm) and self.clip_norm > 0):
            raise ValueError(f"clip_norm is {self.clip_norm}, not a finite number above 0.")

    @functools.cached_property
    def _columns(self) -> list[_Column]:
        weight = self.bounds.largest_weight
        numerators = dict.fromkeys(map(_shared_column, self.estimators))
        found = [_Column(-1, None, 1.0)]
        for candidate in range(len(self.candidates)):
            found.append(_Column(candidate, None, weight))
            found += [_Column(candidate, each, _largest(each, weight)) for each in numerators]
        return found

    @functools.cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """The products that the variances of the ratios and of the mean weights need."""
        pairs: dict[tuple[int, int], None] = {}
        for candidate in range(len(self.candidates)):
            ratios = [self.ratio(candidate, estimator) for estimator in self.estimators]
            for first, second in map(sorted, [*ratios, totals.Ratio(self.weights(candidate), 0)]):
                pairs.update(dict.fromkeys([(first, first), (first, second), (second, second)]))
        return list(pairs)

    @functools.cached_property
    def scales(self) -> np.ndarray:
        """Bounds of the vector's numbers: float64 [size]."""
        single = np.array([column.largest for column in self._columns]) * self.bounds.max_rows
        return np.concatenate([single, [single[first] * single[second] for first, second in self._pairs]])

    @property
    def size(self) -> int:
        """How many numbers the vector has."""
        return len(self._columns) + len(self._pairs)

    @functools.cached_property
    def norm(self) -> float:
        """The L2 norm that a vector is clipped to."""
        return self.typical_norm if self.clip_norm is None else self.clip_norm

    @functools.cached_property
    def typical_norm(self) -> float:
        """The norm of a client of m rows whose weights average 1, as they should, and whose rewards are all 1.

        It follows from the bounds alone. No vector is longer than the root of its size, which is many times that.
        """
        single = np.array([1 / column.largest for column in self._columns])
        return float(np.linalg.norm(_with_products(single[np.newaxis], self._pairs, np)))

    def ratio(self, candidate: int, estimator: Estimator) -> totals.Ratio:
        """Indices of the columns that an estimator divides."""
        keys = [(column.candidate, column.estimator) for column in self._columns]
        denominator = 0 if estimator.denominator == "rows" else keys.index((candidate, None))
        return totals.Ratio(keys.index((candidate, _shared_column(estimator))), denominator)

    def weights(self, candidate: int) -> int:
        """Index of a candidate's sum of weights."""
        return [(column.candidate, column.estimator) for column in self._columns].index((candidate, None))

    def product(self, first: int, second: int) -> int:
        """Index of a product of two columns."""
        return len(self._columns) + self._pairs.index((min(first, second), max(first, second)))

    def columns(self, terms: Sequence[Terms], backend: Any = np) -> list[Any]:
        """Columns divided by their bounds, float64 [rows] each.

        Args:
          terms: Of each candidate, of the same rows, within the bounds.
          backend: `numpy`, or `tensorflow` for tensors.
        """
        found = []
        for column in self._columns:
            if column.candidate < 0:
                values = backend.ones_like(terms[0].rewards)
            elif column.estimator is None:
                values = terms[column.candidate].weights
            else:
                values = column.estimator.numerator(terms[column.candidate], backend)
            # Whatever the estimator does, the bound holds.
            values = backend.minimum(backend.maximum(values, -column.largest), column.largest)
            found.append(values / (column.largest * self.bounds.max_rows))
        return found

    def vectors(self, client_totals: Any, backend: Any = np) -> Any:
        """Clients' vectors, float64 [clients, size], from totals of the columns, float64 [clients, k]."""
        return _with_products(client_totals, self._pairs, backend)


def of_clients(terms: Sequence[Terms], query: Query) -> np.ndarray:
    """Each client's vector before it is clipped, float64 [clients, size], by NumPy."""
    return query.vectors(totals.of_clients(terms[0].clients, query.columns(terms)))


def clipped(vectors: np.ndarray, norm: float) -> np.ndarray:
    """Vectors clipped to an L2 norm, float64 [clients, size]."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * (norm / np.maximum(norms, norm))


def _with_products(single: Any, pairs: Sequence[tuple[int, int]], backend: Any) -> Any:
    products = [single[:, first] * single[:, second] for first, second in pairs]
    parts = [single, backend.stack(products, axis=1)]
    return np.concatenate(parts, axis=1) if backend is np else backend.concat(parts, axis=1)


def _shared_column(estimator: Estimator) -> Estimator:
    """Estimator with the same numerator that represents this one."""
    return estimators_lib.Ips() if isinstance(estimator, estimators_lib.Ips) else estimator


def _largest(estimator: Estimator, largest_weight: float) -> float:
    """Bound of a row's term of a numerator."""
    if isinstance(estimator, estimators_lib.Logged | estimators_lib.DirectMethod):
        return 1.0
    return largest_weight + 1 if estimator.needs_model else largest_weight
