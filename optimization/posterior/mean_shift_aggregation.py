"""FedKP's mean shift as a TFF aggregation, for `tff.learning` and any other TFF program.

TFF's reservoir sampling, with a reservoir for the whole cohort, collects the clients' updates, and the server takes the
mean-shift step on them in TensorFlow. The results are those of `mean_shift.MeanShift` but for rounding; that module and
`kernels` explain each step. The worker holds the whole cohort's updates at once, as one value.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from optimization import models
from optimization.posterior import kernels, mean_shift

MESSAGE_BYTES = 2 * 1000**3  # Limit of a message between a program and its worker.
_CELLS = 1 << 17  # Array elements of a chunk of parameters.


def fits(num_clients: int, num_parameters: int) -> bool:
    """Whether one message can hold the updates of a cohort, float32 [num_clients, num_parameters]."""
    return 4 * num_clients * num_parameters < MESSAGE_BYTES


@dataclasses.dataclass(frozen=True)
class _MeanShift:
    """Options of both factories.

    Attributes:
      shift: The kernel, its bandwidth and the steps.
      cohort_size: Maximum number of clients in a round; a larger cohort is sampled uniformly.
      shifts_clients: Whether every client's update is shifted to its mode and the modes are averaged (Algorithm 10); if
        not, their mean is shifted (Algorithm 9).
      weighs: Whether a client's kernel, and its update in the mean, have the client's weight; else all are equal.
      sizes_bandwidths: Whether a client's bandwidth is inversely proportional to its weight.

    A client counts if its update is finite and its weight, such as its number of examples, is above 0. If none
    counts, the result is zero if a client without a weight participated, and otherwise NaN. The measurement
    `share_moved` is that of `mean_shift.Aggregate`.
    """

    shift: mean_shift.MeanShift
    cohort_size: int
    shifts_clients: bool = False
    weighs: bool = False
    sizes_bandwidths: bool = False

    def _weighted(self, value_type: tff.Type, weight_type: tff.Type) -> tff.templates.AggregationProcess:
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        shapes = {str(index): tuple(spec.shape) for index, spec in enumerate(tf.nest.flatten(specs))}

        @tff.tensorflow.computation(value_type, weight_type)
        def row(value, weight):
            return models.flatten(tf.nest.flatten(value)), tf.cast(weight, tf.float32)

        reservoir = tff.aggregators.UnweightedReservoirSamplingFactory(self.cohort_size)
        sampling = reservoir.create(row.type_signature.result)

        @tff.tensorflow.computation(sampling.next.type_signature.result.result.member)
        def server_step(rows):
            update, share_moved = _aggregate(self, *rows)
            return tf.nest.pack_sequence_as(specs, models.unflatten(update, shapes)), {"share_moved": share_moved}

        @tff.federated_computation(
            sampling.state_type, tff.FederatedType(value_type, tff.CLIENTS), tff.FederatedType(weight_type, tff.CLIENTS)
        )
        def next_round(state, value, weight):
            sampled = sampling.next(state, tff.federated_map(row, (value, weight)))
            result, measurements = tff.federated_map(server_step, sampled.result)
            return tff.templates.MeasuredProcessOutput(sampled.state, result, measurements)

        return tff.templates.AggregationProcess(sampling.initialize, next_round)


class WeightedMeanShiftFactory(_MeanShift, tff.aggregators.WeightedAggregationFactory):
    """FedKP with clients' weights, as for `tff.learning.algorithms.build_weighted_fed_avg`."""

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> tff.templates.AggregationProcess:
        """Builds the process; values are float32 tensors, a weight is a number."""
        return self._weighted(value_type, weight_type)


