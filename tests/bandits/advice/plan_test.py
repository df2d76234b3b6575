"""Search spaces of strategies, and plans that fit into the time."""

import dataclasses
import itertools

import pytest

from bandits.advice import plan as planning
from bandits.advice.plan import FULL_FEEDBACK, SEARCH, STRATEGIES, UNIFORM, Plan
from bandits.plans.estimate import Pace
from data.errors import UsageError

PACE = Pace(round_seconds=0.1, run_seconds=2.0, point_seconds=3.0, workers=2)
FULL = Plan(rounds=100, deploy_every=10)


def test_each_rung_of_a_search_halves_the_points():
    plan = dataclasses.replace(FULL, points=8, tuning_seeds=2)
    assert plan.rungs == [25, 50, 100]  # Not before two deployments.
    assert len(plan.configurations) == 6
    runs = 6 * 2 * (8 + 4 + 2)
    assert dataclasses.replace(FULL, points=16, deploy_every=51).rungs == [100]
    assert plan.work(SEARCH) == (6 * 8, runs, 6 * 2 * (8 * 25 + 4 * 25 + 2 * 50))


def test_each_stage_runs_its_configurations_on_its_seeds():
    assert FULL.work(planning.COMPARE) == (0, 48, 4800)
    assert FULL.work(planning.CONFIRM) == (0, 8, 800)
    assert FULL.work(planning.NOISE) == (4, 16, 1600)
    # A round of clients alone takes as long as several.
    assert dataclasses.replace(FULL, alone_rounds=5).work(planning.FEDERATE) == (2, 8, 4 * 100 * 6)
    for name, stage in (("federation_seeds", planning.FEDERATE), ("epsilons", planning.NOISE), ("seeds", "compare")):
        assert dataclasses.replace(FULL, **{name: 0}).work(stage) == (0, 0, 0)
    one_point = dataclasses.replace(FULL, points=1)
    assert [one_point.work(stage) for stage in (SEARCH, planning.COMPARE)] == [(0, 0, 0), (4, 48, 4800)]


def test_a_search_that_was_doubled_keeps_its_rungs_and_is_not_cut_short():
    plan = dataclasses.replace(FULL, rounds=400, doublings=2)
    assert plan.rungs == FULL.rungs
    assert plan.work(planning.COMPARE).rounds == 4 * FULL.work(planning.COMPARE).rounds
    assert not plan.is_cut_short(FULL)
    assert planning.left_out(FULL, plan) == []


def test_a_plan_keeps_to_its_time_and_more_time_adds_without_leaving_out():
    plans = {seconds: planning.fitted(FULL, PACE, seconds) for seconds in range(40, 4000, 40)}
    for seconds, plan in plans.items():
        assert plan.seconds(PACE) <= seconds
        assert plan.configurations[:2] == STRATEGIES[:2]
        assert plan.seeds >= 2
        # Other questions come after a full search for every strategy.
        if plan.epsilons or plan.federation_seeds or UNIFORM in plan.configurations:
            assert not plan.is_cut_short(FULL)
            assert {*STRATEGIES} <= {*plan.configurations}
    for less, more in itertools.pairwise(plans.values()):
        for field in dataclasses.fields(Plan):
            one, other = getattr(less, field.name), getattr(more, field.name)
            assert len(one) <= len(other) if isinstance(one, tuple) else one <= other, field.name
    assert plans[3960] == FULL == planning.fitted(FULL, PACE, FULL.seconds(PACE))
    assert planning.left_out(FULL, FULL) == []


def test_long_runs_get_fewer_rounds():
    pace = Pace(round_seconds=5.0, run_seconds=3.0, point_seconds=10.0, workers=2)
    plan = planning.fitted(FULL, pace, 120)
    assert plan.seconds(pace) <= 120
    assert plan.configurations == STRATEGIES[:2]
    left = planning.left_out(FULL, plan)
    assert left[:2] == ["softmax, FALCON, uniform policy and full feedback", f"{100 - plan.rounds} of 100 rounds"]
    assert planning.fitted(FULL, pace, FULL.seconds(pace)) == FULL
    slow = dataclasses.replace(pace, round_seconds=1000.0)
    assert planning.fitted(FULL, slow, 1.0).rounds == 1
    # Rounds take as long as the start of a run, with two compiled configurations.
    assert planning.fitted(FULL, dataclasses.replace(slow, round_seconds=0.1), 1.0).rounds == 30


def test_finished_stages_stay_as_they_were():
    finished = dataclasses.replace(FULL, points=8, tuning_seeds=2, configurations=STRATEGIES)
    left = [*planning.STAGES][1:]
    for seconds in (10, 100, 1000):
        plan = planning.fitted(finished, PACE, seconds, left)
        assert (plan.points, plan.tuning_seeds, plan.configurations, plan.rounds) == (8, 2, STRATEGIES, 100)
        assert plan.seconds(PACE, left) <= max(seconds, planning.fitted(finished, PACE, 0, left).seconds(PACE, left))


