"""Features of variable width, such as the words of posts, on their way to a worker: without the zeros that pad them.

Such features are several arrays [examples, width] by name, whose spec leaves the width open; an example's values that
are zero in all of them, behind its last that are not, are padding.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from data import clients

_WIDTHS = "widths"

FeatureSpec = tf.TensorSpec | Mapping[str, tf.TensorSpec]


def batch_spec(example_spec) -> FeatureSpec:
    """Returns the spec of several examples' features, first axis None, from (shape, dtype name) of one example's."""
    return clients.map_features(lambda spec: tf.TensorSpec((None, *spec[0]), spec[1]), example_spec)


def _is_variable(spec: FeatureSpec) -> bool:
    return isinstance(spec, Mapping) and all(part.shape[1:].as_list() == [None] for part in spec.values())


def packed_spec(spec: FeatureSpec) -> FeatureSpec:
    """Returns the spec of what `pack` makes of features of this spec."""
    if not _is_variable(spec):
        return spec
    parts = {name: tf.TensorSpec((None,), part.dtype) for name, part in spec.items()}
    return parts | {_WIDTHS: tf.TensorSpec((None,), tf.int32)}


def pack(features: clients.Features, spec: FeatureSpec) -> clients.Features:
    """Returns the examples' values behind each other and the examples' `widths`; others' features as they are.

    Args:
      features: As `spec` says, NumPy arrays.
      spec: Shapes and dtypes, first axis None.
    """
    if not _is_variable(spec):
        return features
    columns = np.arange(1, next(iter(features.values())).shape[1] + 1, dtype=np.int32)
    is_used = np.logical_or.reduce([values != 0 for values in features.values()])
    # An example without a value keeps one zero.
    widths = (is_used * columns).max(axis=1, initial=1)
    is_kept = columns <= widths[:, np.newaxis]
    return {name: values[is_kept] for name, values in features.items()} | {_WIDTHS: widths}


def unpack(features: clients.Features, spec: FeatureSpec) -> clients.Features:
    """Returns, in TensorFlow, the features that were packed, as wide as the widest example."""
    if not _is_variable(spec):
        return features
    widths = features[_WIDTHS]
    return {name: tf.RaggedTensor.from_row_lengths(features[name], widths, validate=False).to_tensor() for name in spec}
