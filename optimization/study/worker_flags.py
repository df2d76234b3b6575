"""Flags that say where TFF's computations run, shared by all experiment binaries. Nothing here imports TFF."""

import re
import socket
import sys
from collections.abc import Mapping
from typing import Any

from data.errors import Failure, UsageError
from optimization.runtime import worker_process
from optimization.study.settings import setting

_CONNECT_SECONDS = 5
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


class Workers:
    """Where computations run.

    Attributes:
      max_concurrent_threads: Clients computed at the same time; 0 for as many as cores.
      tff_workers: HOST:PORT,...: workers to split each cohort over, started there by scripts.tff_worker (default: one
        here). Models, clients' data and updates go to them unencrypted: use trusted networks, or tunnels.
      isolation: How this program's own worker runs.
      runtime: What has this program's own worker compute; the numbers are the same.
    """

    max_concurrent_threads: int = setting(0)
    tff_workers: str = setting()
    isolation: str = setting(
        "auto",
        {
            "auto": "so that nobody else reaches it; where the system refuses that, a warning",
            "required": "so that nobody else reaches it, or not at all",
            "off": "open on all of the machine's addresses: who reaches its port can run code as you",
        },
    )
    runtime: str = setting(
        "fast",
        {
            "fast": "this program's calls, which a short round waits for less",
            "tff": "TFF's own, to see whether odd numbers or errors come from the former",
        },
    )


def addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the addresses of `--tff_workers`; none for a worker of the program's own.

    Raises:
      UsageError: If they are not HOST:PORT, or `--max_concurrent_threads` is given, which is theirs to say, or
        isolation is required, which they do not have, or TFF's own runtime, which would wait for a lost one for ever.
    """
    if settings["tff_workers"] is None:
        return ()
    addresses = tuple(settings["tff_workers"].split(","))
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if not match or not 0 < int(match[2]) < 1 << 16:
            raise UsageError(f"--tff_workers: {address!r} must be HOST:PORT, such as 10.0.0.2:9001.")
        if addresses.count(address) > 1:
            raise UsageError(f"--tff_workers names {address} twice.")
    if settings["max_concurrent_threads"]:
        raise UsageError("--max_concurrent_threads has no effect with --tff_workers: give it to scripts.tff_worker.")
    if settings["runtime"] == "tff":
        raise UsageError("--runtime=tff is for this program's own worker: leave --tff_workers out.")
    if settings["isolation"] == "required":
        raise UsageError("--isolation=required is for this program's own worker: leave --tff_workers out.")
    return addresses


def start(settings: Mapping[str, Any]) -> None:
    """Makes the worker or workers that the flags name run every TFF computation of this process.

    Raises:
      UsageError: See `addresses`.
      Failure: If one does not answer, or is refused the isolation that is required; where nobody listens, and where it
        is refused, before TFF is imported.
    """
    remote = addresses(settings)
    for address in remote:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise Failure(
                f"No TFF worker answers at {address} (--tff_workers): {error.strerror or error}. "
                f"Start one on that host: ./scripts/python -m scripts.tff_worker --port={port}"
            ) from error

    if not remote:
        worker_process.own(settings["max_concurrent_threads"], settings["isolation"])
    elif settings["isolation"] == "auto":
        print(
            "Warning: who reaches the ports of --tff_workers can run code there, and nothing is encrypted: let a "
            "firewall admit only this machine, or tunnel. (--isolation=off leaves this line out.)",
            file=sys.stderr,
        )

    with worker_process.importing():
        from optimization.runtime import worker

    worker.start(settings["max_concurrent_threads"], remote, settings["isolation"], settings["runtime"])
