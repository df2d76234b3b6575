"""Executes runs of experiment binaries in one process, so that they share a TFF worker and compiled computations.

  grid_worker MODULE FOLDER ROUNDS ARGUMENTS...     # one run, as a task of a job array
  grid_worker                                       # runs from stdin, one JSON line each

A finished run is marked in its folder. Without arguments, each result is reported as a JSON line on stdout.
"""

if __name__ == "__main__":  # Before the imports, which take seconds.
    from optimization.study import interruption

    interruption.install()

import json
import os
import sys
from typing import TextIO

from bandits.plans import executors
from bandits.plans.executors import Job
from optimization.study import cli


def _serve(jobs: TextIO, results: TextIO) -> int:
    """Executes one run per line of `jobs`; returns 0, or the status of a run that was stopped."""
    for line in jobs:
        module, arguments, folder, rounds = json.loads(line)
        result = executors.run(Job(module, tuple(arguments), folder, rounds))
        results.write(json.dumps(result) + "\n")
        results.flush()
        if result.status > 128:
            return result.status
    return 0


def main() -> int:
    """Executes the run of the command line, or those on stdin."""
    cli.hush_imports()
    if cli.HELP & set(sys.argv[1:]):
        print(__doc__)
        return 0
    if len(sys.argv) > 1:
        module, folder, rounds, *arguments = sys.argv[1:]
        result = executors.run(Job(module, tuple(arguments), folder, int(rounds)))
        if result.message:
            print(f"{folder}: {result.message}", file=sys.stderr)
        return result.status
    with os.fdopen(os.dup(1), "w") as results, open(os.devnull, "r+") as nothing:
        os.dup2(nothing.fileno(), 1)
        return _serve(sys.stdin, results)


if __name__ == "__main__":
    sys.exit(main())
