"""The life of TFF's worker process, which runs all federated computations.

TFF would start one on first use and never end it. Here the program starts its own: the kernel kills it when the
program dies, even by SIGKILL; Ctrl-C at the terminal does not reach it; and it holds no stream of the program open.
"""

import atexit
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import grpc
import portpicker
import tensorflow_federated as tff
from google._upb import _message
from tensorflow_federated.python.core.environments.tensorflow_frontend import tensorflow_computation

_BINARY = pathlib.Path(tff.__file__).parent / "data" / "worker_binary"
_START_SECONDS = 60
_PR_SET_PDEATHSIG = 1
_MAX_MESSAGE_BYTES = 2 * 1000**3  # As TFF sets it.
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
]
# Aggregators inside aggregators nest deeper than the hundred levels that protobuf allows by default.
_message.SetAllowOversizeProtos(True)
_ending = threading.Event()
_libc = ctypes.CDLL("libc.so.6")
# glibc keeps freed memory instead of returning it and faulting it in again: models and messages of the same sizes come
# back every round, and page faults cost a fifth of a round. One heap for all threads, since updates pass between them.
# Names, for the worker's environment, and values, as mallopt takes them here.
_MALLOC = {"MMAP_MAX_": (-4, 0), "TRIM_THRESHOLD_": (-1, 1 << 30), "ARENA_MAX": (-8, 1)}


class WorkerError(RuntimeError):
    """The worker could not be started."""


def start(max_concurrent_calls: int = 0) -> subprocess.Popen:
    """Starts a worker and makes it the one that runs every TFF computation of this process.

    Args:
      max_concurrent_calls: Clients computed at the same time; 0 for as many as the process may use cores.

    Returns:
      The worker's process, which ends with this one.

    Raises:
      WorkerError: If it does not answer within a minute.
    """
    cores = len(os.sched_getaffinity(0))
    calls = max_concurrent_calls or cores
    port = portpicker.pick_unused_port()
    # As many clients at a time as cores: each then gets one core's worth of threads, so that none waits for another.
    environment = dict(
        os.environ,
        TF_NUM_INTRAOP_THREADS=str(max(1, cores // calls)),
        **{f"MALLOC_{name}": str(value) for name, (_, value) in _MALLOC.items()},
    )
    for parameter, value in _MALLOC.values():
        _libc.mallopt(parameter, value)
    process = subprocess.Popen(
        [str(_BINARY), f"--port={port}", f"--max_concurrent_computation_calls={calls}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    atexit.register(_end, process)
    channel = grpc.insecure_channel(f"localhost:{port}", _CHANNEL_OPTIONS)
    stub = tff.framework.RemoteExecutorGrpcStub(channel)
    deadline = time.monotonic() + _START_SECONDS
    while not stub.is_ready:
        if process.poll() is not None or time.monotonic() > deadline:
            raise WorkerError(f"TFF's worker did not start on port {port} (exit status {process.poll()}).")
        time.sleep(0.05)
    tff.framework.set_default_context(_context(stub))
    threading.Thread(target=_watch, args=(process,), daemon=True).start()
    return process


def _watch(process: subprocess.Popen) -> None:
    """Ends the program when its worker dies before it: TFF would wait for an answer without limit."""
    status = process.wait()
    if status and not _ending.is_set():
        print(
            f"TFF's worker died (exit status {status}), perhaps for want of memory. Checkpoints are kept: the same "
            "command continues after the last.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)


def _end(process: subprocess.Popen) -> None:
    _ending.set()
    process.kill()


def _context(stub: tff.framework.RemoteExecutorGrpcStub) -> tff.framework.SyncExecutionContext:
    def executor(cardinalities):
        remote = tff.framework.RemoteExecutor(stub)
        remote.set_cardinalities({tff.CLIENTS: 0, **cardinalities})
        return remote

    return tff.framework.SyncExecutionContext(
        executor_fn=tff.framework.ResourceManagingExecutorFactory(executor),
        compiler_fn=_compile,
        transform_args=tensorflow_computation.transform_args,
        transform_result=tensorflow_computation.transform_result,
    )


def _compile(computation):
    """Compiles for the worker, which has no secure aggregation: it is simulated, sum for sum, in the clear."""
    computation = tff.backends.test.replace_secure_intrinsics_with_bodies(computation)
    return tff.backends.native.desugar_and_transform_to_native(computation)
