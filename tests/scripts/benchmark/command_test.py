"""Tests of scripts.benchmark's flags; what it measures is no test."""

import pytest

from data.errors import UsageError
from scripts.benchmark import command


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--cohorts=8,x", "--cohorts=8,x must be whole numbers above 0"),
        ("--populations=0", "--populations=0 must be whole numbers above 0"),
        ("--cohorts=4000", "4000 clients cannot be drawn from 3400"),
    ],
)
def test_bad_usage_is_explained(argument, message):
    with pytest.raises(UsageError, match=message):
        command.program(command.define().parse(["benchmark", argument]))
