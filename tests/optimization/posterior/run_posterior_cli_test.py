"""Tests of the binary's answers before TensorFlow is imported, each from a process of its own."""

import subprocess

import numpy as np
import pytest


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` unless told otherwise."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        return without_tensorflow(
            "optimization.posterior.run_posterior", f"--root_output_dir={tmp_path / 'runs'}", *arguments
        )

    return start


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run("--algorithm=fedbe", "--server_data=clients:2")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--algorithm=fedavg", "--bandwidth=scott"], "--bandwidth belongs to --algorithm=fedkp or"),
        (["--clients_per_round=61"], "--clients_per_round=61 is more than the task's 60 clients."),
        (["--algorithm=fedbe", "--server_data=FILE"], "holds features (5, 3); --task_type=digits has others."),
    ],
)
def test_bad_usage_ends_with_status_2_and_writes_nothing(run, tmp_path, arguments, message):
    np.savez(tmp_path / "server.npz", features=np.zeros((5, 3)))
    done = run(*(argument.replace("FILE", str(tmp_path / "server.npz")) for argument in arguments))
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert message in done.stderr
    assert not (tmp_path / "runs").exists()
