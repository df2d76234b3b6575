"""Tests of scripts.theory."""

import pandas as pd

from bandits import fedlinucb
from scripts import theory


def test_the_program_compares_each_algorithm_with_the_published_results(capsys, monkeypatch):
    result = lambda *arguments: (pd.DataFrame({"arguments": [f"{arguments}"]}), "The verdict.")  # noqa: E731
    monkeypatch.setattr(fedlinucb, "compare", result)
    theory.program(theory.define().parse(["theory", "--figure=fedlinucb_synthetic", "--seed=3", "--repeat=4"]))
    out = capsys.readouterr().out
    assert all(f"| ('{name}', 3, 4) |\n\nThe verdict." in out for name in fedlinucb.EXPERIMENTS)
