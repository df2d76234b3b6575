"""Fixtures of all tests."""

import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A script's background job ignores Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_SLOW_FIXTURES = {"tff_worker", "without_tensorflow", "kill_in_a_checkpoint"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what starts programs or needs a worker of TFF."""
    for item in items:
        if _SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _own_download_folder(tmp_path_factory):
    """Tests find nothing in the user's cache folder, and leave nothing there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def write_database() -> Callable[[pathlib.Path, Mapping[str, Mapping[str, Sequence[bytes]]]], pathlib.Path]:
    """Writes a database in the form of TFF's data sets: split -> client -> its serialized examples."""

    def write(path: pathlib.Path, splits: Mapping[str, Mapping[str, Sequence[bytes]]]) -> pathlib.Path:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        connection.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
        for split, members in splits.items():
            for client, examples in members.items():
                connection.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (client, split, len(examples)))
                connection.executemany(
                    "INSERT INTO examples VALUES (?, ?, ?)", [(split, client, example) for example in examples]
                )
        connection.commit()
        connection.close()
        return path

    return write


@pytest.fixture(scope="session")
def tff_worker():
    """One TFF worker for the whole session."""
    from optimization.runtime import worker

    return worker.start()


@pytest.fixture(scope="session")
def shared_data() -> pathlib.Path:
    """The folder of real data files; tests that need one are skipped where there is none."""
    folder = os.environ.get("FEDBANDITS_DATA_DIR")
    if not folder:
        pytest.skip("FEDBANDITS_DATA_DIR names no folder of real data")
    return pathlib.Path(folder)


@pytest.fixture(scope="session")
def without_tensorflow(tmp_path_factory) -> Callable[..., subprocess.CompletedProcess]:
    """Runs a program where TensorFlow cannot be imported: status 2 instead of 1 shows that the answer came before.

    A function of the program's module, its arguments and, by name, environment variables.
    """
    folder = tmp_path_factory.mktemp("without_tensorflow")
    for package in ("tensorflow", "tensorflow_federated"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").write_text("raise ImportError('TensorFlow was imported')\n")
    worker = folder / "tensorflow_federated" / "data" / "worker_binary"  # Started before TFF is imported.
    worker.parent.mkdir()
    worker.write_text("#!/bin/sh\n")
    worker.chmod(0o755)
    root = pathlib.Path(__file__).resolve().parents[1]

    def run(module: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
        hidden = {"FEDBANDITS_DATA_DIR", "BUILD_WORKING_DIRECTORY", "no_proxy", "NO_PROXY"}
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        paths = [str(folder), str(root), *filter(None, [environment.get("PYTHONPATH")])]
        environment |= {"PYTHONPATH": os.pathsep.join(paths)} | variables
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)

    return run


_KILLED_IN_A_CHECKPOINT = """
import os, signal, sys
from bandits import studies
from data import files

whole, (module, checkpoint) = files.save_arrays, sys.argv[1:3]

def half(path, arrays, **options):
    if path.name == checkpoint:
        with files.whole(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    whole(path, arrays, **options)

files.save_arrays = half
studies.program(module, studies.flag_set(module).parse(sys.argv[2:]))
"""


@pytest.fixture(scope="session")
def kill_in_a_checkpoint() -> Callable[..., None]:
    """Plays a run until it is killed half way through a checkpoint.

    A function of the program's module, the checkpoint's round and the program's arguments.
    """
    root = pathlib.Path(__file__).resolve().parents[1]

    def run(module: str, round_num: int, *arguments: str) -> None:
        words = [module, f"round_{round_num:08d}.npz", *arguments]
        environment = os.environ | {"PYTHONPATH": str(root)}
        command = [sys.executable, "-c", _KILLED_IN_A_CHECKPOINT, *words]
        killed = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.DEVNULL)
        assert killed.returncode == -signal.SIGKILL

    return run
