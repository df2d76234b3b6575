"""Private APIs of TFF, TensorFlow Privacy, protobuf and statsmodels that this project uses.

Other modules import these APIs from here. If a new version removes one, this module's test fails and names it.
"""

from collections.abc import Callable

import numpy as np
import tensorflow_privacy as tfp
from google._upb import _message
from tensorflow_federated.proto.v0 import computation_pb2, executor_pb2
from tensorflow_federated.python.aggregators import distributed_dp
from tensorflow_federated.python.core.impl.types import type_transformations

# Protobuf messages for computations and their types, and for a worker's calls and values.
computations, calls = computation_pb2, executor_pb2
# Transforms a type from the leaves up, with a function that maps each part to (new part, whether it changed).
transform_type = type_transformations.transform_type_postorder
DistributedDpSumFactory = distributed_dp.DistributedDpSumFactory


def allow_deep_messages() -> None:
    """Lets messages have more than protobuf's default of 100 nested levels, as nested aggregators require."""
    _message.SetAllowOversizeProtos(True)


def lilliefors_p_values(distances: np.ndarray, count: int) -> np.ndarray:
    """P-values of Lilliefors' test of normality. The public function of statsmodels takes one sample at a time.

    Args:
      distances: float64 [samples], Kolmogorov-Smirnov distance of each sample to the fitted normal distribution.
      count: Number of values in each sample.
    """
    from statsmodels.stats import _lilliefors

    return _lilliefors.get_lilliefors_table("norm").prob(distances, count)


def replace_sums(
    query: tfp.QuantileAdaptiveClipSumQuery,
    records: Callable[[float, float], tfp.GaussianSumQuery],
    count: Callable[[float, float], tfp.GaussianSumQuery],
) -> None:
    """Replaces the two sums in a query for adaptive clipping.

    Args:
      query: The query, which is changed in place.
      records: (L2 clip norm, standard deviation of the noise) -> sum of the clipped records.
      count: (L2 clip norm, standard deviation of the noise) -> count of the unclipped records.
    """
    query._sum_query = records(query._sum_query._l2_norm_clip, query._sum_query._stddev)
    mean = query._quantile_estimator_query._below_estimate_query
    mean._numerator = count(mean._numerator._l2_norm_clip, mean._numerator._stddev)
