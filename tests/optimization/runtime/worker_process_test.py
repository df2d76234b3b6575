"""Tests of optimization.runtime.worker_process, with small servers in place of TFF's worker, or the real one."""

import contextlib
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import psutil
import pytest

from optimization.runtime import worker_process

ROOT = pathlib.Path(__file__).resolve().parents[3]
PORT = 9123
# Listens on all addresses, as TFF's worker does; sends back what comes.
ECHO = f"""
import socket, threading
def answer(client):
    while received := client.recv(1 << 16):
        client.sendall(received)
    client.close()
server = socket.create_server(("", {PORT}))
while True:
    threading.Thread(target=answer, args=server.accept()[:1]).start()
"""
COMMAND = [sys.executable, "-S", "-c", ECHO]
NOBODY = 65534


@pytest.fixture(scope="session")
def allowed():
    """Asks the system itself, not the code under test."""
    ways = (["unshare", "--net", "true"], ["unshare", "--user", "--map-root-user", "--net", "true"])
    if all(subprocess.run(way, stderr=subprocess.DEVNULL).returncode for way in ways):
        pytest.skip("this system allows no network namespaces")


@pytest.fixture
def start(allowed) -> Iterator[Callable[[], worker_process.Server]]:
    """Starts echo servers, and ends what the test has not."""
    started = []

    def one() -> worker_process.Server:
        started.append(worker_process.start(COMMAND, PORT, os.environ, isolate=True))
        return started[-1]

    yield one
    for isolated in started:
        isolated.end()


@contextlib.contextmanager
def connected(isolated: worker_process.Server) -> Iterator[socket.socket]:
    """A connection that answers, so that the server is up."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(300)
        client.connect(isolated.path)
        assert echo(client, b"hello") == b"hello"
        yield client


def echo(client: socket.socket, content: bytes) -> bytes:
    sender = threading.Thread(target=client.sendall, args=(content,))
    sender.start()
    received = bytearray()
    while len(received) < len(content) and (part := client.recv(1 << 20)):
        received += part
    sender.join()
    return bytes(received)


def listening(process: int | str = "self") -> set[int]:
    """Ports with listeners in the network of a process."""
    files = [pathlib.Path(f"/proc/{process}/net/{kind}") for kind in ("tcp", "tcp6")]
    rows = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def assert_nothing_is_left(helper: int, command: int, path: str) -> None:
    processes = []
    for pid in (helper, command):
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    assert psutil.wait_procs(processes, timeout=300)[1] == []
    assert not os.path.exists(os.path.dirname(path))


def test_everything_passes_both_ways(start):
    contents = [np.random.default_rng(seed).bytes(20_000_000) for seed in range(2)]
    isolated, found = start(), {}

    def talk(content):
        with connected(isolated) as client:
            found[content] = echo(client, content)

    threads = [threading.Thread(target=talk, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[content] == content for content in contents] == [True, True]


def test_the_port_is_in_no_network_but_the_commands(start):
    isolated = start()
    with connected(isolated):
        assert listening(isolated.pid) == {PORT}
        assert PORT not in listening()
        for address in (one.address for many in psutil.net_if_addrs().values() for one in many):
            if "." in address:
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection((address, PORT), timeout=300)


def test_the_network_of_tffs_worker_is_its_own(allowed):
    before = listening()
    own = worker_process._launch_local(1, "required")
    try:
        with grpc.insecure_channel(own.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=300)
        assert len(listening(own.pid)) == 1
        assert psutil.Process(own.pid).name() == "worker_binary"
        assert not listening(own.pid) & (listening() - before)
    finally:
        own.end()


def test_the_socket_is_for_this_user_alone(start):
    path = start().path
    modes = [stat.S_IMODE(os.stat(place).st_mode) for place in (path, os.path.dirname(path))]
    assert modes == [0o600, 0o700]
    is_root_of_everybody = "4294967295" in pathlib.Path("/proc/self/uid_map").read_text()
    if os.geteuid() == 0 and is_root_of_everybody:
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                with contextlib.suppress(PermissionError), socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)
                    os._exit(1)
                os._exit(0)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_it_outlives_the_thread_that_started_it(start):
    found = []
    thread = threading.Thread(target=lambda: found.append(start()))
    thread.start()
    thread.join()
    with connected(found[0]) as client:
        time.sleep(0.2)
        assert echo(client, b"still") == b"still"


PROGRAM = """
import os, signal, subprocess, sys, time
from optimization.runtime import worker_process
isolated = worker_process.start(sys.argv[2:], {port}, os.environ, isolate=True)
program = subprocess.Popen(["sleep", "600"])
fork = os.fork()
if not fork:
    time.sleep(600)
