"""Mean shift of all clients at once with Epanechnikov's kernel, whose windows make steps cheap.

The samples that a point feels change only at the edges sample +- bandwidth. Between two edges a step is one function of
the point, whose coefficients are sums over the felt samples. Values are in [0, 1], as in `mean_shift`.
"""

import numpy as np

_APART = 4.0  # All parameters lie on one line; their edges, at most from -1 to 2, do not meet.
_RANGE = 1 + 1e-9
_FEWER = 0.8  # Share of points still moving below which the others are left behind.
# Below this bandwidth the sums of squares and cubes lose more than nine digits to cancellation.
LEAST_REACH = 0.01


def profile_cluster_mean(
    samples: np.ndarray, weights: np.ndarray, reach: np.ndarray, pulls: np.ndarray, tolerances: np.ndarray, t_max: int
) -> np.ndarray:
    """Returns the average of the modes that the clients reach by steps to the mean of the felt samples.

    A step leads from everywhere between two edges to the same mean. So each interval has one successor, the interval
    that its mean lies in, and a walk is a chain of look-ups. A walk that reaches the tolerance in its last step may
    take one more.

    Args:
      samples: float64 [parameters, clients], ascending; overwritten.
      weights: float64, the clients' shares in the average, broadcast to the samples.
      reach: float64 [parameters, clients], the samples' bandwidths.
      pulls: float64, the clients' weights in a step, likewise.
      tolerances: float64 [parameters, 1], see `MeanShift.tolerance`.
      t_max: Most steps.

    Returns:
      float64 [parameters].
    """
    num_samples = samples.shape[1]
    places = _places(samples)
    samples += places
    edges, felt = _windows(samples, reach)
    pulls = np.broadcast_to(pulls, samples.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = felt(pulls * samples) / felt(pulls)
    # Where nothing is felt rounding errors remain; nothing arrives there.
    means = np.fmax(np.fmin(means, places + 1, out=means), places, out=means).ravel()
    starts = samples.ravel()
    first = _interval(starts, edges)
    successors = _interval(means, edges)
    following = means[successors]
    tolerances = np.repeat(tolerances, 2 * num_samples)
    settled = np.abs(following - means) <= tolerances
    np.copyto(successors, np.arange(edges.size), where=settled)
    last, steps = first, t_max - 1
    while steps:  # Squares the map from interval to interval again and again.
        if steps % 2:
            last = successors[last]
        steps //= 2
        if steps:
            successors = successors[successors]
    modes = np.where(settled, following, means)[last]
    after_one = means[first]
    modes = np.where(np.abs(after_one - starts) <= tolerances[first], after_one, modes)
    return ((modes.reshape(samples.shape) - places) * weights).sum(axis=1)


def kernel_cluster_mean(
    samples: np.ndarray, weights: np.ndarray, reach: np.ndarray, pulls: np.ndarray, tolerances: np.ndarray, t_max: int
) -> np.ndarray:
    """Returns the average of where Algorithm 8 leads the clients, whose weights are the kernel's values.

    Between two edges the weights' sum and the weighted samples' sum are parabolas. No two points overtake each other,
    so that they are looked up in ascending order.

    Args:
      samples: float64 [parameters, clients], ascending.
      weights: As in `profile_cluster_mean`.
      reach: Likewise, at least `LEAST_REACH`.
      pulls: As in `profile_cluster_mean`.
      tolerances: Likewise.
      t_max: Most steps.

    Returns:
      float64 [parameters].
    """
    centred = samples - 0.5  # Small cubes.
    places = _places(samples)
    edges, felt = _windows(centred + places, reach)
    edge_numbers = np.arange(edges.size, dtype=np.float64)
    pulls = np.broadcast_to(pulls, samples.shape)
    curved = pulls / np.square(reach)
    first = curved * centred
    second = first * centred
    # mass(x) = constant + 2 slope x - bend x^2, and so the sum of weighted samples.
    bend, slope, turn = (felt(values).ravel() for values in (curved, first, second))
    mass_constant, sum_constant = (felt(values).ravel() for values in (pulls - second, (pulls - second) * centred))

    points, moving = centred.ravel(), np.arange(centred.size)
    place, limit = np.broadcast_to(places, samples.shape).ravel(), np.repeat(tolerances, samples.shape[1])
    result, moves = points.copy(), np.ones(points.size, bool)
    for _ in range(t_max):
        at = np.interp(points + place, edges, edge_numbers).astype(np.intp)
        tilt = slope[at]
        mass = mass_constant[at] + points * (2 * tilt - points * bend[at])
        weighted = sum_constant[at] + points * (2 * turn[at] - points * tilt)
        after = np.divide(weighted, mass, out=points.copy(), where=moves & (mass > 0))
        moves &= np.abs(after - points) > limit
        points = after
        num_moving = np.count_nonzero(moves)
        if num_moving < _FEWER * points.size:
            result[moving] = points
            points, moving, place, limit = (values[moves] for values in (points, moving, place, limit))
            moves = moves[moves]
            if not num_moving:
                break
    result[moving] = points
    return ((result.reshape(samples.shape) + 0.5) * weights).sum(axis=1)


def _places(samples: np.ndarray) -> np.ndarray:
    return _APART * np.arange(len(samples))[:, np.newaxis]


def _windows(samples: np.ndarray, reach: np.ndarray):
    """Returns all edges, ascending, and a function that sums values of samples felt between an edge and the next.

    Args:
      samples: float64 [parameters, clients], on one line.
      reach: As above.
    """
    reach = np.minimum(reach, _RANGE)  # Wider than the samples' range changes nothing of who is felt.
    edges = np.concatenate([samples - reach, samples + reach], axis=1)
    order = np.argsort(edges, axis=1, kind="stable")
    order += edges.shape[1] * np.arange(len(samples))[:, np.newaxis]

    def felt(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, -values], axis=1).ravel()[order].cumsum(axis=1)

    return edges.ravel()[order].ravel(), felt


def _interval(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    # A search for ascending points: interpolation looks first where it found the last one.
    return np.interp(points, edges, np.arange(edges.size, dtype=np.float64)).astype(np.intp)
