"""Tests of scripts.theory."""

import pandas as pd

from bandits import theory as experiments
from scripts import theory


def test_the_program_prints_the_table_of_its_seed(capsys, monkeypatch):
    monkeypatch.setattr(experiments, "rates", lambda seed: pd.DataFrame({"seed": [f"{seed}"]}))
    theory.program(theory.define().parse(["theory", "--seed=3"]))
    assert capsys.readouterr().out == "| seed |\n| --- |\n| 3 |\n"
