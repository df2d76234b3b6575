"""Executors of runs: processes on this machine or a Ray cluster; and the flags that choose them or a job array.

Each process executes several runs, so that it imports TensorFlow Federated only once.
"""

import collections
import contextlib
import dataclasses
import gc
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bandits import studies
from data import files
from data.errors import Failure, UsageError
from data.settings import setting
from optimization.runtime import worker_process
from optimization.study import cli, interruption

FINISHED_FILE = "finished.json"
LOG_FILE = "log.txt"
_NODES_SECONDS = 60.0  # Maximum time to wait for a node with enough CPUs, if all such nodes are lost.
_RAY_RETRIES = 2
_CONNECT_SECONDS = 10
_STOP_SECONDS = 60.0  # Maximum time that an interruption waits for rounds and results in progress.
_END_SECONDS = 10.0  # Maximum time to wait for a process that has closed its output.
_NO_CLUSTER = "--ray_address={}: no Ray cluster answers at this address."


class Job(NamedTuple):
    """One run to execute.

    Attributes:
      module: Module of the experiment binary.
      arguments: All flags of the run.
      folder: Absolute path of the run's folder.
      rounds: Number of rounds after which the run is finished.
    """

    module: str
    arguments: tuple[str, ...]
    folder: str
    rounds: int


class Result(NamedTuple):
    """Result of a job.

    Attributes:
      status: Exit status as in `optimization.study.cli`.
      message: Reason for a failure; otherwise empty.
    """

    status: int
    message: str = ""


