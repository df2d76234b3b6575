"""Tests of bandits.advice.plan."""

import dataclasses
import itertools

import pytest

from bandits.advice import plan as planning
from bandits.advice.plan import COMPARE, CONFIRM, FEDERATE, FREQUENT, NOISE, SEARCH, STAGES, Plan
from bandits.plans.estimate import Pace, Work

PACE = Pace(round_seconds=0.1, run_seconds=2.0, point_seconds=3.0, workers=2)
FULL = Plan(rounds=100, deploy_every=10, often=1)
NAMES = dict.fromkeys(planning.STRATEGIES, "?") | {"falcon": "FALCON", "softmax": "softmax"}


def test_a_search_plays_every_point_at_first_and_half_of_them_at_each_further_rung():
    plan = dataclasses.replace(FULL, points=8, tuning_seeds=2)
    assert plan.rungs == [25, 50, 100]  # Not before two deployments.
    assert len(plan.configurations) == 6
    runs = 6 * 2 * (8 + 4 + 2)
    assert plan.work(SEARCH) == (6 * 8, runs, 6 * 2 * (8 * 25 + 4 * 25 + 2 * 50))


def test_no_point_is_given_up_before_two_deployments():
    assert dataclasses.replace(FULL, points=16, deploy_every=51).rungs == [100]
    assert dataclasses.replace(FULL, points=16, deploy_every=1).rungs == [7, 13, 25, 50, 100]


def test_each_stage_plays_its_arms_on_its_seeds():
    assert FULL.work(COMPARE) == (0, 48, 4800)
    assert FULL.work(CONFIRM) == (0, 8, 800)
    # Two of the four on four seeds more.
    assert FULL.work(FREQUENT) == (4, 40, 4000)
    assert dataclasses.replace(FULL, independent_seeds=0).work(FREQUENT) == (4, 32, 3200)
    assert FULL.work(NOISE) == (4, 16, 1600)
    assert dataclasses.replace(FULL, frequent_all=False).work(FREQUENT) == (2, 24, 2400)
    assert dataclasses.replace(FULL, often=0).work(FREQUENT) == (0, 0, 0)
    # A round of clients alone takes as long as several.
    assert dataclasses.replace(FULL, alone_rounds=5).work(FEDERATE) == (2, 8, 4 * 100 * 6)
    assert dataclasses.replace(FULL, federation_seeds=0).work(FEDERATE) == (0, 0, 0)
    assert dataclasses.replace(FULL, epsilons=0).work(NOISE) == (0, 0, 0)
    assert dataclasses.replace(FULL, points=1).work(SEARCH) == (0, 0, 0)
    assert dataclasses.replace(FULL, points=1).work(COMPARE) == (4, 48, 4800)


def test_runs_share_the_workers_and_each_worker_compiles_each_point():
    assert PACE.seconds(Work(points=2, runs=4, rounds=100)) == pytest.approx(1.1 * (2 * 3 + (4 * 2 + 10) / 2))


@pytest.mark.parametrize("minutes", [0.5, 1, 2, 5, 10, 15, 30, 60, 300])
def test_a_plan_keeps_to_its_time(minutes):
    plan = planning.fitted(FULL, PACE, 60 * minutes)
    assert plan.seconds(PACE) <= 60 * minutes
    assert plan.strategies[0] == planning.GREEDY
    assert len(plan.strategies) >= 2
    assert plan.seeds >= 2


def test_more_time_leaves_out_nothing_that_less_time_plays():
    plans = [planning.fitted(FULL, PACE, seconds) for seconds in range(60, 4000, 60)]
    for less, more in itertools.pairwise(plans):
        for field in dataclasses.fields(Plan):
            one, other = getattr(less, field.name), getattr(more, field.name)
            assert len(one) <= len(other) if isinstance(one, tuple) else one <= other, field.name
    assert plans[-1] == FULL == planning.fitted(FULL, PACE, FULL.seconds(PACE))
    assert planning.left_out(FULL, FULL, NAMES) == []


