"""Aggregation of a cohort's deltas with factories from TensorFlow Federated and TensorFlow Privacy, or from the user.

Every factory takes the clients' deltas and weights, but only the weighted mean and a user's weighted factory use the
weights. A clip norm limits the L2 norm of the whole delta, never of a single layer.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from data import keys, objects
from optimization import options, robust
from optimization.privacy import dp_queries, mechanisms, sensitivities
from optimization.runtime import private

# Learning rate of the clip norm's geometric updates, as recommended by Andrew et al. 2021.
_QUANTILE_LEARNING_RATE = 0.2
_SECURE_COUNT = tff.aggregators.SecureSumFactory(upper_bound_threshold=1, lower_bound_threshold=0)


def build(
    aggregation: options.Aggregation, mechanism: mechanisms.Mechanism, shapes: Sequence[tuple[int, ...]]
) -> tff.aggregators.WeightedAggregationFactory:
    """Builds the factory of an aggregation.

    Args:
      aggregation: Kind of the aggregation, with its clipping and noise.
      mechanism: The accounted mechanism, which determines the noise.
      shapes: Shapes of a delta's tensors, all float32.

    Raises:
      UsageError: If the user's object is not a factory, or does not create a process that returns a delta.
    """
    kind = aggregation.kind
    if aggregation.own:
        factory = _of_user(aggregation.own, tuple(tf.TensorSpec(shape) for shape in shapes))
        return SkipEmptyCohorts(_RequireFinite(factory, aggregation.own.label))
    if kind in options.ROBUST:
        most_clients = mechanism.population if mechanism.sampling == "poisson" else mechanism.cohort
        return robust.TrimmedMeanFactory(most_clients, aggregation.trimmed_share)
    if kind == "mean" and aggregation.client_weighting == "num_examples":
        return SkipEmptyCohorts(_clipped(aggregation, tff.aggregators.MeanFactory(no_nan_division=True)))
    if kind == "mean":
        unweighted = _clipped(aggregation, tff.aggregators.UnweightedMeanFactory())
    elif kind == "secure_sum":
        # Secure sums add integers, so coordinates are quantized over an adaptive range, as TFF does by default.
        unweighted = tff.aggregators.UnweightedMeanFactory(
            value_sum_factory=tff.aggregators.SecureSumFactory(
                tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
                    initial_estimate=50.0,
                    target_quantile=0.95,
                    learning_rate=1.0,
                    multiplier=2.0,
                    secure_estimation=True,
                )
            ),
            count_sum_factory=_SECURE_COUNT,
        )
        unweighted = _clipped(aggregation, unweighted, secure=True)
    elif kind == "ddp":
        unweighted = tff.aggregators.UnweightedMeanFactory(
            value_sum_factory=private.DistributedDpSumFactory(
                noise_multiplier=mechanism.noise_multiplier,
                expected_clients_per_round=mechanism.cohort,
                bits=mechanism.bits,
                l2_clip=mechanism.clip_norm,
                mechanism="distributed_dgauss",
                rotation_type="hd",
            ),
            count_sum_factory=_SECURE_COUNT,
        )
    else:
        specs = tuple(tf.TensorSpec(shape) for shape in shapes)
        if kind == "dpsgd":
            query = _dpsgd(aggregation, mechanism)
        elif kind == "dpftrl":
            query = _dpftrl(aggregation, mechanism, specs)
        else:  # `mf_dpftrl`: the function `noise` defines the noise.
            query = dp_queries.NoisedSum(mechanism.clip_norm, specs)
        mean = tfp.NormalizedQuery(query, denominator=float(mechanism.cohort))
        unweighted = tff.aggregators.DifferentiallyPrivateFactory(mean)
    weighted = tff.aggregators.as_weighted_aggregator(unweighted)
    # Whether any client participated is private, so every round releases noise and takes a step.
    return weighted if mechanism.noise_multiplier else SkipEmptyCohorts(weighted)


def _of_user(own: objects.UserObject, specs: tuple[tf.TensorSpec, ...]) -> tff.aggregators.WeightedAggregationFactory:
    """Returns the user's factory as a weighted factory, after checking that it aggregates deltas of these shapes."""
    unweighted, delta_type = tff.aggregators.UnweightedAggregationFactory, tff.types.tensorflow_to_type(specs)
    kinds = tff.aggregators.WeightedAggregationFactory, unweighted
    factory = own.made("aggregator", kinds, "a factory of tff.aggregators")
    factory = tff.aggregators.as_weighted_aggregator(factory) if isinstance(factory, unweighted) else factory
    with objects.blamed(f"aggregator {own.label}"):
        result = factory.create(delta_type, tff.TensorType(np.float32)).next.type_signature.result.result
        tff.FederatedType(delta_type, tff.SERVER).check_assignable_from(result)
    return factory


