"""Arguments on their way to a worker. Equal to TFF's messages, but each array is copied once.

TFF's own serialization copies an array for every container around it, which takes longer than a short round.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff
from tensorflow_federated.proto.v0 import executor_pb2
from tensorflow_federated.python.common_libs import structure
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation
from tensorflow_federated.python.core.impl.compiler import array
from tensorflow_federated.python.core.impl.executors import value_serialization
from tensorflow_federated.python.core.impl.types import dtype_utils, type_serialization

# Rounds with more than this take long anyway, and the messages would take memory.
_MOST_AHEAD_BYTES = 64 * 1000**2
_SCALARS = {"int32": "int32_list", "int64": "int64_list", "float32": "float32_list", "float64": "float64_list"}


def write(message: executor_pb2.Value, value: Any, type_spec: tff.Type) -> None:
    """Writes a value into an empty message.

    Args:
      message: Where.
      value: What.
      type_spec: Its type.

    Raises:
      TypeError, ValueError: If the value is not of that type.
    """
    if isinstance(value, _Written) and value.message is not None:
        message.CopyFrom(value.message)
    elif isinstance(type_spec, tff.FederatedType):
        for member in [value] if type_spec.all_equal else value:
            write(message.federated.value.add(), member, type_spec.member)
        message.federated.type.CopyFrom(type_serialization.serialize_type(type_spec).federated)
    elif isinstance(type_spec, tff.StructType):
        message.struct.SetInParent()  # One without elements is not absent.
        for part, (name, part_type) in zip(_parts(value, type_spec), structure.iter_elements(type_spec), strict=True):
            element = message.struct.element.add()
            if name:
                element.name = name
            write(element.value, part, part_type)
    elif _is_plain(value, type_spec):
        message.array.dtype = dtype_utils.to_proto(type_spec.dtype.type)
        message.array.shape.SetInParent()
        if value.ndim:
            message.array.shape.dim.extend(value.shape)
            message.array.content = value.tobytes()
        else:
            getattr(message.array, _SCALARS[value.dtype.name]).value.append(value.item())
    else:
        value = tensorflow_computation.transform_args(value)
        message.CopyFrom(value_serialization.serialize_value(value, type_spec)[0])


class _Written:
    """Added to the class of a value whose message may exist."""

    message: executor_pb2.Value | None = None


_written_class = functools.cache(lambda cls: type(cls.__name__, (cls, _Written), {}))


def written_ahead(values: Sequence[NamedTuple], type_spec: tff.Type) -> list[NamedTuple]:
    """Returns equal values that `write` only copies, or, if they are large, the values themselves.

    Args:
      values: Named tuples of arrays, which stay as they are.
      type_spec: The type of each.
    """
    if sum(getattr(leaf, "nbytes", 0) for value in values for leaf in leaves(value, type_spec)) > _MOST_AHEAD_BYTES:
        return list(values)
    ahead = []
    for value in values:
        copy = _written_class(type(value))(*value)
        copy.message = executor_pb2.Value()
        write(copy.message, value, type_spec)
        ahead.append(copy)
    return ahead


def leaves(value: Any, type_spec: tff.Type) -> Iterator[Any]:
    """Yields a structure's arrays and scalars, or what stands for them."""
    if isinstance(type_spec, tff.StructType):
        for part, (_, part_type) in zip(_parts(value, type_spec), structure.iter_elements(type_spec), strict=True):
            yield from leaves(part, part_type)
    else:
        yield value


def _parts(value: Any, type_spec: tff.StructType) -> Iterable[Any]:
    if isinstance(value, Mapping):
        names = structure.name_list(type_spec)
        if set(value) != set(names):
            raise ValueError(f"Expected parts named {names}, found {list(value)}.")
        return [value[name] for name in names]
    return value if isinstance(value, tuple) else structure.from_container(value)


def _is_plain(value: Any, type_spec: tff.Type) -> bool:
    """Whether a value is the very array that its type says; TFF's own serialization checks and converts all others."""
    return (
        isinstance(type_spec, tff.TensorType)
        and isinstance(value, (np.ndarray, np.generic))
        and value.dtype == type_spec.dtype
        and (value.dtype.kind in "biuf" if value.ndim else value.dtype.name in _SCALARS)
        and array.is_compatible_shape(value, type_spec.shape)
    )
