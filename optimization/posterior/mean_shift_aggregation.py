"""FedKP: the mode of the cohort's models, parameter by parameter, as a TFF aggregation.

See Johansson and Gullbrandson 2022, Algorithms 8 to 10. The clients' values of a parameter are samples of its
posterior. Mean shift climbs from a starting point to a mode of their kernel density. It commutes with translation and
scaling, so model deltas can replace models, and the values of a parameter are mapped to [0, 1].

The Epanechnikov kernel has bounded support, so the steps of all clients can be computed together cheaply. The set of
samples within reach of a point changes only at the edges, sample +- bandwidth. Between two edges, a step is a single
function of the point, whose coefficients are sums over the samples within reach.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from optimization import collecting
from optimization.posterior import flags, kernels

TOLERANCE = 1e-7  # The mean shift of a parameter stops after a step this short, in the models' units.
# Extra width of a window, in units of the samples' range. It ensures, despite rounding, that a sample at a distance of
# exactly one bandwidth counts, and that a window of bandwidth zero contains its own sample.
_MARGIN = 1e-9
_ROUNDING = 1e-9  # A result this close to the mean, in units of the samples' range, counts as equal to it.
# Below this bandwidth, cancellation costs the sums of squares and cubes more than nine digits.
_LEAST_REACH = 0.01
_CELLS = 1 << 15  # Elements of each array in a step. More do not fit into the caches; fewer leave cores idle.


@dataclasses.dataclass(frozen=True)
class MeanShiftFactory(collecting.CollectingFactory):
    """FedKP as a TFF factory, which `tff.learning.algorithms.build_weighted_fed_avg` also takes.

    A client counts if its update is finite and its weight, such as its number of examples, is above 0; these clients
    count equally. If no client counts, the result is zero; without any client, NaN. The measurement `share_moved` is
    the share of the parameters whose distance to the clients' mean exceeds the tolerance.

    Attributes:
      shift: Options of the mean shift: kernel, bandwidth and steps.
      cohort_size: Maximum number of clients in a round. Rounds with fewer clients need 3 more copies of the updates.
      shifts_clients: Whether every client's update is shifted to its mode, and the modes are averaged (Algorithm 10);
        otherwise the updates' mean is shifted (Algorithm 9).
    """

    shift: flags.MeanShift
    cohort_size: int
    shifts_clients: bool = False

    measurement = "share_moved"

    def rows(self, update: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        counts = (tf.cast(weight, tf.float32) > 0) & tf.reduce_all(tf.math.is_finite(update))
        return update[tf.newaxis][: tf.cast(counts, tf.int32)]

    def aggregate(self, updates: Sequence[tf.Tensor], size: int, nothing: tf.Tensor) -> tf.Tensor:
        return aggregate(self.shift, updates, size, nothing, shifts_clients=self.shifts_clients)


def aggregate(
    shift: flags.MeanShift, updates: Sequence[tf.Tensor], size: int, nothing: tf.Tensor | float, *, shifts_clients: bool
) -> tf.Tensor:
    """Aggregates a cohort's updates.

    For `shift` and `shifts_clients`, see `MeanShiftFactory`; for the others, `CollectingFactory.aggregate`.

    Returns:
      float32 [parameters, 2]: the aggregate, and whether it differs from the clients' mean, 0 or 1. Without a client,
      the columns are `nothing` and NaN.
    """
    has_pairs = shift.bandwidth in kernels.PAIRWISE or (shifts_clients and not shift.has_windows)

    def collected(samples: tf.Tensor) -> tf.Tensor:
        num_clients = tf.shape(samples)[1]
        cells = num_clients**2 if has_pairs else 2 * num_clients
        num_shifted = tf.maximum(1, _CELLS // tf.maximum(1, cells))
        return collecting.in_blocks(
            lambda first: step(samples[first : first + num_shifted]), tf.shape(samples)[0], num_shifted
        )

    def step(samples: tf.Tensor) -> tf.Tensor:
        result, is_moved = _aggregate_block(shift, tf.cast(samples, tf.float64), shifts_clients=shifts_clients)
        return tf.stack([tf.cast(result, tf.float32), tf.cast(is_moved, tf.float32)], axis=1)

    return collecting.by_blocks(collected, updates, size, nothing)


def _in_units(samples: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Samples [parameters, clients] mapped to [0, 1], and their minimum and range (1 if zero), [parameters, 1]."""
    lows = tf.reduce_min(samples, axis=1, keepdims=True)
    ranges = tf.reduce_max(samples, axis=1, keepdims=True) - lows
    units = tf.where(ranges > 0, ranges, 1.0)
    return (samples - lows) / units, lows, units


def widths(shift: flags.MeanShift, samples: tf.Tensor) -> tf.Tensor:
    """Bandwidths times `bandwidth_scale`, float64 [parameters]; not for `flags.NEAREST`."""
    return shift.bandwidth_scale * kernels.RULES[shift.bandwidth](samples, kernels.KERNELS[shift.kernel])


