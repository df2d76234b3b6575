"""The program that starts a worker for others."""

import os
import pathlib
import signal
import socket
import subprocess
import sys

import portpicker
import psutil
import pytest

from data.errors import UsageError
from scripts import tff_worker

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def started():
    """A started program, its port, its first line, and its processes: the helper and the worker that it starts."""
    port = portpicker.pick_unused_port()
    words = [sys.executable, "-m", "scripts.tff_worker", f"--port={port}", "--max_concurrent_threads=1"]
    environment, pipe = os.environ | {"PYTHONPATH": str(ROOT)}, subprocess.PIPE
    process = subprocess.Popen(words, env=environment, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
    line = process.stdout.readline()
    yield process, port, line, psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signum", "status", "line"), [(signal.SIGINT, 130, "Interrupted.\n"), (signal.SIGKILL, -9, "")]
)
def test_it_says_how_to_use_it_and_leaves_no_worker(started, signum, status, line):
    process, port, greeting, workers = started
    assert greeting.startswith(f"TFF worker on port {port}, 1 clients at a time.")
    assert greeting.endswith(f"--tff_workers={socket.gethostname()}:{port}\n")
    assert workers[-1].name() == "worker_binary"
    socket.create_connection(("localhost", port), timeout=300).close()
    process.send_signal(signum)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == status
    assert errors == line
    assert not psutil.wait_procs(workers, timeout=300)[1]


def test_a_worker_that_ends_by_itself_is_an_error(started):
    process, _, _, workers = started
    workers[-1].kill()
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1
    assert errors == "TFF's worker ended by itself (exit status 137), perhaps for lack of memory.\n"


def test_a_taken_port_is_refused():
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port={port} cannot be used .Address already in use.*another one"):
            tff_worker.program(tff_worker.define().parse(["tff_worker", f"--port={port}"]))
