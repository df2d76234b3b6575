import numpy as np
import pytest
import tensorflow as tf

from optimization.runtime import padding

WORDS = {"ids": tf.TensorSpec((None, None), tf.int32), "values": tf.TensorSpec((None, None))}
FEATURES = {
    "ids": np.array([[0, 7, 0, 0], [3, 2, 1, 0], [0, 0, 0, 0]], np.int32),
    "values": np.array([[0.5, 0.5, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], np.float32),
}


def test_padding_is_left_out():
    packed = padding.pack(FEATURES, WORDS)
    np.testing.assert_array_equal(packed["ids"], [0, 7, 3, 2, 1, 0])
    np.testing.assert_array_equal(packed["values"], np.float32([0.5, 0.5, 0, 1, 1, 0]))
    np.testing.assert_array_equal(packed["widths"], [2, 3, 1])


def test_packed_features_are_as_their_spec_says():
    packed, spec = padding.pack(FEATURES, WORDS), padding.packed_spec(WORDS)
    assert packed.keys() == spec.keys()
    for name, part in spec.items():
        assert part.shape.is_compatible_with(packed[name].shape)
        assert packed[name].dtype == part.dtype.as_numpy_dtype


@pytest.mark.parametrize("examples", [3, 1, 0])
def test_features_come_back_as_wide_as_the_widest_example(examples):
    features = {name: values[:examples] for name, values in FEATURES.items()}
    found = padding.unpack(tf.nest.map_structure(tf.constant, padding.pack(features, WORDS)), WORDS)
    width = {3: 3, 1: 2, 0: 0}[examples]
    for name, values in features.items():
        np.testing.assert_array_equal(found[name], values[:, :width])
        assert found[name].dtype == values.dtype


@pytest.mark.parametrize(
    ("features", "spec"),
    [
        (np.zeros((2, 3), np.float32), tf.TensorSpec((None, 3))),
        ({"age": np.zeros(2, np.float32)}, {"age": tf.TensorSpec((None,))}),
    ],
)
def test_features_of_one_width_stay_as_they_are(features, spec):
    assert padding.packed_spec(spec) is spec
    assert padding.pack(features, spec) is features
    assert padding.unpack(features, spec) is features
