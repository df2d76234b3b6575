"""The helper of `worker_process`: runs a command in a separate network, and relays a Unix socket to the command's port.

With an empty SOCKET, it only runs the command.

  python -I -S isolation_helper.py SOCKET LISTENER PORT COMMAND ARGUMENT ...

It is run, never imported: only a process with a single thread may create a user namespace. It starts quickly, since it
needs only the standard library. It prints the command's process id, or the system's error message, and ends when its
standard input closes.
"""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_INTERFACE = struct.Struct("16sh22x")  # An ifreq: name and flags.
_PR_SET_PDEATHSIG = 1
_CHUNK = 1 << 20
_libc = ctypes.CDLL("libc.so.6", use_errno=True)


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    """Adds the name of the attempted operation to an OSError."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{name}: {error.strerror or error}") from error


def _isolate() -> None:
    """Moves this process to a separate network.

    A user namespace is only the second attempt, because other users' files are out of reach in it.

    Raises:
      OSError: If the system does not allow a separate network that works.
    """
    try:
        _unshare(_CLONE_NEWNET)
        _raise_loopback()
    except OSError:
        user, group = os.geteuid(), os.getegid()
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with _step(name), open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        _raise_loopback()


def _unshare(namespaces: int) -> None:
    with _step("unshare"):
        if _libc.unshare(namespaces):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _raise_loopback() -> None:
    """Brings the loopback interface up and tests it."""
    with _step("loopback"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        reply = fcntl.ioctl(control, _SIOCGIFFLAGS, _INTERFACE.pack(b"lo", 0))
        flags = _INTERFACE.unpack(reply)[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, _INTERFACE.pack(b"lo", flags | _IFF_UP))
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()


def _run(command: list[str]) -> subprocess.Popen:
    """Starts the command. The kernel kills it when this process's main thread ends."""
    helper = os.getpid()

    def end_with_helper() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != helper:
            os._exit(1)

    null = subprocess.DEVNULL
    with _step(command[0]):
        return subprocess.Popen(command, stdin=null, stdout=null, stderr=null, preexec_fn=end_with_helper)


def _end_like(process: subprocess.Popen, path: str) -> None:
    """Waits for the command to end, removes the socket, and exits with the command's status, as a shell would."""
    status = process.wait()
    with contextlib.suppress(OSError):
        os.unlink(path)
        os.rmdir(os.path.dirname(path))
    os._exit(status if status >= 0 else 128 - status)


def _relay(listener: socket.socket, port: int, process: subprocess.Popen) -> None:
    try:
        while True:
            client, _ = listener.accept()
            server = _connected(port)
            for ends in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=ends, daemon=True).start()
    finally:  # If relaying fails, the helper ends with the command, so that clients do not wait forever.
        process.kill()


def _connected(port: int) -> socket.socket:
    """Connects to a port as soon as a process listens there."""
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Copies bytes from one socket to another; when one of them closes, closes the other."""
    content = memoryview(bytearray(_CHUNK))
    with contextlib.suppress(OSError):
        while count := source.recv_into(content):
            sink.sendall(content[:count])
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _main(path: str, listener: str, port: str, *command: str) -> None:
    try:
        if path:
            _isolate()
        process = _run(list(command))
    except OSError as error:
        print(error.strerror)
        sys.exit(1)
    with contextlib.suppress(BrokenPipeError):  # The parent is gone, and the socket is removed below.
        print(process.pid, flush=True)
    end = threading.Thread(target=_end_like, args=(process, path))
    end.start()
    if path:
        relayed = (socket.socket(fileno=int(listener)), int(port), process)
        threading.Thread(target=_relay, args=relayed, daemon=True).start()
    os.read(0, 1)  # Returns when the parent is gone.
    process.kill()
    end.join()


_main(*sys.argv[1:])
