"""Tests of scripts.grid_worker; `executors_test` has it execute runs."""

import sys

from scripts import grid_worker


def test_an_invalid_run_of_a_job_array_is_reported_in_a_line(monkeypatch, capsys, tmp_path):
    arguments = ["bandits.run_federated", str(tmp_path / "run"), "4", "--rounds=4"]
    monkeypatch.setattr(sys, "argv", ["grid_worker", *arguments])
    assert grid_worker.main() == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}/run: --rounds is not known")
