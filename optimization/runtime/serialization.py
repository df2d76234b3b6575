"""Serialization of arguments for a worker, equal to TFF's messages, with each array copied once.

TFF's own serialization copies an array for every container around it, which takes longer than a short round.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from optimization.runtime import private

# Rounds with more data are slow anyway, and the messages would use memory.
_MOST_AHEAD_BYTES = 64 * 1000**2
_SCALARS = {"int32": "int32_list", "int64": "int64_list", "float32": "float32_list", "float64": "float64_list"}


class Cohort(list):
    """Values of clients with their messages, which `write` only copies; do not change them."""

    def __init__(self, values: Sequence[Any], messages: Sequence[private.calls.Value] = ()):
        super().__init__(values)
        self.messages = messages

    def __getitem__(self, index):
        item = super().__getitem__(index)
        return Cohort(item, self.messages[index]) if isinstance(index, slice) else item


def write(message: private.calls.Value, value: Any, type_spec: tff.Type) -> None:
    """Writes a value into an empty message.

    Args:
      message: Message to fill.
      value: The value.
      type_spec: Its type.

    Raises:
      TypeError, ValueError: If the value is not of that type.
    """
    if isinstance(type_spec, tff.FederatedType):
        if isinstance(value, Cohort) and value.messages:
            message.federated.value.extend(value.messages)
        else:
            for member in [value] if type_spec.all_equal else value:
                write(message.federated.value.add(), member, type_spec.member)
        message.federated.type.CopyFrom(tff.types.serialize_type(type_spec).federated)
    elif isinstance(type_spec, tff.StructType):
        message.struct.SetInParent()  # A struct without elements must be present.
        for name, part, part_type in parts(value, type_spec):
            write(message.struct.element.add(name=name).value, part, part_type)
    elif _is_plain(value, type_spec):
        message.array.dtype = tff.types.serialize_type(type_spec).tensor.dtype
        message.array.shape.SetInParent()
        if value.ndim:
            message.array.shape.dim.extend(value.shape)
            message.array.content = value.tobytes()
        else:
            getattr(message.array, _SCALARS[value.dtype.name]).value.append(value.item())
    else:
        message.CopyFrom(tff.framework.serialize_value(tff.tensorflow.transform_args(value), type_spec)[0])


def read(message: private.calls.Value, type_spec: tff.Type) -> Any:
    """Value of a message, equal to TFF's own deserialization. Arrays are read-only.

    TFF logs the time of each part, which takes longer than the work.
    """
    if isinstance(type_spec, tff.FederatedType):
        members = [read(member, type_spec.member) for member in message.federated.value]
        return members[0] if type_spec.all_equal else members
    if isinstance(type_spec, tff.StructType):
        names, elements = tff.structure.name_list_with_nones(type_spec), message.struct.element
        values = [read(element.value, part_type) for element, part_type in zip(elements, type_spec, strict=True)]
        return tff.structure.Struct(zip(names, values, strict=True))
    if message.array.content:
        return np.frombuffer(message.array.content, type_spec.dtype).reshape(message.array.shape.dim)
    if isinstance(type_spec, tff.TensorType) and not type_spec.shape and type_spec.dtype.name in _SCALARS:
        return type_spec.dtype.type(*getattr(message.array, _SCALARS[type_spec.dtype.name]).value)
    return tff.framework.deserialize_value(message, type_spec)[0]


def written_ahead(values: Sequence[Any], type_spec: tff.Type) -> list[Any]:
    """Values that `write` copies only for clients, unless they are large.

    Args:
      values: Each client's structure of arrays, which must not change afterwards.
      type_spec: The type of each.
    """
    if sum(getattr(leaf, "nbytes", 0) for value in values for leaf in leaves(value, type_spec)) > _MOST_AHEAD_BYTES:
        return list(values)
    messages = [private.calls.Value() for _ in values]
    for message, value in zip(messages, values, strict=True):
        write(message, value, type_spec)
    return Cohort(values, messages)


def num_clients(value: Any, type_spec: tff.Type) -> int:
    """Number of clients in an argument; 0 without clients."""
    if isinstance(type_spec, tff.StructType):
        return max((num_clients(part, part_type) for _, part, part_type in parts(value, type_spec)), default=0)
    return len(value) if isinstance(type_spec, tff.FederatedType) and not type_spec.all_equal else 0


def leaves(value: Any, type_spec: tff.Type) -> Iterator[Any]:
    """Yields a structure's arrays and scalars, or their placeholders."""
    if isinstance(type_spec, tff.StructType):
        for _, part, part_type in parts(value, type_spec):
            yield from leaves(part, part_type)
    else:
        yield value


def parts(value: Any, type_spec: tff.StructType) -> Iterator[tuple[str | None, Any, tff.Type]]:
    """Yields name, value and type of a structure's parts.

    Raises:
      ValueError: If it has other parts than its type.
    """
    names = tff.structure.name_list_with_nones(type_spec)
    if isinstance(value, Mapping):
        if set(value) != set(names):
            raise ValueError(f"Expected parts named {names}, found {list(value)}.")
        value = [value[name] for name in names]
    elif not isinstance(value, tuple):
        value = tff.structure.from_container(value)
    return zip(names, value, type_spec, strict=True)


def _is_plain(value: Any, type_spec: tff.Type) -> bool:
    """Whether a value is an array of exactly its type; TFF's own serialization checks and converts all others."""
    return (
        isinstance(type_spec, tff.TensorType)
        and isinstance(value, (np.ndarray, np.generic))
        and value.dtype == type_spec.dtype
        and (value.dtype.kind in "biuf" if value.ndim else value.dtype.name in _SCALARS)
        and type_spec.shape is not None
        and len(type_spec.shape) == value.ndim
        and all(known in (None, size) for known, size in zip(type_spec.shape, value.shape, strict=True))
    )
