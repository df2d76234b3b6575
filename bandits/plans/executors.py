"""Where runs are executed: in processes of this machine, on a Ray cluster, or by a job array.

All of them call `run`, in a process that goes on to other runs, so that TensorFlow Federated is imported once in each.
A finished run is marked in its folder.
"""

import collections
import contextlib
import gc
import json
import os
import pathlib
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bandits import studies
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli, interruption
from optimization.study.settings import setting

FINISHED_FILE = "finished.json"
LOG_FILE = "log.txt"
_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DATA_DIR = "FEDBANDITS_DATA_DIR"
_WORKING_DIR = "BUILD_WORKING_DIRECTORY"  # Relative paths of a run's flags start where the user is.
_RAY_RETRIES = 2
_CONNECT_SECONDS = 10
_NO_CLUSTER = "--ray_address={}: no Ray cluster answers there."


class Job(NamedTuple):
    """What is executed, once.

    Attributes:
      module: Module of the experiment binary.
      arguments: All its flags.
      folder: The run's folder, absolute.
      rounds: Rounds after which it is finished.
    """

    module: str
    arguments: tuple[str, ...]
    folder: str
    rounds: int


class Result(NamedTuple):
    """How a job ended.

    Attributes:
      status: Exit status as in `optimization.study.cli`.
      message: Why it failed.
    """

    status: int
    message: str = ""