class MeanShiftFactory(_MeanShift, tff.aggregators.UnweightedAggregationFactory):
    """FedKP with equal clients, as for `tff.learning.algorithms.build_unweighted_fed_avg`."""

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Builds the process; values are float32 tensors."""
        weighted = self._weighted(value_type, tff.TensorType(np.float32))

        @tff.tensorflow.computation(value_type)
        def weight(value):
            del value
            return 1.0

        @tff.federated_computation(weighted.state_type, tff.FederatedType(value_type, tff.CLIENTS))
        def next_round(state, value):
            return weighted.next(state, value, tff.federated_map(weight, value))

        return tff.templates.AggregationProcess(weighted.initialize, next_round)


def _aggregate(options: _MeanShift, updates, weights):
    """Computes `mean_shift.Aggregate` of updates float32 [clients, parameters] and weights [clients], as tensors."""
    shift, shifts_clients = options.shift, options.shifts_clients
    counted = tf.reduce_all(tf.math.is_finite(updates), axis=1) & (weights > 0)
    clients = tf.cast(tf.where(counted)[:, 0], tf.int32)
    sizes = tf.cast(tf.gather(weights, clients), tf.float64)
    num_clients, num_parameters = tf.size(clients), tf.shape(updates)[1]
    equal = tf.ones_like(sizes)
    shares = sizes if options.weighs else equal
    shares /= tf.reduce_sum(shares)
    factors = tf.reduce_mean(sizes) / sizes if options.sizes_bandwidths else equal
    has_windows = shifts_clients and shift.kernel is kernels.EPANECHNIKOV and shift.bandwidth != kernels.NEAREST
    pairs = (shifts_clients and not has_windows) or shift.bandwidth in kernels.PAIRWISE
    chunk = tf.maximum(1, _CELLS // tf.maximum(1, num_clients**2 if pairs else 2 * num_clients))

    def shift_chunk(start):
        samples = tf.transpose(tf.cast(tf.gather(updates[:, start : start + chunk], clients), tf.float64))
        lows = tf.reduce_min(samples, axis=1, keepdims=True)
        ranges = tf.reduce_max(samples, axis=1, keepdims=True) - lows
        units = tf.where(ranges > 0, ranges, 1.0)
        samples = (samples - lows) / units
        tolerances, means = shift.tolerance / units, tf.linalg.matvec(samples, shares)
        if has_windows:
            modes = _windowed_cluster_mean(shift, samples, shares, factors, tolerances)
        elif shifts_clients:
            modes = tf.linalg.matvec(_climb(shift, samples, samples, shares, factors, tolerances), shares)
        else:
            modes = _climb(shift, samples, means[:, tf.newaxis], shares, factors, tolerances)[:, 0]
        is_shifted = tf.abs(modes - means) > tf.maximum(tolerances[:, 0], mean_shift.ROUNDING)
        modes = tf.cast(modes * units[:, 0] + lows[:, 0], tf.float32)
        return modes, tf.reduce_sum(tf.cast(is_shifted, tf.int32))

    def shift_all():
        def step(index, parts, num_shifted):
            modes, num_shifted_here = shift_chunk(index * chunk)
            return index + 1, parts.write(index, modes), num_shifted + num_shifted_here

        num_chunks = -(-num_parameters // chunk)
        parts = tf.TensorArray(tf.float32, num_chunks, infer_shape=False, element_shape=[None])
        _, parts, num_shifted = tf.while_loop(lambda index, *_: index < num_chunks, step, (0, parts, 0))
        return parts.concat(), tf.cast(num_shifted, tf.float32) / tf.cast(num_parameters, tf.float32)

    def nothing():
        return tf.fill([num_parameters], tf.where(tf.reduce_all(weights > 0), np.nan, 0.0)), tf.constant(np.nan)

    return tf.cond(num_clients > 0, shift_all, nothing)


def _climb(shift, samples, starts, weights, factors, tolerances):
    """Modes that the steps reach from the starts [parameters, points]; samples are [parameters, clients]."""
    weigh = _WEIGHTS[shift.kernel, shift.step_weights]
    pulls = _pulls(shift, weights, factors)
    widths = None if shift.bandwidth == kernels.NEAREST else _widths(shift, samples)
    rows = tf.repeat(tf.range(tf.shape(starts)[0]), tf.shape(starts)[1])

    def step(number, points, moving):
        row = tf.gather(rows, moving)
        distances = tf.gather(samples, row) - tf.gather(points, moving)[:, tf.newaxis]
        width = shift.scale * _nearest(distances) if widths is None else tf.gather(widths, row)
        shares = weigh(distances / (width[:, tf.newaxis] * factors + mean_shift.MARGIN))
        mass = tf.linalg.matvec(shares, pulls)
        steps = tf.linalg.matvec(shares * distances, pulls) / tf.where(mass > 0, mass, 1.0)
        points = tf.tensor_scatter_nd_add(points, moving[:, tf.newaxis], steps)
        moving = tf.boolean_mask(moving, tf.abs(steps) > tf.gather(tolerances[:, 0], row))
        return number + 1, points, moving

    points = tf.reshape(starts, [-1])
    _, points, _ = tf.while_loop(
        lambda number, _, moving: (number < shift.t_max) & (tf.size(moving) > 0),
        step,
        (0, points, tf.range(tf.size(points))),
        shape_invariants=(tf.TensorShape([]), points.shape, tf.TensorShape([None])),
    )
    return tf.reshape(points, tf.shape(starts))


def _windowed_cluster_mean(shift, samples, weights, factors, tolerances):
    """Average of the samples' modes under Epanechnikov's kernel, see `mean_shift`."""
    order = tf.argsort(samples, axis=1)
    ascending = tf.gather(samples, order, batch_dims=1)
    shares, ordered_factors = tf.gather(weights, order), tf.gather(factors, order)
    widths = _widths(shift, samples)
    reach = widths[:, tf.newaxis] * ordered_factors + mean_shift.MARGIN
    pulls = _pulls(shift, shares, ordered_factors)
    if shift.step_weights == mean_shift.PROFILE:
        return _profile_cluster_mean(ascending, shares, reach, pulls, tolerances, shift.t_max)
    is_narrow = widths * tf.reduce_min(factors) < mean_shift.LEAST_REACH
    wide, narrow = tf.where(~is_narrow), tf.where(is_narrow)
    arrays = (tf.gather_nd(values, wide) for values in (ascending, shares, reach, pulls, tolerances))
    means = _kernel_cluster_mean(*arrays, shift.t_max)
    close = tf.gather_nd(samples, narrow)
    modes = _climb(shift, close, close, weights, factors, tf.gather_nd(tolerances, narrow))
    result = tf.scatter_nd(wide, means, tf.shape(widths, tf.int64))
    return tf.tensor_scatter_nd_update(result, narrow, tf.linalg.matvec(modes, weights))


def _profile_cluster_mean(samples, weights, reach, pulls, tolerances, t_max: int):
    """Equals `mean_shift.profile_cluster_mean`, with each parameter on a separate line."""
    edges, sum_within = _windows(samples, reach)
    means = sum_within(pulls * samples) / sum_within(pulls)
    means = tf.clip_by_value(tf.where(tf.math.is_nan(means), tf.ones_like(means), means), 0.0, 1.0)
    first, successors = _interval(samples, edges), _interval(means, edges)
    following = tf.gather(means, successors, batch_dims=1)
    is_settled = tf.abs(following - means) <= tolerances
    successors = tf.where(is_settled, tf.range(tf.shape(edges)[1]), successors)
    last, steps = first, t_max - 1
    while steps:
        if steps % 2:
            last = tf.gather(successors, last, batch_dims=1)
        steps //= 2
        if steps:
            successors = tf.gather(successors, successors, batch_dims=1)
    modes = tf.gather(tf.where(is_settled, following, means), last, batch_dims=1)
    after_one_step = tf.gather(means, first, batch_dims=1)
    modes = tf.where(tf.abs(after_one_step - samples) <= tolerances, after_one_step, modes)
    return tf.reduce_sum(modes * weights, axis=1)


def _kernel_cluster_mean(samples, weights, reach, pulls, tolerances, t_max: int):
    """Equals `mean_shift.kernel_cluster_mean`, with each parameter on a separate line."""
    centred = samples - 0.5
    edges, sum_within = _windows(centred, reach)
    curved = pulls / tf.square(reach)
    first = curved * centred
    second = first * centred
    sums = (curved, first, second, pulls - second, (pulls - second) * centred)
    coefficients = tf.stack([sum_within(values) for values in sums], axis=2)

    def step(number, points, moves):
        at = tf.gather(coefficients, _interval(points, edges), batch_dims=1)
        bend, slope, turn, mass_constant, sum_constant = tf.unstack(at, num=5, axis=2)
        mass = mass_constant + points * (2 * slope - points * bend)
        weighted = sum_constant + points * (2 * turn - points * slope)
        after = tf.where(moves & (mass > 0), weighted / mass, points)
        return number + 1, after, moves & (tf.abs(after - points) > tolerances)

    _, points, _ = tf.while_loop(
        lambda number, _, moves: (number < t_max) & tf.reduce_any(moves),
        step,
        (0, centred, tf.ones_like(centred, tf.bool)),
    )
    return tf.reduce_sum((points + 0.5) * weights, axis=1)


def _windows(samples, reach):
    """Edges of each parameter, ascending, and a function that sums the values within reach between two edges."""
    reach = tf.minimum(reach, 1 + mean_shift.MARGIN)
    edges = tf.concat([samples - reach, samples + reach], axis=1)
    order = tf.argsort(edges, axis=1, stable=True)

    def sum_within(values):
        return tf.cumsum(tf.gather(tf.concat([values, -values], axis=1), order, batch_dims=1), axis=1)

    return tf.gather(edges, order, batch_dims=1), sum_within


def _interval(points, edges):
    return tf.maximum(tf.searchsorted(edges, points, side="right") - 1, 0)


def _pulls(shift, weights, factors):
    return weights / tf.square(factors) if shift.step_weights == mean_shift.PROFILE else weights


# Kernels and bandwidths, each as in `kernels`.


def _epanechnikov(scaled):
    return tf.maximum(1 - tf.square(scaled), 0.0)


def _flat(scaled):
    return tf.cast(tf.abs(scaled) <= 1, tf.float64)


def _gaussian(scaled):
    logarithms = -0.5 * tf.square(scaled)
    return tf.exp(logarithms - tf.reduce_max(logarithms, axis=-1, keepdims=True))


_WEIGHTS: dict[tuple[kernels.Kernel, str], Callable[[tf.Tensor], tf.Tensor]] = {
    (kernels.EPANECHNIKOV, mean_shift.KERNEL): _epanechnikov,
    (kernels.EPANECHNIKOV, mean_shift.PROFILE): _flat,
    (kernels.GAUSSIAN, mean_shift.KERNEL): _gaussian,
    (kernels.GAUSSIAN, mean_shift.PROFILE): _gaussian,
}
_DENSITIES: dict[kernels.Kernel, Callable[[tf.Tensor], tf.Tensor]] = {
    kernels.EPANECHNIKOV: lambda scaled: 0.75 * _epanechnikov(scaled),
    kernels.GAUSSIAN: lambda scaled: tf.exp(-0.5 * tf.square(scaled)) / math.sqrt(2 * math.pi),
}


def _widths(shift, samples):
    return shift.scale * _RULES[shift.bandwidth](samples, shift.kernel)


def _count(samples):
    return tf.cast(tf.shape(samples)[1], tf.float64)


def _deviations(samples):
    squares = tf.square(samples - tf.reduce_mean(samples, axis=1, keepdims=True))
    return tf.sqrt(tf.reduce_sum(squares, axis=1) / tf.maximum(_count(samples) - 1, 1.0))


def _quantile(ordered, share: float):
    rank = share * (_count(ordered) - 1)
    below, above = (
        tf.gather(ordered, tf.cast(place, tf.int32), axis=1) for place in (tf.floor(rank), tf.math.ceil(rank))
    )
    return below + (rank - tf.floor(rank)) * (above - below)


def _silverman(samples, kernel=None):
    del kernel
    deviations, ordered = _deviations(samples), tf.sort(samples, axis=1)
    ranges = (_quantile(ordered, 0.75) - _quantile(ordered, 0.25)) / 1.34
    spreads = tf.where(ranges > 0, tf.minimum(deviations, ranges), deviations)
    return 0.9 * spreads * _count(samples) ** -0.2


def _scott(samples, kernel=None):
    del kernel
    return (4 / 3) ** 0.2 * _deviations(samples) * _count(samples) ** -0.2


def _nearest(distances):
    count = tf.minimum(kernels.NEIGHBOURS, tf.shape(distances)[1])
    _, indices = tf.math.top_k(-tf.abs(distances), count)
    return _scott(tf.gather(distances, indices, batch_dims=1))


def _plug_in(samples, kernel):
    count, deviations = _count(samples), _deviations(samples)
    scales = tf.where(deviations > 0, deviations, 1.0)
    distances = (samples[:, :, tf.newaxis] - samples[:, tf.newaxis, :]) / scales[:, tf.newaxis, tf.newaxis]

    def mean_derivative(polynomial, squares):
        return tf.reduce_mean(polynomial * tf.exp(-0.5 * squares), axis=[1, 2]) / math.sqrt(2 * math.pi)

    pilot = (30 / math.sqrt(2 * math.pi) / (105 / (32 * math.sqrt(math.pi)) * count)) ** (1 / 9)
    squares = tf.square(distances / pilot)
    sixth = mean_derivative((((squares - 15) * squares + 45) * squares) - 15, squares) / pilot**7
    pilots = (6 / math.sqrt(2 * math.pi) / (-sixth * count)) ** (1 / 7)
    squares = tf.square(distances / pilots[:, tf.newaxis, tf.newaxis])
    fourth = mean_derivative((squares - 6) * squares + 3, squares) / pilots**5
    return (kernel.roughness / (kernel.variance**2 * fourth * count)) ** 0.2 * deviations


def _improved_sheather_jones(samples, kernel):
    lows, highs = tf.reduce_min(samples, axis=1), tf.reduce_max(samples, axis=1)
    ranges = highs - lows
    places = (samples - lows[:, tf.newaxis]) / tf.where(ranges > 0, 2 * ranges, 1.0)[:, tf.newaxis] + 0.25
    scaled = places * (kernels.GRID - 1)
    cells = tf.cast(tf.floor(scaled), tf.int32) + kernels.GRID * tf.range(tf.shape(samples)[0])[:, tf.newaxis]
    above, size = scaled - tf.floor(scaled), kernels.GRID * tf.shape(samples)[0]
    counts = tf.math.unsorted_segment_sum(1 - above, cells, size) + tf.math.unsorted_segment_sum(above, cells + 1, size)
    shares = tf.reshape(counts, [-1, kernels.GRID]) / _count(samples)
    coefficients = tf.square(tf.signal.dct(shares)[:, 1:])
    rates = math.pi**2 * tf.square(tf.range(1, kernels.GRID, dtype=tf.float64))
    ordered = tf.sort(samples, axis=1)
    count = 1 + tf.reduce_sum(tf.cast(ordered[:, 1:] > ordered[:, :-1], tf.float64), axis=1)

    def step(number, times, rows):
        row_coefficients, row_count = tf.gather(coefficients, rows), tf.gather(count, rows)

        def roughness(derivative, time):
            num_frequencies = tf.searchsorted(
                rates * tf.reduce_min(time), tf.constant([kernels.NEGLIGIBLE], tf.float64)
            )[0]
            decay = tf.exp(-rates[:num_frequencies] * time[:, tf.newaxis])
            return 0.5 * tf.reduce_sum(
                rates[:num_frequencies] ** derivative * row_coefficients[:, :num_frequencies] * decay, axis=1
            )

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
        lambda number, _, rows: (number < kernels.FIXED_POINT_STEPS) & (tf.size(rows) > 0),
        step,
        (0, tf.zeros_like(ranges), tf.where(ranges > 0)[:, 0]),
        shape_invariants=(tf.TensorShape([]), ranges.shape, tf.TensorShape([None])),
    )
    ratio = (kernel.roughness / kernel.variance**2 / kernels.GAUSSIAN.roughness) ** 0.2
    return tf.where(ranges > 0, ratio * 2 * ranges * tf.sqrt(times), 0.0)


def _cross_validation(samples, kernel):
    samples = tf.sort(samples, axis=1)
    silvermans = _silverman(samples)
    num_folds = tf.minimum(kernels.FOLDS, tf.shape(samples)[1])
    folds = tf.range(tf.shape(samples)[1]) % tf.maximum(num_folds, 1)
    trains = tf.cast(folds[:, tf.newaxis] != folds, tf.float64)  # [left out, clients]
    safe = tf.where(silvermans > 0, silvermans, 1.0)
    distances = samples[:, :, tf.newaxis] - samples[:, tf.newaxis, :]
    best, best_likelihood = safe, tf.fill(tf.shape(safe), tf.constant(-np.inf, tf.float64))
    for factor in kernels.FACTORS:
        width = (factor * safe)[:, tf.newaxis, tf.newaxis]
        sums = tf.reduce_sum(_DENSITIES[kernel](distances / width) * trains, axis=2) / width[:, :, 0]
        estimates = sums / tf.reduce_sum(trains, axis=1)
        likelihood = tf.reduce_sum(tf.math.log(tf.maximum(estimates, np.finfo(np.float32).tiny)), axis=1)
        is_better = likelihood >= best_likelihood
        best = tf.where(is_better, factor * safe, best)
        best_likelihood = tf.where(is_better, likelihood, best_likelihood)
    return tf.where((silvermans > 0) & (num_folds > 1), best, silvermans)


_RULES: dict[str, Callable[[tf.Tensor, kernels.Kernel], tf.Tensor]] = {
    "silverman": _silverman,
    "scott": _scott,
    "plug_in": _plug_in,
    "improved_sheather_jones": _improved_sheather_jones,
    "cross_validation": _cross_validation,
}
