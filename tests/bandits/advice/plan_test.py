"""What is searched of each strategy, and how much fits into the time."""

import dataclasses
import itertools

import pytest

from bandits.advice import plan as planning
from bandits.advice.plan import FULL_FEEDBACK, SEARCH, STRATEGIES, UNIFORM, Plan
from bandits.plans.estimate import Pace, Work
from data.errors import UsageError

PACE = Pace(round_seconds=0.1, run_seconds=2.0, point_seconds=3.0, workers=2)
FULL = Plan(rounds=100, deploy_every=10, often=1)


def test_a_search_plays_every_point_at_first_and_half_of_them_at_each_further_rung():
    plan = dataclasses.replace(FULL, points=8, tuning_seeds=2)
    assert plan.rungs == [25, 50, 100]  # Not before two deployments.
    assert len(plan.configurations) == 6
    runs = 6 * 2 * (8 + 4 + 2)
    assert dataclasses.replace(FULL, points=16, deploy_every=51).rungs == [100]
    assert plan.work(SEARCH) == (6 * 8, runs, 6 * 2 * (8 * 25 + 4 * 25 + 2 * 50))


def test_each_stage_runs_its_configurations_on_its_seeds():
    assert FULL.work(planning.COMPARE) == (0, 48, 4800)
    assert FULL.work(planning.CONFIRM) == (0, 8, 800)
    assert FULL.work(planning.FREQUENT) == (2, 16, 1600)
    assert FULL.work(planning.NOISE) == (4, 16, 1600)
    # A round of clients alone takes as long as several.
    assert dataclasses.replace(FULL, alone_rounds=5).work(planning.FEDERATE) == (2, 8, 4 * 100 * 6)
    for name, stage in (
        ("frequent_seeds", planning.FREQUENT),
        ("federation_seeds", planning.FEDERATE),
        ("epsilons", planning.NOISE),
    ):
        assert dataclasses.replace(FULL, **{name: 0}).work(stage) == (0, 0, 0)
    assert dataclasses.replace(FULL, points=1).work(SEARCH) == (0, 0, 0)
    assert dataclasses.replace(FULL, points=1).work(planning.COMPARE) == (4, 48, 4800)


def test_a_search_that_was_doubled_keeps_its_rungs_and_is_not_cut_short():
    plan = dataclasses.replace(FULL, rounds=400, doublings=2)
    assert plan.rungs == FULL.rungs
    assert plan.work(planning.COMPARE).rounds == 4 * FULL.work(planning.COMPARE).rounds
    assert not plan.is_cut_short(FULL)
    assert planning.left_out(FULL, plan) == []


def test_runs_share_the_workers_and_each_worker_compiles_each_point():
    assert PACE.seconds(Work(points=2, runs=4, rounds=100)) == pytest.approx(1.1 * (2 * 3 + (4 * 2 + 10) / 2))


def test_a_plan_keeps_to_its_time_and_more_time_leaves_out_nothing_that_less_time_has():
    plans = [planning.fitted(FULL, PACE, seconds) for seconds in range(30, 4000, 60)]
    for plan, seconds in zip(plans, range(30, 4000, 60), strict=True):
        assert plan.seconds(PACE) <= seconds
        assert plan.strategies[:2] == STRATEGIES[:2]
        assert plan.seeds >= 2
    for less, more in itertools.pairwise(plans):
        for field in dataclasses.fields(Plan):
            one, other = getattr(less, field.name), getattr(more, field.name)
            assert len(one) <= len(other) if isinstance(one, tuple) else one <= other, field.name
    assert plans[-1] == FULL == planning.fitted(FULL, PACE, FULL.seconds(PACE))
    assert planning.left_out(FULL, FULL) == []


def test_each_strategy_has_the_budget_of_a_verdict_before_any_other_question():
    for seconds in range(60, 4000, 20):
        plan = planning.fitted(FULL, PACE, seconds)
        if plan.frequent_seeds or plan.epsilons or plan.federation_seeds or plan.has_uniform:
            assert not plan.is_cut_short(FULL)
            assert plan.strategies == FULL.strategies


