"""Tests of bandits.options."""

import dataclasses

import pytest

from bandits import options
from data.errors import UsageError
from tests.bandits.whole_runs import opened


def test_a_table_gives_a_fifth_of_its_clients_to_the_initial_training():
    chosen, task = opened("--scenario=init")
    assert [len(phase.population) for phase in options.phases(chosen, task)] == [10, 50]
    for clients, population, expected in ((None, "0-4", [1, 3]), (None, "0-9", [1, 8]), (3, "0-4", [3, 1])):
        initial = dataclasses.replace(chosen.initial, num_clients=clients)
        changed = dataclasses.replace(chosen, initial=initial, population_client_selection=population)
        assert [len(phase.population) for phase in options.phases(changed, task)] == expected


@pytest.mark.parametrize(("selection", "expected"), [(None, range(10)), ("0-10", range(10)), ("2-9", range(2, 9))])
def test_a_selection_is_from_start_up_to_not_including_end(selection, expected):
    assert options.population_range(selection, 10) == expected


@pytest.mark.parametrize("selection", ["3-3", "0-11", "all"])
def test_a_selection_outside_of_the_population_is_refused(selection):
    with pytest.raises(UsageError, match=f"--population_client_selection={selection} must be START-END .*10"):
        options.population_range(selection, 10)
