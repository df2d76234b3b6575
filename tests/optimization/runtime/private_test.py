"""Private symbols of libraries; with another version of one, this is the test to look at first."""

import ast
import functools
import importlib
import pathlib
from collections.abc import Iterator

import pytest
import tensorflow_privacy as tfp

ROOT = pathlib.Path(__file__).resolve().parents[3]
CALLS = "tensorflow_federated.proto.v0.executor_pb2"
PRIVATE = "optimization/runtime/private.py"
FUNCTIONS = [
    "google._upb._message.SetAllowOversizeProtos",
    "statsmodels.stats._lilliefors.get_lilliefors_table",
    "tensorflow_federated.proto.v0.computation_pb2.Computation",
    "tensorflow_federated.python.aggregators.distributed_dp.DistributedDpSumFactory",
    "tensorflow_federated.python.core.impl.types.type_transformations.transform_type_postorder",
]
# Of TensorFlow Privacy's query of adaptive clipping: its sums, and what is read of each.
SUMS = ["_sum_query", "_quantile_estimator_query._below_estimate_query._numerator"]
PARAMETERS = ["_l2_norm_clip", "_stddev"]
# Documented all the same: of named tuples, enumerations, and the operating system.
DOCUMENTED = {"_asdict", "_exit", "_field_defaults", "_fields", "_make", "_replace", "_value_"}


@pytest.mark.parametrize("path", FUNCTIONS)
def test_what_is_private_is_there(path):
    module, _, name = path.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name)), f"{path} is missing, and {PRIVATE} relies on it"


@pytest.mark.parametrize("path", SUMS)
def test_a_sum_of_adaptive_clipping_is_where_it_is_replaced(path):
    part = tfp.QuantileAdaptiveClipSumQuery(1.0, 1.0, 0.5, 0.2, 0.3, 10.0, geometric_update=True)
    for name in [*path.split("."), *PARAMETERS]:
        assert name in vars(part), f"TensorFlow Privacy's {type(part).__name__} has no {name} any more"
        part = part if name in PARAMETERS else vars(part)[name]


@functools.cache
def nodes() -> dict[str, list[ast.AST]]:
    """Imports, definitions, names and attributes of all modules, by their paths."""
    packages = [ROOT / package for package in ("bandits", "data", "optimization", "scripts", "tests")]
    files = [file for package in packages for file in sorted(package.rglob("*.py"))]
    kinds = (ast.Attribute, ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Name)
    trees = {file.relative_to(ROOT).as_posix(): ast.parse(file.read_text()) for file in files}
    return {path: [node for node in ast.walk(tree) if isinstance(node, kinds)] for path, tree in trees.items()}


def imports(module: list[ast.AST]) -> Iterator[str]:
    for node in module:
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def is_private(name: str) -> bool:
    parts = name.split(".")
    return name.startswith(("tensorflow_federated.p", "tensorflow_privacy.p")) or any(
        part.startswith("_") and not part.startswith("__") for part in parts
    )


@pytest.mark.slow
def test_only_one_module_imports_what_is_private_and_all_of_it_is_tested():
    assert {path for path, module in nodes().items() if any(map(is_private, imports(module)))} == {PRIVATE}
    private = {name for name in imports(nodes()[PRIVATE]) if is_private(name)}
    assert private == {CALLS, *(path.rpartition(".")[0] for path in FUNCTIONS)}


@pytest.mark.slow
def test_only_one_module_uses_private_attributes_of_others():
    pairs = [(path, node) for path, module in nodes().items() for node in module]
    attributes = [(path, node) for path, node in pairs if isinstance(node, ast.Attribute)]
    own = {node.name for _, node in pairs if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    own |= {node.id for _, node in pairs if isinstance(node, ast.Name)}
    own |= {
        node.attr for _, node in attributes if ast.unparse(node.value) == "self" and isinstance(node.ctx, ast.Store)
    }
    others = {(path, node.attr) for path, node in attributes if node.attr not in own | DOCUMENTED}
    used = {(path, name) for path, name in others if name.startswith("_") and not name.endswith("__")}
    assert used == {(PRIVATE, name) for name in {*".".join(SUMS).split("."), *PARAMETERS}}
