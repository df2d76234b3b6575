"""Flags of TFF's workers, shared by all experiment binaries. Nothing here imports TFF."""

import dataclasses
import re
import socket
import sys
from collections.abc import Mapping
from typing import Any

from data.errors import Failure, UsageError
from data.settings import setting
from optimization.runtime import worker_process

_CONNECT_SECONDS = 5
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


@dataclasses.dataclass(frozen=True)
class Workers:
    """Settings of the workers that run TFF's computations."""

    max_concurrent_threads: int = setting(0, "Number of clients computed in parallel; 0 for the number of cores")
    tff_workers: str = setting(
        None,
        "Addresses HOST:PORT of workers that share each cohort, started by scripts.tff_worker (default: one local "
        "worker). Models, clients' data and updates are sent without encryption: use trusted networks, or tunnels",
    )
    isolation: str = setting(
        "auto",
        "Network isolation of this program's own worker",
        {
            "auto": "isolated from other users and hosts if the system allows it; otherwise open, with a warning",
            "required": "isolated from other users and hosts; an error if the system does not allow it",
            "off": "open on all of the machine's addresses: anyone who can reach the port can run code as you",
        },
    )


def addresses(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Addresses of `--tff_workers`; empty for the program's own worker.

    Raises:
      UsageError: If an address is not HOST:PORT or occurs twice, or if `--max_concurrent_threads` or required isolation
        is also set.
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
    if settings["isolation"] == "required":
        raise UsageError("--isolation=required is only for this program's own worker: leave out --tff_workers.")
    return addresses


def start(settings: Mapping[str, Any]) -> None:
    """Makes all TFF computations of this process run on the workers that the flags name.

    Raises:
      UsageError: See `addresses`.
      Failure: If a worker does not answer, or the system refuses the required isolation. Refused isolation and a closed
        port are detected before TFF is imported.
    """
    remote = addresses(settings)
    for address in remote:
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise Failure(
                f"No TFF worker answers at {address} (--tff_workers): {error.strerror or error}. Start one on that "
                f"host: ./scripts/python -m scripts.tff_worker --port={port}"
            ) from error

    if not remote:
        worker_process.local_worker(settings["max_concurrent_threads"], settings["isolation"])
    elif settings["isolation"] == "auto":
        print(
            "Warning: anyone who can reach the ports of --tff_workers can run code there, and nothing is encrypted: "
            "let a firewall admit only this machine, or use a tunnel. (--isolation=off suppresses this warning.)",
            file=sys.stderr,
        )

    with worker_process.importing():
        from optimization.runtime import worker

    worker.start(settings["max_concurrent_threads"], remote, settings["isolation"])
