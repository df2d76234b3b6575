"""Command lines, messages and exit statuses, shared by all experiment binaries.

Nothing here imports TensorFlow, so that `--help` and a mistyped flag get an immediate answer. Exit status 0 is success,
1 is a failure, and 2 is bad usage; 129, 130 and 143 are interruptions by SIGHUP, Ctrl-C and SIGTERM.
"""

import errno
import logging
import os
import pathlib
import shlex
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from data.errors import Failure, UsageError
from data.files import WORKING_DIRECTORY
from data.files import user_path as user_path
from optimization.study import interruption
from optimization.study.flag_set import FlagSet as FlagSet
from optimization.study.formatting import joined as joined
from optimization.study.formatting import shown_path as shown_path
from optimization.study.formatting import unknown as unknown
from optimization.study.formatting import whole_numbers as whole_numbers
from optimization.study.settings import Settings as Settings

_DISK_ERRORS = {errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC}  # These errors may lack a file name.
_DATA_DIR = "FEDBANDITS_DATA_DIR"  # Environment variable with the default data folder.
# Left out of recorded commands: repeating the command of a finished run must not start it over.
_NOT_REPEATED = {"--restart", "-restart", "--restart=true"}
_FULL = {"--helpfull", "-helpfull"}
HELP = {"--help", "-help", "-h", *_FULL}  # Arguments that print help.
MOST_REPEATS = 500  # The folders of all runs are locked in advance, with one open file each.


def seeds(settings: Mapping[str, Any]) -> range:
    """Seeds of the runs that `--seed` and `--repeat` request.

    Raises:
      UsageError: If there are too many runs, or a seed has more than 32 bits.
    """
    first, count = settings["seed"], settings["repeat"] or 1
    if count > MOST_REPEATS:
        raise UsageError(f"--repeat={count} exceeds the limit of {MOST_REPEATS} runs per command.")
    if first + count > 2**32:
        raise UsageError(f"--seed={first} with --repeat={count} exceeds {2**32 - 1}, the largest seed: lower --seed.")
    return range(first, first + count)


def command_line(module: str | None = None, arguments: Sequence[str] = ()) -> str:
    """Command that runs a program from the repository's root, quoted for a shell.

    It starts with environment variables for the working directory and the data folder, if they are needed.

    Args:
      module: The program; by default this process's program, with its arguments.
      arguments: Arguments of `module`.
    """
    root = pathlib.Path(__file__).resolve().parents[2]
    if module is None:
        program, arguments = pathlib.Path(sys.argv[0]).resolve(), sys.argv[1:]
        words = ["./scripts/python", str(program)]
        if program.is_relative_to(root):
            module = ".".join(program.relative_to(root).with_suffix("").parts).removesuffix(".__main__")
    if module is not None:
        words = ["./scripts/python", "-m", module]
    words += [word for word in arguments if word not in _NOT_REPEATED]
    folder = os.environ.get(WORKING_DIRECTORY, os.getcwd())
    variables = {} if pathlib.Path(folder).resolve() == root else {WORKING_DIRECTORY: folder}
    if data_dir := os.environ.get(_DATA_DIR):
        variables[_DATA_DIR] = os.path.abspath(data_dir)
    return "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items()) + shlex.join(words)


def hush_imports() -> None:
    """Silences TensorFlow's log messages; call it before TensorFlow is imported."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.filterwarnings("ignore", message="pkg_resources is deprecated")
    # Each run has its own functions; TensorFlow mistakes them for one function that it retraces.
    logging.getLogger("tensorflow").addFilter(_is_about_no_tracing)


def _is_about_no_tracing(record: logging.LogRecord) -> bool:
    return "tf.function retracing" not in record.getMessage()


def _drop_unwritten() -> None:
    """Discards output that cannot be written. Otherwise Python would try again at exit and change the exit status."""
    try:
        sys.stdout.flush()
    except OSError:
        sys.stdout = None  # type: ignore[assignment]


def main(flag_set: FlagSet, program: Callable[[Settings], int | None]) -> None:
    """Runs a program on this process's command line and exits with its status.

    Args:
      flag_set: The program's flags.
      program: Takes the flags' values; returns the exit status, None for 0.
    """
    hush_imports()
    interruption.install()
    try:
        if asked := HELP & set(sys.argv[1:]):
            print(flag_set.help(full=not asked.isdisjoint(_FULL)))
            sys.exit(0)
        with interruption.held() as received:
            status = program(flag_set.parse(sys.argv))
        status = 128 + received[0] if received else status  # Even if the program has finished.
        sys.stdout.flush()  # Flush here, where a failure can still be reported.
    except UsageError as error:
        print(f"Usage error: {error}", file=sys.stderr)
        status = 2
    except Failure as error:
        print(error, file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()
        _drop_unwritten()
        status = 1
    except OSError as error:
        if not error.filename and error.errno not in _DISK_ERRORS:
            traceback.print_exc()
        else:
            problem = f"{error.filename} cannot be used" if error.filename else "A file cannot be written"
            print(f"{problem} ({error.strerror}). Everything that was written before is kept.", file=sys.stderr)
        _drop_unwritten()
        status = 1
    except Exception:
        traceback.print_exc()
        status = 1
    sys.exit(status or 0)
