"""Tests of bandits.results.dynamic_regret: sums by hand."""

import dataclasses
import math
import pathlib
import shlex

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, run_federated
from bandits.environments import Drift
from bandits.results import configuration, configurations, dynamic_regret, runs
from bandits.results.dynamic_regret import EnvironmentSchedule, Segment
from optimization.study import frame
from optimization.study.results import Run

REWARD = "reward"
ABRUPT = EnvironmentSchedule(Drift("abrupt", start=3, environments=2), lambda rounds: rounds)


def _runs(*rewards):
    """Returns a run a seed, of these rewards a round."""
    return [
        Run(pathlib.Path(), pd.DataFrame({"round_num": range(1, len(some) + 1), REWARD: some}), {"seed": seed}, "", {})
        for seed, some in enumerate(rewards)
    ]


def _regret(rewards, full_feedback, schedule=ABRUPT, better=None, **unpaired):
    one = dataclasses.replace(configuration.of_runs("a", _runs(*rewards), [REWARD]), **unpaired)
    best = {environment: configuration.of_values("", REWARD, values) for environment, values in full_feedback.items()}
    return dynamic_regret.of_configuration(one, REWARD, schedule, best, better)


def test_each_round_is_compared_with_the_baseline_of_its_environment():
    # 0.875 twice, then 0.625 three times, less 0.5, 0.75, 0.125, 0.25 and 0.625.
    regret = _regret([[0.5, 0.75, 0.125, 0.25, 0.625]], {0: {0: 0.875}, 1: {0: 0.625}})
    assert regret.total.mean == pytest.approx(0.375 + 0.125 + 0.5 + 0.375 + 0.0, abs=1e-12)
    assert (regret.rounds, regret.a_round.mean, regret.a_round.size) == (5, pytest.approx(0.275), 1)
    assert math.isnan(regret.total.low)  # One seed has no interval.
    segments = [(segment, mean.mean, end.mean) for segment, mean, end in regret.segments]
    assert segments == [(Segment(1, 2, (0,)), 0.25, 0.125), (Segment(3, 5, (1,)), pytest.approx(0.875 / 3), 0.0)]


def test_the_interval_is_students_of_paired_differences():
    # Regrets of a round, by seed: 0.25 and 0.5, whose mean is 0.375 and deviation 0.125 * 2 ** 0.5.
    regret = _regret([[0.5, 0.5, 0.25], [0.25, 0.25, 0.25]], {0: {0: 0.75, 1: 0.75}, 1: {0: 0.5, 1: 0.75}})
    assert regret.a_round == pytest.approx((0.375, 0.375 - 12.7062 * 0.125, 0.375 + 12.7062 * 0.125, 2), abs=1e-4)
    assert regret.total == pytest.approx((1.125, *(3 * end for end in regret.a_round[1:3]), 2))


def test_without_pairs_it_is_welchs():
    from scipy import stats

    rewards, best = [[0.5, 0.25, 0.5], [0.25, 0.5, 0.0], [0.75, 0.5, 0.25]], {4: 0.75, 5: 1.0}
    regret = _regret(rewards, {0: best, 1: best}, unpaired=True)
    means = np.mean(rewards, axis=1)
    first, second = np.var([0.75, 1.0], ddof=1) / 2, np.var(means, ddof=1) / 3
    freedom = (first + second) ** 2 / (first**2 / 1 + second**2 / 2)
    expected = stats.t.interval(0.95, freedom, 0.875 - means.mean(), (first + second) ** 0.5)
    assert regret.a_round == pytest.approx((0.875 - means.mean(), *expected, 2))


