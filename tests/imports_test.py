"""Imports go one way, no two folders import each other, and below the flags nothing knows settings."""

import ast
import graphlib
import itertools
import pathlib
from collections.abc import Iterator

import pytest

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[1]
# Each may import those before it.
FOLDERS = ("data", "optimization", "bandits", "scripts")
# What may know flags and settings: the frame, flags modules, binaries, and what plays them.
_AT_THE_EDGE = (
    "optimization/study/",
    "bandits/advice/",
    "bandits/papers/",
    "bandits/plans/",
    "bandits/evaluation/betting.py",
    "bandits/evaluation/bounds.py",
    "bandits/evaluation/evaluating.py",
    "bandits/evaluation/private.py",
    "bandits/evaluation/reward_models.py",
    "bandits/evaluation/target_policies.py",
    "bandits/registry.py",
    "bandits/results/budget.py",
    "bandits/results/runs.py",
    "bandits/studies.py",
)
# Where settings are declared: functions may compute a default from a mapping of the other settings.
_DECLARING = ("bandits/options.py", "bandits/task_defaults.py", "data/tasks/registry.py", "optimization/options.py")


def _modules(folder: str) -> list[pathlib.Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def _imported(path: pathlib.Path) -> Iterator[str]:
    """Yields the dotted names of what a module imports anywhere in it, types included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def imported_folders(folder: str) -> set[str]:
    """Returns the other folders whose code a folder's modules import."""
    folders = set()
    for path in (ROOT / folder).glob("*.py"):
        for name in _imported(path):
            if name.partition(".")[0] not in (*FOLDERS, "tests") or (ROOT / name.replace(".", "/")).is_dir():
                continue  # A package, of which modules are imported.
            places = [ROOT / one.replace(".", "/") for one in (name, name.rpartition(".")[0])]
            files = [file for one in places for file in (one.with_suffix(".py"), one / "__init__.py") if file.is_file()]
            assert files, f"{path} imports {name}, which does not exist."
            folders.add(files[0].parent.relative_to(ROOT).as_posix())
    return folders - {folder}


def test_folders_import_one_way():
    names = {path.parent.relative_to(ROOT).as_posix() for folder in FOLDERS for path in _modules(folder)}
    imports = {name: imported_folders(name) for name in names}
    graphlib.TopologicalSorter(imports).prepare()  # No two folders import each other.
    place = {
        name: (*FOLDERS, "tests").index(name.partition("/")[0])
        for name in {*names, *itertools.chain(*imports.values())}
    }
    wrong = {(name, other) for name in names for other in imports[name] if place[other] > place[name]}
    assert wrong == set()


def _imported_when_run(node: ast.AST) -> Iterator[str]:
    """Yields what code imports, in functions too, but not what it imports for types alone."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.ImportFrom):
        places = [ROOT / f"{node.module}.{alias.name}".replace(".", "/") for alias in node.names]
        places = [place if place.with_suffix(".py").is_file() else place.parent for place in places]
        yield from (".".join(place.relative_to(ROOT).parts) for place in places)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imported_when_run(child)


def test_no_two_files_import_each_other():
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in FOLDERS
        for path in _modules(folder)
    }
    imports = {name: {*_imported_when_run(ast.parse(path.read_text()))} for name, path in paths.items()}
    both_ways = {name: [other for other in imports[name] if name in imports.get(other, ())] for name in imports}
    assert {name: others for name, others in both_ways.items() if others} == {}


def _is_at_the_edge(path: pathlib.Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    is_binary = 'if __name__ == "__main__":' in path.read_text()
    return name.startswith(_AT_THE_EDGE) or path.stem.endswith("flags") or is_binary


@pytest.mark.parametrize("folder", FOLDERS[:3])
def test_below_the_flags_nothing_takes_settings_but_defaults(folder):
    wrong = set()
    for path in _modules(folder):
        if _is_at_the_edge(path):
            continue
        name = path.relative_to(ROOT).as_posix()
        allowed = {"Mapping[str, Any]"} if name in _DECLARING else set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [one for one in (*node.args.args, *node.args.kwonlyargs) if one.arg == "settings"]
                types = {ast.unparse(one.annotation) if one.annotation else "" for one in arguments}
                wrong |= {f"{name}: {node.name}"} if types - allowed else set()
    assert wrong == set()


# Who ends the process or changes what it does for its owner: programs, and a helper that is a process of its own.
_OWNERS = {
    "bandits/plans/executors.py": {"SystemExit", "signal.signal"},
    "data/convert/__main__.py": {"sys.exit"},
    "data/objects.py": {"SystemExit"},  # It catches exits in the user's code.
    "optimization/runtime/isolation_helper.py": {"os._exit", "sys.exit"},
    "optimization/study/cli.py": {"sys.exit"},
    "optimization/study/interruption.py": {"os._exit", "signal.signal"},
    "optimization/study/loggers.py": {"SystemExit"},  # It catches exits in the user's callbacks.
}
_FOR_OWNERS = {
    "SystemExit",
    "exit",
    "quit",
    "matplotlib.pyplot",
    "matplotlib.use",
    "os._exit",
    "os.abort",
    "signal.signal",
    "sys.exit",
}


@pytest.mark.parametrize("folder", FOLDERS[:3])
def test_nothing_but_programs_ends_the_process_or_answers_signals(folder):
    for path in _modules(folder):
        tree = ast.parse(path.read_text())
        used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}
        used |= {*_imported(path)}
        name = path.relative_to(ROOT).as_posix()
        assert used & _FOR_OWNERS == _OWNERS.get(name, set()), name
