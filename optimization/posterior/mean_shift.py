"""FedKP: the mode of the cohort's models, parameter by parameter (Johansson and Gullbrandson 2022, Algorithms 8-10).

The clients' values of a parameter are samples of its posterior. Mean shift climbs from a start to a mode of their
kernel density. It commutes with translation and scaling, so model deltas may stand for models, and inside this module
the values of a parameter are mapped to [0, 1].

Epanechnikov's kernel has windows, which make joint steps of all clients cheap. The samples within reach of a point
change only at the edges sample +- bandwidth. Between two edges a step is one function of the point, whose coefficients
are sums over the samples within reach.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from optimization.posterior import cohort, kernels

_APART = 4.0  # All parameters lie on one line; their edges, at most from -1 to 2, do not meet.
_RANGE = 1 + 1e-9
_FEWER = 0.8  # Share of moving points below which the others are dropped.
# Below this bandwidth the sums of squares and cubes lose more than nine digits to cancellation.
LEAST_REACH = 0.01


def profile_cluster_mean(
    samples: np.ndarray, weights: np.ndarray, reach: np.ndarray, pulls: np.ndarray, tolerances: np.ndarray, t_max: int
) -> np.ndarray:
    """Average of the modes that the clients reach by steps to the mean of the samples within the kernel's reach.

    A step leads from everywhere between two edges to the same mean. So each interval has one successor, the interval
    that its mean lies in, and a walk is a chain of look-ups. A walk that reaches the tolerance in its last step may
    take one more.

    Args:
      samples: float64 [parameters, clients], ascending; overwritten.
      weights: float64, the clients' shares in the average, broadcast to the samples.
      reach: float64 [parameters, clients], the samples' bandwidths.
      pulls: float64, the clients' weights in a step, likewise.
      tolerances: float64 [parameters, 1], see `MeanShift.tolerance`.
      t_max: Maximum number of steps.

    Returns:
      float64 [parameters].
    """
    num_samples = samples.shape[1]
    places = _places(samples)
    samples += places
    edges, sum_within = _windows(samples, reach)
    pulls = np.broadcast_to(pulls, samples.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sum_within(pulls * samples) / sum_within(pulls)
    # Intervals without samples hold rounding errors; no walk arrives there.
    means = np.fmax(np.fmin(means, places + 1, out=means), places, out=means).ravel()
    starts = samples.ravel()
    first = _interval(starts, edges)
    successors = _interval(means, edges)
    following = means[successors]
    tolerances = np.repeat(tolerances, 2 * num_samples)
    settled = np.abs(following - means) <= tolerances
    np.copyto(successors, np.arange(edges.size), where=settled)
    last, steps = first, t_max - 1
    while steps:  # Squares the map from interval to interval repeatedly.
        if steps % 2:
            last = successors[last]
        steps //= 2
        if steps:
            successors = successors[successors]
    modes = np.where(settled, following, means)[last]
    after_one_step = means[first]
    modes = np.where(np.abs(after_one_step - starts) <= tolerances[first], after_one_step, modes)
    return ((modes.reshape(samples.shape) - places) * weights).sum(axis=1)


def kernel_cluster_mean(
    samples: np.ndarray, weights: np.ndarray, reach: np.ndarray, pulls: np.ndarray, tolerances: np.ndarray, t_max: int
) -> np.ndarray:
    """Average of the clients' modes by Algorithm 8, with the kernel's values as weights.

    Between two edges the weights' sum and the weighted samples' sum are parabolas. No two points overtake each other,
    so that they are looked up in ascending order.

    Args:
      samples: float64 [parameters, clients], ascending.
      weights: As in `profile_cluster_mean`.
      reach: Likewise, at least `LEAST_REACH`.
      pulls: As in `profile_cluster_mean`.
      tolerances: Likewise.
      t_max: Maximum number of steps.

    Returns:
      float64 [parameters].
    """
    centred = samples - 0.5  # Small cubes.
    places = _places(samples)
    edges, sum_within = _windows(centred + places, reach)
    edge_numbers = np.arange(edges.size, dtype=np.float64)
    pulls = np.broadcast_to(pulls, samples.shape)
    curved = pulls / np.square(reach)
    first = curved * centred
    second = first * centred
    # mass(x) = constant + 2 slope x - bend x^2, and so the sum of weighted samples.
    bend, slope, turn = (sum_within(values).ravel() for values in (curved, first, second))
    mass_constant, sum_constant = (
        sum_within(values).ravel() for values in (pulls - second, (pulls - second) * centred)
    )

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
    """All edges, ascending, and a function that sums the values of samples within reach between two edges.

    Args:
      samples: float64 [parameters, clients], on one line.
      reach: As above.
    """
    reach = np.minimum(reach, _RANGE)  # A reach beyond the samples' range has no effect.
    edges = np.concatenate([samples - reach, samples + reach], axis=1)
    order = np.argsort(edges, axis=1, kind="stable")
    order += edges.shape[1] * np.arange(len(samples))[:, np.newaxis]

    def sum_within(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, -values], axis=1).ravel()[order].cumsum(axis=1)

    return edges.ravel()[order].ravel(), sum_within


def _interval(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    # A search for ascending points: interpolation looks first where it found the last one.
    return np.interp(points, edges, np.arange(edges.size, dtype=np.float64)).astype(np.intp)


# How much wider a window is, in units of the samples' range: a sample at exactly one bandwidth counts despite rounding,
# and a window of bandwidth zero holds its own sample.
MARGIN = 1e-9
ROUNDING = 1e-9  # Results that are closer than this to the mean, in units of the samples' range, equal it.
KERNEL, PROFILE = "kernel", "profile"
WEIGHTS = {
    KERNEL: "the kernel's values, as in Algorithm 8",
    PROFILE: "the kernel's slope, which climbs the kernel's own density",
}
_CELLS = 1 << 17  # Array elements of a chunk: far more leave the caches, far fewer leave the cores waiting for Python.


class Aggregate(NamedTuple):
    """Aggregate of a cohort's models.

    Attributes:
      model: float32 [parameters].
      share_moved: Share of the parameters whose distance to the clients' (weighted) mean exceeds the tolerance. If
        no client is within one bandwidth of the mean, FedKP with Epanechnikov's kernel stays at the mean.
    """

    model: np.ndarray
    share_moved: float


@dataclasses.dataclass(frozen=True)
class MeanShift:
    """Mean shift of each parameter separately.

    Weighed by the kernel's values, as in Algorithm 8, steps climb the density whose slope the kernel is: for
    Epanechnikov's, that of the biweight kernel. Weighed by the kernel's own slope they climb its own density: with
    Epanechnikov's each step leads to the mean of the samples within one bandwidth. The Gaussian is its own slope.

    A parameter in which all clients agree stays as it is, and so does a start that no kernel reaches; the Gaussian's
    reaches everywhere. The model of a single client is its own mode. As the bandwidth grows, every result becomes the
    clients' (weighted) mean.

    Attributes:
      kernel: The density's kernel.
      bandwidth: A name in `kernels.RULES`, or `kernels.NEAREST` for a new bandwidth at each step.
      scale: Factor of the bandwidth.
      tolerance: A coordinate stops after a step that is not longer than this, in units of the models.
      t_max: Maximum number of steps of a coordinate.
      step_weights: One of `WEIGHTS`.

    Raises:
      ValueError: for an unknown bandwidth or weights, or numbers out of range.
    """

    kernel: kernels.Kernel = kernels.EPANECHNIKOV
    bandwidth: str = "silverman"
    scale: float = 1.0
    tolerance: float = 1e-7
    t_max: int = 20
    step_weights: str = KERNEL

    def __post_init__(self):
        known = [*kernels.RULES, kernels.NEAREST]
        if self.bandwidth not in known:
            raise ValueError(f"bandwidth={self.bandwidth!r} must be one of {', '.join(known)}.")
        if self.step_weights not in WEIGHTS:
            raise ValueError(f"step_weights={self.step_weights!r} must be one of {', '.join(WEIGHTS)}.")
        if not 0 < self.scale < np.inf:
            raise ValueError(f"scale={self.scale} must be finite and above 0.")
        if self.tolerance < 0 or self.t_max < 1:
            raise ValueError(f"tolerance={self.tolerance} must be at least 0, t_max={self.t_max} at least 1.")

    def fedkp(self, models: np.ndarray, weights=None, bandwidth_factors=None) -> Aggregate:
        """Shifts the mean of the models to a mode (Algorithm 9).

        Args:
          models: float32 [clients, parameters], models or deltas.
          weights: Positive float [clients], the clients' weights in the density and the mean, such as their numbers of
            examples; by default equal.
          bandwidth_factors: Positive float [clients], factors of the clients' bandwidths; see `size_factors`.

        Raises:
          ValueError: if no model is finite, or weights or factors are not positive.
        """
        return self._aggregate(models, weights, bandwidth_factors, cluster=False)

    def fedkp_cluster_mean(self, models: np.ndarray, weights=None, bandwidth_factors=None) -> Aggregate:
        """Shifts every client's model to its mode and averages (Algorithm 10). Arguments as in `fedkp`."""
        return self._aggregate(models, weights, bandwidth_factors, cluster=True)

    def modes(self, models: np.ndarray) -> np.ndarray:
        """Mode that each client's model shifts to, float32 [clients, parameters]; all models must be finite."""
        samples = models.T.astype(np.float64)
        lows, units = _frame(samples)
        samples = (samples - lows) / units
        ones = np.ones(len(models))
        return (self._shift(samples, ones, ones, self.tolerance / units, samples) * units + lows).T.astype(np.float32)

    def _aggregate(self, models, weights, factors, *, cluster: bool) -> Aggregate:
        clients = np.flatnonzero(cohort.finite_clients(models))
        if not clients.size:
            raise ValueError(f"None of the {len(models)} models is finite.")
        weights, factors = (_positive(values, len(models))[clients] for values in (weights, factors))
        weights = weights / weights.sum()
        result, is_shifted = np.empty(models.shape[1], np.float32), np.empty(models.shape[1], bool)
        has_windows = cluster and self.kernel is kernels.EPANECHNIKOV and self.bandwidth != kernels.NEAREST

        def work(chunk: slice) -> None:
            samples = models[clients, chunk].T.astype(np.float64, order="C")
            lows, units = _frame(samples)
            samples -= lows
            samples /= units
            means = samples @ weights
            if has_windows:
                modes = self._windowed_cluster_mean(samples, weights, factors, self.tolerance / units)
            else:
                starts = samples if cluster else means[:, np.newaxis]
                modes = self._shift(samples, weights, factors, self.tolerance / units, starts)
                modes = modes @ weights if cluster else modes[:, 0]
            is_shifted[chunk] = np.abs(modes - means) > np.maximum(self.tolerance / units[:, 0], ROUNDING)
            result[chunk] = modes * units[:, 0] + lows[:, 0]

        # The cells of a parameter in the largest array that it takes.
        pairs = (cluster and not has_windows) or self.bandwidth in kernels.PAIRWISE
        cells = clients.size**2 if pairs else 2 * clients.size
        cohort.each_chunk(work, models.shape[1], max(1, _CELLS // cells))
        return Aggregate(result, float(is_shifted.mean()))

    def _shift(self, samples, weights, factors, tolerances, starts) -> np.ndarray:
        """Modes that Algorithm 8 reaches from each of the starts [parameters, points]."""
        points, rows = starts.flatten(), np.repeat(np.arange(len(starts)), starts.shape[1])
        pulls = self._pulls(weights, factors)
        weigh = self.kernel.pull if self.step_weights == PROFILE else self.kernel.weight
        if not np.ptp(factors):
            factors = factors[:1]
        widths = None if self.bandwidth == kernels.NEAREST else self.widths(samples)
        active = np.arange(points.size)
        for _ in range(self.t_max):
            row = rows[active]
            distances = samples[row] - points[active, np.newaxis]
            width = self.scale * kernels.nearest(distances, self.kernel) if widths is None else widths[row]
            reach = width[:, np.newaxis] * factors + MARGIN
            shares = weigh(distances / reach)
            mass = shares @ pulls
            shares *= distances
            steps = shares @ pulls / np.where(mass > 0, mass, 1)
            points[active] += steps
            active = active[np.abs(steps) > tolerances[row, 0]]
            if not active.size:
                break
        return points.reshape(starts.shape)

    def _windowed_cluster_mean(self, samples, weights, factors, tolerances) -> np.ndarray:
        """Average of `_shift` with the samples as starts, at the cost of a few steps."""
        if self.step_weights == PROFILE:
            return self._windows(profile_cluster_mean, samples, weights, factors, tolerances)
        result = np.zeros(len(samples))  # For samples that agree.
        is_narrow = self.widths(samples) * factors.min() < LEAST_REACH
        wide, narrow = np.flatnonzero(~is_narrow), np.flatnonzero(is_narrow & samples.any(axis=1))
        if wide.size:
            result[wide] = self._windows(kernel_cluster_mean, samples[wide], weights, factors, tolerances[wide])
        most = max(1, _CELLS // samples.shape[1] ** 2)
        for start in range(0, len(narrow), most):
            rows = narrow[start : start + most]
            result[rows] = self._shift(samples[rows], weights, factors, tolerances[rows], samples[rows]) @ weights
        return result

    def _windows(self, cluster_mean, samples, weights, factors, tolerances) -> np.ndarray:
        if np.ptp(weights) or np.ptp(factors):
            order = np.argsort(samples, axis=1)
            samples, weights, factors = np.take_along_axis(samples, order, axis=1), weights[order], factors[order]
        else:
            samples.sort(axis=1)
        reach = self.widths(samples)[:, np.newaxis] * factors + MARGIN
        return cluster_mean(samples, weights, reach, self._pulls(weights, factors), tolerances, self.t_max)

    def _pulls(self, weights: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Weights of the clients in a step: K's slope at (x - sample) / (h factor) holds the factor squared."""
        return weights / np.square(factors) if self.step_weights == PROFILE else weights

    def widths(self, samples: np.ndarray) -> np.ndarray:
        """Scaled bandwidths of samples float [parameters, clients]; not for `kernels.NEAREST`."""
        return self.scale * kernels.RULES[self.bandwidth](samples, self.kernel)


def size_factors(sizes: np.ndarray) -> np.ndarray:
    """Bandwidth factors inversely proportional to the clients' numbers of examples (chapter 7).

    A client of average size has the factor 1; the thesis' own 1 / size would shrink all bandwidths by the average size.
    """
    return np.mean(sizes) / sizes


def _frame(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimum and range (1 if zero) of samples [parameters, clients], [parameters, 1] each."""
    lows = samples.min(axis=1, keepdims=True)
    ranges = samples.max(axis=1, keepdims=True) - lows
    return lows, np.where(ranges > 0, ranges, 1.0)


def _positive(weights, num_clients: int) -> np.ndarray:
    if weights is None:
        return np.ones(num_clients)
    weights = np.asarray(weights, np.float64)
    if weights.shape != (num_clients,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"Weights must be {num_clients} positive numbers, one per client.")
    return weights