@pytest.mark.parametrize("less", [{"points": 4}, {"seeds": 4}, {"rounds": 99}])
def test_a_search_is_cut_short_if_a_strategy_has_few_points_seeds_or_rounds(less):
    assert dataclasses.replace(FULL, **less).is_cut_short(FULL)
    assert not dataclasses.replace(FULL, points=8, seeds=6, epsilons=0).is_cut_short(FULL)
    nothing_to_search = dataclasses.replace(FULL, points=1)
    assert not nothing_to_search.is_cut_short(nothing_to_search)


BASE = ("--task_type=digits", "--total_rounds=40")


def test_searches_of_all_strategies_try_the_same_rates_and_begin_with_the_defaults():
    spaces = planning.spaces(BASE, (*STRATEGIES, UNIFORM, FULL_FEEDBACK), num_actions=10)
    rates = [[*point.items()][:3] for point in spaces["greedy"].points(6)]
    assert [[value for _, value in point[:2]] for point in rates[:2]] == [["adam", "0.01"], ["sgd", "1"]]
    for space in spaces.values():
        points = space.points(8)
        assert len({tuple(point.items()) for point in points}) == len(points) == 8
        assert points[0] == space.tried_first[0]
        assert all(any(choice.items() <= point.items() for choice in axis) for point in points for axis in space.axes)
        assert [[*point.items()][:3] for point in space.points(6)] == rates
        assert space.points(16)[:4] == space.points(4)


def test_rates_that_are_given_are_not_searched():
    base = (*BASE, "--client_learning_rate=0.3", "--server_learning_rate=0.02")
    greedy = planning.spaces(base, ["greedy"], num_actions=10)["greedy"]
    assert greedy.points(16) == [{"server_learning_rate": "0.02", "client_learning_rate": "0.3"}]
    assert [planning.spaces((*BASE, flag), ["greedy"], 10)["greedy"].size for flag in base[-2:]] == [8, 5]
    printed = planning.command(base, "greedy", greedy.tried_first[0])  # Each flag once.
    assert [printed.count(f"--{rate}") for rate in planning.RATES] == [1, 1]


def test_parameters_are_in_units_of_the_rewards_and_fit_the_actions():
    spaces = planning.spaces(BASE, ["softmax", "falcon"], num_actions=200, reward_width=10.0)
    assert spaces["softmax"].tried_first[0]["bandits_temperature"] == "0.5"
    default = spaces["falcon"].tried_first[0]
    assert (default["bandits_gamma"], default["bandits_mu"]) == ("100", "199")
    mus = [choice["bandits_mu"] for axis in spaces["falcon"].axes for choice in axis if "bandits_mu" in choice]
    assert sorted(map(float, mus)) == [199, 300]


def test_runs_that_end_early_have_the_same_environment():
    late = ("--cache=persistent", "--reward_delay=uniform", "--bandits_deploy_freq=10")
    base = planning.with_environment((*BASE, "--scenario=drift", *late))
    assert base == (*BASE, "--scenario=drift", *late, "--drift_start=21", "--delay_rounds=5")
    assert planning.with_environment(base) == base
    assert planning.with_environment(BASE) == BASE
    (whole,) = planning.runs(base, "greedy", {}, planning.SEED, 1)
    assert whole.at_rounds(10).settings.drift_start == 21


def test_the_command_without_acting_trains_on_the_rewards_of_the_data():
    points = {"greedy": {"server_learning_rate": "0.02", "client_learning_rate": "0.3"}}
    table = ("--data_file=sklearn_wine.csv", "--client_column=cellar", "--label_column=cultivar")
    shown = planning.offline_command(("--task_type=tabular", *table), points, False)
    assert "--bandits_type=supervised_mse --server_learning_rate=0.02" in shown
    log = ("--task_type=logged", "--data_file=log.parquet")
    assert "--learn_from=dr --server_learning_rate=0.02" in planning.offline_command(log, points, True)
    assert planning.offline_command((*log, "--cache=persistent"), points, True) == ""


@pytest.mark.slow
def test_full_feedback_is_left_out_if_a_flag_applies_to_bandits_only():
    assert FULL_FEEDBACK in planning.check((*BASE, "--scenario=init_shift"))
    assert FULL_FEEDBACK not in planning.check((*BASE, "--log_interactions"))
    with pytest.raises(UsageError, match="--client_batch_size"):
        planning.check((*BASE, "--client_batch_size=0"))
