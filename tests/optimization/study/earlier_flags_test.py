"""Tests of optimization.study.earlier_flags."""

import pytest

from optimization.study import earlier_flags


@pytest.mark.parametrize("flag", ["algorithm", "model_aggregation"])
def test_an_earlier_runs_algorithms_have_todays_names(flag):
    assert earlier_flags.in_todays_words({flag: "sgld"})[flag] == "client_sgld"
    assert earlier_flags.in_todays_words({flag: "fedkp"}) == {flag: "fedkp", "mean_shift_weights": "profile"}
    assert earlier_flags.in_todays_words({flag: "fedavg", "rate": 1}) == {flag: "fedavg", "rate": 1}


def test_what_todays_program_has_written_stays():
    for name in ("sgld", "fedkp"):
        flags = {"algorithm": name, "mean_shift_weights": None}
        assert earlier_flags.in_todays_words(flags) == flags


def test_an_initial_training_that_was_none_had_no_flags():
    flags = {"scenario": "scratch", "init_rounds": 50, "init_server_optimizer": "sgd", "total_rounds": 10}
    without = flags | {"init_rounds": None, "init_server_optimizer": None}
    assert earlier_flags.in_todays_words(flags) == without
    for scenario in ("init", "init_shift"):
        assert earlier_flags.in_todays_words(flags | {"scenario": scenario}) == flags | {"scenario": scenario}


def test_ads_were_shown_once_each():
    assert earlier_flags.in_todays_words({"local_pulls": 10}) == {"local_pulls": 10, "pulls_per_impression": 1}
    flags = {"local_pulls": 10, "pulls_per_impression": 5}
    assert earlier_flags.in_todays_words(flags) == flags


@pytest.mark.parametrize("task", ["emnist62_linear", "emnist10_linear"])
def test_the_published_programs_linear_models_were_plain(task):
    flags = {"task_type": task, "variant": "reference_code", "model": None}
    before = {"model": "linear", "initial_weights": "glorot_uniform"}
    assert earlier_flags.in_todays_words(flags) == flags | before
    for others in ({"initial_weights": None}, {"variant": "paper"}, {"task_type": "emnist62"}):
        assert earlier_flags.in_todays_words(flags | others) == flags | others


@pytest.mark.parametrize("recorded", [{}, {"redraw_examples": None}])
def test_what_a_bandits_clients_had_above_their_cap_was_chosen_once(recorded):
    flags = {"bandits_type": "softmax", "max_examples_per_client": 100, **recorded}
    assert earlier_flags.in_todays_words(flags) == flags | {"redraw_examples": False}


@pytest.mark.parametrize(
    "flags",
    [
        {"bandits_type": "softmax", "max_examples_per_client": 0, "redraw_examples": None},
        {"bandits_type": "softmax", "max_examples_per_client": 100, "redraw_examples": True},
        {"algorithm": "fedavg", "max_examples_per_client": 100, "mean_shift_weights": None},  # Of another study.
    ],
)
def test_what_says_how_examples_are_drawn_or_has_no_cap_stays(flags):
    assert earlier_flags.in_todays_words(flags) == flags


def test_importance_weights_of_the_published_code_had_no_flag_of_their_own():
    flags = {"bandits_type": "epsilon_greedy", "importance_weighting": True, "variant": "reference_code"}
    assert earlier_flags.in_todays_words(flags) == flags | {"importance_weights": "published_code"}
    for others in (
        {"variant": "paper"},
        {"importance_weighting": False},
        {"bandits_type": "softmax"},
        {"importance_weights": "inverse_propensity"},
    ):
        assert earlier_flags.in_todays_words(flags | others) == flags | others