class _RequireFinite(tff.aggregators.WeightedAggregationFactory):
    """The user's aggregation of finite updates, with a check that the result is finite unless all weights are 0."""

    def __init__(self, inner: tff.aggregators.WeightedAggregationFactory, label: str):
        self._inner = inner
        self._problem = f"the result of aggregator {label} is not finite, although all updates are"

    def create(self, value_type, weight_type):
        inner = self._inner.create(value_type, weight_type)

        @tff.tensorflow.computation(weight_type, value_type)
        def checked(weight, result):
            is_finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(part)) for part in tf.nest.flatten(result)])
            with tf.control_dependencies([tf.debugging.Assert(is_finite | tf.equal(weight, 0), [self._problem])]):
                return tf.nest.map_structure(tf.identity, result)

        @tff.federated_computation(
            inner.state_type, tff.FederatedType(value_type, tff.CLIENTS), tff.FederatedType(weight_type, tff.CLIENTS)
        )
        def next_round(state, value, weight):
            output = inner.next(state, value, weight)
            result = tff.federated_map(checked, (tff.federated_sum(weight), output.result))
            return tff.templates.MeasuredProcessOutput(output.state, result, output.measurements)

        return tff.templates.AggregationProcess(inner.initialize, next_round)


class SkipEmptyCohorts(tff.aggregators.WeightedAggregationFactory):
    """An aggregation whose state does not change in a round without clients; the result of such a round is NaN.

    Otherwise, such a round would permanently turn TFF's quantile estimate, and with it the clip norm, into NaN.
    """

    def __init__(self, inner: tff.aggregators.WeightedAggregationFactory):
        self._inner = inner

    def create(self, value_type, weight_type):
        inner = self._inner.create(value_type, weight_type)
        state_type = inner.state_type.member

        @tff.tensorflow.computation(weight_type)
        def count_client(weight):
            del weight
            return 1

        @tff.tensorflow.computation(np.int32, state_type, state_type, value_type)
        def result_of(num_clients, before, after, result):
            has_clients = num_clients > 0
            state = tf.nest.map_structure(lambda old, new: tf.where(has_clients, new, old), before, after)
            return state, tf.nest.map_structure(lambda part: tf.where(has_clients, part, np.nan), result)

        @tff.federated_computation(
            inner.state_type, tff.FederatedType(value_type, tff.CLIENTS), tff.FederatedType(weight_type, tff.CLIENTS)
        )
        def next_round(state, value, weight):
            output = inner.next(state, value, weight)
            num_clients = tff.federated_sum(tff.federated_map(count_client, weight))
            chosen = tff.federated_map(result_of, (num_clients, state, output.state, output.result))
            return tff.templates.MeasuredProcessOutput(chosen[0], chosen[1], output.measurements)

        return tff.templates.AggregationProcess(inner.initialize, next_round)


def _clipped(aggregation: options.Aggregation, mean, *, secure: bool = False):
    """Clips a mean, if there is a clip norm: a fixed one, or a noiseless quantile estimate of the deltas' norms."""
    norm = aggregation.clip_norm
    if norm is None:
        return mean
    if aggregation.unclip_quantile is not None:
        norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
            initial_estimate=norm,
            target_quantile=aggregation.unclip_quantile,
            learning_rate=_QUANTILE_LEARNING_RATE,
            secure_estimation=secure,
        )
    return tff.aggregators.clipping_factory(norm, mean, clipped_count_sum_factory=_SECURE_COUNT if secure else None)


