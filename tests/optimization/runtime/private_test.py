"""Every private symbol that the program relies on is there.

With another version of TFF, TensorFlow Privacy or protobuf this is the test to look at first.
"""

import importlib
import inspect

import pytest
import tensorflow_privacy as tfp

PRIVATE = "optimization/runtime/private.py"
# What is called, with the names of what it is given; None where it does not say what it takes.
FUNCTIONS = {
    "google._upb._message.SetAllowOversizeProtos": None,
    "tensorflow_federated.python.aggregators.distributed_dp.DistributedDpSumFactory": [
        *("noise_multiplier", "expected_clients_per_round", "bits", "l2_clip", "mechanism", "rotation_type")
    ],
    "tensorflow_federated.python.common_libs.tracing.set_tracing_providers": ["tracing_providers"],
    "tensorflow_federated.python.core.impl.types.type_transformations.transform_type_postorder": [
        *("type_signature", "transform_fn")
    ],
}
MESSAGES = {
    "tensorflow_federated.proto.v0.computation_pb2.Computation": [],
    "tensorflow_federated.proto.v0.executor_pb2.ComputeRequest": ["executor", "value_ref"],
    "tensorflow_federated.proto.v0.executor_pb2.CreateValueRequest": ["executor", "value"],
    "tensorflow_federated.proto.v0.executor_pb2.DisposeExecutorRequest": ["executor"],
    "tensorflow_federated.proto.v0.executor_pb2.DisposeRequest": ["executor", "value_ref"],
    "tensorflow_federated.proto.v0.executor_pb2.Value": ["array", "federated", "struct"],
    "tensorflow_federated.proto.v0.executor_pb2.ValueRef": ["id"],
}
# Of TensorFlow Privacy's query of adaptive clipping: its sums, and what is read of each.
SUMS = ["_sum_query", "_quantile_estimator_query._below_estimate_query._numerator"]
PARAMETERS = ["_l2_norm_clip", "_stddev"]


def found(path: str) -> object:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        pytest.fail(f"{path}, which {PRIVATE} relies on, is missing: {error}")


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_function_is_there_and_takes_what_it_is_given(path):
    function, given = found(path), FUNCTIONS[path]
    missing = set(given or ()) - set(inspect.signature(function).parameters if given else ())
    assert callable(function)
    assert not missing, f"{path} does not take {sorted(missing)} any more"


@pytest.mark.parametrize("path", MESSAGES)
def test_a_message_is_there_and_has_its_fields(path):
    missing = set(MESSAGES[path]) - set(found(path).DESCRIPTOR.fields_by_name)
    assert not missing, f"{path} has no {sorted(missing)} any more"


@pytest.mark.parametrize("path", SUMS)
def test_a_sum_of_adaptive_clipping_is_where_it_is_replaced(path):
    part = tfp.QuantileAdaptiveClipSumQuery(1.0, 1.0, 0.5, 0.2, 0.3, 10.0, geometric_update=True)
    for name in [*path.split("."), *PARAMETERS]:
        assert name in vars(part), f"TensorFlow Privacy's {type(part).__name__} has no {name} any more"
        part = part if name in PARAMETERS else vars(part)[name]
