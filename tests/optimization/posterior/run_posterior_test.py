import pathlib

import numpy as np
import pandas as pd
import pytest

from optimization.posterior import metrics
from optimization.posterior.run_posterior import STUDY
from optimization.study import frame

pytestmark = pytest.mark.slow

SMALL = ("--clients_per_round=5", "--client_epochs_per_round=1", "--burn_in_rounds=1", "--algorithm=fedkppa")


def execute(folder: pathlib.Path, name: str, *arguments: str) -> pathlib.Path:
    argv = ["run_posterior", f"--root_output_dir={folder}", f"--experiment_name={name}", *SMALL, *arguments]
    assert frame.program(STUDY, frame.flag_set(STUDY).parse(argv)) == 0
    return folder / name


def test_a_run_leaves_a_complete_folder_and_continues_bit_for_bit(tmp_path, capsys):
    whole = execute(tmp_path, "whole", "--total_rounds=3", "--diagnose_round=1,2")
    printed = capsys.readouterr().out
    assert "3 rounds; means of the last 10: eval/accuracy 0." in printed
    assert f"Results in {whole}" in printed
    assert "Mean shift moved" in printed
    files = {path.name for path in whole.iterdir()}
    assert {"config.json", "metrics.csv", "diagnosis_round_2_normality.png"} <= files
    with np.load(whole / "diagnosis_round_2.npz") as archive:
        assert set(archive.files) == {"p_values", "lilliefors_p_values", "excess_distances", "skewness", "kurtosis"}
    rows = pd.read_csv(whole / "metrics.csv").drop(columns="seconds")
    assert list(rows.columns) == ["round_num", *metrics.COLUMNS]
    np.testing.assert_allclose(rows["running/eval/accuracy"], rows["eval/accuracy"].expanding().mean())

    execute(tmp_path, "parts", "--total_rounds=2", "--diagnose_round=1,2")
    parts = execute(tmp_path, "parts", "--total_rounds=3", "--diagnose_round=1,2")
    pd.testing.assert_frame_equal(pd.read_csv(parts / "metrics.csv").drop(columns="seconds"), rows, check_exact=True)
    with np.load(whole / "model" / "weights.npz") as first, np.load(parts / "model" / "weights.npz") as second:
        assert all(np.array_equal(first[name], second[name]) for name in first.files)
