"""Tests of optimization.compression: bias and variance of the decoded update."""

import numpy as np
import pytest
import tensorflow as tf

from optimization import compression, options

VALUES = np.float32([-3, -0.25, 0, 0.1, 1, 2.5, 12])
KEY = tf.constant([3, 4])


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_rounding_has_no_bias_and_the_variance_of_a_coin(bits):
    keys = tf.stack([tf.range(4000), tf.range(4000)], axis=1)
    found = tf.vectorized_map(lambda key: compression.quantized(tf.constant(VALUES), bits, key), keys).numpy()
    step = 15 / (2**bits - 1)
    above = (VALUES + 3) / step % 1
    variance = above * (1 - above) * step**2
    assert len(np.unique(found)) <= 2**bits
    np.testing.assert_allclose(found.mean(axis=0), VALUES, atol=4.5 * step / 2 / np.sqrt(4000) + 1e-5)
    np.testing.assert_allclose(found.var(axis=0), variance, atol=0.05 * step**2)
    assert (found.var(axis=0) <= 1.05 * step**2 / 4).all()


def test_equal_keys_round_equally_and_zeros_stay_zeros():
    found = [compression.quantized(tf.constant(VALUES), 2, key).numpy() for key in (KEY, KEY, KEY + 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()
    np.testing.assert_array_equal(compression.quantized(tf.zeros(5), 4, KEY), np.zeros(5))


def test_the_largest_entries_of_the_whole_update_are_kept():
    delta = (tf.constant([[1.0, -5.0], [0.5, 2.0]]), tf.constant([-3.0, 0.0]))
    found = compression.decoded(options.Compression(top_k=0.5), delta, KEY)
    np.testing.assert_array_equal(found[0], [[0, -5], [0, 2]])
    np.testing.assert_array_equal(found[1], [-3, 0])
    both = compression.decoded(options.Compression(bits=1, top_k=0.5), delta, KEY)
    np.testing.assert_array_equal(both[0][0], [0, -5])  # The ends of the range are exact.
    assert both[1][0] in (-5, 2)


def test_without_compression_the_update_itself_goes_on():
    delta = (tf.constant([1.0]),)
    assert compression.decoded(options.NO_COMPRESSION, delta, KEY) is delta


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ((None, None), 4000),
        ((8, None), 1000 + 8),
        ((3, None), 375 + 8),
        ((None, 0.01), 10 * (4 + 4)),
        ((4, 0.01), 5 + 10 * 4 + 8),
        ((None, 1e-9), 8),
    ],
)
def test_bytes_are_of_values_indices_and_range(chosen, expected):
    assert options.Compression(*chosen).num_bytes(1000) == expected
