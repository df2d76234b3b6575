"""Tests of scripts.benchmark."""

import pytest

from scripts import benchmark


@pytest.mark.slow
def test_rounds_are_measured_with_the_flags_of_the_run(capsys):
    benchmark.program(benchmark.define().parse(["benchmark", "--rounds=1", "--model=linear", "--clients_per_round=2"]))
    printed = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert int(printed["parameters"]) == 28 * 28 * 62 + 62
    assert 0 < float(printed["seconds per round"]) < float(printed["first round seconds"])