def test_between_environments_the_mixture_of_their_baselines_counts():
    linear = EnvironmentSchedule(Drift("linear", start=2, rounds=4, environments=2), lambda rounds: rounds)
    regret = _regret([[0.5] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, linear)
    # Ceilings 1, 0.875, 0.75, 0.625, 0.5, 0.5.
    assert regret.total.mean == pytest.approx(0.5 + 0.375 + 0.25 + 0.125)
    assert [segment for segment, *_ in regret.segments] == [
        Segment(1, 1, (0,)),
        Segment(2, 4, (0, 1)),
        Segment(5, 6, (1,)),
    ]
    assert regret.segments[1][1].mean == pytest.approx(0.25)


def test_rewards_of_a_persistent_cache_belong_to_the_environment_of_the_action():
    kept = EnvironmentSchedule(Drift("abrupt", start=3, environments=2), lambda rounds: rounds - (rounds - 1) % 4)
    regret = _regret([[0.0] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, kept)
    assert [segment for segment, *_ in regret.segments] == [Segment(1, 4, (0,)), Segment(5, 6, (1,))]
    assert regret.total.mean == 5.0


def test_a_round_without_a_reward_counts_as_the_mean_of_the_others():
    regret = _regret([[0.5, math.nan, 0.5, 0.25]], {0: {0: 1.0}, 1: {0: 0.5}})
    assert regret.a_round.mean == pytest.approx((0.5 + 0.0 + 0.25) / 3)
    assert regret.total.mean == pytest.approx(0.75 / 3 * 4)


def test_only_rounds_that_all_seeds_have_finished_count():
    best = {0: 1.0, 1: 1.0}
    regret = _regret([[0.5, 0.5, 0.0], [0.5, 0.5]], {0: best, 1: best})
    assert (regret.rounds, regret.total.mean) == (2, 1.0)


def test_without_a_common_finished_seed_there_is_no_regret():
    assert _regret([[0.5, 0.5]], {0: {3: 1.0}}) is None
    assert _regret([[math.nan, math.nan]], {0: {0: 1.0}}) is None
    assert _regret([[0.5, 0.5]], {0: {0: math.nan}}) is None


DRIFT = ("--scenario=drift", "--total_rounds=4")
MODULE = "bandits.run_federated"


def _finished(rewards, *arguments, seeds=1):
    """Returns runs of these rewards, with the flags and the command of real ones."""
    finished = []
    for seed in range(seeds):
        words = [*DRIFT, *arguments, f"--seed={seed}"]
        settings = run_federated.STUDY.resolve(frame.flag_set(run_federated.STUDY).parse([MODULE, *words]))
        table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
        table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
        command = shlex.join(["./scripts/python", "-m", MODULE, *words])
        finished.append(runs.Run(pathlib.Path(f"runs/{len(finished)}"), table, dict(settings), command, {}))
    return finished


def _baseline(reward, environment, *arguments, **how):
    rewards = [0.0, 0.0, 0.0, reward]  # Its end counts: of four rounds the last.
    return _finished(rewards, "--bandits_type=supervised_mse", f"--drift_world={environment}", *arguments, **how)


def _part(*finished) -> configurations.ComparableRuns:
    (part,) = configurations.comparable([run for group in finished for run in group])
    return part


def _notes(part):
    """Notes of a section without a regret."""
    (section,) = dynamic_regret.sections(part)
    assert section.rows == ()
    return section.notes


SOFTMAX = (0.5, 0.75, 0.125, 0.25)  # The rewards change in round 3.


def test_the_section_compares_each_round_with_its_baseline():
    part = _part(_finished(SOFTMAX), _baseline(0.875, 0), _baseline(0.625, 1))
    ((one, *_, regret),) = dynamic_regret.results(part)
    assert one.flags["bandits_type"] == "softmax"
    assert regret.total.mean == (0.875 - 0.5) + (0.875 - 0.75) + (0.625 - 0.125) + (0.625 - 0.25)
    (section,) = dynamic_regret.sections(part)
    assert section.title == "Dynamic regret to 2 full-feedback baselines"
    assert [[getattr(cell, "value", cell) for cell in row[1:]] for row in section.rows] == [
        ["1 to 4", "all", 1, 1.375, 0.34375, None],
        ["1 to 2", "0", None, None, 0.25, 0.125],
        ["3 to 4", "1", None, None, 0.4375, 0.375],
    ]


@pytest.mark.parametrize("other", ["--world_seed=1", "--drift_start=2", "--clients_per_round=3", "--drift_every=2"])
def test_a_baseline_of_another_environment_or_cohort_does_not_count(other):
    part = _part(_finished(SOFTMAX), _baseline(1.0, 0), _baseline(1.0, 1, other))
    (message,) = _notes(part)
    assert " needs the full-feedback baseline of environment 1: run the same with" in message


def test_baselines_of_other_seeds_do_not_count():
    part = _part(_finished(SOFTMAX), _baseline(1.0, 0, seeds=2), _baseline(1.0, 1, seeds=2)[1:])
    message = "softmax has no dynamic regret: it shares no seed with the full-feedback baseline of each environment."
    assert _notes(part) == [message]