print(program.pid, fork, isolated.process.pid, isolated.pid, isolated.path, flush=True)
{{"returns": lambda: None, "raises": lambda: 1 / 0, "waits": lambda: time.sleep(600)}}[sys.argv[1]]()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "signum"), [("returns", None), ("raises", None), ("waits", signal.SIGTERM), ("waits", signal.SIGKILL)]
)
def test_it_ends_with_the_program_though_its_children_live_on(allowed, way, signum):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(port=PORT), way, *COMMAND],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    *children, helper, command, path = program.stdout.readline().split()
    program.stdout.close()
    try:
        if signum:
            assert psutil.Process(int(command)).is_running()
            program.send_signal(signum)
        program.wait(300)
        assert_nothing_is_left(int(helper), int(command), path)
    finally:
        for child in children:
            os.kill(int(child), signal.SIGKILL)


def test_the_end_of_the_command_is_reported_and_breaks_connections(start):
    isolated = start()
    with connected(isolated) as client:
        os.kill(isolated.pid, signal.SIGKILL)
        assert client.recv(1) == b""
    assert isolated.process.wait(300) == -signal.SIGKILL
    assert_nothing_is_left(isolated.process.pid, isolated.pid, isolated.path)


# Has the kernel refuse a system call whose argument at some place has one of some bits, or (equal) a value.
REFUSING = """
import ctypes, struct, sys
call, place, test, value = map(int, sys.argv[1:5])
load, equal, answer, allow, refuse = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050001
steps = [(load, 0, 0, 0), (equal, 0, 3, call), (load, 0, 0, 16 + 8 * place), (test, 0, 1, value)]
steps += [(answer, 0, 0, refuse), (answer, 0, 0, allow)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]
libc = ctypes.CDLL("libc.so.6")
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(steps), ctypes.addressof(code)))) == 0
del sys.argv[1:5]
from optimization.runtime import worker_process
from optimization.study import cli, worker_flags
flags = cli.FlagSet("")
flags.group("")
flags.add(worker_flags.Workers)
def program(settings):
    own = worker_process.local_worker(1, settings.isolation)
    print(own.address)
    own.end()
cli.main(flags, program)
"""
BITS, EQUAL = 0x45, 0x15
CLONE_NEWNET, SIOCSIFFLAGS = 0x40000000, 0x8914
REFUSED = {"unshare": (272, 0, BITS, CLONE_NEWNET), "loopback": (16, 1, EQUAL, SIOCSIFFLAGS)}  # On x86-64.


@pytest.mark.slow
@pytest.mark.parametrize("step", REFUSED)
def test_where_the_system_refuses_it_the_risk_is_named(allowed, step):
    def run(isolate: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-c", REFUSING, *map(str, REFUSED[step]), f"--isolation={isolate}"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.rpartition(":")[0], done.stderr

    assert run("off") == (0, "localhost", "")
    assert run("auto") == (
        0,
        "localhost",
        "Warning: TFF's worker listens on all of this machine's addresses, and anyone who reaches it can run code as "
        f"you: the system refuses it a separate network ({step}: Operation not permitted). See --isolation.\n",
    )
    assert run("required") == (
        1,
        "",
        f"--isolation=required: this system refuses TFF's worker a separate network ({step}: Operation not "
        "permitted). Allow user namespaces, or accept with --isolation=auto that anyone who reaches it can run code as "
        "you.\n",
    )
