"""Messages are those of TFF's own serialization."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from optimization.runtime import private, serialization


class Pair(NamedTuple):
    left: object
    right: object


INTS, FLOATS = tff.TensorType(np.int32, (None, 2)), tff.TensorType(np.float32, (3,))
PAIR = tff.StructWithPythonType([("left", INTS), ("right", FLOATS)], Pair)
PAIRS = [Pair(np.arange(2 * size, dtype=np.int32).reshape(size, 2), np.full(3, 0.5, np.float32)) for size in (0, 1, 4)]


WRITTEN = pytest.mark.parametrize(
    ("value", "type_spec"),
    [
        (PAIRS, tff.FederatedType(PAIR, tff.CLIENTS)),
        ([], tff.FederatedType(PAIR, tff.CLIENTS)),
        (PAIRS[1], tff.FederatedType(PAIR, tff.SERVER)),
        ([(), ()], tff.FederatedType(tff.StructType([]), tff.CLIENTS)),
        (((), np.float32(2)), tff.FederatedType(tff.to_type([(), np.float32]), tff.SERVER)),
        (np.array(3, np.int64), tff.FederatedType(np.int64, tff.SERVER)),
        (3.0, tff.FederatedType(np.float32, tff.SERVER)),
        (np.int32(-3), tff.FederatedType(np.int32, tff.SERVER)),
        (np.float64(0.1), tff.FederatedType(np.float64, tff.SERVER)),
        (np.float16(0.1), tff.FederatedType(np.float16, tff.SERVER)),
        (np.True_, tff.FederatedType(np.bool_, tff.SERVER)),
        (np.int32(3), tff.FederatedType(np.int64, tff.SERVER)),
        ("word", tff.FederatedType(np.str_, tff.SERVER)),
        (np.array([True, False]), tff.FederatedType((np.bool_, (2,)), tff.SERVER)),
        (np.zeros((2, 3), np.float32).T, tff.FederatedType((np.float32, (3, 2)), tff.SERVER)),
        (np.zeros((0, 3), np.float16), tff.FederatedType((np.float16, (None, 3)), tff.SERVER)),
        ([1, 2], tff.FederatedType((np.int32, (2,)), tff.SERVER)),
    ],
)


@WRITTEN
def test_messages_are_those_of_tff(value, type_spec):
    found = private.calls.Value()
    serialization.write(found, value, type_spec)
    expected, _ = tff.framework.serialize_value(value, type_spec)
    assert found == expected


@WRITTEN
def test_what_is_read_is_what_tff_reads(value, type_spec):
    message, _ = tff.framework.serialize_value(value, type_spec)
    found = serialization.read(message, type_spec)
    expected = tff.framework.deserialize_value(message, type_spec)[0] if message.federated.value else []
    assert repr(found) == repr(expected)
    for one, other in zip(_leaves(found, type_spec), _leaves(expected, type_spec), strict=True):
        assert type(one) is type(other)
        assert np.asarray(one).dtype == np.asarray(other).dtype


def _leaves(value, type_spec: tff.FederatedType) -> list:
    members = [value] if type_spec.all_equal else value
    return [leaf for member in members for leaf in serialization.leaves(member, type_spec.member)]


def test_tensors_are_sent_as_their_values():
    found, expected = private.calls.Value(), private.calls.Value()
    type_spec = tff.FederatedType(PAIR, tff.SERVER)
    serialization.write(found, Pair(*(tf.constant(part) for part in PAIRS[2])), type_spec)
    serialization.write(expected, PAIRS[2], type_spec)
    assert found == expected


@pytest.mark.parametrize(
    ("value", "type_spec"),
    [
        (np.zeros(4, np.float32), FLOATS),
        (np.zeros(3, np.complex128), FLOATS),
        (Pair(*[np.zeros(3, np.float32)] * 2), PAIR),
    ],
)
def test_a_value_of_another_type_is_refused(value, type_spec):
    with pytest.raises(TypeError, match="Failed to serialize a value"):
        serialization.write(private.calls.Value(), value, type_spec)


@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(0)])
def test_what_is_written_ahead_is_equal_and_has_the_same_message(part):
    found, expected = private.calls.Value(), private.calls.Value()
    type_spec = tff.FederatedType(PAIR, tff.CLIENTS)
    ahead = serialization.written_ahead(PAIRS, PAIR)
    assert ahead[1] is PAIRS[1]
    serialization.write(found, ahead[part], type_spec)
    serialization.write(expected, PAIRS[part], type_spec)
    assert found == expected
