"""Tests of scores over several tasks in bandits.results.baselines."""

import math

import numpy as np
import pytest
from rliable import library, metrics

from bandits.results import baselines
from bandits.results.configuration import Baseline, ReferenceValue
from tests.bandits.results.tables import REWARD, configuration

REWARDS = np.random.default_rng(5).normal([0.4, 0.7], 0.05, (8, 2))  # [seeds, tasks]
BOUNDS = ((0.1, {0: 0.89, 1: 0.9, 2: 0.91}), ({0: 0.2, 1: 0.21, 2: 0.19}, {0: 0.79, 1: 0.8, 2: 0.81}))
FIVE = dict.fromkeys(range(5), 0.5)
NORMAL = (REWARDS - [0.1, 0.2]) / [0.8, 0.6]


def _results(task, rewards, *baselines):
    """Results of a task's configurations, which share their uniform policy and full-feedback baseline."""
    known = {
        baseline: configuration("", one) if isinstance(one, dict) else ReferenceValue("", one)
        for baseline, one in zip((Baseline.uniform_policy, Baseline.full_feedback), baselines, strict=True)
    }
    return [(task, configuration(name, values), known) for name, values in rewards.items()]


def _two(more=lambda task: {}, bounds=BOUNDS):
    """Results of two tasks, and what further configurations each has."""
    return [
        result
        for task in range(2)
        for result in _results(f"task {task}", {"arm": REWARDS[:, task].tolist()} | more(task), *bounds[task])
    ]


def _over(results, better="up"):
    return baselines.over_tasks(results, REWARD, better)


def test_the_score_and_its_interval_are_rliables_of_normalized_numbers():
    found = _over(_two())
    one = found.scores["arm"]
    assert one.mean == pytest.approx(metrics.aggregate_iqm(NORMAL), rel=1e-9)
    np.random.seed(0)  # rliable samples from the global generator.
    _, ends = library.get_interval_estimates(
        {"arm": NORMAL}, lambda scores: np.array([metrics.aggregate_iqm(scores)]), reps=2000
    )
    np.testing.assert_allclose([one.low, one.high], ends["arm"].ravel(), rtol=1e-12)
    assert (found.tasks, found.seeds, found.left_out) == (("task 0", "task 1"), {"arm": 8}, ())


@pytest.mark.parametrize(
    ("rewards", "bounds", "printed"),
    [
        (
            {"arm": {0: 0.5, 1: 0.6}},
            ({0: 0.1, 1: 0.5}, {0: 0.4, 1: 0.9}),
            "task 2: no score, as 0.3 (-2.241 to 2.841) for the uniform policy is not clearly worse than 0.65 (",
        ),
        (
            {"arm": {0: 0.5, 1: 0.6}, "often": {0: 0.91, 1: 0.92}},
            (0.1, 0.8),
            "task 2: often is above the full-feedback baseline, which may have been deployed less often",
        ),
        (
            {"arm": {0: 0.5, 1: 0.6}},
            (0.1, {0: 0.8, 1: 0.81, 2: math.nan}),
            "task 2: the full-feedback baseline diverged with seed 2",
        ),
    ],
)
def test_a_task_whose_baselines_set_no_scale_is_named_and_left_out(rewards, bounds, printed):
    found = _over([*_two(), *_results("task 2", rewards, *bounds)])
    assert found.scores == _over(_two()).scores
    assert found.left_out[0].startswith(printed)


def test_one_task_has_no_score_over_tasks():
    found = _over(_two(bounds=(BOUNDS[0], (0.8, BOUNDS[1][1]))))
    assert (found.scores, found.left_out[-1]) == ({}, "fewer than two tasks are left")


@pytest.mark.parametrize(
    ("other", "printed"),
    [
        (lambda task: {**FIVE, 1: math.nan if task else 0.5}, "task 1: other diverged with seed 1"),
        (lambda task: dict.fromkeys(range(4), 0.5) if task else FIVE, "fewer than 5 seeds: other"),
    ],
)
def test_a_configuration_that_cannot_be_judged_on_a_task_is_named_and_left_out(other, printed):
    found = _over(_two(lambda task: {"other": other(task)}))
    assert list(found.scores) == ["arm"]
    assert found.left_out == (printed, "other has no score on task 1")


def test_where_less_is_better_scores_rise_from_the_uniform_policy_to_full_feedback():
    rewards = {"arm": dict.fromkeys(range(5), 3.0)}
    results = [result for task in "ab" for result in _results(task, rewards, 4.0, {0: 2.0, 1: 2.0})]
    assert _over(results, "down").scores["arm"].mean == 0.5


@pytest.mark.parametrize("results", [[], _two()[:1], [*_two()[:1], *_results("other", {"b": [0.1]}, 0.0, 1.0)]])
def test_without_a_configuration_on_two_tasks_there_is_no_score(results):
    assert _over(results) is None


def test_the_interquartile_mean_by_hand():
    # Of eight numbers the middle four.
    scores = {"arm": [[9.0, 1, 2, 3], [4, 5, 6, -9]]}
    state = np.random.get_state()[1].copy()
    estimates = baselines.interquartile_means(scores)
    assert (estimates["arm"].mean, estimates["arm"].size) == (3.5, 8)
    assert estimates == baselines.interquartile_means(scores)
    assert (np.random.get_state()[1] == state).all()
