"""Tests of scripts.benchmark."""

import pytest

from data.errors import UsageError
from scripts import benchmark


def _run(*arguments: str) -> None:
    benchmark.program(benchmark.define().parse(["benchmark", *arguments]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--what=evaluation", "--total_rounds=3"), "--total_rounds=3 has no effect with --what=evaluation"),
        (("--what=evaluation", "--rounds=3"), "--rounds .*--what"),
        (("--client_learning_rat=3",), "--client_learning_rat is not known"),
    ],
)
def test_flags_that_measure_nothing_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        _run(*arguments)


@pytest.mark.slow
def test_rounds_are_measured_with_the_flags_of_the_run(capsys):
    _run("--rounds=1", "--model=linear", "--clients_per_round=2")
    printed = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert int(printed["parameters"]) == 28 * 28 * 62 + 62
    assert 0 < float(printed["seconds per round"]) < float(printed["first round seconds"])
