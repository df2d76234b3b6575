"""How a cohort's deltas become one: TensorFlow Federated's and TensorFlow Privacy's own factories, chosen by flags.

Every factory here takes (deltas, weights) of the clients; all but the weighted mean ignore the weights. A clip norm
is an L2 norm over the whole delta, never per layer.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp
from tensorflow_federated.python.aggregators import distributed_dp

from optimization import dp_queries, privacy

# Geometric updates of the clip norm, at the rate that Andrew et al. 2021 recommend.
_QUANTILE_LEARNING_RATE = 0.2
_SECURE_COUNT = tff.aggregators.SecureSumFactory(upper_bound_threshold=1, lower_bound_threshold=0)


def build(
    settings: Mapping[str, Any], mechanism: privacy.Mechanism, shapes: Sequence[tuple[int, ...]]
) -> tff.aggregators.WeightedAggregationFactory:
    """Returns the factory of `--aggregator_type`.

    Args:
      settings: Flags of `aggregation_flags`, resolved.
      mechanism: `aggregation_flags.mechanism` of the same flags: what adds noise here is what is accounted.
      shapes: Shapes of a delta's tensors, all float32.
    """
    kind = settings["aggregator_type"]
    if kind == "mean" and settings["client_weighting"] == "num_examples":
        return _clipped(settings, tff.aggregators.MeanFactory(no_nan_division=True))
    if kind == "mean":
        unweighted = _clipped(settings, tff.aggregators.UnweightedMeanFactory())
    elif kind == "secure_sum":
        # Secure sums carry integers: coordinates are quantized over a range that follows them, as TFF's default does.
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
        unweighted = _clipped(settings, unweighted, secure=True)
    elif kind == "ddp":
        unweighted = tff.aggregators.UnweightedMeanFactory(
            value_sum_factory=distributed_dp.DistributedDpSumFactory(
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
        query = _SUM_QUERIES[kind](settings, mechanism, tuple(tf.TensorSpec(shape) for shape in shapes))
        mean = tfp.NormalizedQuery(query, denominator=float(mechanism.cohort))
        unweighted = tff.aggregators.DifferentiallyPrivateFactory(mean)
    return tff.aggregators.as_weighted_aggregator(unweighted)


def _clipped(settings: Mapping[str, Any], mean, *, secure: bool = False):
    """Returns a mean of deltas clipped to a fixed norm, or one that follows a quantile of their norms without noise."""
    norm = settings["clip_norm"]
    if norm is None:
        return mean
    if settings["adaptive_clipping"]:
        norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
            initial_estimate=norm,
            target_quantile=settings["unclip_quantile"],
            learning_rate=_QUANTILE_LEARNING_RATE,
            secure_estimation=secure,
        )
    return tff.aggregators.clipping_factory(norm, mean, clipped_count_sum_factory=_SECURE_COUNT if secure else None)


def _dpsgd(settings: Mapping[str, Any], mechanism: privacy.Mechanism, specs) -> tfp.SumAggregationDPQuery:
    """DP-FedAvg (McMahan et al. 2018): Gaussian noise on the sum of deltas clipped to a fixed or adaptive norm."""
    del specs
    seed = settings["seed"] if settings["insecure_seeded_noise"] else None
    if not settings["adaptive_clipping"]:
        return dp_queries.gaussian_sum(mechanism.clip_norm, mechanism.noise_multiplier * mechanism.clip_norm, seed)
    count_noise = privacy.COUNT_NOISE_SHARE * mechanism.cohort if mechanism.noise_multiplier else 0.0
    return dp_queries.adaptive_clip_sum(
        initial_l2_norm_clip=mechanism.clip_norm,
        noise_multiplier=privacy.split_noise(mechanism.noise_multiplier, count_noise),
        target_unclipped_quantile=settings["unclip_quantile"],
        learning_rate=_QUANTILE_LEARNING_RATE,
        clipped_count_stddev=count_noise,
        expected_num_records=float(mechanism.cohort),
        seed=seed,
    )


def _dpftrl(settings: Mapping[str, Any], mechanism: privacy.Mechanism, specs) -> tfp.SumAggregationDPQuery:
    """DP-FTRL (Kairouz, McMahan et al. 2021): noise by tree aggregation, with a new tree at times."""
    tree = dp_queries.tree_sum(
        mechanism.clip_norm,
        mechanism.noise_multiplier,
        specs,
        noise_seed=_noise_seed(settings),
        max_rounds=mechanism.restart_frequency,
    )
    return tfp.RestartQuery(tree, tfp.restart_query.PeriodicRoundRestartIndicator(mechanism.restart_frequency))


def _mf_dpftrl(settings: Mapping[str, Any], mechanism: privacy.Mechanism, specs) -> tfp.SumAggregationDPQuery:
    return dp_queries.BandedSumQuery(
        mechanism.clip_norm,
        mechanism.noise_multiplier * mechanism.clip_norm,
        mechanism.bands,
        specs,
        _noise_seed(settings),
    )


_SUM_QUERIES = {"dpsgd": _dpsgd, "dpftrl": _dpftrl, "mf_dpftrl": _mf_dpftrl}


def _noise_seed(settings: Mapping[str, Any]) -> int:
    """Returns the seed of noise that later rounds draw again: the system's entropy, unless told otherwise."""
    return settings["seed"] if settings["insecure_seeded_noise"] else secrets.randbits(62)


def clip_norm(settings: Mapping[str, Any], state_before: Any, measurements: Any) -> float | None:
    """Returns the norm that a round clipped to, or None if it did not.

    Args:
      settings: Flags.
      state_before: The aggregator's state at the start of the round.
      measurements: The aggregator's measurements of the round.
    """
    if settings["clip_norm"] is None or not settings["adaptive_clipping"]:
        return settings["clip_norm"]
    if settings["aggregator_type"] == "dpsgd":
        return float(state_before.query_state.numerator_state.sum_state.l2_norm_clip)
    return float(measurements["clipping_norm"])


def clipped_clients(measurements: Any) -> int | None:
    """Returns how many deltas were clipped; None where nothing clips, or privacy forbids to count."""
    if isinstance(measurements, Mapping) and "clipped_count" in measurements:
        return int(measurements["clipped_count"])
    return None
