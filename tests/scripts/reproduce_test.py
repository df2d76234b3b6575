"""Tests of scripts.reproduce, with an experiment that needs no TensorFlow."""

import functools
import os

import pandas as pd
import pytest

from bandits.papers import running
from bandits.papers.plan import Claim
from scripts import reproduce
from tests.bandits.papers.toy_figures import reproduce_toy, toy_figure

pytestmark = pytest.mark.slow


@pytest.fixture
def reproduce_figure(tmp_path, monkeypatch):
    """Reproduces toy figures in this process and returns the exit status."""
    return functools.partial(reproduce_toy, tmp_path, monkeypatch)


def test_a_figure_is_run_once_printed_and_written(reproduce_figure, tmp_path, capfd):
    def log_times():
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/runs/*/*/log.txt")}

    assert reproduce_figure(toy_figure(data_kind="stand-in", data="a toy"), "--repeat=6") == 0
    out = capfd.readouterr().out
    assert "f1: Figure 1: a toy. Nobody 2020\nStand-in data, not the paper's: a toy.\n" in out
    claim = "section 2: near is better [near 4.0025, far 3.0025: +1 (the same in every seed); "
    assert f"same direction (stand-in)  {claim}" in out
    assert "not comparable (stand-in)" in out
    table = pd.read_csv(tmp_path / "r" / "f1" / "f1_records.csv")
    assert table.groupby("arm")["score"].mean().to_dict() == pytest.approx({"near": 4.0025, "far": 3.0025})
    assert {path.name for path in (tmp_path / "r" / "f1").iterdir()} == {"f1.png", "f1_records.csv"}
    times = log_times()
    assert len(times) == 12
    reverse = Claim("far is better", "section 2", "order", (("far",), ("near",)))
    assert reproduce_figure(toy_figure(claims=(reverse,)), "--repeat=6") == 0  # A contradiction is no failure.
    assert "disagrees (paper's data)  section 2: far is better" in capfd.readouterr().out
    assert log_times() == times


def test_a_rehearsal_has_its_own_runs_and_records_and_no_verdict(reproduce_figure, tmp_path, capfd):
    kept = tmp_path / "evidence"
    kept.mkdir()
    assert reproduce_figure(toy_figure(curves=("score",)), "--repeat=2", "--rounds=2", f"--records={kept}") == 0
    out = capfd.readouterr().out
    assert "f1: Rehearsal of 2 rounds, no result: Figure 1: a toy. Nobody 2020\n" in out
    assert "near is better" not in out
    (path,) = kept.rglob("*.csv")
    assert path.parent.name in ("small_rehearsal", "paper_rehearsal")
    table = pd.read_csv(path)
    assert set(table["rehearsal"]) == set(table["rounds"]) == {2}
    assert table.groupby("arm")["score"].mean().to_dict() == pytest.approx({"near": 2.0005, "far": 1.0005})


def test_what_is_finished_is_reported_while_the_rest_is_left(reproduce_figure, tmp_path, capfd):
    assert reproduce_figure(toy_figure(), "--repeat=1") == 0
    capfd.readouterr()
    kept = tmp_path / "evidence"
    kept.mkdir()
    assert reproduce_figure(toy_figure(), "--repeat=2", "--report_only", f"--records={kept}") == 0
    assert "2 runs of f1 are not finished." in capfd.readouterr().out
    assert pd.read_csv(kept / "paper" / "f1.csv")[["arm", "seed"]].to_numpy().tolist() == [["near", 0], ["far", 0]]


def test_the_paper_s_scale_says_first_how_long_it_takes(reproduce_figure, tmp_path, capfd):
    assert reproduce_figure(toy_figure(), "--scale=paper", "--estimate") == 0
    out = capfd.readouterr().out
    assert "toy_binary: 4 runs, 16 rounds of " in out
    assert "In all " in out
    assert not (tmp_path / "r" / "f1").exists()


def test_data_dir_is_the_environment_s_folder_of_all_runs(reproduce_figure, tmp_path, monkeypatch):
    monkeypatch.setenv("FEDBANDITS_DATA_DIR", "elsewhere")
    seen = []
    monkeypatch.setattr(
        running, "check_data", lambda *arguments: seen.append((os.environ["FEDBANDITS_DATA_DIR"], arguments[2]))
    )
    assert reproduce_figure(toy_figure(), "--repeat=1", f"--data_dir={tmp_path}") == 0
    assert seen == [(str(tmp_path), str(tmp_path))]
    assert os.environ["FEDBANDITS_DATA_DIR"] == "elsewhere"


def test_the_list_names_every_figure(capsys):
    assert reproduce.program(reproduce.define().parse(["reproduce", "--list"])) == 0
    lines = capsys.readouterr().out.splitlines()
    named = {"1a", "1d", "2a", "2d", "3a", "3b", "4a", "4c", "ads", *(f"table{number}" for number in range(1, 10))}
    assert named <= {line.split()[0] for line in lines}
    assert any(line.strip().startswith("mab_fl_table2") and "mab_fl_figure13" in line for line in lines)
