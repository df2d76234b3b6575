"""Starts and ends TFF's worker, which runs code for anyone who can reach its port. Nothing here imports TFF.

By default, TFF would start a worker on first use and never end it. Here the worker is a child process. It dies with its
parent, even if SIGKILL ends the parent. Ctrl-C in the terminal does not reach the worker, and the worker does not keep
any of the parent's streams open.

TFF's binary listens on all addresses. If the system allows it, a helper (`isolation_helper`) therefore moves to a new
network namespace, starts the worker there, and relays a Unix socket that only this user can open. The helper ends when
a pipe from this process closes, however the process ends, and the worker ends with the helper. A parent-death signal
could not replace the pipe: it is sent when the thread that started the helper ends, which may be long before the
program ends.
"""

import contextlib
import ctypes
import dataclasses
import gc
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

import portpicker

from data.errors import Failure

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL("libc.so.6")
# These settings make glibc keep freed memory instead of returning it to the system: every round allocates models and
# messages of the same sizes again, and page faults would take a fifth of a round. Updates pass between threads, so few
# heaps are better. But each active client needs one, and messages need two: with fewer, threads wait for each other.
# The keys are names in the worker's environment; the values are the arguments of mallopt in this process.
_MALLOC = {"MMAP_MAX_": (-4, 0), "TRIM_THRESHOLD_": (-1, 1 << 30), "ARENA_MAX": (-8, len(os.sched_getaffinity(0)) + 2)}

_HELPER = pathlib.Path(__file__).with_name("isolation_helper.py")
_MOST_PATH_BYTES = 107  # Limit of a Unix socket's path.
_END_SECONDS = 10
_ISOLATED_PORT = 9000  # In a separate network every port is free.


class RefusedError(Exception):
    """A command cannot be started at all, or cannot be started in a separate network; the message gives the reason."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A running command that listens on a port.

    Attributes:
      process: The process of `isolation_helper`, which ends when the command ends.
      pid: Process id of the command.
      port: Port of the command.
      path: Unix socket that leads to the port in a separate network; empty without isolation.
    """

    process: subprocess.Popen
    pid: int
    port: int
    path: str

    @property
    def address(self) -> str:
        """Address for gRPC."""
        return f"unix:{urllib.parse.quote(self.path)}" if self.path else f"localhost:{self.port}"

    def end(self) -> None:
        """Ends both processes, and removes the socket with its folder."""
        self.process.stdin.close()  # type: ignore[union-attr]  # `start` makes it a pipe.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)  # In case the helper was killed.


_local_workers: dict[tuple[int, str], Server] = {}
_starting = threading.Lock()


def start(command: Sequence[str], port: int, environment: Mapping[str, str], *, isolate: bool) -> Server:
    """Starts a command that ends with this process, even if the calling thread ends earlier.

    Args:
      command: Program and arguments.
      port: Port of the command. If the command is isolated, the port need not be free outside its network.
      environment: All environment variables of the command.
      isolate: Whether the command gets a separate network.

    Raises:
      RefusedError: If the system does not allow a separate network, or the command cannot be started. Nothing is left
        running.
    """
    path, listener = _listener() if isolate else ("", socket.socket(socket.AF_UNIX))
    with listener:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HELPER), path, str(listener.fileno()), str(port), *command],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )
    # Neither child programs nor forks may keep the pipe open.
    os.register_at_fork(after_in_child=process.stdin.close)  # type: ignore[union-attr]
    with process.stdout as stdout:  # type: ignore[union-attr]
        answer = stdout.readline().decode().strip()
    server = Server(process, int(answer) if answer.isdecimal() else 0, port, path)
    if not server.pid:
        server.end()
        raise RefusedError(answer or f"the helper ended with status {process.returncode}")
    return server


