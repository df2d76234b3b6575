"""Starts a TFF worker on this machine, for experiments that run on another machine with `--tff_workers`."""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import contextlib
import dataclasses
import os
import socket
import subprocess
import time

from data.errors import Failure, UsageError
from data.settings import setting
from optimization.runtime import worker_process
from optimization.study import cli

_USAGE = """
Simulates clients for experiments on other machines, until it is stopped.

  tff_worker --port=9001                                         # on each helping host
  run_federated --tff_workers=HOST_1:9001,HOST_2:9001            # on the experiment's host

All hosts need this project's environment. Models, the data of the simulated clients and their updates cross the network
unencrypted. Anyone who reaches the port, which is open on all of the host's addresses, can run code: let a firewall
admit only the experiment's host. On untrusted networks, close the port to everyone and use a tunnel: on the
experiment's host, run `ssh -N -L 9001:localhost:9001 HOST_1` and give --tff_workers=localhost:9001.
"""
_START_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags."""

    port: int = setting(9001, "Port to listen on", low=1, high=65535)
    max_concurrent_threads: int = setting(0, "Number of clients computed in parallel; 0 for the number of cores")


def define() -> cli.FlagSet:
    """Flags of `tff_worker`."""
    return cli.FlagSet(_USAGE).group("Flags", _Flags)


def program(settings: cli.Settings) -> None:
    """Runs a worker until it is stopped.

    Raises:
      UsageError: If the port is in use.
      Failure: If the worker does not start, or exits by itself.
    """
    _check_free(settings.port)
    process = worker_process.launch(settings.port, settings.max_concurrent_threads).process
    try:
        _wait_until_open(settings.port, process)
        threads = settings.max_concurrent_threads or len(os.sched_getaffinity(0))
        print(
            f"TFF worker on port {settings.port}, {threads} clients at a time. On the experiment's host: "
            f"--tff_workers={socket.gethostname()}:{settings.port}\n"
            "Nothing is encrypted, and anyone who reaches the port can run code here; see --help. Ctrl-C stops it.",
            flush=True,
        )
        raise Failure(f"TFF's worker ended by itself (exit status {process.wait()}), perhaps for lack of memory.")
    finally:
        process.kill()
        process.wait()


def _check_free(port: int) -> None:
    """Raises a UsageError if the port is in use, because TFF's worker would silently share it."""
    try:
        with socket.create_server(("", port)):
            pass
    except OSError as error:
        raise UsageError(f"--port={port} cannot be used ({error.strerror}): choose another one.") from error


def _wait_until_open(port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        time.sleep(0.1)
    raise Failure(f"TFF's worker did not start (exit status {process.poll()}).")


if __name__ == "__main__":
    cli.main(define(), program)
