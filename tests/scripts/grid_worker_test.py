"""Tests of scripts.grid_worker; `executors_test` has it execute runs."""

import sys

import pytest

from scripts import grid_worker


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["bandits.run_federated", "--rounds=4"], "Usage error: --rounds is not known"),
        (["no.such.module"], "Usage error: no.such.module is no experiment: bandits.run_federated, "),
        (["json", "--rate=1"], "Usage error: json is no experiment: "),
    ],
)
def test_a_task_that_is_no_run_is_told_in_a_line(monkeypatch, capsys, arguments, told):
    monkeypatch.setattr(sys, "argv", ["grid_worker", *arguments])
    assert grid_worker.main() == 2
    assert capsys.readouterr().err.startswith(told)


def test_its_help_says_what_it_takes_and_tensorflows_chatter_is_kept_back(monkeypatch, capsys):
    called = []
    monkeypatch.setattr(grid_worker.cli, "hush_imports", lambda: called.append("hushed"))
    monkeypatch.setattr(sys, "argv", ["grid_worker", "--help"])
    assert grid_worker.main() == 0
    assert "grid_worker bandits.run_federated" in capsys.readouterr().out
    assert called == ["hushed"]