def _aggregate_block(
    shift: flags.MeanShift, samples: tf.Tensor, *, shifts_clients: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Aggregate of samples [parameters, clients], float64 [parameters], and whether it differs from the mean."""
    samples, lows, units = _in_units(samples)
    tolerances, means = TOLERANCE / units, tf.reduce_mean(samples, axis=1)
    if not shifts_clients:
        results = _climb(shift, samples, means[:, tf.newaxis], tolerances)[:, 0]
    elif not shift.has_windows:
        results = tf.reduce_mean(_climb(shift, samples, samples, tolerances), axis=1)
    else:
        results = _windowed_cluster_mean(shift, samples, tolerances)
    is_moved = tf.abs(results - means) > tf.maximum(tolerances[:, 0], _ROUNDING)
    return results * units[:, 0] + lows[:, 0], is_moved


def _climb(shift: flags.MeanShift, samples: tf.Tensor, starts: tf.Tensor, tolerances: tf.Tensor) -> tf.Tensor:
    """Modes [parameters, starts] of samples in [0, 1], by iterating the mean shift."""
    kernel = kernels.KERNELS[shift.kernel]
    fixed = None if shift.bandwidth == flags.NEAREST else widths(shift, samples)
    rows = tf.repeat(tf.range(tf.shape(starts)[0]), tf.shape(starts)[1])

    def step(number, points, moving):
        row = tf.gather(rows, moving)
        distances = tf.gather(samples, row) - tf.gather(points, moving)[:, tf.newaxis]
        width = shift.bandwidth_scale * kernels.nearest(distances, kernel) if fixed is None else tf.gather(fixed, row)
        shares = kernel.weight(distances / (width[:, tf.newaxis] + _MARGIN))
        mass = tf.reduce_sum(shares, axis=1)
        steps = tf.reduce_sum(shares * distances, axis=1) / tf.where(mass > 0, mass, 1.0)
        points = tf.tensor_scatter_nd_add(points, moving[:, tf.newaxis], steps)
        moving = tf.boolean_mask(moving, tf.abs(steps) > tf.gather(tolerances[:, 0], row))
        return number + 1, points, moving

    points = tf.reshape(starts, [-1])
    _, points, _ = tf.while_loop(
        lambda number, _, moving: (number < shift.mean_shift_steps) & (tf.size(moving) > 0),
        step,
        (0, points, tf.range(tf.size(points))),
        shape_invariants=(tf.TensorShape([]), points.shape, tf.TensorShape([None])),
    )
    return tf.reshape(points, tf.shape(starts))


def _windowed_cluster_mean(shift: flags.MeanShift, samples: tf.Tensor, tolerances: tf.Tensor) -> tf.Tensor:
    """Mean [parameters] of the modes of samples in [0, 1] under the Epanechnikov kernel."""
    samples, width = tf.sort(samples, axis=1), widths(shift, samples)
    varies = samples[:, -1] > 0  # If all clients agree, their samples in [0, 1] and the mode are 0.
    wide, narrow = (tf.where(varies & chosen) for chosen in (width >= _LEAST_REACH, width < _LEAST_REACH))
    wide_samples, wide_width, wide_tolerances = (tf.gather_nd(part, wide) for part in (samples, width, tolerances))
    means = _walk(shift, wide_samples, wide_width, wide_tolerances)
    close = tf.gather_nd(samples, narrow)
    close_means = tf.reduce_mean(_climb(shift, close, close, tf.gather_nd(tolerances, narrow)), axis=1)
    result = tf.scatter_nd(wide, means, tf.shape(width, tf.int64))
    return tf.tensor_scatter_nd_update(result, narrow, close_means)


def _walk(shift: flags.MeanShift, samples: tf.Tensor, width: tf.Tensor, tolerances: tf.Tensor) -> tf.Tensor:
    """Mean of the clients' modes by Algorithm 8.

    A step leads to the sum of the weighted samples divided by the sum of the weights. Between two edges, both sums are
    quadratic functions of the point.

    Args:
      shift: Kernel, bandwidth and number of steps.
      samples: float64 [parameters, clients], ascending.
      width: float64 [parameters], bandwidths, at least `_LEAST_REACH`.
      tolerances: float64 [parameters, 1], length of a step after which a sample stops.

    Returns:
      float64 [parameters].
    """
    centred = samples - 0.5  # Centring keeps the cubes small.
    reach = tf.minimum(width + _MARGIN, 1 + _MARGIN)[:, tf.newaxis]  # A wider reach has no effect.
    edges = tf.concat([centred - reach, centred + reach], axis=1)
    order = tf.argsort(edges, axis=1, stable=True)
    edges = tf.gather(edges, order, batch_dims=1)

    def sum_within(values: tf.Tensor) -> tf.Tensor:
        """For each interval between two edges, the sum of the values within reach of its points."""
        return tf.cumsum(tf.gather(tf.concat([values, -values], axis=1), order, batch_dims=1), axis=1)

    squares = tf.square(centred)
    sums = tf.stack([*map(sum_within, (tf.ones_like(centred), centred, squares, squares * centred))], axis=2)
    curvature = 1 / tf.square(width + _MARGIN)[:, tf.newaxis]

    def after_step(points: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        # The sum of the weights 1 - curvature (x - sample)^2, and the sum of the weighted samples.
        number, first, second, third = tf.unstack(tf.gather(sums, places, batch_dims=1), num=4, axis=2)
        mass = number - curvature * (second + points * (points * number - 2 * first))
        weighted = first - curvature * (third + points * (points * first - 2 * second))
        return tf.where(mass > 0, weighted / mass, points)

    def step(number: tf.Tensor, points: tf.Tensor, moves: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        places = tf.maximum(tf.searchsorted(edges, points, side="right") - 1, 0)
        after = tf.where(moves, after_step(points, places), points)
        return number + 1, after, moves & (tf.abs(after - points) > tolerances)

    _, points, _ = tf.while_loop(
        lambda number, _, moves: (number < shift.mean_shift_steps) & tf.reduce_any(moves),
        step,
        (0, centred, tf.ones_like(centred, tf.bool)),
    )
    return tf.reduce_mean(points, axis=1) + 0.5
