import errno
import io
import os
import pathlib
import shlex
import subprocess
import sys
import warnings

import pytest

from data.errors import UsageError
from optimization.study import cli

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_seeds_end_with_the_largest_of_32_bits():
    assert cli.seeds({"seed": 2**32 - 3, "repeat": 3}) == range(2**32 - 3, 2**32)
    with pytest.raises(UsageError, match=r"--seed=4294967294 with --repeat=3 exceeds 4294967295"):
        cli.seeds({"seed": 2**32 - 2, "repeat": 3})


@pytest.mark.parametrize("module", ["bandits.run_federated", "optimization.posterior.run_posterior"])
def test_a_command_runs_unchanged_from_the_repositorys_root_with_the_same_data(monkeypatch, tmp_path, module):
    program = f"{ROOT}/{module.replace('.', '/')}.py"
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(ROOT))
    monkeypatch.delenv("FEDBANDITS_DATA_DIR", raising=False)
    monkeypatch.setattr(sys, "argv", [program, "--experiment_name=it's a & b", "--restart", "--total_rounds=5"])
    command = cli.command_line()
    assert command.startswith(f"./scripts/python -m {module} ")
    assert shlex.split(command)[3:] == ["--experiment_name=it's a & b", "--total_rounds=5"]
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", str(tmp_path))
    assert cli.command_line() == f"FEDBANDITS_DATA_DIR={tmp_path} {command}"


@pytest.fixture
def run_main(monkeypatch, as_program):
    """Runs `cli.main` as a process would, and returns its exit status."""

    def run(program) -> int:
        monkeypatch.setattr(sys, "argv", ["program"])
        with pytest.raises(SystemExit) as caught:
            cli.main(cli.FlagSet(""), program)
        return caught.value.code

    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"))
    with warnings.catch_warnings():
        yield run


def _raise(error: BaseException):
    def program(settings):
        raise error

    return program


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "A file cannot be written (No space left on device)."),
        (OSError(errno.EROFS, "Read-only file system", "/x/a.png"), "/x/a.png cannot be used (Read-only file system)."),
    ],
)
def test_a_disk_that_is_full_or_read_only_is_one_line_and_status_1(run_main, capsys, error, line):
    assert run_main(_raise(error)) == 1
    assert capsys.readouterr().err == f"{line} Everything that was written before is kept.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_one_line_and_status_1(unbuffered):
    code = "from optimization.study import cli; cli.main(cli.FlagSet(''), lambda settings: print('result'))"
    options = {"cwd": ROOT, "env": os.environ | {"PYTHONUNBUFFERED": unbuffered}, "text": True}
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, **options)
    message = "A file cannot be written (No space left on device). Everything that was written before is kept.\n"
    assert (done.returncode, done.stderr) == (1, message)


def test_a_reader_that_leaves_is_status_1_without_a_traceback(run_main, monkeypatch):
    stderr = io.StringIO()
    written = []
    monkeypatch.setattr(stderr, "write", written.append)
    monkeypatch.setattr(sys, "stderr", stderr)
    assert run_main(_raise(BrokenPipeError())) == 1
    assert written == []
