"""The bootstrap over clients by weights that each client draws for itself.

Poisson(1) weights instead of a draw with replacement (Chamandy, Muralidharan, Najmi and Naidu, "Estimating uncertainty
for massive data streams", 2012): a client needs to know of no other, so that only sums over clients, [draws, k],
travel. Models are not fitted again.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from bandits.evaluation import totals
from bandits.evaluation.totals import Ratio, Sums
from data import keys
from optimization.study import intervals

# Together, the most weights that are there at once: 8 MB.
_CLIENTS, _DRAWS = 1024, 1024
# P(at most k), up to where it is 1 in double precision.
_POISSON = np.cumsum([math.exp(-1) / math.factorial(count) for count in range(20)])


def client_weights(name: str, seed: int, draws: int, first: int = 0) -> np.ndarray:
    """A client's weight in each resample, uint8 [draws]: Poisson(1), a function of its name and the draw.

    Args:
      name: The client's.
      seed: Of all draws.
      draws: How many.
      first: The number of the first.
    """
    generator = keys.generator(seed, keys.Purpose.BOOTSTRAP, keys.number_of(name))
    if first:  # A uniform number each.
        generator.bit_generator.advance(first)  # type: ignore[attr-defined]
    return np.searchsorted(_POISSON, generator.random(draws), side="right").astype(np.uint8)


def drawn_totals(client_totals: np.ndarray, names: Sequence[str], seed: int, draws: int) -> np.ndarray:
    """Totals of each resample, float64 [draws, k], in memory that does not otherwise grow with the draws.

    Args:
      client_totals: float64 [clients, k], of `totals.of_clients`.
      names: The clients', in this order.
      seed: Of all draws.
      draws: How many.
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


def interval(
    sums: Sums, drawn: np.ndarray, ratio: Ratio, minus: Ratio | None = None, confidence: float = intervals.CONFIDENCE
) -> intervals.Interval:
    """A value, or the difference of two, with a percentile interval over resampled clients.

    Args:
      sums: Of the clients as they are.
      drawn: float64 [draws, k], of `drawn_totals` or of `federated`.
      ratio: The value.
      minus: What is taken from it.
      confidence: Confidence level.
    """
    values = totals.value(drawn, ratio) - (totals.value(drawn, minus) if minus else 0)
    values = values[np.isfinite(values)]
    mean = float(totals.value(sums.totals, ratio) - (totals.value(sums.totals, minus) if minus else 0))
    if not len(values):
        return intervals.Interval(mean, math.nan, math.nan, sums.clients)
    low, high = np.percentile(values, [50 * (1 - confidence), 50 * (1 + confidence)])
    return intervals.Interval(mean, float(low), float(high), sums.clients)
