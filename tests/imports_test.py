"""Imports go one way, and what is below the flags knows none. Not for Bazel, which hides what is no dep."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Each may import those before it.
ROOMS = ("data", "optimization", "bandits", "scripts")
# What may know flags and settings: the frame, flags modules, binaries, and what plays them.
_AT_THE_EDGE = (
    "optimization/study/",
    "bandits/advice/",
    "bandits/binaries.py",
    "bandits/papers/",
    "bandits/plans/",
    "bandits/evaluation/",
    "bandits/results/",
    "bandits/studies.py",
)


def _modules(room: str) -> list[pathlib.Path]:
    return sorted((ROOT / room).rglob("*.py"))


def _imported(path: pathlib.Path) -> Iterator[str]:
    """Yields the dotted names of what a module imports anywhere in it, types included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_before_it(room):
    later = ROOMS[ROOMS.index(room) + 1 :]
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in _modules(room)
        for name in _imported(path)
        if name.partition(".")[0] in (*later, "tests")
    }
    assert wrong == set()


def _is_at_the_edge(path: pathlib.Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    is_binary = 'if __name__ == "__main__":' in path.read_text()
    return name.startswith(_AT_THE_EDGE) or path.stem.endswith("flags") or is_binary


@pytest.mark.parametrize("room", ROOMS[:3])
def test_below_the_flags_nothing_takes_settings(room):
    wrong = set()
    for path in _modules(room):
        if _is_at_the_edge(path):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
                wrong |= {f"{path.relative_to(ROOT)}: {node.name}"} if "settings" in names else set()
    assert wrong == set()


# Who ends the process or changes what it does for its owner: programs, and a helper that is a process of its own.
_OWNERS = {
    "bandits/plans/player.py": {"SystemExit"},
    "bandits/plans/players.py": {"SystemExit", "signal.signal"},
    "data/convert/__main__.py": {"sys.exit"},
    "optimization/runtime/isolation_helper.py": {"os._exit", "sys.exit"},
    "optimization/study/cli.py": {"sys.exit"},
    "optimization/study/interruption.py": {"os._exit", "signal.signal"},
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


@pytest.mark.parametrize("room", ROOMS[:3])
def test_nothing_but_programs_ends_the_process_or_answers_signals(room):
    for path in _modules(room):
        tree = ast.parse(path.read_text())
        used = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)}
        used |= {*_imported(path)}
        name = path.relative_to(ROOT).as_posix()
        assert used & _FOR_OWNERS == _OWNERS.get(name, set()), name
