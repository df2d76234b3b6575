"""BUILD files against the tree: a library and a test target for each folder. Bazel does not run these tests."""

import ast
import pathlib
import re
from typing import Any

import pytest

from bandits import studies
from tests.imports_test import FOLDERS, imported_folders

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Programs that no user starts: one is a process of its own, one is run by Bazel alone.
_INTERNAL = {"optimization/runtime/isolation_helper.py", "tests/run_pytest.py"}


def _folders(*tops: str) -> list[str]:
    return sorted({path.parent.relative_to(ROOT).as_posix() for top in tops for path in (ROOT / top).rglob("*.py")})


def _rules(folder: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a folder's BUILD file, with their arguments; `glob` gives its patterns."""
    calls = [node.value for node in ast.parse((ROOT / folder / "BUILD").read_text()).body if isinstance(node, ast.Expr)]
    environment = {"glob": lambda patterns: patterns, "__builtins__": {}}
    return [
        (ast.unparse(call.func), {key.arg: eval(ast.unparse(key.value), environment) for key in call.keywords})
        for call in calls
        if isinstance(call, ast.Call)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("folder", _folders(*FOLDERS))
def test_a_folders_library_names_the_folders_that_it_imports(folder):
    rules = _rules(folder)
    (library,) = [rule for kind, rule in rules if kind in ("py_library", "py_binary") and rule["srcs"] == ["*.py"]]
    assert library["name"] == folder.rpartition("/")[2]
    assert {label.removeprefix("//") for label in library.get("deps", ())} >= imported_folders(folder)


def test_every_program_is_a_target():
    missing = []
    for folder in _folders(*FOLDERS):
        binaries = [rule for kind, rule in _rules(folder) if kind == "py_binary"]
        mains = {rule.get("main", rule["srcs"][0]) for rule in binaries}
        for path in sorted((ROOT / folder).glob("*.py")):
            name = f"{folder}/{path.name}"
            if 'if __name__ == "__main__":' in path.read_text() and name not in _INTERNAL and path.name not in mains:
                missing.append(name)
        assert all((ROOT / folder / main).is_file() for main in mains if main != "*.py"), folder
    assert missing == []


def test_every_folder_of_tests_has_a_target():
    for folder in sorted({path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*_test.py")}):
        if folder != "tests":
            (rule,) = [rule for kind, rule in _rules(folder) if kind == "folder_tests"]
            assert rule["name"] == folder.rpartition("/")[2]


def test_tests_have_the_whole_project():
    (runner,) = [rule for _, rule in _rules("tests") if rule.get("name") == "run_pytest"]
    assert {label.removeprefix("//") for label in runner["deps"]} == {*_folders(*FOLDERS)}


def test_continuous_integration_names_targets_that_exist():
    for package, name in re.findall(r"//([\w/]+):(\w+)", (ROOT / ".ci/run").read_text()):
        names = {rule["name"] for _, rule in _rules(package) if "name" in rule}
        assert name.removesuffix("_slow") in names
    assert set(re.findall(r"run_program //[\w/]+:(\w+)", (ROOT / ".ci/run").read_text())) == set(studies.STUDIES)
