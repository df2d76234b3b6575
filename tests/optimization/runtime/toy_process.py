"""A small process of TFF, whose types have named containers."""

import collections
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff


class Metrics(NamedTuple):
    total: int
    parts: object


class Owner:
    Nameless = collections.namedtuple("_Nameless", ["one"])
    Parts = collections.namedtuple("Parts", ["one"])


def build(container: type = Owner.Parts) -> tff.templates.IterativeProcess:
    """Process that adds to its state, first 3, the sum over clients of their numbers plus the state."""

    @tff.tensorflow.computation
    def first():
        return collections.OrderedDict(b=np.int32(3), a=(np.int32(4),))

    state_type = first.type_signature.result

    @tff.tensorflow.computation(state_type, np.int32)
    def add(state, value):
        return collections.OrderedDict(b=state["b"] + value, a=state["a"])

    @tff.tensorflow.computation(state_type, np.int32)
    def shift(state, value):
        return state["b"] + value

    @tff.tensorflow.computation(np.int32)
    def measure(total):
        return Metrics(total, container(total))

    @tff.federated_computation
    def initialize():
        return tff.federated_eval(first, tff.SERVER)

    @tff.federated_computation(tff.FederatedType(state_type, tff.SERVER), tff.FederatedType(np.int32, tff.CLIENTS))
    def next_round(state, clients):
        total = tff.federated_sum(tff.federated_map(shift, (tff.federated_broadcast(state), clients)))
        return tff.federated_map(add, (state, total)), tff.federated_map(measure, total)

    return tff.templates.IterativeProcess(initialize, next_round)