def test_where_runs_are_too_long_they_are_cut_and_the_time_of_the_full_plan_is_known():
    pace = Pace(round_seconds=5.0, run_seconds=3.0, point_seconds=10.0, workers=2)
    plan = planning.fitted(FULL, pace, 120)
    assert plan.rounds < 100
    assert plan.seconds(pace) <= 120
    assert plan.strategies == ("greedy", "epsilon_greedy_unweight")
    left = planning.left_out(FULL, plan)
    assert left[0] == f"rounds after the first {plan.rounds} of 100"
    assert left[1] == "softmax and FALCON"
    assert planning.fitted(FULL, pace, 60 * planning.minutes_of_all(FULL, pace)) == FULL


def test_rounds_are_not_cut_to_less_than_what_is_beside_them():
    slow = Pace(round_seconds=1000.0, run_seconds=3.0, point_seconds=10.0, workers=2)
    assert planning.fitted(FULL, slow, 1.0).rounds == 1
    quick = dataclasses.replace(slow, round_seconds=0.1)
    assert planning.fitted(FULL, quick, 1.0).rounds == 30  # As long as the start of a run, of two compiled arms.


def test_finished_stages_stay_as_they_were():
    finished = dataclasses.replace(FULL, points=8, tuning_seeds=2, has_full_feedback=False)
    left = [*planning.STAGES][1:]
    for seconds in (10, 100, 1000):
        plan = planning.fitted(finished, PACE, seconds, left)
        assert (plan.points, plan.tuning_seeds, plan.strategies, plan.rounds) == (8, 2, finished.strategies, 100)
        assert plan.seconds(PACE, left) <= max(seconds, planning.fitted(finished, PACE, 0, left).seconds(PACE, left))


def test_what_is_left_out_is_named():
    plan = dataclasses.replace(FULL, points=1, seeds=4, epsilons=0, frequent_seeds=0, has_uniform=False)
    assert planning.left_out(FULL, plan) == [
        "4 of 8 seeds of the comparison",
        "a model trained by the uniform policy",
        "the hyperparameter search (all settings are defaults)",
        "more frequent deployment",
        "privacy: every run with noise",
    ]


def test_a_search_is_cut_short_if_a_strategy_has_few_points_seeds_or_rounds():
    assert not FULL.is_cut_short(FULL)
    assert not dataclasses.replace(FULL, points=8, seeds=6, epsilons=0).is_cut_short(FULL)
    for less in ({"points": 4}, {"seeds": 4}, {"rounds": 99}):
        assert dataclasses.replace(FULL, **less).is_cut_short(FULL)
    fixed = dataclasses.replace(FULL, points=1)  # Nothing to search.
    assert not fixed.is_cut_short(fixed)


TABLE = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")
BASE = ("--task_type=digits", "--total_rounds=40")


@pytest.fixture(scope="module")
def spaces():
    return planning.spaces(BASE, (*STRATEGIES, UNIFORM, FULL_FEEDBACK), num_actions=10)


def test_a_search_begins_with_the_defaults_stays_in_its_space_and_has_the_rates_of_all_others(spaces):
    rates = [point[:3] for point in spaces["greedy"].points(6)]
    assert [[value for _, value in point[:2]] for point in rates[:2]] == [["adam", "0.01"], ["sgd", "1"]]
    for space in spaces.values():
        points = space.points(8)
        assert len(set(points)) == len(points) == 8
        assert points[0] == space.first
        assert all(any(set(choice) <= set(point) for choice in axis) for point in points for axis in space.axes)
        assert [point[:3] for point in space.points(6)] == rates
        assert space.points(16)[:4] == space.points(4)


