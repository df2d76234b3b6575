"""Tests of scripts.client_selection_benchmark's flags; what it measures is no test."""

import pytest

from data.errors import UsageError
from scripts.benchmark import client_selection


def test_a_cohort_larger_than_the_population_is_refused():
    arguments = ["client_selection_benchmark", "--population=10", "--cohort=11"]
    with pytest.raises(UsageError, match="--cohort=11 clients cannot be chosen from 10"):
        client_selection.program(client_selection.define().parse(arguments))
