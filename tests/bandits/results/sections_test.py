"""Tests of bandits.results.sections: dynamic regret, by hand. `page_test` has the other sections."""

import dataclasses
import math
import pathlib
import shlex

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from bandits import run_federated
from bandits.environments import Drift
from bandits.results import configuration, configurations, sections
from optimization.study import frame
from optimization.study.results import Run
from tests.bandits.results.tables import rewards_table

REWARD = "reward"


def _shares(rounds, drift=Drift("abrupt", start=3, environments=2)):  # noqa: B008  # It is frozen.
    return drift.shares(rounds, None)


def _regret(rewards, full_feedback, shares=_shares, **unpaired):
    """Regret per round of runs with these rewards in each round, by seed."""
    tables = [pd.DataFrame({"round_num": range(1, len(some) + 1), REWARD: some}) for some in rewards]
    seed_runs = [Run(pathlib.Path(), table, {"seed": seed}, "", {}) for seed, table in enumerate(tables)]
    one = dataclasses.replace(configuration.of_runs("a", seed_runs, [REWARD], {}), **unpaired)
    best = {environment: configuration.of_values("", REWARD, values) for environment, values in full_feedback.items()}
    return sections.regret_per_round(one, REWARD, shares, best)


def test_the_interval_is_students_for_paired_differences():
    # Regrets per round, by seed: 0.25 and 0.5, with mean 0.375 and deviation 0.125 * 2 ** 0.5.
    regret = _regret([[0.5, 0.5, 0.25], [0.25, 0.25, 0.25]], {0: {0: 0.75, 1: 0.75}, 1: {0: 0.5, 1: 0.75}})
    assert regret == pytest.approx((0.375, 0.375 - 12.7062 * 0.125, 0.375 + 12.7062 * 0.125, 2), abs=1e-4)


def test_the_interval_is_welchs_without_pairs():
    rewards, best = [[0.5, 0.25, 0.5], [0.25, 0.5, 0.0], [0.75, 0.5, 0.25]], {4: 0.75, 5: 1.0}
    regret = _regret(rewards, {0: best, 1: best}, unpaired=True)
    means = np.mean(rewards, axis=1)
    first, second = np.var([0.75, 1.0], ddof=1) / 2, np.var(means, ddof=1) / 3
    freedom = (first + second) ** 2 / (first**2 / 1 + second**2 / 2)
    expected = stats.t.interval(0.95, freedom, 0.875 - means.mean(), (first + second) ** 0.5)
    assert regret == pytest.approx((0.875 - means.mean(), *expected, 2))


def test_between_environments_the_reference_is_the_mixture_of_their_baselines():
    linear = Drift("linear", start=2, rounds=4, environments=2)
    regret = _regret([[0.5] * 6], {0: {0: 1.0}, 1: {0: 0.5}}, lambda rounds: _shares(rounds, linear))
    # The references are 1, 0.875, 0.75, 0.625, 0.5 and 0.5.
    assert (regret.mean, regret.size) == (pytest.approx((0.5 + 0.375 + 0.25 + 0.125) / 6), 1)
    assert math.isnan(regret.low)  # One seed has no interval.


@pytest.mark.parametrize(
    ("rewards", "full_feedback"),
    [
        ([[0.5, 0.5]], {0: {3: 1.0}}),  # No common finished seed.
        ([[math.nan, math.nan]], {0: {0: 1.0}}),
        ([[0.5, 0.5]], {0: {0: math.nan}}),
        ([[0.5, 0.5, 0.5]], {0: {0: 1.0}}),  # No baseline of the second environment.
    ],
)
def test_without_a_common_seed_or_a_baseline_there_is_no_regret(rewards, full_feedback):
    assert _regret(rewards, full_feedback) is None


def test_rounds_count_that_all_seeds_finished_and_one_without_a_reward_counts_as_the_mean_of_the_others():
    one = _regret([[0.5, math.nan, 0.5, 0.25]], {0: {0: 1.0}, 1: {0: 0.5}})
    assert one.mean == pytest.approx((0.5 + 0.0 + 0.25) / 3)
    both = {0: 1.0, 1: 1.0}
    assert _regret([[0.5, 0.5, 0.0], [0.5, 0.5]], {0: both, 1: both}).mean == pytest.approx(0.5)


DRIFT = ("--scenario=drift", "--total_rounds=4")
MODULE = "bandits.run_federated"


def _finished(rewards, *arguments, seeds=1):
    """Runs with these rewards, and with the flags and the command of real ones."""
    finished = []
    for seed in range(seeds):
        words = [*DRIFT, *arguments, f"--seed={seed}"]
        settings = run_federated.STUDY.resolve(frame.flag_set(run_federated.STUDY).parse([MODULE, *words]))
        command = shlex.join(["./scripts/python", "-m", MODULE, *words])
        finished.append(Run(pathlib.Path(f"runs/{seed}"), rewards_table(rewards), dict(settings), command, {}))
    return finished


def _baseline(reward, environment, *arguments, **how):
    rewards = [0.0, 0.0, 0.0, reward]  # The last tenth of four rounds is the last round.
    return _finished(rewards, "--bandits_type=supervised_mse", f"--drift_environment={environment}", *arguments, **how)


def _section(*finished):
    (part,) = configurations.comparable([run for group in finished for run in group])
    (section,) = sections.dynamic_regret(part)
    return section


SOFTMAX = (0.5, 0.75, 0.125, 0.25)  # The rewards change in round 3.


@pytest.mark.parametrize(
    ("arguments", "total"),
    [
        ((), (0.875 - 0.5) + (0.875 - 0.75) + (0.625 - 0.125) + (0.625 - 0.25)),
        # With a persistent cache, the environment of round 1, in which clients acted, gives all rewards.
        (("--cache=persistent", "--bandits_deploy_freq=4"), 4 * 0.875 - sum(SOFTMAX)),
    ],
)
def test_the_section_compares_each_round_with_its_baseline(arguments, total):
    section = _section(_finished(SOFTMAX, *arguments), _baseline(0.875, 0, *arguments), _baseline(0.625, 1, *arguments))
    (row,) = section.rows
    assert [getattr(cell, "value", cell) for cell in row[1:]] == [4, 1, total, total / 4]


def test_a_baseline_of_another_environment_cohort_or_seed_does_not_count():
    for other in ("--environment_seed=1", "--clients_per_round=3"):
        section = _section(_finished(SOFTMAX), _baseline(1.0, 0), _baseline(1.0, 1, other))
        assert section.rows == []
        assert " needs the full-feedback baseline of environment 1: run the same command with" in section.notes[0]
    section = _section(_finished(SOFTMAX), _baseline(1.0, 0, seeds=2), _baseline(1.0, 1, seeds=2)[1:])
    assert "it shares no seed with the full-feedback baselines" in section.notes[0]
