"""The process of a TFF worker, which computes for whoever reaches its port. Nothing here imports TFF.

TFF would start one on first use and never end it. Here it is started as a child: the kernel kills it when its parent
dies, even by SIGKILL; Ctrl-C at the terminal does not reach it; and it holds no stream of the parent open.
"""

import ctypes
import functools
import importlib.util
import os
import pathlib
import signal
import subprocess

import portpicker

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL("libc.so.6")
# glibc keeps freed memory instead of returning it and faulting it in again: models and messages of the same sizes come
# back every round, and page faults cost a fifth of a round. Few heaps, since updates pass between threads; but with
# fewer than one for each client at work and two for messages, threads wait for each other.
# Names, for the worker's environment, and values, as mallopt takes them here.
_MALLOC = {"MMAP_MAX_": (-4, 0), "TRIM_THRESHOLD_": (-1, 1 << 30), "ARENA_MAX": (-8, len(os.sched_getaffinity(0)) + 2)}


@functools.cache
def own(max_concurrent_calls: int = 0) -> tuple[subprocess.Popen, int]:
    """Returns the program's own worker, which gets ready while the program imports TFF, and its port.

    Args:
      max_concurrent_calls: As of `launch`.
    """
    port = portpicker.pick_unused_port()
    return launch(port, max_concurrent_calls), port


def launch(port: int, max_concurrent_calls: int = 0) -> subprocess.Popen:
    """Starts a worker that listens on a port of all the machine's addresses, which TFF's binary leaves no choice of.

    Args:
      port: A free port.
      max_concurrent_calls: Clients computed at the same time; 0 for as many as the process may use cores.

    Returns:
      The process, which ends with this one.
    """
    cores = len(os.sched_getaffinity(0))
    calls = max_concurrent_calls or cores
    binary = pathlib.Path(importlib.util.find_spec("tensorflow_federated").origin).parent / "data" / "worker_binary"
    # As many clients at a time as cores: each then gets one core's worth of threads, so that none waits for another.
    # A client's operations run one after the other in its own thread (-1): most are shorter than waking another.
    # TensorFlow's oneDNN kernels are off by default on processors without AVX-512 VNNI, where they take half the time.
    environment = dict(
        {"TF_NUM_INTEROP_THREADS": "-1", "TF_ENABLE_ONEDNN_OPTS": "1"} | os.environ,
        TF_NUM_INTRAOP_THREADS=str(max(1, cores // calls)),
        **{f"MALLOC_{name}": str(value) for name, (_, value) in _MALLOC.items()},
    )
    return subprocess.Popen(
        [str(binary), f"--port={port}", f"--max_concurrent_computation_calls={calls}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )


def keep_freed_memory() -> None:
    """Sets this process's heap as that of workers is set."""
    for parameter, value in _MALLOC.values():
        _libc.mallopt(parameter, value)
