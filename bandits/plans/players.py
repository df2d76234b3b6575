"""Where a grid's runs are played: in processes of this machine, on a Ray cluster, or by a job array.

`Local` and `Ray` give the same runs to the same `player.play`; processes live from run to run, so that TensorFlow
Federated is imported once in each.
"""

import collections
import contextlib
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
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from bandits.plans import player
from bandits.plans.player import Job, Result
from data.errors import Failure
from optimization.study import cli, interruption

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_DATA_DIR = "FEDBANDITS_DATA_DIR"
_WORKING_DIR = "BUILD_WORKING_DIRECTORY"  # Relative paths of a run's flags start where the user is.
_RAY_RETRIES = 2
_CONNECT_SECONDS = 10
_NO_CLUSTER = "--ray_address={}: no Ray cluster answers there."


class Team(Protocol):
    """Plays jobs. One thread uses it."""

    def submit(self, job: Job) -> None:
        """Takes a job, without waiting."""

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        """Returns a job that ended, as soon as there is one; None if there is none for so long."""

    def stop(self) -> None:
        """Has the rounds in progress finished and saved, and waits for that."""

    def close(self) -> None:
        """Ends all processes at once."""


_KINDS = {
    "local": "processes of this machine",
    "ray": "a Ray cluster, whose machines share this project's and the output's folder",
}


def define(flags: cli.FlagSet, **others: str) -> None:
    """Defines the flags that say who plays runs, as a group; `others` are kinds that the caller serves itself."""
    flags.group("Where it is run")
    flags.choice("executor", "local", _KINDS | others, "who plays the runs")
    flags.text(
        "ray_address",
        None,
        "the cluster's address (default: a local Ray, started and stopped). Either way, who reaches the ports that Ray "
        "opens can run code: use a trusted network, or a firewall",
    )
    flags.belong("ray_address", executor=("ray",))
    flags.integer("workers", 2, "runs at the same time", low=1)
    flags.belong("workers", executor=tuple(_KINDS), ray_address=False)


@contextlib.contextmanager
def playing(team: Team, folder: pathlib.Path) -> Iterator[None]:
    """Closes the team in the end; when the program is interrupted, rounds in progress are finished and saved.

    Args:
      team: Who plays.
      folder: What the same command would continue.
    """

    def leave(signum: int) -> None:
        raise KeyboardInterrupt() if signum == signal.SIGINT else SystemExit(128 + signum)

    try:
        with interruption.answered(leave):
            yield
    except (KeyboardInterrupt, SystemExit):
        print("\nStopping after the rounds in progress; once more to stop at once.", file=sys.stderr)
        team.stop()
        print(f"Stopped; what was done is saved. The same command continues {folder}.", file=sys.stderr)
        raise
    finally:
        team.close()


def build(settings: cli.Settings, cores: int) -> Team:
    """Returns the team that they name, for runs of so many cores.

    Raises:
      Failure: If there is no Ray cluster at the address.
    """
    if settings.executor == "ray":
        return Ray(settings.ray_address, settings.workers, cores)
    return Local(settings.workers)


class _Player:
    """A process that plays one run after the other."""

    def __init__(self):
        paths = os.pathsep.join(filter(None, sys.path))
        self._process = subprocess.Popen(
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
        return self._process.stdout.fileno()

    def play(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(BrokenPipeError):  # `result` will tell.
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()

    def result(self) -> tuple[Job, Result, bool]:
        """Returns how its run ended, and whether the process is still there for another."""
        job: Job = self.job  # type: ignore[assignment]  # Asked of a player that has one.
        self.job = None
        line = self._process.stdout.readline()
        if line.endswith("\n"):
            result = Result(*json.loads(line))
            return job, result, result.status <= 128
        status = self._process.wait()
        log = pathlib.Path(job.folder) / player.LOG_FILE
        what = f"signal {-status}" if status < 0 else f"exit status {status}"
        return job, Result(1, f"Its process ended ({what}); see {log}."), False

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        self._process.wait()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Local:
    """Processes of this machine; one that dies is replaced."""

    def __init__(self, workers: int):
        """Starts none yet.

        Args:
          workers: Most processes.
        """
        self._most = workers
        self._players: list[_Player] = []
        self._waiting: collections.deque[Job] = collections.deque()

    def submit(self, job: Job) -> None:
        self._waiting.append(job)
        self._assign()

    def _assign(self) -> None:
        while self._waiting:
            idle = next((one for one in self._players if one.job is None), None)
            if idle is None:
                if len(self._players) == self._most:
                    return
                idle = _Player()
                self._players.append(idle)
            idle.play(self._waiting.popleft())

    def wait(self, seconds: float | None = None) -> tuple[Job, Result] | None:
        busy = [one for one in self._players if one.job is not None]
        ready, _, _ = select.select(busy, [], [], seconds)
        if not ready:
            return None
        job, result, lives = ready[0].result()
        if not lives:
            self._players.remove(ready[0])
            ready[0].end()
        self._assign()
        return job, result

    def stop(self) -> None:
        self._waiting.clear()
        busy = [one for one in self._players if one.job is not None]
        for one in busy:
            one.terminate()
        for one in busy:
            one.wait()

    def close(self) -> None:
        for one in self._players:
            one.end()
        self._players.clear()


class Ray:
    """A Ray cluster, one task a run; Ray itself repeats a task whose process or machine was lost."""

    def __init__(self, address: str | None, workers: int, cores: int):
        """Connects, or starts a local Ray.

        Args:
          address: The cluster's; None starts one on this machine, which ends with this object.
          workers: Runs that a local Ray plays at the same time.
          cores: Cores of each run.

        Raises:
          Failure: If there is no cluster at the address.
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
    return player.play(job)


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
    run = [str(_ROOT / "scripts" / "python"), "-m", "scripts.grid_worker"]
    commands = [shlex.join([*run, job.module, *job.arguments]) for job in jobs]
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
