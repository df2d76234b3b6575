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
        assert len(done.stderr.splitlines()) == 1
        return done.stderr.removeprefix("Usage error: ").removesuffix("\n")

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
    assert "--rule_c: ucb, discounted_ucb: weight of the confidence interval (default: 0.05)" in done.stdout


def test_presets_are_listed(run):
    assert "table3/ucb_recency_c=0.05_alpha=0.75" in run("--list_presets").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--decision_rule=annealing"], "--decision_rule=annealing: value should be one of <"),
        (["--threshold=0.025"], "--threshold=0.025 has no effect with the continuous --reward=increment"),
        (["--target=worker_9"], "--target=worker_9 is not among the workers worker_1, worker_2, worker_3, worker_4."),
        (["--decision_rule=discounted_thompson", "--rule_gamma=0"], "--rule_gamma=0.0: 0 is not a number above 0"),
        (["--decision_rule=discounted_thompson", "--rule_gamma=1.5"], "--rule_gamma=1.5: 1.5 is not a number above 0"),
        (["--rule_alpha=0"], "--rule_alpha=0.0: 0 is not a number above 0 and at most 1"),
        (["--rule_alpha=1.1"], "--rule_alpha=1.1: 1.1 is not a number above 0 and at most 1"),
        (["--validation_fraction=0"], "--target=worker_2 has no validation row: change --validation_fraction."),
        (["--combinations=all", "--num_workers=9"], "--combinations=all would be 256 combinations of 9 workers"),
        (["--decision_rule=fixed", "--fixed_combination=1001"], "--fixed_combination=1001 must be a 0 or 1 for each"),
        (["--num_rows=40"], "Worker worker_1 has 0 training rows, and needs 2"),
        (["--target_weight=1"], "--target_weight=1.0: 1 is not a number above 0 and below 1"),
        (["--warm_start=nowhere"], "--warm_start="),
        (["--task_type=heart_disease"], "This task reads heart_disease_4sites.csv: name its folder with --data_dir"),
    ],
)
def test_bad_input_is_refused_with_the_flag(refusal, arguments, message):
    assert refusal(*arguments).startswith(message)


def test_a_target_of_one_class_is_refused(refusal, hospitals):
    message = refusal(*hospitals, "--target=one_class")
    assert message.startswith("--target=one_class: its 8 validation rows are all of class 1, so that there is no AUC.")


def test_a_worker_too_small_to_train_is_refused(refusal, hospitals):
    assert refusal(*hospitals, "--target=balanced").startswith("Worker tiny has 0 training rows, and needs 2")


def test_a_warm_start_of_other_rewards_is_refused(refusal, tmp_path):
    folder = tmp_path / "earlier"
    folder.mkdir()
    (folder / "combinations.csv").write_text("action,combination,mean_reward\n0,0110,0.5\n")
    (folder / "config.json").write_text('{"flags": {"reward": "binary", "threshold": 0.1, "compare_with": "target"}}')
    message = refusal(f"--warm_start={folder}")
    assert message.startswith("--warm_start: that run had --reward=binary, this one has increment")


def test_a_refused_command_writes_nothing(refusal, tmp_path):
    refusal("--target=worker_9")
    assert not (tmp_path / "runs").exists()
