"""Kernels for density estimation in one dimension, and their bandwidths, in TensorFlow.

See Johansson and Gullbrandson 2022, section 2.6 and Appendix C. The rules in `RULES` map samples, float64 [parameters,
clients], to bandwidths, float64 [parameters], which do not change if the samples are shifted. `nearest` takes distances
from a point instead. The bandwidth of equal samples, or of a single sample, is zero. All bandwidths scale with the
samples.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A symmetric density around zero.

    Attributes:
      density: The function K(u) of scaled distances u = distance / bandwidth.
      weight: A function proportional to K(u). The factor may differ only between rows, not along u's last axis.
      roughness: R(K), the integral of K squared.
      variance: m2(K), the integral of u squared times K.
    """

    density: Callable[[tf.Tensor], tf.Tensor]
    weight: Callable[[tf.Tensor], tf.Tensor]
    roughness: float
    variance: float


def _epanechnikov_weight(scaled: tf.Tensor) -> tf.Tensor:
    return tf.maximum(1 - tf.square(scaled), 0.0)


def _gaussian_weight(scaled: tf.Tensor) -> tf.Tensor:
    logarithms = -0.5 * tf.square(scaled)
    # Without the subtraction, all weights would underflow to 0 far from the samples.
    return tf.exp(logarithms - tf.reduce_max(logarithms, axis=-1, keepdims=True))


KERNELS = {
    "epanechnikov": Kernel(
        density=lambda scaled: 0.75 * _epanechnikov_weight(scaled),
        weight=_epanechnikov_weight,
        roughness=3 / 5,
        variance=1 / 5,
    ),
    "gaussian": Kernel(
        density=lambda scaled: tf.exp(-0.5 * tf.square(scaled)) / math.sqrt(2 * math.pi),
        weight=_gaussian_weight,
        roughness=1 / (2 * math.sqrt(math.pi)),
        variance=1.0,
    ),
}


_NORMAL_REFERENCE = (4 / 3) ** 0.2  # Optimal factor for normal samples and the Gaussian kernel (eq. 2.20).
_FOLDS = 5
_FACTORS = (0.01, 0.1, 1.0, 10.0)
_NEIGHBOURS = 5
_GRID = 1024  # Number of grid points.
_FIXED_POINT_STEPS = 100
_NEGLIGIBLE = 60.0  # exp(-60) is negligible, even times the 14th power of a frequency.


