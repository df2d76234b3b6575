"""Tests of scripts.theory."""

from bandits import theory as experiments
from scripts import theory


def test_the_program_prints_the_table_of_its_seed(capsys, monkeypatch):
    monkeypatch.setattr(experiments, "table", "the table of seed {}".format)
    theory.program(theory.define().parse(["theory", "--seed=3"]))
    assert capsys.readouterr().out == "the table of seed 3\n"
