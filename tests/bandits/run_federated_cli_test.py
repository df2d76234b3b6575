"""Tests of the main binary's answers to bad input, each from a process of its own.

Every process finds packages named tensorflow and tensorflow_federated that refuse to be imported: status 2 instead of 1
shows that the answer came before TensorFlow.
"""

import subprocess

import pytest

# Nothing listens on this port: a download fails at once, with and without a network.
NO_NETWORK = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
# The study's README, but for the folders.
PUBLISHED = (
    "--task_type=emnist_chars --bandits_type=epsilon_greedy --bandits_epsilon=0.05 --bandits_deploy_freq=200 "
    "--total_rounds=800 --clients_per_round=64 --client_batch_size=16 --client_epochs_per_round=1 "
    "--client_optimizer=sgd --client_learning_rate=0.1 --server_optimizer=adam --server_learning_rate=0.002 "
    "--rounds_per_eval=50 --rounds_per_checkpoint=50 --max_validation_samples=1000 --experiment_name=emnist"
)


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` unless told otherwise."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        return without_tensorflow(
            "bandits.run_federated", f"--root_output_dir={tmp_path / 'runs'}", *arguments, **NO_NETWORK
        )

    return start


@pytest.fixture
def refusal(run):
    """Runs the binary on bad input and returns the message."""

    def answer(*arguments: str) -> str:
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        *announced, line = done.stderr.splitlines()
        assert ["; folder " in told for told in announced] in ([], [True])
        return line.removeprefix("Usage error: ")

    return answer


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run("--total_rounds=1")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


def test_help_is_printed_on_stdout_with_status_0(run):
    short, full = run("--help"), run("--helpfull")
    assert (short.returncode, short.stderr, full.returncode, full.stderr) == (0, "", 0, "")
    assert len(short.stdout.splitlines()) <= 60
    assert "\n  --bandits_type: " in short.stdout
    assert full.stdout.count("\n  --bandits_temperature: ") == 1


def test_the_published_command_line_stops_at_the_missing_download(refusal, tmp_path):
    message = refusal(*PUBLISHED.split(), f"--cache_dir={tmp_path / 'cache'}")
    assert message.startswith(f"emnist_all.sqlite is not in {tmp_path / 'cache'}, and downloading it from https://")
    assert "run with network access, or put emnist_all.sqlite in a folder and name that with --data_dir" in message


def test_a_folder_of_another_run_is_refused(run, refusal):
    run("--experiment_name=mine")
    message = refusal("--experiment_name=mine", "--bandits_temperature=0.5", "--seed=1")
    assert "--bandits_temperature was 0.05, is 0.5; --seed was 0, is 1." in message
