"""Plays runs of experiment binaries in one process, so that they share its start, its TFF worker and what it compiled.

  grid_worker bandits.run_federated --total_rounds=50 ...     # one run, as a task of a job array
  grid_worker                                                 # one after the other, as their lines come in

A finished run is marked in its folder; a line about it goes back to who asked.
"""

import contextlib
import ctypes
import gc
import json
import os
import pathlib
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

from bandits import binaries, studies
from data import files
from data.errors import Failure, UsageError
from optimization.study import cli

FINISHED_FILE = "finished.json"
LOG_FILE = "log.txt"
_PR_SET_PDEATHSIG = 1


class Job(NamedTuple):
    """What is played, once.

    Attributes:
      module: The binary.
      arguments: All its flags.
      folder: The run's folder, absolute.
      rounds: Rounds after which it is finished.
    """

    module: str
    arguments: tuple[str, ...]
    folder: str
    rounds: int

    @classmethod
    def of(cls, module: str, arguments: Sequence[str], root: pathlib.Path, name: str, rounds: int) -> "Job":
        """Returns the job of a run of this name below a folder."""
        where = (f"--root_output_dir={root}", f"--experiment_name={name}")
        return cls(module, (*arguments, *where), str(root / name), rounds)


class Result(NamedTuple):
    """How it ended.

    Attributes:
      status: Exit status as in `optimization.study.cli`.
      message: Why it failed.
    """

    status: int
    message: str = ""


def play(job: Job) -> Result:
    """Plays a run, or continues it, and marks it as finished. Its output goes to a log in its folder."""
    folder = pathlib.Path(job.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _redirected(folder / LOG_FILE):
            result = _run(job)
    except OSError as error:
        return Result(1, f"{folder} cannot be written ({error.strerror}).")
    if result.status == 0:
        files.replace(folder / FINISHED_FILE, json.dumps({"total_rounds": job.rounds}).encode() + b"\n")
    gc.collect()  # The next run needs the memory, and another process may want to open the folder.
    return result


def _run(job: Job) -> Result:
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


def _serve(jobs: TextIO, results: TextIO) -> int:
    """Plays the runs whose lines come in until there are no more; returns the status of one that was stopped."""
    for line in jobs:
        module, arguments, folder, rounds = json.loads(line)
        result = play(Job(module, tuple(arguments), folder, rounds))
        results.write(json.dumps(result) + "\n")
        results.flush()
        if result.status > 128:
            return result.status
    return 0


def _one(module: str, *arguments: str) -> int:
    """Plays the run of a command line; returns its status."""
    try:
        try:
            studies.load(module)
        except (ImportError, AttributeError) as error:
            raise UsageError(f"{module} is no experiment: {', '.join(studies.STUDIES.values())} are.") from error
        settings = binaries.resolve(module, arguments)
    except UsageError as error:
        print(f"Usage error: {error}", file=sys.stderr)
        return 2
    folder = pathlib.Path(settings.root_output_dir) / settings.experiment_name
    result = play(Job(module, arguments, str(folder), settings.total_rounds))
    if result.message:
        print(f"{folder}: {result.message}", file=sys.stderr)
    return result.status


def main() -> int:
    """Plays the run on the command line, or those that come in on stdin."""
    cli.hush_imports()
    if {"--help", "-help", "-h"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    if len(sys.argv) > 1:
        return _one(*sys.argv[1:])
    # The kernel ends this process, and so TFF's worker, when the grid is gone without having said so.
    ctypes.CDLL("libc.so.6").prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(os.dup(1), "w") as results, open(os.devnull, "r+") as nothing:
        os.dup2(nothing.fileno(), 1)
        return _serve(sys.stdin, results)
