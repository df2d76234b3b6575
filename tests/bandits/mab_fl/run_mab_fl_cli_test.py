"""Answers to bad input, each from a process of its own that cannot import TensorFlow: status 2 came before it."""

import subprocess

import pytest

HOSPITALS = {
    # Label 1 for odd grades.
    "balanced": [0, 1] * 10,
    "also": [0, 1] * 10,
    "one_class": [1] * 20,
    "tiny": [0, 1, 0],
}


@pytest.fixture
def run(without_tensorflow, tmp_path):
    """Runs the binary, which writes below `tmp_path` unless told otherwise."""

    def start(*arguments: str) -> subprocess.CompletedProcess:
        output = f"--root_output_dir={tmp_path / 'runs'}"
        return without_tensorflow("bandits.mab_fl.run_mab_fl", output, *arguments)

    return start


@pytest.fixture
def refusal(run):
    def answer(*arguments: str) -> str:
        done = run(*arguments)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        *announced, line = done.stderr.splitlines()
        assert ["; folder " in told for told in announced] in ([], [True])
        return line.removeprefix("Usage error: ")

    return answer


@pytest.fixture
def hospitals(tmp_path):
    lines = ["place,age,grade"]
    for place, grades in HOSPITALS.items():
        lines += [f"{place},{20 + row},{grade}" for row, grade in enumerate(grades)]
    (tmp_path / "hospitals.csv").write_text("\n".join(lines) + "\n")
    return (
        "--task_type=tabular",
        f"--data_file={tmp_path / 'hospitals.csv'}",
        "--client_column=place",
        "--label_column=grade",
    )


def test_a_sound_command_line_goes_on_to_tensorflow(run):
    done = run("--num_rows=4000")
    assert done.returncode == 1
    assert done.stderr.endswith("ImportError: TensorFlow was imported\n")


def test_help_names_rules_and_baselines(run):
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "fedavg" in done.stdout
    told = "--rule_c: weight of the confidence interval (default: 0.05); only for --decision_rule=ucb, discounted_ucb"
    assert told in done.stdout


def test_presets_are_listed(run):
    assert "table3/ucb_recency_c=0.05_alpha=0.75" in run("--list_presets").stdout


def test_a_target_of_one_class_is_refused(refusal, hospitals):
    message = refusal(*hospitals, "--target=one_class")
    assert message.startswith("--target=one_class: its 8 validation rows are all of class 1, so that there is no AUC.")


def test_a_participant_too_small_to_train_is_refused(refusal, hospitals):
    assert refusal(*hospitals, "--target=balanced").startswith("Participant tiny has 0 training rows, and needs 2")