def _dpsgd(aggregation: options.Aggregation, mechanism: mechanisms.Mechanism) -> tfp.SumAggregationDPQuery:
    """DP-FedAvg (McMahan et al. 2018): Gaussian noise on the sum of deltas clipped to a fixed or adaptive norm."""
    is_seeded = aggregation.noise_seed is not None
    seeds = (_noise_seed(aggregation, mechanism, 0), _noise_seed(aggregation, mechanism, 1)) if is_seeded else None
    if aggregation.unclip_quantile is None:
        stddev = mechanism.noise_multiplier * mechanism.clip_norm
        return dp_queries.gaussian_sum(mechanism.clip_norm, stddev, seeds[0] if seeds else None)
    count_noise = sensitivities.COUNT_NOISE_SHARE * mechanism.cohort if mechanism.noise_multiplier else 0.0
    return dp_queries.adaptive_clip_sum(
        initial_l2_norm_clip=mechanism.clip_norm,
        noise_multiplier=sensitivities.split_noise(mechanism.noise_multiplier, count_noise),
        target_unclipped_quantile=aggregation.unclip_quantile,
        learning_rate=_QUANTILE_LEARNING_RATE,
        clipped_count_stddev=count_noise,
        expected_num_records=float(mechanism.cohort),
        seeds=seeds,
    )


def _dpftrl(aggregation: options.Aggregation, mechanism: mechanisms.Mechanism, specs) -> tfp.SumAggregationDPQuery:
    """DP-FTRL (Kairouz, McMahan et al. 2021): noise from tree aggregation, with periodic restarts."""
    rounds, seed = mechanism.restart_frequency, _noise_seed(aggregation, mechanism)
    noise = mechanism.noise_multiplier
    tree = dp_queries.tree_sum(mechanism.clip_norm, noise, specs, noise_seed=seed, max_rounds=rounds)
    return tfp.RestartQuery(tree, tfp.restart_query.PeriodicRoundRestartIndicator(rounds))


def noise(
    aggregation: options.Aggregation, mechanism: mechanisms.Mechanism, shapes: Sequence[tuple[int, ...]]
) -> dp_queries.CorrelatedNoise | None:
    """Correlated noise for `dp_queries.NoisyRounds`; None unless the mechanism is `mf_dpftrl`.

    For the arguments, see `build`.
    """
    if mechanism.kind != "mf_dpftrl":
        return None
    return dp_queries.CorrelatedNoise(mechanism, tuple(shapes), _noise_seed(aggregation, mechanism))


def _noise_seed(aggregation: options.Aggregation, mechanism: mechanisms.Mechanism, which: int = 0) -> int:
    """Seed of the noise, from which later rounds can regenerate it; secret unless `aggregation.noise_seed` is set.

    Args:
      aggregation: Options with the seed of the noise.
      mechanism: The accounted mechanism; its phase keeps successive trainings of one model from sharing noise.
      which: Index of the noise, if a mechanism has several kinds.
    """
    if aggregation.noise_seed is None:
        return secrets.randbits(62)
    return keys.integer_key(aggregation.noise_seed, keys.Purpose.NOISE, mechanism.phase, which)


def secrets_in_state(aggregation: options.Aggregation, mechanism: mechanisms.Mechanism) -> list[str]:
    """Descriptions of the parts of the aggregator's state that must stay secret."""
    keeps_seed = mechanism.kind in ("dpftrl", "mf_dpftrl") and mechanism.noise_multiplier > 0
    return ["the seed of the noise"] if keeps_seed and aggregation.noise_seed is None else []


def clip_norm(aggregation: options.Aggregation, state_before: Any, measurements: Any) -> float | None:
    """Clip norm of a round; None without clipping.

    Args:
      aggregation: Options of the aggregation.
      state_before: The aggregator's state at the start of the round.
      measurements: What the aggregator reported in the round.
    """
    if aggregation.clip_norm is None or aggregation.unclip_quantile is None:
        return aggregation.clip_norm
    if aggregation.kind == "dpsgd":
        return float(state_before.query_state.numerator_state.sum_state.l2_norm_clip)
    return float(measurements["clipping_norm"])


def clipped_clients(measurements: Any) -> int | None:
    """Number of clipped deltas; None without clipping, or if reporting it would reveal private information."""
    if isinstance(measurements, Mapping) and "clipped_count" in measurements:
        return int(measurements["clipped_count"])
    return None