def run(job: Job) -> Result:
    """Executes a run, or continues it, and marks it as finished. Its output goes to a log in its folder."""
    folder = pathlib.Path(job.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _redirected(folder / LOG_FILE):
            result = _execute(job)
    except OSError as error:
        return Result(1, f"{folder} cannot be written ({error.strerror}).")
    if result.status == 0:
        files.replace(folder / FINISHED_FILE, json.dumps({"total_rounds": job.rounds}).encode() + b"\n")
    gc.collect()  # The next run needs the memory, and another process may want to open the folder.
    return result


def _execute(job: Job) -> Result:
    flags = studies.flag_set(job.module)
    # For config.json: the command that would do the same.
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
    """Sends what is written to stdout and stderr, by whatever library, to the end of a file."""
    before = [(stream, os.dup(stream)) for stream in (1, 2)]
    try:
        with open(path, "ab") as file:
            for stream, _ in before:
                os.dup2(file.fileno(), stream)
        yield
    finally:
        for output in (sys.stdout, sys.stderr):
            output.flush()
        for stream, kept in before:
            os.dup2(kept, stream)
            os.close(kept)


class Executor:
    """Executes jobs, for one thread; this one takes them and executes nothing."""

    def submit(self, job: Job) -> None:
        """Takes a job, without waiting."""

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        """Returns a job that ended, as soon as there is one; None if there is none for so long."""
        return None

    def stop(self) -> None:
        """Has the rounds in progress finished and saved, and waits for that."""

    def close(self) -> None:
        """Ends all processes at once."""


_KINDS = {
    "local": "processes of this machine",
    "ray": "a Ray cluster, whose machines share this project's and the output's folder",
    "slurm_script": "write a job array for Slurm, and run nothing",
}
RUNNING = ("local", "ray")  # Those that run at once.


class Executors:
    """Where it is run.

    Attributes:
      executor: What executes the runs.
      ray_address: The cluster's address (default: a local Ray, started and stopped). Either way, who reaches the ports
        that Ray opens can run code: use a trusted network, or a firewall.
      workers: Runs at the same time.
    """

    executor: str = setting("local", _KINDS)
    ray_address: str = setting(only={"executor": ("ray",)})
    workers: int = setting(2, low=1, only={"executor": RUNNING, "ray_address": False})


def shares_cores(settings: cli.Settings) -> bool:
    """Whether several runs share this machine; on other machines, each has as many cores as this one."""
    return settings.executor in RUNNING and not settings.ray_address


def cores_of_run(settings: cli.Settings) -> int:
    """Returns the CPU cores of each run."""
    cores = len(os.sched_getaffinity(0))
    return max(1, cores // settings.workers) if shares_cores(settings) else cores


def build(settings: cli.Settings, cores: int) -> Executor:
    """Returns the executor that flags name, for runs of so many cores.

    Raises:
      Failure: If there is no Ray cluster at the address, or none of its nodes has so many cores.
    """
    if settings.executor == "ray":
        return Ray(settings.ray_address, settings.workers, cores)
    return Local(settings.workers)


@contextlib.contextmanager
def running(executor: Executor, folder: pathlib.Path) -> Iterator[None]:
    """Closes the executor in the end; when the program is interrupted, rounds in progress are finished and saved.

    Args:
      executor: What executes runs.
      folder: What the same command would continue.
    """

    def leave(signum: int) -> None:
        raise KeyboardInterrupt() if signum == signal.SIGINT else SystemExit(128 + signum)

    try:
        with interruption.answered(leave):
            yield
    except (KeyboardInterrupt, SystemExit):
        print("\nStopping after the rounds in progress; once more to stop at once.", file=sys.stderr)
        executor.stop()
        print(f"Stopped; what was done is saved. The same command continues {folder}.", file=sys.stderr)
        raise
    finally:
        executor.close()


class _Process:
    """A process that executes one run after the other."""

    def __init__(self):
        paths = os.pathsep.join(filter(None, sys.path))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scripts.grid_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _environment() | {"PYTHONPATH": paths},
            text=True,
            start_new_session=True,  # Ctrl-C is the grid's to answer.
        )
        self.job: Job | None = None

    def fileno(self) -> int:
        """Returns what becomes readable when a run or the process ends."""
        return self.process.stdout.fileno()

    def start(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(BrokenPipeError):  # `result` will tell.
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()

    def result(self) -> tuple[Job, Result, bool]:
        """Returns how its run ended, and whether the process is still there for another."""
        job: Job = self.job  # type: ignore[assignment]  # Asked of a process that has one.
        self.job = None
        line = self.process.stdout.readline()
        if line.endswith("\n"):
            result = Result(*json.loads(line))
            return job, result, result.status <= 128
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
    """Processes of this machine; one that dies is replaced."""

    def __init__(self, workers: int):
        """Starts none yet.

        Args:
          workers: Most processes.
        """
        self._most = workers
        self._processes: list[_Process] = []
        self._waiting: collections.deque[Job] = collections.deque()

    def submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._assign()

    def _assign(self) -> None:
        while self._waiting:
            idle = next((one for one in self._processes if one.job is None), None)
            if idle is None:
                if len(self._processes) == self._most:
                    return
                idle = _Process()
                self._processes.append(idle)
            idle.start(self._waiting.popleft())

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        busy = [one for one in self._processes if one.job is not None]
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
        self._waiting.clear()
        busy = [one for one in self._processes if one.job is not None]
        for one in busy:
            one.process.send_signal(signal.SIGTERM)
        for one in busy:
            one.process.wait()

    def close(self) -> None:
        for one in self._processes:
            one.end()
        self._processes.clear()


class Ray(Executor):
    """A Ray cluster, one task a run; Ray itself repeats a task whose process or machine was lost."""

    def __init__(self, address: str | None, workers: int, cores: int):
        """Connects, or starts a local Ray.

        Args:
          address: The cluster's; None starts one on this machine, which ends with this object.
          workers: Runs that a local Ray executes at the same time.
          cores: Cores of each run.

        Raises:
          Failure: If there is no cluster at the address, or none of its nodes has so many cores.
        """
        if address:
            _check_address(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Or it warns of a change to come.
        on_sigterm = signal.getsignal(signal.SIGTERM)
        import ray

        self._ray = ray
        # Its processes look for the project where this one found it.
        paths = os.pathsep.join(filter(None, sys.path))
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "runtime_env": {"env_vars": {"PYTHONPATH": paths}}}
        if address is None:
            ray.init("local", num_cpus=workers * cores, include_dashboard=False, **quiet)
        else:
            try:
                ray.init(address, **quiet)
            except (ConnectionError, ValueError) as error:
                raise Failure(_NO_CLUSTER.format(address)) from error
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray has put its own in its place.
        try:
            check_nodes(ray.nodes(), cores)
        except Failure:
            ray.shutdown()
            raise
        self._task = ray.remote(num_cpus=cores, max_retries=_RAY_RETRIES)(_ray_task)
        self._jobs: dict[Any, Job] = {}

    def submit(self, job: Job) -> None:
        self._jobs[self._task.remote(job, _environment())] = job

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        try:
            ended, _ = self._ray.wait(list(self._jobs), timeout=seconds)
        except SystemExit:  # Ray replaces the status.
            raise SystemExit(128 + signal.SIGTERM) from None
        if not ended:
            return None
        (ready,) = ended
        job = self._jobs.pop(ready)
        try:
            return job, self._ray.get(ready)
        except self._ray.exceptions.RayError as error:
            return job, Result(1, f"Ray: {str(error).strip().splitlines()[-1]}")

    def stop(self) -> None:
        tasks = list(self._jobs)
        for task in tasks:
            self._ray.cancel(task)  # As Ctrl-C, where it is running.
        self._ray.wait(tasks, num_returns=len(tasks))

    def close(self) -> None:
        self._ray.shutdown()


def check_nodes(nodes: Sequence[Mapping[str, Any]], cores: int) -> None:
    """Refuses a cluster on which no run would ever start: Ray would wait for a larger node without a word.

    Args:
      nodes: The cluster's nodes, as `ray.nodes` returns them.
      cores: CPU cores of each run.

    Raises:
      Failure: If no living node has so many.
    """
    available = [(node["NodeManagerAddress"], node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
    if any(cpus >= cores for _, cpus in available):
        return
    found = ", ".join(f"{address} has {cpus:g}" for address, cpus in sorted(available))
    raise Failure(
        f"--executor=ray: each run asks for {cores} CPUs, and no node of the cluster has as many: {found}. Start nodes "
        "with more CPUs, or allow this command fewer (taskset, or --max_concurrent_threads of a grid)."
    )


def _check_address(address: str) -> None:
    """Answers at once where nothing listens: Ray itself tries again for minutes."""
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
    """Has the round in progress finished and saved when Ray cancels a task."""
    if not interruption.answer(signum):
        raise KeyboardInterrupt


def _environment() -> dict[str, str]:
    """Returns the variables that a run's flags depend on."""
    names = (_DATA_DIR, "TF_CPP_MIN_LOG_LEVEL")
    passed_on = {name: os.environ[name] for name in names if name in os.environ}
    return passed_on | {_WORKING_DIR: os.environ.get(_WORKING_DIR, os.getcwd())}


def write_slurm_script(folder: pathlib.Path, jobs: Sequence[Job], cores: int) -> pathlib.Path:
    """Writes a job array for Slurm, and runs nothing.

    A task that is started again continues its run; two minutes before its time is over it saves its last round.

    Args:
      folder: Where `slurm.sh` and `commands.txt`, a line a run, are written.
      jobs: The runs.
      cores: Cores of each task.

    Returns:
      The script's path.
    """
    worker = [str(_ROOT / "scripts" / "python"), "-m", "scripts.grid_worker"]
    commands = [shlex.join([*worker, job.module, *job.arguments]) for job in jobs]
    (folder / "commands.txt").write_text("".join(f"{command}\n" for command in commands))
    logs = folder / "slurm"
    logs.mkdir(exist_ok=True)
    lines = [
        "#!/bin/sh",
        f"# {len(jobs)} runs, one a task. Submit it with sbatch; a task that is submitted again continues its run.",
        f"#SBATCH --job-name={re.sub('[^A-Za-z0-9_.-]', '_', folder.name)}",
        f"#SBATCH --array=0-{len(jobs) - 1}",
        f"#SBATCH --cpus-per-task={cores}",
        f"#SBATCH --output={logs}/%a.txt",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:TERM@120",
        "set -eu",
        *(f"export {name}={shlex.quote(value)}" for name, value in _environment().items()),
        f'command=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" {shlex.quote(str(folder / "commands.txt"))})',
        'eval "exec $command"',
    ]
    script = folder / "slurm.sh"
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    return script
