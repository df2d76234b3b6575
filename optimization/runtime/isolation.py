"""Network isolation of TFF's worker, which would listen on all addresses and runs code for anyone who reaches it.

A helper (`isolation_helper`) moves to a new network namespace, starts the worker there, and relays a Unix socket that
only this user can open. Without isolation, it only starts the worker. The helper ends when a pipe from this process
closes, however the process ends, and the worker ends with the helper. A death signal instead of the pipe would follow
the thread that started the helper, which may end long before the program.
"""

import contextlib
import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Mapping, Sequence

_HELPER = pathlib.Path(__file__).with_name("isolation_helper.py")
_MOST_PATH_BYTES = 107  # Of a Unix socket.
_END_SECONDS = 10


class RefusedError(Exception):
    """The system refuses a separate network; the message gives its reason."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A command that listens on a port.

    Attributes:
      process: The helper; it ends as the command does.
      pid: The command's process.
      port: The command's port.
      path: Unix socket that leads to the port in a separate network; empty without one.
    """

    process: subprocess.Popen
    pid: int
    port: int
    path: str

    @property
    def address(self) -> str:
        """Its address for gRPC."""
        return f"unix:{urllib.parse.quote(self.path)}" if self.path else f"localhost:{self.port}"

    def end(self) -> None:
        """Ends both, and removes the socket with its folder."""
        self.process.stdin.close()  # type: ignore[union-attr]  # A pipe, by `start`.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)  # If the helper was killed.


def start(command: Sequence[str], port: int, environment: Mapping[str, str], *, isolate: bool = True) -> Server:
    """Runs a command, by default in a separate network.

    Args:
      command: Program and arguments.
      port: Port of the command, independent of ports of other networks.
      environment: Its variables.
      isolate: Whether it gets a separate network.

    Returns:
      The command. It ends with this process, whichever thread called.

    Raises:
      RefusedError: If the system does not allow it; nothing remains.
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
      RefusedError: If there is no folder for it.
    """
    why = ""
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
            why = f"{base}: {error.strerror}"
            listener.close()
            shutil.rmtree(folder, ignore_errors=True)
    raise RefusedError(why)
