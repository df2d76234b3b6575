"""How a cohort's deltas become one: TensorFlow Federated's own factories, chosen by flags."""

import dataclasses

import tensorflow_federated as tff

# Adaptive clipping without noise (Andrew et al. 2021), as Agarwal et al. 2023, section 3 uses it.
_QUANTILE_LEARNING_RATE = 0.2


@dataclasses.dataclass(frozen=True)
class MeanAggregator:
    """Mean of clipped deltas.

    Attributes:
      weighted: Whether clients weigh by their examples, or all the same.
      clip_norm: L2 norm to clip a client's whole delta to; None clips nothing. With adaptive clipping, the first
        round's norm.
      adaptive_clipping: Whether the norm follows a quantile of the deltas' norms, by geometric updates.
      quantile: That quantile.
    """

    weighted: bool = False
    clip_norm: float | None = None
    adaptive_clipping: bool = False
    quantile: float = 0.8

    def factory(self) -> tff.aggregators.WeightedAggregationFactory:
        """Returns a factory of weighted aggregations; unweighted ones ignore the weight."""
        if self.weighted:
            mean = tff.aggregators.MeanFactory(no_nan_division=True)
        else:
            mean = tff.aggregators.UnweightedMeanFactory()
        if self.clip_norm is not None:
            norm = self.clip_norm
            if self.adaptive_clipping:
                norm = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
                    initial_estimate=self.clip_norm,
                    target_quantile=self.quantile,
                    learning_rate=_QUANTILE_LEARNING_RATE,
                )
            mean = tff.aggregators.clipping_factory(norm, mean)
        if self.weighted:
            return mean
        return tff.aggregators.as_weighted_aggregator(mean)
