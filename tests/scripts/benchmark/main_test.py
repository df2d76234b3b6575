"""Tests of scripts.benchmark's flags; what it measures is no test."""

import pytest

from data.errors import UsageError
from scripts.benchmark import __main__ as benchmark


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cohorts=8,x"], "--cohorts=8,x: must be whole numbers above 0"),
        (["--populations=0"], "--populations=0: must be whole numbers above 0"),
        (["--cohorts=4000"], "4000 clients cannot be drawn from 3400"),
        (["--what=selection", "--population=10", "--cohort=11"], "--cohort=11 clients cannot be chosen from 10"),
    ],
)
def test_bad_usage_is_explained(arguments, message):
    with pytest.raises(UsageError, match=message):
        benchmark.program(benchmark.define().parse(["benchmark", *arguments]))