def _listener() -> tuple[str, socket.socket]:
    """Path of a new Unix socket that only this user can open, and the socket.

    Raises:
      RefusedError: If no folder can hold it.
    """
    reason = ""
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/dev/shm")):
        folder, listener = "", socket.socket(socket.AF_UNIX)
        try:
            folder = tempfile.mkdtemp(prefix="fedbandits_", dir=base)  # 0700.
            path = os.path.join(folder, "worker")
            if len(os.fsencode(path)) > _MOST_PATH_BYTES:
                raise OSError(0, "the path is too long for a socket")
            listener.bind(path)
            os.chmod(path, 0o600)
            listener.listen()
            return path, listener
        except OSError as error:
            reason = f"{base}: {error.strerror}"
            listener.close()
            shutil.rmtree(folder, ignore_errors=True)
    raise RefusedError(reason)


def local_worker(max_concurrent_calls: int, isolate: str) -> Server:
    """Starts the program's worker, so that it gets ready while the program imports TFF.

    A repeated call returns the same worker, or a new one if that has died.

    Args:
      max_concurrent_calls: Number of clients that are computed in parallel; 0 for the number of available cores.
      isolate: `required` for a separate network, which no other user or host can reach; `auto` for a separate network
        or, if the system refuses it, a warning; `off` for a port that is open on all of the machine's addresses.

    Raises:
      Failure: If isolation is required, and the system refuses it.
      RefusedError: If the worker cannot be started, even without isolation.
    """
    with _starting:
        key = max_concurrent_calls, isolate
        if key in _local_workers and _local_workers[key].process.poll() is not None:
            _local_workers.pop(key).end()
        if key not in _local_workers:
            _local_workers[key] = _launch_local(*key)
        return _local_workers[key]


def _launch_local(max_concurrent_calls: int, isolate: str) -> Server:
    if isolate != "off":
        try:
            return launch(_ISOLATED_PORT, max_concurrent_calls, isolate=True)
        except RefusedError as error:
            if isolate == "required":
                raise Failure(
                    "--isolation=required: this system does not allow a separate network for TFF's worker "
                    f"({error}). Allow user namespaces, or accept with --isolation=auto that anyone who can reach "
                    "the worker can run code as you."
                ) from error
            print(
                "Warning: TFF's worker listens on all of this machine's addresses, and anyone who can reach it can "
                f"run code as you, because the system does not allow a separate network ({error}). See --isolation.",
                file=sys.stderr,
            )
    return launch(portpicker.pick_unused_port(), max_concurrent_calls)


def end_with_parent() -> None:
    """Makes the kernel kill this new process when the thread that started it ends; for `preexec_fn` in `subprocess`."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def launch(port: int, max_concurrent_calls: int = 0, *, isolate: bool = False) -> Server:
    """Starts a worker, which ends with this process.

    Args:
      port: A free port.
      max_concurrent_calls: Number of clients that are computed in parallel; 0 for the number of available cores.
      isolate: Whether the worker gets a separate network; otherwise it listens on all of the machine's addresses,
        since TFF's binary has no other option.

    Raises:
      RefusedError: See `start`.
    """
    cores = len(os.sched_getaffinity(0))
    calls = max_concurrent_calls or cores
    package = importlib.util.find_spec("tensorflow_federated").origin  # type: ignore[union-attr]
    binary = pathlib.Path(str(package)).parent / "data" / "worker_binary"
    # By default, as many clients run in parallel as there are cores. Each uses the threads of one core, so none waits.
    # A client's operations run one after the other in its own thread (-1): most take less time than waking another
    # thread. By default, TensorFlow does not use oneDNN on processors without AVX-512 VNNI, although it halves the time
    # there.
    environment = dict(
        {"TF_NUM_INTEROP_THREADS": "-1", "TF_ENABLE_ONEDNN_OPTS": "1"} | os.environ,
        TF_NUM_INTRAOP_THREADS=str(max(1, cores // calls)),
        **{f"MALLOC_{name}": str(value) for name, (_, value) in _MALLOC.items()},
    )
    command = [str(binary), f"--port={port}", f"--max_concurrent_computation_calls={calls}"]
    return start(command, port, environment, isolate=isolate)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Speeds up TFF's import inside the block by a third, by excluding its objects from garbage collection."""
    is_first, was_enabled = "tensorflow_federated" not in sys.modules, gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
    if is_first:
        gc.freeze()


def keep_freed_memory() -> None:
    """Configures this process's heap like that of workers."""
    for parameter, value in _MALLOC.values():
        _libc.mallopt(parameter, value)
