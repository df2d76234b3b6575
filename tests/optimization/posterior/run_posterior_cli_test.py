"""Tests of the binary's answers before TensorFlow is imported, each from a process of its own."""

import subprocess

import pytest


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` by default."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        return without_tensorflow(
            "optimization.posterior.run_posterior", f"--root_output_dir={tmp_path / 'runs'}", *arguments
        )

    return start


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run("--algorithm=fedbe", "--server_data=clients:2")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")