def test_each_strategy_has_the_budget_of_a_verdict_before_any_other_question():
    for seconds in range(60, 4000, 20):
        plan = planning.fitted(FULL, PACE, seconds)
        if plan.frequent_seeds or plan.epsilons or plan.federation_seeds or plan.has_uniform:
            assert not plan.is_cut_short(FULL)
            assert plan.strategies == FULL.strategies
    assert STAGES.index(NOISE) < STAGES.index(FREQUENT)


def test_where_runs_are_too_long_they_are_cut_and_the_time_of_the_full_plan_is_known():
    pace = Pace(round_seconds=5.0, run_seconds=3.0, point_seconds=10.0, workers=2)
    plan = planning.fitted(FULL, pace, 120)
    assert plan.rounds < 100
    assert plan.seconds(pace) <= 120
    assert plan.strategies == ("greedy", "epsilon_greedy_unweight")
    left = planning.left_out(FULL, plan, NAMES)
    assert left[0] == f"rounds after the first {plan.rounds} of 100"
    assert left[1] == "softmax and FALCON"
    assert planning.fitted(FULL, pace, 60 * planning.minutes_of_all(FULL, pace)) == FULL


def test_rounds_are_not_cut_to_less_than_what_is_beside_them():
    slow = Pace(round_seconds=1000.0, run_seconds=3.0, point_seconds=10.0, workers=2)
    assert planning.fitted(FULL, slow, 1.0).rounds == 1
    quick = Pace(round_seconds=0.1, run_seconds=3.0, point_seconds=10.0, workers=2)
    assert planning.fitted(FULL, quick, 1.0).rounds == 30  # As long as the start of a run, of two compiled arms.


def test_finished_stages_stay_as_they_were():
    finished = dataclasses.replace(FULL, points=8, tuning_seeds=2, has_full_feedback=False)
    left = STAGES[1:]
    for seconds in (10, 100, 1000):
        plan = planning.fitted(finished, PACE, seconds, left)
        assert (plan.points, plan.tuning_seeds, plan.strategies, plan.rounds) == (8, 2, finished.strategies, 100)
        assert plan.seconds(PACE, left) <= max(seconds, planning.fitted(finished, PACE, 0, left).seconds(PACE, left))


def test_what_is_left_out_is_named():
    plan = dataclasses.replace(
        FULL, points=1, seeds=4, epsilons=0, frequent_seeds=0, independent_seeds=2, has_uniform=False
    )
    printed = planning.left_out(FULL, plan, NAMES)
    assert printed == [
        "4 of 8 seeds of the comparison",
        "a model trained by the uniform policy",
        "the hyperparameter search (all settings are defaults)",
        "2 of 4 independent seeds",
        "more frequent deployment",
        "privacy: every run with noise",
    ]


def test_the_plan_is_described_by_stage_in_words_of_one_and_of_many():
    lines = planning.described(dataclasses.replace(FULL, epsilons=0), PACE)
    assert [line.split()[0] for line in lines] == list(STAGES)
    assert "6 searches of 16 hyperparameter settings, 2 seeds" in lines[0]
    assert "left out" in lines[STAGES.index(NOISE)]
    one = planning.described(dataclasses.replace(FULL, epsilons=1), PACE)
    assert one[4].endswith("4 configurations deployed every round, 8 seeds; the best and greedy, 4 independent seeds")
    assert one[3].endswith("1 epsilon, 4 seeds")
    many = planning.described(dataclasses.replace(FULL, often=5), PACE)
    assert "4 configurations deployed every 5 rounds, 8 seeds" in many[4]
    assert many[3].endswith("3 epsilons, 4 seeds")
    assert [planning.at_a_time(workers) for workers in (1, 2)] == ["1 run at a time", "2 runs at a time"]


def test_a_search_is_cut_short_if_a_strategy_has_few_points_seeds_or_rounds():
    assert not FULL.is_cut_short(FULL)
    assert not dataclasses.replace(FULL, points=8, seeds=6, epsilons=0).is_cut_short(FULL)
    for less in ({"points": 4}, {"seeds": 4}, {"rounds": 99}):
        assert dataclasses.replace(FULL, **less).is_cut_short(FULL)
    fixed = dataclasses.replace(FULL, points=1)  # Nothing to search.
    assert not fixed.is_cut_short(fixed)
