"""Tests of the binary's answers before TensorFlow is imported, each from a process of its own."""

import subprocess

import pytest


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` unless told otherwise."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        return without_tensorflow(
            "bandits.client_selection.run_client_selection", f"--root_output_dir={tmp_path / 'runs'}", *arguments
        )

    return start


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run("--partition_clients=3")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


def test_help_names_every_selector(run):
    done = run("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("ucb_cs", "rpow_d", "active_fl", "--selection_gamma"))


def test_list_presets(run):
    done = run("--list_presets")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["figure_1", "figure_3a", "figure_3b"]


def test_another_runs_folder_is_refused(run):
    run("--partition_clients=3", "--experiment_name=mine")
    done = run("--partition_clients=3", "--experiment_name=mine", "--selection_gamma=0.2")
    assert done.returncode == 2
    assert "--selection_gamma was 0.7, is 0.2" in done.stderr