def test_a_space_that_is_exhausted_has_no_more_points():
    base = (*BASE, "--client_learning_rate=0.3", "--server_learning_rate=0.02")
    greedy = planning.spaces(base, ["greedy"], num_actions=10)["greedy"]
    assert greedy.points(16) == [(("server_learning_rate", "0.02"), ("client_learning_rate", "0.3"))]
    assert planning.spaces((*BASE, "--client_learning_rate=0.3"), ["greedy"], 10)["greedy"].size == 8
    assert planning.spaces((*BASE, "--server_learning_rate=0.02"), ["greedy"], 10)["greedy"].size == 5
    printed = planning.command(base, "greedy", greedy.first)  # Each flag once.
    assert [printed.count(f"--{rate}") for rate in planning.RATES] == [1, 1]


def test_parameters_are_in_units_of_the_rewards_and_fit_the_actions():
    spaces = planning.spaces(BASE, ["softmax", "falcon"], num_actions=200, reward_width=10.0)
    assert dict(spaces["softmax"].first)["bandits_temperature"] == "0.5"
    assert dict(spaces["falcon"].first)["bandits_gamma"] == "100"
    mus = [value for axis in spaces["falcon"].axes for ((flag, value), *_) in axis if flag == "bandits_mu"]
    assert min(map(float, mus)) == 199
    assert dict(spaces["falcon"].first)["bandits_mu"] == "199"


def test_runs_that_end_early_or_deploy_more_often_are_in_one_environment():
    late = ("--cache=persistent", "--reward_delay=uniform", "--bandits_deploy_freq=10")
    base = planning.with_environment((*BASE, "--scenario=drift", *late))
    assert base == (*BASE, "--scenario=drift", *late, "--drift_start=21", "--delay_rounds=5")
    assert planning.with_environment(base) == base
    assert planning.with_environment(BASE) == BASE
    (whole,) = planning.runs(base, "greedy", (), planning.SEED, 1)
    assert whole.at_rounds(10).settings.drift_start == 21
    (often,) = planning.runs(base, "greedy", (), planning.SEED, 1, "--bandits_deploy_freq=1")
    assert often.settings.delay_rounds == 5


def test_runs_of_a_point_differ_in_their_seed_alone_and_its_name_has_the_parameters(spaces):
    runs = planning.runs(BASE, "softmax", spaces["softmax"].first, planning.SEED, 3)
    assert [run.seed for run in runs] == [2000, 2001, 2002]
    assert len({run.point for run in runs}) == 1
    assert spaces["softmax"].point_of(runs[0]) == spaces["softmax"].first
    assert runs[0].settings.total_rounds == 40
    assert planning.label("falcon", spaces["falcon"].first) == "FALCON (mu 100, gamma 1000)"
    assert planning.label("greedy", spaces["greedy"].first) == "greedy"


def test_edges_are_those_of_rates_of_the_same_optimizer(spaces):
    first, averaging = (dict(point) for point in spaces["greedy"].points(2))
    assert spaces["greedy"].edges(tuple((first | {"server_learning_rate": "0.05"}).items())) == ["server_learning_rate"]
    assert spaces["greedy"].edges(tuple(averaging.items())) == []
    assert spaces["greedy"].edges(tuple((averaging | {"server_learning_rate": "0.5"}).items())) != []


def test_the_command_without_acting_trains_on_the_rewards_of_the_data():
    points = {"greedy": (("server_learning_rate", "0.02"), ("client_learning_rate", "0.3"))}
    shown = planning.offline_command(("--task_type=tabular", *TABLE), points, False)
    assert "--bandits_type=supervised_mse --server_learning_rate=0.02" in shown
    log = ("--task_type=logged", "--data_file=log.parquet")
    assert "--learn_from=dr --server_learning_rate=0.02" in planning.offline_command(log, points, True)
    assert planning.offline_command((*log, "--cache=persistent"), points, True) == ""


@pytest.mark.slow
def test_the_ceiling_goes_with_an_initial_training_but_has_no_log_of_a_bandit():
    assert FULL_FEEDBACK in planning.check((*BASE, "--scenario=init_shift"))
    assert FULL_FEEDBACK not in planning.check((*BASE, "--log_interactions"))
    with pytest.raises(UsageError, match="--client_batch_size"):
        planning.check((*BASE, "--client_batch_size=0"))
