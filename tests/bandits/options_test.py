"""Tests of bandits.options."""

import dataclasses

import pytest

from bandits import flags, options, run_federated
from data.errors import UsageError
from data.tasks import registry as tasks_registry
from data.tasks.options import TaskOptions
from optimization.study import frame


def test_a_table_gives_a_fifth_of_its_clients_to_the_initial_training():
    task = tasks_registry.load(TaskOptions("digits"))
    study = run_federated.STUDY
    chosen = flags.options(study.resolve(frame.flag_set(study).parse(["test", "--scenario=init"])))
    assert [len(phase.population) for phase in options.phases(chosen, task)] == [10, 50]
    for clients, population, expected in (
        (None, None, [12, 48]),
        (None, "0-4", [1, 3]),
        (None, "0-9", [1, 8]),
        (3, "0-4", [3, 1]),
    ):
        initial = dataclasses.replace(chosen.initial, num_clients=clients)
        planned = options.phases(
            dataclasses.replace(chosen, initial=initial, population_client_selection=population), task
        )
        assert [len(phase.population) for phase in planned] == expected


@pytest.mark.parametrize(
    ("selection", "expected"), [(None, range(10)), ("0-10", range(10)), ("3-4", range(3, 4)), ("2-9", range(2, 9))]
)
def test_a_selection_is_from_start_up_to_not_including_end(selection, expected):
    assert options.population_range(selection, 10) == expected


@pytest.mark.parametrize("selection", ["4-3", "3-3", "0-11", "all"])
def test_a_selection_outside_of_the_population_is_refused(selection):
    with pytest.raises(UsageError, match=f"--population_client_selection={selection} must be START-END .*10"):
        options.population_range(selection, 10)
