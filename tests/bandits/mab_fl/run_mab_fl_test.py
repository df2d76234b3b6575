"""Whole runs on small generated data: complete folders, reproducible, resumable; and studies."""

import csv
import pathlib

import pandas as pd
import pytest

from bandits.mab_fl import flags, metrics, rewards, run_mab_fl
from optimization.study import frame
from tests.bandits import whole_runs

pytestmark = pytest.mark.slow

DATA = ("--num_rows=1200", "--train_fraction=0.05", "--pretrain_epochs=0")
SMALL = (*DATA, "--epochs_per_round=1", "--total_rounds=6")
STUDY = run_mab_fl.STUDY
RULE = ("--decision_rule=thompson", "--threshold=quantile:0.5")


def run(folder: pathlib.Path, *arguments: str) -> int:
    """Runs in this process, with its worker."""
    argv = ["run_mab_fl", f"--root_output_dir={folder}", "--experiment_name=run", *SMALL, *arguments]
    return frame.program(STUDY, frame.flag_set(STUDY).parse(argv))


def table(folder: pathlib.Path) -> pd.DataFrame:
    return whole_runs.table(folder / "run")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    assert run(folder, *RULE) == 0
    return folder


def test_a_run_leaves_a_complete_folder(finished):
    files = {str(path.relative_to(finished / "run")) for path in (finished / "run").rglob("*") if path.is_file()}
    assert {"config.json", "metrics.csv", "combinations.csv", "model/weights.npz"} <= files
    rows = table(finished)
    assert list(rows.columns) == ["round_num", *metrics.COLUMNS]
    assert rows[metrics.TEST_AUC].between(0, 1).all()
    with open(finished / "run" / "combinations.csv") as file:
        learned = list(csv.DictReader(file))
    assert [row["combination"] for row in learned] == ["1100", "0110", "0101"]
    assert sum(int(row["plays"]) for row in learned) == rows[metrics.TRIED].sum()
    assert sum(int(row["adoptions"]) for row in learned) == 6


def test_killed_in_a_checkpoint_then_resumed_equals_uninterrupted(kill_in_a_checkpoint, finished, tmp_path):
    folder = (f"--root_output_dir={tmp_path}", "--experiment_name=run")
    kill_in_a_checkpoint("bandits.mab_fl.run_mab_fl", 4, *folder, *SMALL, *RULE, "--rounds_per_checkpoint=2")
    assert len(table(tmp_path)) >= 3
    run(tmp_path, *RULE, "--rounds_per_checkpoint=2")
    pd.testing.assert_frame_equal(table(tmp_path), table(finished), check_exact=True)
    written = [(folder / "run" / "combinations.csv").read_text() for folder in (tmp_path, finished)]
    assert written[0] == written[1]
    whole_runs.assert_same_model(tmp_path / "run", finished / "run")


def test_an_early_stopped_run_stays_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(rewards, "is_falling", lambda history: len(history) == 3)
    stops_at_once = ("--early_stopping", "--early_stopping_patience=1", "--rounds_per_checkpoint=0")
    for count in (6, 7):  # A larger number of rounds does not continue it.
        assert run(tmp_path, *stops_at_once, f"--total_rounds={count}") == 0
        assert list(table(tmp_path)["round_num"]) == [1, 2, 3]
        assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["round_00000003.npz"]


def test_a_study_runs_all_its_settings(tmp_path, monkeypatch):
    study = '[study]\nabout = "two settings"\nepochs_per_round = 1\nrepeat = 2\n'
    (tmp_path / "mine.toml").write_text(study + '[ucb]\ndecision_rule = "ucb"\nrule_c = [0.01, 0.1]\n')
    monkeypatch.setattr(flags, "PRESETS", tmp_path)
    argv = ["x", f"--root_output_dir={tmp_path}", "--preset=mine", *DATA, "--total_rounds=2"]
    assert frame.program(STUDY, frame.flag_set(STUDY).parse(argv)) == 0
    results = pd.read_csv(tmp_path / "mine" / "results.csv")
    expected = [("ucb_c=0.01", 0), ("ucb_c=0.01", 1), ("ucb_c=0.1", 0), ("ucb_c=0.1", 1)]
    assert list(zip(results["setting"], results["seed"], strict=True)) == expected


def test_a_result_is_that_of_the_best_round_and_the_most_adopted_combination(tmp_path):
    table = {"round_num": [1, 2, 3], metrics.GLOBAL_AUC: [0.6, 0.9, 0.9], metrics.BEST_AUC: [0.6, 0.9, 0.9]}
    table |= {metrics.TEST_AUC: [0.5, 0.7, 0.8], metrics.ACTION: [0, 1, -1], metrics.COMMUNICATIONS: [6, 12, 12]}
    pd.DataFrame(table).to_csv(tmp_path / "metrics.csv", index=False)
    (tmp_path / "combinations.csv").write_text("action,combination,adoptions\n0,0110,1\n1,1100,3\n")
    assert run_mab_fl.result(tmp_path) == {
        "rounds": 3,
        "best_round": 2,
        "validation_auc": 0.9,
        "test_auc": 0.7,
        "favourite": "1100",
        "favourite_share": 0.75,
        "communications": 12,
    }
