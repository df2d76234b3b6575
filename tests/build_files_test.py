"""BUILD files against the imports of the modules that they list. Not for Bazel itself, which hides the BUILD files."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

from bandits import studies

ROOT = pathlib.Path(__file__).resolve().parents[1]
_ROOMS = ("bandits", "data", "optimization", "scripts", "tests")
_LIKE_LIBRARIES = ("py_library", "py_binary", "py_test", "unit_test")


def _label(package: str, name: str) -> str:
    if not name.startswith("//"):
        return f"{package}:{name.removeprefix(':')}"
    package, _, target = name.removeprefix("//").partition(":")
    return f"{package}:{target or package.split('/')[-1]}"


def _files(pattern: str) -> list[pathlib.Path]:
    return [file for room in _ROOMS for file in sorted((ROOT / room).rglob(pattern))]


def _targets() -> dict[str, tuple[set[str], set[str]]]:
    """Returns the sources and direct dependencies of all targets."""
    targets = {}
    for file in _files("BUILD"):
        package = file.parent.relative_to(ROOT).as_posix()

        def rule(name, srcs=None, deps=(), package=package, **_):
            sources = [f"{name}.py"] if srcs is None else srcs
            assert len(set(deps)) == len(deps), f"{package}:{name} names a dependency twice, which Bazel refuses."
            targets[f"{package}:{name}"] = (
                {f"{package}/{source}" for source in sources},
                {_label(package, dep) for dep in deps},
            )

        def alias(name, actual, package=package):
            targets[f"{package}:{name}"] = (set(), {_label(package, actual)})

        def nothing(*_, **__):
            return []

        names = {name: nothing for name in ("load", "package", "exports_files", "filegroup", "glob")}
        exec(file.read_text(), names | {"alias": alias} | dict.fromkeys(_LIKE_LIBRARIES, rule))
    return targets


def _imports(path: str) -> Iterator[str]:
    """Yields the project's files that a module, or a program that a test holds as a text, imports when it runs.

    A text that is a module's name, or `module:Class`, is an import that comes later, as in registries; one that is the
    name of a file beside the module is a program that it starts.
    """
    waiting: list[ast.AST] = [ast.parse((ROOT / path).read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Constant) and path.endswith("_test.py"):
            waiting += map(ast.parse, re.findall(r"^from [\w.]+ import [\w, ]+$", str(node.value), re.MULTILINE))
        names = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and re.fullmatch(r"\w+(\.\w+)+(:\w+)?", str(node.value)):
            names = [str(node.value).partition(":")[0]]
            beside = (pathlib.Path(path).parent / str(node.value)).as_posix()
            yield from [beside] if beside.endswith(".py") and (ROOT / beside).is_file() else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{name}" for name in names]
            if not all(map(_found, names)):  # Of a package whose modules alone are imported, Bazel makes an empty one.
                names.append(str(node.module))
        for name in names:
            yield from _found(name)


def _found(name: str) -> list[str]:
    """Returns the files of a module."""
    file = name.replace(".", "/")
    return [found for found in (f"{file}.py", f"{file}/__init__.py") if (ROOT / found).is_file()]


@pytest.fixture(scope="module")
def targets() -> dict[str, tuple[set[str], set[str]]]:
    return _targets()


def test_every_module_is_in_a_target(targets):
    sources = set().union(*(sources for sources, _ in targets.values()))
    modules = [file for file in _files("*.py") if file.name not in ("__init__.py", "conftest.py")]
    others = {file.relative_to(ROOT).as_posix() for file in modules} - sources
    assert others == {f"tests/{name}_test.py" for name in ("build_files", "imports", "notebook", "readme")}


def test_targets_name_what_their_modules_import(targets):
    missing = []
    for name, (sources, deps) in targets.items():
        known = sources.union(*(targets[dep][0] for dep in deps))
        for source in sources:
            imported = {file for file in _imports(source) if (ROOT / file).stat().st_size}
            missing += [f"{name}: {file}" for file in sorted(imported - known)]
    assert missing == []


def test_continuous_integration_tests_a_target_of_each_room_and_runs_each_study(targets):
    text = (ROOT / ".ci/run").read_text()
    played = {(package, name) for package, name in re.findall(r"//([\w/]+):(\w+)", text)}
    assert {f"{package}:{name}" for package, name in played} <= targets.keys()
    rooms = {file.parent.relative_to(ROOT).as_posix() for file in (ROOT / "tests").rglob("*_test.py")}
    assert {package for package, _ in played if package.startswith("tests")} == rooms
    assert set(studies.STUDIES) <= {name for _, name in played}


def test_what_plays_bad_invocations_depends_on_all_programs(targets):
    _, deps = targets["tests:bad_invocations_test"]
    named = set(re.findall(r"^\[(\w+)\]$", (ROOT / "tests/bad_invocations.txt").read_text(), re.MULTILINE))
    assert "bandits:studies" in deps
    assert named - set(studies.STUDIES) <= {dep.rpartition(":")[2] for dep in deps}
