"""An interval of a value over clients that holds with few of them, too, given a bound of what each may contribute.

Maurer and Pontil, "Empirical Bernstein bounds and sample variance penalization", 2009, Theorem 4, inverted over values:
with a = sum min(w, W) r and n = rows of a client, both over the most rows m, a - v n lies in a range of W, and its mean
over independent clients is at most 0 at the value v (0 without clipping). The low ends where that mean is no longer
above the bound; the high is the same for 1 - r and 1 - v. It holds for the value without clipping.
"""

import math

import numpy as np

from bandits.evaluation import totals
from bandits.evaluation.bounds import Bounds
from bandits.evaluation.terms import Terms
from optimization.study import intervals


def interval(terms: Terms, bounds: Bounds, confidence: float = intervals.CONFIDENCE) -> intervals.Interval:
    """Returns clipped IPS and its interval, within [0, 1]; all of [0, 1] says nothing.

    Args:
      terms: Of rows within the bounds (see `bounds.apply`).
      bounds: These bounds.
      confidence: Least probability that it holds the value of the clients' population.
    """
    earned = terms.weights * terms.rewards
    columns = [np.ones_like(earned), earned, terms.weights - earned]
    client_totals = totals.of_clients(terms.clients, columns) / bounds.max_rows
    count, (rows, reward, _) = len(client_totals), client_totals.sum(axis=0)
    mean = reward / rows if rows else math.nan
    if count < 2:
        return intervals.Interval(mean, 0.0, 1.0, count)
    level = math.log(4 / (1 - confidence))  # Two sides, and two probabilities in the theorem.
    low, above = (_limit(client_totals[:, [column, 0]], bounds.largest_weight, level) for column in (1, 2))
    return intervals.Interval(mean, low, 1 - above, count)


def _limit(pairs: np.ndarray, largest_weight: float, level: float) -> float:
    """Returns the smallest value v >= 0 at which the mean of a - v n is within its bound, at most 1."""
    count, (mean, rows) = len(pairs), pairs.mean(axis=0)
    (variance, covariance), (_, of_rows) = np.cov(pairs.T)
    mean = mean - 7 * largest_weight * level / (3 * (count - 1))
    share = 2 * level / count
    constant = mean**2 - share * variance
    if mean <= 0 or constant <= 0:
        return 0.0
    # Within it where (mean - v rows)^2 is at most a share of the variance of a - v n, which it is at v = mean / rows.
    roots = np.roots([rows**2 - share * of_rows, 2 * (share * covariance - mean * rows), constant])
    real = roots[np.isreal(roots)].real
    return float(min(1.0, real[real > 0].min(initial=mean / rows)))
