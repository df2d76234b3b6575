"""FedKP: the mode of the cohort's models, parameter by parameter (Johansson and Gullbrandson 2022, Algorithms 8-10).

The clients' values of a parameter are samples of its posterior. Mean shift climbs from a start to a mode of their
kernel density. It commutes with translation and scaling, so model deltas may stand for models, and inside this module
the values of a parameter are mapped to [0, 1].
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from optimization.posterior import bandwidths, cohort, kernels

# How much wider a window is, in units of the samples' range: a sample at exactly one bandwidth counts despite rounding,
# and a window of bandwidth zero holds its own sample.
_MARGIN = 1e-9
_CELLS = 1 << 17  # Array elements of a chunk: far more leave the caches, far fewer leave the cores waiting for Python.


class Aggregate(NamedTuple):
    """A cohort's models made one.

    Attributes:
      model: float32 [parameters].
      num_left_out: Clients whose models were not finite; they had no part in `model`.
    """

    model: np.ndarray
    num_left_out: int


@dataclasses.dataclass(frozen=True)
class MeanShift:
    """Mean shift of every parameter on its own.

    A parameter in which all clients agree stays as it is, and so does a start that no kernel reaches. The model of a
    single client is its own mode. As the bandwidth grows, every result becomes the clients' (weighted) mean.

    Attributes:
      kernel: The density's kernel.
      bandwidth: A name in `bandwidths.RULES`, or `bandwidths.NEAREST` for a new bandwidth at each step.
      scale: Factor of the bandwidth.
      tolerance: A coordinate stops after a step that is not longer than this, in units of the models.
      t_max: Most steps of a coordinate.

    Raises:
      ValueError: for an unknown bandwidth, or numbers out of range.
    """

    kernel: kernels.Kernel = kernels.EPANECHNIKOV
    bandwidth: str = "silverman"
    scale: float = 1.0
    tolerance: float = 1e-7
    t_max: int = 20

    def __post_init__(self):
        known = [*bandwidths.RULES, bandwidths.NEAREST]
        if self.bandwidth not in known:
            raise ValueError(f"bandwidth={self.bandwidth!r} must be one of {', '.join(known)}.")
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
          bandwidth_factors: Positive float [clients], factors of the clients' own bandwidths; see `size_factors`.

        Raises:
          ValueError: if no model is finite, or weights or factors are not positive.
        """
        return self._aggregate(models, weights, bandwidth_factors, cluster=False)

    def fedkp_cluster_mean(self, models: np.ndarray, weights=None, bandwidth_factors=None) -> Aggregate:
        """Shifts every client's model to its mode and averages (Algorithm 10). Arguments as in `fedkp`."""
        return self._aggregate(models, weights, bandwidth_factors, cluster=True)

    def _aggregate(self, models, weights, factors, *, cluster: bool) -> Aggregate:
        clients = np.flatnonzero(cohort.finite_clients(models))
        if not clients.size:
            raise ValueError(f"None of the {len(models)} models is finite.")
        weights, factors = (_positive(values, len(models))[clients] for values in (weights, factors))
        weights = weights / weights.sum()
        result = np.empty(models.shape[1], np.float32)
        windows = cluster and self.kernel is kernels.EPANECHNIKOV and self.bandwidth != bandwidths.NEAREST

        def work(chunk: slice) -> None:
            samples = models[clients, chunk].T.astype(np.float64, order="C")
            lows = samples.min(axis=1, keepdims=True)
            ranges = samples.max(axis=1, keepdims=True) - lows
            units = np.where(ranges > 0, ranges, 1.0)
            samples -= lows
            samples /= units
            if windows:
                modes = self._windowed_cluster_mean(samples, weights, factors, self.tolerance / units)
            else:
                if self.kernel is kernels.GAUSSIAN:
                    samples = samples.astype(np.float32)  # Its density is smooth, and this halves the time.
                starts = samples if cluster else (samples @ weights)[:, np.newaxis]
                modes = self._shift(samples, weights, factors, self.tolerance / units, starts)
                modes = modes @ weights if cluster else modes[:, 0]
            result[chunk] = modes * units[:, 0] + lows[:, 0]

        # The cells of a parameter in the largest array that it takes.
        pairs = (cluster and not windows) or self.bandwidth in bandwidths.PAIRWISE
        cells = clients.size**2 if pairs else 2 * clients.size
        cohort.each_chunk(work, models.shape[1], max(1, _CELLS // cells))
        return Aggregate(result, len(models) - clients.size)

    def _shift(self, samples, weights, factors, tolerances, starts) -> np.ndarray:
        """Returns where Algorithm 8 leads from each of the starts [parameters, points]."""
        points, rows = starts.astype(samples.dtype).ravel(), np.repeat(np.arange(len(starts)), starts.shape[1])
        pulls, factors = _pulls(weights, factors).astype(samples.dtype), factors.astype(samples.dtype)
        if not np.ptp(factors):
            factors = factors[:1]
        widths = None if self.bandwidth == bandwidths.NEAREST else self.widths(samples).astype(samples.dtype)
        active = np.arange(points.size)
        for _ in range(self.t_max):
            row = rows[active]
            distances = samples[row] - points[active, np.newaxis]
            width = self.scale * bandwidths.nearest(distances, self.kernel) if widths is None else widths[row]
            reach = width[:, np.newaxis] * factors + _MARGIN
            shares = self.kernel.pull(distances / reach)
            mass = shares @ pulls
            shares *= distances
            steps = shares @ pulls / np.where(mass > 0, mass, 1)
            points[active] += steps
            active = active[np.abs(steps) > tolerances[row, 0]]
            if not active.size:
                break
        return points.reshape(starts.shape)

    def _windowed_cluster_mean(self, samples, weights, factors, tolerances) -> np.ndarray:
        """Returns the average of what `_shift` gives with the samples as starts, at the price of a few steps.

        With the Epanechnikov kernel the samples that a point feels change only at the edges sample +- bandwidth, and a
        step leads from everywhere between two edges to the same mean. So each interval has one successor, the interval
        that its mean lies in, and a walk is a chain of look-ups. A walk that reaches the tolerance in its last step may
        take one more.
        """
        size, num_samples = samples.shape
        if np.ptp(weights) or np.ptp(factors):
            order = np.argsort(samples, axis=1)
            samples, weights, factors = np.take_along_axis(samples, order, axis=1), weights[order], factors[order]
        else:
            samples.sort(axis=1)
        # Wider than the samples' range changes nothing.
        reach = np.minimum(self.widths(samples)[:, np.newaxis] * factors, 1) + _MARGIN
        # All parameters on one line; their edges, at most from -1 to 2, do not meet.
        places = 4.0 * np.arange(size)[:, np.newaxis]
        samples += places
        edges = np.concatenate([samples - reach, samples + reach], axis=1)
        order = np.argsort(edges, axis=1, kind="stable")
        order += 2 * num_samples * np.arange(size)[:, np.newaxis]
        edges = edges.ravel()[order].ravel()

        def felt(values: np.ndarray) -> np.ndarray:
            """Sums the values of the samples felt between an edge and the next."""
            return np.concatenate([values, -values], axis=1).ravel()[order].cumsum(axis=1)

        pulls = np.broadcast_to(_pulls(weights, factors), samples.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = felt(pulls * samples) / felt(pulls)
        # Where nothing is felt rounding errors remain; nothing arrives there.
        means = np.fmax(np.fmin(means, places + 1, out=means), places, out=means).ravel()

        def interval(points: np.ndarray) -> np.ndarray:
            # A search for ascending points: interpolation looks first where it found the last one.
            return np.interp(points, edges, np.arange(edges.size, dtype=np.float64)).astype(np.intp)

        starts = samples.ravel()
        first = interval(starts)
        successors = interval(means)
        following = means[successors]
        tolerances = np.repeat(tolerances, 2 * num_samples)
        settled = np.abs(following - means) <= tolerances
        np.copyto(successors, np.arange(edges.size), where=settled)
        last, steps = first, self.t_max - 1
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

    def widths(self, samples: np.ndarray) -> np.ndarray:
        """Returns the bandwidths of samples float [parameters, clients], scaled; not for `bandwidths.NEAREST`."""
        return self.scale * bandwidths.RULES[self.bandwidth](samples, self.kernel)


def size_factors(sizes: np.ndarray) -> np.ndarray:
    """Returns bandwidth factors inversely proportional to the clients' numbers of examples (chapter 7).

    A client of average size has the factor 1; the thesis' own 1 / size would shrink all bandwidths by the average size.
    """
    return np.mean(sizes) / sizes


def _pulls(weights: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Returns the clients' weights in a step: the slope of K((x - sample) / (h factor)) holds the factor squared."""
    return weights / np.square(factors)


def _positive(values, num_clients: int) -> np.ndarray:
    if values is None:
        return np.ones(num_clients)
    values = np.asarray(values, np.float64)
    if values.shape != (num_clients,) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"Weights and bandwidth factors must be {num_clients} positive numbers, one a client.")
    return values
