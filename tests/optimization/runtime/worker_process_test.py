import os
import pathlib
import subprocess
import sys

import grpc
import psutil
import pytest

from optimization.runtime import worker_process

ROOT = pathlib.Path(__file__).resolve().parents[3]


def listening(process: int | str = "self") -> set[int]:
    """Ports with listeners in the network of a process."""
    files = [pathlib.Path(f"/proc/{process}/net/{kind}") for kind in ("tcp", "tcp6")]
    rows = [line.split() for file in files if file.exists() for line in file.read_text().splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A"}


def test_the_isolated_worker_has_a_separate_network(allowed):
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
def test_a_refused_network_is_a_warning_or_a_failure(allowed, step):
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
        "Warning: TFF's worker listens on all of this machine's addresses, and anyone who can reach it can run code "
        f"as you, because the system does not allow a separate network ({step}: Operation not permitted). "
        "See --isolation.\n",
    )
    assert run("required") == (
        1,
        "",
        f"--isolation=required: this system does not allow a separate network for TFF's worker ({step}: Operation not "
        "permitted). Allow user namespaces, or accept with --isolation=auto that anyone who can reach the worker can "
        "run code as you.\n",
    )