def silverman(samples: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """Silverman's bandwidth 0.9 min(standard deviation, IQR / 1.34) n^(-1/5) (eq. 2.21), for either kernel.

    If the interquartile range is zero, only the standard deviation is used.
    """
    deviations, ordered = _deviations(samples), tf.sort(samples, axis=1)
    ranges = (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / 1.34
    spreads = tf.where(ranges > 0, tf.minimum(deviations, ranges), deviations)
    return 0.9 * spreads * _count(samples) ** -0.2


def scott(samples: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """Scott's bandwidth (4/3)^(1/5) standard deviation n^(-1/5) (Scott 1992), for either kernel."""
    return _NORMAL_REFERENCE * _deviations(samples) * _count(samples) ** -0.2


def plug_in(samples: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """Plug-in bandwidth of depth two (Sheather and Jones 1991; Wand and Jones 1995, section 3.6.1).

    This is eq. 2.20 with R(f'') estimated by a Gaussian kernel, whose bandwidth depends on R(f'''). R(f''') is
    estimated in the same way, with a bandwidth that depends on R(f''''), which is taken from the normal density. With
    both pilot bandwidths, the leading bias cancels the terms that pair a sample with itself.
    """
    count, deviations = _count(samples), _deviations(samples)
    scales = tf.where(deviations > 0, deviations, 1.0)
    # Distances in units of the standard deviation. 105 / (32 sqrt(pi)) is the normal density's eighth functional.
    distances = (samples[:, :, tf.newaxis] - samples[:, tf.newaxis, :]) / scales[:, tf.newaxis, tf.newaxis]

    def mean_derivative(polynomial: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(polynomial * tf.exp(-0.5 * squares), axis=[1, 2]) / math.sqrt(2 * math.pi)

    pilot = (30 / math.sqrt(2 * math.pi) / (105 / (32 * math.sqrt(math.pi)) * count)) ** (1 / 9)
    squares = tf.square(distances / pilot)
    sixth = mean_derivative((((squares - 15) * squares + 45) * squares) - 15, squares) / pilot**7
    pilots = (6 / math.sqrt(2 * math.pi) / (-sixth * count)) ** (1 / 7)
    squares = tf.square(distances / pilots[:, tf.newaxis, tf.newaxis])
    fourth = mean_derivative((squares - 6) * squares + 3, squares) / pilots**5
    return (kernel.roughness / (kernel.variance**2 * fourth * count)) ** 0.2 * deviations


def improved_sheather_jones(samples: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """Plug-in bandwidth without a normal reference (Botev, Grotowski and Kroese 2010, Algorithm 1).

    For the Gaussian kernel, this is the fixed point of equation 29 with l = 5, on a grid of 1024 points over twice the
    samples' range. For another kernel, it is multiplied by the ratio of the kernels' constants in eq. 2.20. With few
    samples there may be no fixed point; the bandwidth is then infinite, and the mode is the mean.
    """
    lows, ranges = tf.reduce_min(samples, axis=1), tf.reduce_max(samples, axis=1) - tf.reduce_min(samples, axis=1)
    places = (samples - lows[:, tf.newaxis]) / tf.where(ranges > 0, 2 * ranges, 1.0)[:, tf.newaxis] + 0.25
    coefficients = _squared_cosine_coefficients(places)
    rates = math.pi**2 * tf.square(tf.range(1, _GRID, dtype=tf.float64))
    ordered = tf.sort(samples, axis=1)
    count = 1 + tf.reduce_sum(tf.cast(ordered[:, 1:] > ordered[:, :-1], tf.float64), axis=1)

    def step(number, times, rows):
        row_coefficients, row_count = tf.gather(coefficients, rows), tf.gather(count, rows)

        def roughness(derivative: int, time: tf.Tensor) -> tf.Tensor:
            """Roughness R of a derivative of the density estimate whose squared bandwidth is `time`."""
            limit = tf.constant([_NEGLIGIBLE], tf.float64)
            used = tf.searchsorted(rates * tf.reduce_min(time), limit)[0]  # Higher frequencies add less than 1e-16.
            decay = tf.exp(-rates[:used] * time[:, tf.newaxis])
            return 0.5 * tf.reduce_sum(rates[:used] ** derivative * row_coefficients[:, :used] * decay, axis=1)

        before = tf.gather(times, rows)
        functional = roughness(7, before)
        for order in range(6, 1, -1):
            odd = math.prod(range(1, 2 * order, 2)) / math.sqrt(2 * math.pi)
            constant = 2 * (1 + 0.5 ** (order + 0.5)) / 3 * odd
            functional = roughness(order, (constant / (row_count * functional)) ** (2 / (3 + 2 * order)))
        after = (2 * math.sqrt(math.pi) * row_count * functional) ** -0.4
        changes = (after != before) & ~(tf.abs(after - before) <= 1e-10 * tf.abs(before))
        times = tf.tensor_scatter_nd_update(times, rows[:, tf.newaxis], after)
        return number + 1, times, tf.boolean_mask(rows, changes)

    _, times, _ = tf.while_loop(
        lambda number, _, rows: (number < _FIXED_POINT_STEPS) & (tf.size(rows) > 0),
        step,
        (0, tf.zeros_like(ranges), tf.where(ranges > 0)[:, 0]),
        shape_invariants=(tf.TensorShape([]), ranges.shape, tf.TensorShape([None])),
    )
    ratio = (kernel.roughness / kernel.variance**2 / KERNELS["gaussian"].roughness) ** 0.2
    return tf.where(ranges > 0, ratio * 2 * ranges * tf.sqrt(times), 0.0)


def _squared_cosine_coefficients(places: tf.Tensor) -> tf.Tensor:
    """Squared cosine coefficients [parameters, frequencies from 1] of samples [parameters, clients] in [0, 1]."""
    scaled, rows = places * (_GRID - 1), tf.shape(places)[0]
    above = scaled - tf.floor(scaled)
    cells = tf.cast(tf.floor(scaled), tf.int32) + _GRID * tf.range(rows)[:, tf.newaxis]
    cells, shares = tf.concat([cells, cells + 1], axis=1), tf.concat([1 - above, above], axis=1)
    counts = tf.math.unsorted_segment_sum(shares, cells, _GRID * rows)
    return tf.square(tf.signal.dct(tf.reshape(counts, [-1, _GRID]) / _count(places))[:, 1:])


def cross_validation(samples: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """The best of 0.01, 0.1, 1 and 10 times Silverman's bandwidth, by the likelihood of held-out samples.

    There are five folds, or one per sample if there are fewer than five samples. A fold has every fifth sample in
    ascending order. A held-out sample that no kernel reaches gets the smallest normal float32 as its density. If
    likelihoods are equal, the larger bandwidth is chosen.
    """
    samples = tf.sort(samples, axis=1)
    silvermans = silverman(samples, kernel)
    num_folds = tf.minimum(_FOLDS, tf.shape(samples)[1])
    folds = tf.range(tf.shape(samples)[1]) % tf.maximum(num_folds, 1)
    trains = tf.cast(folds[:, tf.newaxis] != folds, tf.float64)  # [left out, clients]
    safe = tf.where(silvermans > 0, silvermans, 1.0)
    distances = samples[:, :, tf.newaxis] - samples[:, tf.newaxis, :]
    best, best_likelihood = safe, tf.fill(tf.shape(safe), tf.constant(-np.inf, tf.float64))
    for factor in _FACTORS:
        width = (factor * safe)[:, tf.newaxis, tf.newaxis]
        sums = tf.reduce_sum(kernel.density(distances / width) * trains, axis=2) / width[:, :, 0]
        estimates = sums / tf.reduce_sum(trains, axis=1)
        likelihood = tf.reduce_sum(tf.math.log(tf.maximum(estimates, np.finfo(np.float32).tiny)), axis=1)
        is_better = likelihood >= best_likelihood
        best = tf.where(is_better, factor * safe, best)
        best_likelihood = tf.where(is_better, likelihood, best_likelihood)
    return tf.where((silvermans > 0) & (num_folds > 1), best, silvermans)


def nearest(distances: tf.Tensor, kernel: Kernel) -> tf.Tensor:
    """Scott's bandwidth of the five samples nearest to a point, given the distances of all samples from it (C.4)."""
    _, indices = tf.math.top_k(-tf.abs(distances), tf.minimum(_NEIGHBOURS, tf.shape(distances)[1]))
    return scott(tf.gather(distances, indices, batch_dims=1), kernel)


RULES: dict[str, Callable[[tf.Tensor, Kernel], tf.Tensor]] = {
    "silverman": silverman,
    "scott": scott,
    "plug_in": plug_in,
    "improved_sheather_jones": improved_sheather_jones,
    "cross_validation": cross_validation,
}
PAIRWISE = {"plug_in", "improved_sheather_jones", "cross_validation"}  # Rules that need much larger arrays.


def _count(samples: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.shape(samples)[1], tf.float64)


def _deviations(samples: tf.Tensor) -> tf.Tensor:
    squares = tf.square(samples - tf.reduce_mean(samples, axis=1, keepdims=True))
    return tf.sqrt(tf.reduce_sum(squares, axis=1) / tf.maximum(_count(samples) - 1, 1.0))


def _quantile(ordered: tf.Tensor, share: float) -> tf.Tensor:
    """Quantile of ascending rows, interpolated linearly."""
    rank = share * (_count(ordered) - 1)
    below, above = (
        tf.gather(ordered, tf.cast(place, tf.int32), axis=1) for place in (tf.floor(rank), tf.math.ceil(rank))
    )
    return below + (rank - tf.floor(rank)) * (above - below)