def run(job: Job) -> Result:
    """Executes or continues a run, and marks its folder when it is finished. Output goes to a log in the folder.

    After a signal during the last round, the run is finished, but the status is 128 + the signal number.
    """
    folder = pathlib.Path(job.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with interruption.held() as received:
            with _redirected(folder / LOG_FILE):
                result = _execute(job)
            if result.status == 0:
                files.replace(folder / FINISHED_FILE, json.dumps({"total_rounds": job.rounds}).encode() + b"\n")
                result = Result(128 + received[0] if received else 0)
    except OSError as error:
        return Result(1, f"{folder} cannot be written ({error.strerror}).")
    gc.collect()  # The next run needs the memory, and another process may want to open the folder.
    return result


def _execute(job: Job) -> Result:
    flags = studies.flag_set(job.module)
    # The equivalent command, for config.json.
    sys.argv = [str(sys.modules[job.module].__file__), *job.arguments]
    try:
        return Result(studies.program(job.module, flags.parse(sys.argv)))
    except UsageError as error:
        return Result(2, str(error))
    except KeyboardInterrupt:
        return Result(128 + signal.SIGINT)
    except SystemExit as error:
        return Result(error.code if isinstance(error.code, int) else 1)
    except Failure as error:
        return Result(1, str(error))
    except Exception as error:
        traceback.print_exc()
        return Result(1, f"{type(error).__name__}: {error}".splitlines()[0])


@contextlib.contextmanager
def _redirected(path: pathlib.Path) -> Iterator[None]:
    """Appends the stdout and stderr of all libraries to a file."""
    before = [(stream, os.dup(stream)) for stream in (1, 2)]
    try:
        with open(path, "ab") as file:
            for stream, _ in before:
                os.dup2(file.fileno(), stream)
        yield
    finally:
        for output in (sys.stdout, sys.stderr):
            output.flush()
        for stream, original in before:
            os.dup2(original, stream)
            os.close(original)


def last_round(folder: str | os.PathLike) -> int:
    """Last round in a run's `metrics.csv`; 0 if there is none."""
    try:
        *_, row, _ = pathlib.Path(folder, "metrics.csv").read_bytes().rsplit(b"\n", 2)
        return int(row.partition(b",")[0])
    except (OSError, ValueError):
        return 0


class Executor:
    """Executes jobs. An executor is used by a single thread. The base class executes nothing."""

    executes = False

    def submit(self, job: Job) -> None:
        """Accepts a job without waiting for it."""

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        """Waits for a job to end; None if none ends within `seconds`."""
        return None

    def stop(self) -> None:
        """Drops waiting jobs, and gives rounds and results in progress a minute to be saved."""

    def close(self) -> None:
        """Kills all processes."""


_KINDS = {
    "local": "processes on this machine",
    "ray": "a Ray cluster, whose machines share the folders of this project and of the output",
    "slurm_script": "write a job array for Slurm, and run nothing",
}
RUNNING = ("local", "ray")  # Executors that start runs immediately.


@dataclasses.dataclass(frozen=True)
class Executors:
    """Execution."""

    executor: str = setting("local", "How the runs are executed", _KINDS)
    ray_address: str = setting(
        None,
        "The cluster's address (default: a local Ray, which is started and stopped). In both cases, anyone who can "
        "reach the ports that Ray opens can run code: use a trusted network, or a firewall",
        only={"executor": ("ray",)},
    )
    workers: int = setting(2, "Number of concurrent runs", low=1, only={"executor": RUNNING, "ray_address": False})


def shares_cores(settings: cli.Settings) -> bool:
    """Whether several runs share this machine. Otherwise, each run gets as many cores as this machine has."""
    return settings.executor in RUNNING and not settings.ray_address


def cores_of_run(settings: cli.Settings) -> int:
    """Number of CPU cores of each run."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores // settings.workers) if shares_cores(settings) else cores


def build(settings: cli.Settings, cores: int) -> Executor:
    """Executor that the flags choose.

    Raises:
      Failure: If there is no Ray cluster at the address, or none of its nodes has `cores` cores.
    """
    if settings.executor == "ray":
        return Ray(settings.ray_address, settings.workers, cores)
    return Local(settings.workers)


@contextlib.contextmanager
def running(executor: Executor, folder: pathlib.Path) -> Iterator[None]:
    """Closes the executor at the end. On an interruption, rounds in progress are saved; see `Executor.stop`.

    Args:
      executor: Executes the runs.
      folder: Folder from which the same command would continue.
    """
    received: list[int] = []

    def leave(signum: int) -> None:
        received.append(signum)
        raise KeyboardInterrupt

    try:
        with interruption.answered(leave):
            yield
    except KeyboardInterrupt as error:
        interruption.print_line("\nStopping after the rounds in progress; interrupt once more to stop at once.")
        executor.stop()
        interruption.print_line(f"Stopped; finished rounds are saved. The same command continues {folder}.")
        raise (SystemExit(128 + received[0]) if received else error) from None
    finally:
        executor.close()


class _Process:
    """A process that executes runs one after another."""

    def __init__(self):
        paths = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scripts.grid_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | environment() | {"PYTHONPATH": paths},
            text=True,
            start_new_session=True,  # The parent process handles Ctrl-C.
            preexec_fn=worker_process.end_with_parent,
        )
        self.job: Job | None = None

    def fileno(self) -> int:
        """Descriptor that becomes readable when a run or the process ends."""
        return self.process.stdout.fileno()

    def start(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(BrokenPipeError):  # `result` reports the broken pipe.
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()

    def result(self) -> tuple[Job, Result, bool]:
        """The job, its result, and whether the process can execute another job."""
        job: Job = self.job  # type: ignore[assignment]  # Only called if the process has a job.
        self.job = None
        line = self.process.stdout.readline()
        if line.endswith("\n"):
            result = Result(*json.loads(line))
            return job, result, result.status <= 128
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        self.process.kill()
        status = self.process.wait()
        log = pathlib.Path(job.folder) / LOG_FILE
        what = f"signal {-status}" if status < 0 else f"exit status {status}"
        return job, Result(1, f"Its process ended ({what}); see {log}."), False

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Local(Executor):
    """Processes on this machine. A process that dies is replaced."""

    executes = True

    def __init__(self, workers: int):
        """Initializes the executor without starting a process.

        Args:
          workers: Maximum number of processes.
        """
        self._workers = workers
        self._processes: list[_Process] = []
        self._queue: collections.deque[Job] = collections.deque()

    def submit(self, job: Job) -> None:
        self._queue.append(job)
        self._assign()

    def _assign(self) -> None:
        while self._queue:
            idle = next((worker for worker in self._processes if worker.job is None), None)
            if idle is None:
                if len(self._processes) == self._workers:
                    return
                idle = _Process()
                self._processes.append(idle)
            idle.start(self._queue.popleft())

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        busy = [worker for worker in self._processes if worker.job is not None]
        ready, _, _ = select.select(busy, [], [], seconds)
        if not ready:
            return None
        job, result, lives = ready[0].result()
        if not lives:
            self._processes.remove(ready[0])
            ready[0].end()
        self._assign()
        return job, result

    def stop(self) -> None:
        self._queue.clear()
        busy = [worker.process for worker in self._processes if worker.job is not None]
        for process in busy:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()  # The process gets no further runs.
        deadline = time.monotonic() + _STOP_SECONDS
        for process in busy:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        for worker in self._processes:
            worker.end()
        self._processes.clear()


class Ray(Executor):
    """A Ray cluster with one task per run. Ray repeats a task up to twice if its process or machine is lost."""

    executes = True

    def __init__(self, address: str | None, workers: int, cores: int):
        """Connects to a cluster, or starts a local one.

        Args:
          address: Address of the cluster. None starts one on this machine, which `close` stops.
          workers: Number of runs that a local cluster executes at the same time.
          cores: CPU cores of each run.

        Raises:
          Failure: If there is no cluster at the address, or none of its nodes has `cores` cores.
        """
        if address:
            _check_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray would warn about a future change.
        # Child processes end with their parents and remove their sockets, unless Ray kills them first.
        os.environ.setdefault("RAY_kill_child_processes_on_worker_exit", "0")
        on_sigterm = signal.getsignal(signal.SIGTERM)
        import ray

        self._ray, self._session = ray, ""
        # Ray's processes import the project from the same paths as this process.
        paths = os.pathsep.join(filter(None, sys.path))
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": {"env_vars": {"PYTHONPATH": paths}}}
        if address is None:
            local = ray.init("local", num_cpus=workers * cores, include_dashboard=False, **quiet)
            self._session = local.address_info["session_dir"]
        else:
            try:
                ray.init(address, **quiet)
            except (ConnectionError, ValueError) as error:
                raise Failure(_NO_CLUSTER.format(address)) from error
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray has replaced the signal handler.
        try:
            check_nodes(ray.nodes(), cores)
        except Failure:
            ray.shutdown()
            raise
        self._cores, self._fitted = cores, time.monotonic()
        self._task = ray.remote(num_cpus=cores, max_retries=_RAY_RETRIES)(_ray_task)
        self._jobs: dict[Any, Job] = {}

    def submit(self, job: Job) -> None:
        self._jobs[self._task.remote(job, environment())] = job

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        while not (ended := self._ray.wait(list(self._jobs), timeout=1.0 if seconds is None else seconds)[0]):
            self._check_nodes(time.monotonic())
            if seconds is not None:
                return None
        (ready,) = ended
        job = self._jobs.pop(ready)
        try:
            return job, self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            return job, Result(1, f"Ray: {str(error).strip().splitlines()[-1]}")

    def _check_nodes(self, now: float) -> None:
        """Checks the nodes again.

        Raises:
          Failure: If for a minute no living node has had enough cores for a run.
        """
        try:
            check_nodes(self._ray.nodes(), self._cores)
            self._fitted = now
        except Failure as error:
            if now - self._fitted >= _NODES_SECONDS:
                raise Failure(
                    f"{error} No node has had enough CPUs for {_NODES_SECONDS:g} seconds. {len(self._jobs)} runs are "
                    "not finished; run the same command again to continue them. Finished runs are kept."
                ) from error

    def stop(self) -> None:
        for task in self._jobs:
            self._ray.cancel(task)  # Has the effect of Ctrl-C if the task is running.
        self._ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=_STOP_SECONDS)

    def close(self) -> None:
        self._ray.shutdown()
        shutil.rmtree(self._session, ignore_errors=True)  # Logs of a local cluster.


def check_nodes(nodes: Sequence[Mapping[str, Any]], cores: int) -> None:
    """Refuses a cluster on which no run would ever start, because Ray would silently wait for a larger node.

    Args:
      nodes: The cluster's nodes, as `ray.nodes` returns them.
      cores: CPU cores of each run.

    Raises:
      Failure: If no living node has this many cores.
    """
    available = [(node["NodeManagerAddress"], node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
    if any(cpus >= cores for _, cpus in available):
        return
    nodes_text = ", ".join(f"{address} has {cpus:g}" for address, cpus in sorted(available)) or "it has no nodes"
    raise Failure(
        f"--executor=ray: each run needs {cores} CPUs, but no node of the cluster has that many: {nodes_text}. Start "
        "nodes with more CPUs, or give each run fewer (with taskset, or with --max_concurrent_threads of a grid)."
    )


def _check_address(address: str) -> None:
    """Fails immediately if no server listens at the address; Ray itself would retry for minutes."""
    if match := re.fullmatch(r"(?:ray://)?\[?([^/]+?)\]?:(\d+)", address):
        try:
            socket.create_connection((match[1], int(match[2])), timeout=_CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            raise Failure(_NO_CLUSTER.format(address)) from error


def _ray_task(job: Job, environment: dict[str, str]) -> Result:
    os.environ.update(environment)
    signal.signal(signal.SIGINT, _cancelled)
    return run(job)


def _cancelled(signum, frame) -> None:
    """Finishes and saves the round in progress when Ray cancels a task."""
    if not interruption.answer(signum):
        raise KeyboardInterrupt


def environment() -> dict[str, str]:
    """Environment variables that a run's flags depend on."""
    names = ("FEDBANDITS_DATA_DIR", "TF_CPP_MIN_LOG_LEVEL")
    passed_on = {name: os.environ[name] for name in names if name in os.environ}
    return passed_on | {files.WORKING_DIRECTORY: files.user_path(".")}
