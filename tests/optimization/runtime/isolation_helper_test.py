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
from concurrent import futures

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


def assert_nothing_is_left(helper: int, command: int, path: str) -> None:
    processes = []
    for pid in (helper, command):
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append(psutil.Process(pid))
    assert psutil.wait_procs(processes, timeout=300)[1] == []
    assert not os.path.exists(os.path.dirname(path))


def test_bytes_pass_both_ways(start):
    isolated = start()

    def is_returned(seed: int) -> bool:
        content = np.random.default_rng(seed).bytes(20_000_000)
        with connected(isolated) as client:
            return echo(client, content) == content

    with futures.ThreadPoolExecutor() as pool:
        assert list(pool.map(is_returned, range(2))) == [True, True]


def test_only_this_user_can_open_the_socket(start):
    path = start().path
    assert [stat.S_IMODE(os.stat(place).st_mode) for place in (path, os.path.dirname(path))] == [0o600, 0o700]


def test_the_command_outlives_the_thread_that_started_it(start):
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
def test_the_command_ends_with_the_program_but_not_with_its_children(allowed, way, signum):
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
    assert isolated.process.wait(300) == 128 + signal.SIGKILL
    assert_nothing_is_left(isolated.process.pid, isolated.pid, isolated.path)
