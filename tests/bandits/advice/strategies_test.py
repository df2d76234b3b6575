"""What is searched of each strategy, and the runs of a point."""

import pytest

from bandits.advice import strategies
from bandits.advice.plan import FULL_FEEDBACK, STRATEGIES, UNIFORM
from data.errors import UsageError

RATES_TRIED_FIRST = (("adam", "0.01"), ("sgd", "1"))
TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")
BASE = ("--task_type=digits", "--total_rounds=40")


@pytest.fixture(scope="module")
def spaces():
    return strategies.spaces(BASE, (*STRATEGIES, UNIFORM, FULL_FEEDBACK), num_actions=10)


def test_a_search_begins_with_the_defaults_stays_in_its_space_and_has_the_rates_of_all_others(spaces):
    rates = [point[:3] for point in spaces["greedy"].points(6)]
    assert [point[:2] for point in rates[:2]] == [
        (("server_optimizer", optimizer), ("server_learning_rate", rate)) for optimizer, rate in RATES_TRIED_FIRST
    ]
    for space in spaces.values():
        points = space.points(8)
        assert len(set(points)) == len(points) == 8
        assert points[0] == space.first
        assert all(any(set(choice) <= set(point) for choice in axis) for point in points for axis in space.axes)
        assert [point[:3] for point in space.points(6)] == rates
        assert space.points(16)[:4] == space.points(4)


def test_a_space_that_is_exhausted_has_no_more_points():
    base = (*BASE, "--client_learning_rate=0.3", "--server_learning_rate=0.02")
    greedy = strategies.spaces(base, ["greedy"], num_actions=10)["greedy"]
    assert greedy.points(16) == [(("server_learning_rate", "0.02"), ("client_learning_rate", "0.3"))]
    assert strategies.spaces((*BASE, "--client_learning_rate=0.3"), ["greedy"], 10)["greedy"].size == 8
    assert strategies.spaces((*BASE, "--server_learning_rate=0.02"), ["greedy"], 10)["greedy"].size == 5
    printed = strategies.command(base, "greedy", greedy.first)  # Each flag once.
    assert [printed.count(f"--{rate}") for rate in strategies.RATES] == [1, 1]


def test_parameters_are_in_units_of_the_rewards_and_fit_the_actions():
    spaces = strategies.spaces(BASE, ["softmax", "falcon"], num_actions=200, reward_width=10.0)
    assert dict(spaces["softmax"].first)["bandits_temperature"] == "0.5"
    assert dict(spaces["falcon"].first)["bandits_gamma"] == "100"
    mus = [value for axis in spaces["falcon"].axes for ((flag, value), *_) in axis if flag == "bandits_mu"]
    assert min(map(float, mus)) == 199
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
    assert spaces["softmax"].point_of(runs[0]) == spaces["softmax"].first
    assert runs[0].settings.total_rounds == 40


def test_edges_are_those_of_rates_of_the_same_optimizer(spaces):
    first, averaging = (dict(point) for point in spaces["greedy"].points(2))
    assert spaces["greedy"].edges(tuple((first | {"server_learning_rate": "0.05"}).items())) == ["server_learning_rate"]
    assert spaces["greedy"].edges(tuple(averaging.items())) == []
    assert spaces["greedy"].edges(tuple((averaging | {"server_learning_rate": "0.5"}).items())) != []


def test_the_command_without_acting_trains_on_the_rewards_of_the_data():
    points = {"greedy": (("server_learning_rate", "0.02"), ("client_learning_rate", "0.3"))}
    table = ("--task_type=tabular", "--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")
    assert "--bandits_type=supervised_mse --server_learning_rate=0.02" in strategies.offline_command(
        table, points, False
    )
    log = ("--task_type=logged", "--data_file=log.parquet")
    assert "--learn_from=dr --server_learning_rate=0.02" in strategies.offline_command(log, points, True)
    assert strategies.offline_command((*log, "--cache=persistent"), points, True) == ""


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
