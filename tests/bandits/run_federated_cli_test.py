"""Tests of the main binary's answers to bad input, each from a process of its own.

Every process finds packages named tensorflow and tensorflow_federated that refuse to be imported: status 2 instead of 1
shows that the answer came before TensorFlow.
"""

import subprocess

import numpy as np
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
        assert done.stderr.startswith("Usage error: ")
        assert len(done.stderr.splitlines()) == 1
        return done.stderr.removeprefix("Usage error: ").removesuffix("\n")

    return answer


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run("--total_rounds=1")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


def test_help_is_printed_on_stdout_with_status_0(run):
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "--bandits_temperature: softmax: temperature (beta); lower is greedier (default: 0.05)" in done.stdout


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--task_type=cifar", "--task_type=cifar: value should be one of <digits|"),
        ("--bandits_type=thompson", "--bandits_type=thompson: value should be one of <greedy|"),
        ("--total_rounds=-5", "--total_rounds=-5: -5 is not a positive integer"),
        ("--total_rounds=many", "--total_rounds=many: invalid literal for int() with base 10: 'many'"),
        ("--client_learning_rate=-0.1", "--client_learning_rate=-0.1: -0.1 is not a number of at least 0"),
        ("--client_learning_rate=fast", "--client_learning_rate=fast: could not convert string to float: 'fast'"),
        ("--server_learning_rate=nan", "--server_learning_rate=nan: nan is not a number of at least 0"),
        ("--bandits_epsilon=1.5", "--bandits_epsilon=1.5: 1.5 is not a number of at least 0 and at most 1"),
        ("--bandits_epsilon=-0.5", "--bandits_epsilon=-0.5: -0.5 is not a number of at least 0 and at most 1"),
        ("--bandits_temperature=0", "--bandits_temperature=0.0: 0 is not a number above 0"),
        ("--bandits_temperature=-1", "--bandits_temperature=-1.0: -1 is not a number above 0"),
        ("--server_sgd_momentum=0.9", "--server_sgd_momentum belongs to --server_optimizer=sgd; adam was chosen."),
        ("--rounds=5", "Unknown command line flag 'rounds'."),
        ("digits", "Unexpected argument 'digits': settings are given as --flag=value."),
    ],
)
def test_a_bad_flag_is_refused(refusal, argument, message):
    assert refusal(argument).startswith(message)


def test_more_clients_per_round_than_there_are_is_refused(refusal):
    assert refusal("--clients_per_round=61") == (
        "--clients_per_round=61 is more than the 60 clients that take part: give at most 60."
    )


def test_more_clients_per_round_than_were_selected_is_refused(refusal):
    message = refusal("--clients_per_round=11", "--population_client_selection=20-30")
    assert message.startswith("--clients_per_round=11 is more than the 10 clients that take part")


def test_more_clients_per_round_than_the_initial_training_leaves_is_refused(refusal):
    message = refusal("--scenario=init", "--init_clients=50", "--clients_per_round=11")
    assert message.startswith("--clients_per_round=11 is more than the 10 clients that take part")


def test_an_initial_training_that_leaves_no_clients_is_refused(refusal):
    message = refusal("--scenario=init", "--init_clients=60")
    assert message == "--init_clients=60 leaves none of the task's 60 clients to the bandits."


def test_a_selection_beyond_the_population_is_refused(refusal):
    assert "START < END <= 60" in refusal("--population_client_selection=0-61")


def test_a_task_without_a_reward_shift_is_refused_in_init_shift(refusal):
    message = refusal("--scenario=init_shift", "--init_clients=10")
    assert message.startswith("--task_type=digits has no reward shift")


def test_a_missing_initial_model_is_refused(refusal, tmp_path):
    message = refusal(f"--initial_model_path={tmp_path}")
    assert message == f"--initial_model_path={tmp_path} holds no model: name the folder of a finished run."


@pytest.mark.parametrize(
    ("task", "file_name"), [("unipen62", "unipen62_writers.npz"), ("mnist_writers", "mnist_with_writers.npz")]
)
class TestHandwriting:
    def test_no_data_dir_is_refused(self, refusal, task, file_name):
        assert refusal(f"--task_type={task}") == (
            f"This task reads {file_name}: name its folder with --data_dir or FEDBANDITS_DATA_DIR."
        )

    def test_a_missing_file_is_refused(self, refusal, tmp_path, task, file_name):
        message = refusal(f"--task_type={task}", f"--data_dir={tmp_path}")
        assert message.startswith(f"There is no {file_name} in {tmp_path}: name its folder with --data_dir")

    def test_a_truncated_file_is_refused(self, refusal, tmp_path, task, file_name):
        np.savez(tmp_path / file_name, pixels=np.zeros((9, 28, 28), np.uint8))
        with open(tmp_path / file_name, "r+b") as file:
            file.truncate(3000)
        message = refusal(f"--task_type={task}", f"--data_dir={tmp_path}")
        assert message.startswith(f"{tmp_path / file_name} is not readable")
        assert "--data_dir" in message


def test_a_missing_database_is_refused(refusal, tmp_path):
    message = refusal("--task_type=emnist_digits", f"--data_dir={tmp_path}")
    assert message.startswith(f"There is no emnist_all.sqlite in {tmp_path}: give --data_dir")


def test_a_corrupt_database_is_refused(refusal, tmp_path):
    (tmp_path / "emnist_all.sqlite").write_bytes(b"no database " * 1000)
    message = refusal("--task_type=emnist62_linear", f"--data_dir={tmp_path}")
    assert message.startswith(f"{tmp_path / 'emnist_all.sqlite'} is not readable")


def test_the_published_command_line_stops_at_the_missing_download(refusal, tmp_path):
    message = refusal(*PUBLISHED.split(), f"--cache_dir={tmp_path / 'cache'}")
    assert message.startswith(f"emnist_all.sqlite is not in {tmp_path / 'cache'}, and downloading it from https://")
    assert "run with network access, or put emnist_all.sqlite in a folder and name that with --data_dir" in message


def test_an_output_folder_that_is_a_file_is_refused(refusal, tmp_path):
    (tmp_path / "file").write_text("")
    message = refusal(f"--root_output_dir={tmp_path / 'file'}", "--experiment_name=mine")
    assert message.startswith(f"The output folder {tmp_path / 'file' / 'mine'} cannot be written")
    assert message.endswith("choose another one with --root_output_dir or --experiment_name.")


def test_a_folder_of_another_run_is_refused(run, refusal):
    run("--experiment_name=mine")
    message = refusal("--experiment_name=mine", "--bandits_temperature=0.5", "--seed=1")
    assert "--bandits_temperature was 0.05, is 0.5; --seed was 0, is 1." in message


def test_a_refused_command_writes_nothing(refusal, tmp_path):
    refusal("--clients_per_round=61")
    assert not (tmp_path / "runs").exists()
