"""Tests of bandits.client_selection.flags, and of the selectors' flags."""

import itertools

import pytest

from bandits.client_selection.run_client_selection import STUDY
from data.settings import Setting
from optimization.selection import selectors
from optimization.study import cli, frame, selector_flags


def resolve(*arguments: str) -> list[cli.Settings]:
    return frame.plan(STUDY, frame.flag_set(STUDY).parse(["run_client_selection", *arguments]))


def test_selectors_cohorts_and_seeds_are_crossed():
    runs = resolve("--client_selection=rand,pow_d", "--clients_per_round=1,2", "--repeat=2", "--experiment_name=x")
    found = [(run.clients_per_round, run.client_selection, run.seed, run.experiment_name) for run in runs]
    crossed = itertools.product((1, 2), ("rand", "pow_d"), (0, 1))
    assert found == [(cohort, name, seed, f"x/m_{cohort}/{name}/seed_{seed}") for cohort, name, seed in crossed]
    assert [run.partition_seed for run in resolve("--repeat=3", "--seed=4", "--resplit")] == [4, 5, 6]


def test_the_flags_reach_the_selectors():
    flag_set = cli.FlagSet("usage")
    flag_set.group("Selection")
    losses_allowed = Setting("non_private_selection", bool, "whose", False)
    flag_set.add(selector_flags.SELECTION, losses_allowed, selector_flags.SelectorSettings)
    words = ["test", "--client_selection=ucb_cs", "--selection_gamma=0.4", "--ucb_variant=algorithm_listing"]
    ucb = selector_flags.options(flag_set.parse(words).checked()).build([1, 2], 1)
    assert isinstance(ucb, selectors.UcbCs)
    assert (ucb.gamma, ucb.algorithm_listing) == (0.4, True)


PUBLISHED = {
    "figure_1": (50, 30, 0.05, "300,600", {"total_rounds": 800, "selection_gamma": 0.7}),
    "figure_3a": (64, 100, 0.005, "150", {"partition_alpha": 2.0, "partition_clients": 100}),
    "figure_3b": (64, 100, 0.005, "150", {"partition_alpha": 0.3, "partition_by": "label"}),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_the_studys_settings(name):
    runs, published = resolve(f"--preset={name}"), PUBLISHED[name]
    assert len(runs) == (120 if name == "figure_1" else 40)
    assert all(run.experiment_name.startswith(f"{name}/") and run.learning_rate_factor == 0.5 for run in runs)
    run, others = runs[0], published[-1]
    found = (run.client_batch_size, run.client_steps_per_round, run.client_learning_rate, run.learning_rate_drops)
    assert (*found, {name: run[name] for name in others}) == published
