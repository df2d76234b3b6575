"""What is searched of each strategy, and the runs of a point."""

import pytest

from bandits.advice import strategies
from bandits.advice.plan import FULL_FEEDBACK, STRATEGIES, UNIFORM
from data.errors import UsageError

BASE = ("--task_type=digits", "--total_rounds=40")


@pytest.fixture(scope="module")
def spaces():
    return strategies.spaces(BASE, (*STRATEGIES, UNIFORM, FULL_FEEDBACK), num_actions=10)


def test_a_search_begins_with_the_defaults_stays_in_its_space_and_has_the_rates_of_all_others(spaces):
    rates = [point[:2] for point in spaces["greedy"].points(6)]
    for space in spaces.values():
        points = space.points(8)
        assert len(set(points)) == len(points) == 8
        assert points[0] == space.first
        assert all(value in space.values[flag] for point in points for flag, value in point)
        assert [point[:2] for point in space.points(6)] == rates
        assert space.points(16)[:4] == space.points(4)


def test_a_space_that_is_exhausted_has_no_more_points():
    base = (*BASE, "--client_learning_rate=0.3", "--server_learning_rate=0.02")
    greedy = strategies.spaces(base, ["greedy"], num_actions=10)["greedy"]
    assert greedy.points(16) == [(("server_learning_rate", "0.02"), ("client_learning_rate", "0.3"))]
    assert strategies.spaces((*BASE, "--client_learning_rate=0.3"), ["greedy"], 10)["greedy"].size == 5
    printed = strategies.command(base, "greedy", greedy.first)  # Each flag once.
    assert [printed.count(f"--{rate}") for rate in strategies.RATES] == [1, 1]


def test_parameters_are_in_units_of_the_rewards_and_fit_the_actions():
    spaces = strategies.spaces(BASE, ["softmax", "falcon"], num_actions=200, reward_width=10.0)
    assert dict(spaces["softmax"].first)["bandits_temperature"] == "0.5"
    assert dict(spaces["falcon"].first)["bandits_gamma"] == "100"
    assert min(map(float, spaces["falcon"].values["bandits_mu"])) == 199
    assert dict(spaces["falcon"].first)["bandits_mu"] == "199"


def test_runs_that_end_early_or_deploy_more_often_are_in_one_environment():
    late = ("--cache=persistent", "--reward_delay=uniform", "--bandits_deploy_freq=10")
    base = strategies.with_environment((*BASE, "--scenario=drift", *late))
    assert base == (*BASE, "--scenario=drift", *late, "--drift_start=21", "--delay_rounds=5")
    assert strategies.with_environment(base) == base
    assert strategies.with_environment(BASE) == BASE
    (whole,) = strategies.runs(base, "greedy", (), strategies.SEED, 1)
    assert whole.at_rounds(10).settings.drift_start == 21
    (often,) = strategies.runs(base, "greedy", (), strategies.SEED, 1, "--bandits_deploy_freq=1")
    assert often.settings.delay_rounds == 5


def test_runs_of_a_point_differ_in_their_seed_alone(spaces):
    runs = strategies.runs(BASE, "softmax", spaces["softmax"].first, strategies.SEED, 3)
    assert [run.seed for run in runs] == [2000, 2001, 2002]
    assert len({run.point for run in runs}) == 1
    assert strategies.point_of(runs[0]) == spaces["softmax"].first
    assert runs[0].settings.total_rounds == 40


@pytest.mark.slow
def test_the_ceiling_goes_with_an_initial_training_but_has_no_log_of_a_bandit():
    assert FULL_FEEDBACK in strategies.check((*BASE, "--scenario=init_shift"))
    assert FULL_FEEDBACK not in strategies.check((*BASE, "--log_interactions"))
    with pytest.raises(UsageError, match="--client_batch_size"):
        strategies.check((*BASE, "--client_batch_size=0"))


def test_a_name_tells_a_strategy_with_its_parameter(spaces):
    assert strategies.label("softmax", spaces["softmax"].first) == "softmax (temperature 0.05)"
    assert strategies.label("falcon", spaces["falcon"].first) == "FALCON (mu 100, gamma 1000)"
    assert strategies.label("greedy", spaces["greedy"].first) == "greedy"
