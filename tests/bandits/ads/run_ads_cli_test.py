"""The ad study's answers to bad input, each from a process that cannot import TensorFlow."""

import subprocess

import pytest

from bandits.ads import run_ads
from optimization.study import frame

RATES = "--rates=0.1,0.2"


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` unless told otherwise."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        output = f"--root_output_dir={tmp_path / 'runs'}"
        return without_tensorflow("bandits.ads.run_ads", output, *arguments)

    return start


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run(RATES)
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


def test_a_preset_sets_what_no_flag_gives():
    argv = ["run_ads", RATES, "--preset=gradient_epsilon", "--clients=7"]
    (settings,) = frame.plan(run_ads.STUDY, frame.flag_set(run_ads.STUDY).parse(argv))
    assert settings.decision_rule == "gradient_epsilon"
    assert (settings.clients, settings.total_rounds, settings.local_pulls) == (7, 10, 10)
    assert settings.experiment_name == "ads_gradient_epsilon"
