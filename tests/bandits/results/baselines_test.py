"""Tests of bandits.results.baselines."""

import math

import numpy as np
import pytest
from rliable import library, metrics

from bandits.results import baselines
from bandits.results.configuration import Baseline, ReferenceValue
from tests.bandits.results.tables import REWARD, configuration

CHANCE = {0: 0.10, 1: 0.11, 2: 0.09, 3: 0.10}
CEILING = {0: 0.90, 1: 0.91, 2: 0.90, 3: 0.89}


def _known(uniform=None, fixed=None, full_feedback=None):
    known = {}
    for baseline, one in zip(Baseline, (uniform, fixed, full_feedback), strict=True):
        if one is not None:
            known[baseline] = configuration("", one) if isinstance(one, dict) else ReferenceValue("", one)
    return known


def _word(numbers, better="up", **known):
    return baselines.compare([(configuration("arm", numbers), _known(**known))], REWARD, better)["arm"]


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        ([0.50, 0.49, 0.51, 0.50], "at a normalized score of 0.50"),
        ([0.12, 0.08, 0.13, 0.07], "not significantly different from the uniform policy"),
        ([0.05, 0.06, 0.05, 0.06], "below the uniform policy"),
        ([0.89, 0.92, 0.90, 0.90], "not significantly different from the full-feedback baseline"),
        ([0.95, 0.96, 0.96, 0.94], "above the full-feedback baseline"),
    ],
)
@pytest.mark.parametrize("chance", [CHANCE, 0.1])
def test_the_normalized_score_in_words(numbers, word, chance):
    assert _word(numbers, uniform=chance, full_feedback=CEILING).summary == word


def test_the_best_fixed_action_is_another_baseline():
    equal, below = "not significantly different from the best fixed action", "below the best fixed action"
    for constant, word in ((0.3, ""), (0.5, f", {equal}"), (0.7, f", {below}")):
        one = _word([0.50, 0.49, 0.51, 0.50], uniform=0.1, fixed=constant, full_feedback=CEILING)
        assert one.summary == f"at a normalized score of 0.50{word}"


def test_without_full_feedback_or_with_one_seed_of_it_there_is_no_score():
    assert _word([0.50, 0.49], uniform=0.1).summary == "above the uniform policy"
    assert _word([0.50, 0.49], fixed=0.1).summary == "above the best fixed action"
    assert _word([0.50, 0.49]).summary == ""
    one = _word([0.50, 0.49, 0.51, 0.50], uniform=0.1, full_feedback={0: 0.5})
    assert one.summary == "above the uniform policy"
    assert math.isnan(one.score)


@pytest.mark.parametrize(("numbers", "word"), [([0.5], "one seed: not judged"), ([0.5, 0.5, math.nan], "not judged")])
def test_one_seed_or_a_diverged_one_has_no_verdict(numbers, word):
    one = _word(numbers, uniform=0.1)
    assert (one.summary, one.uniform.is_significant, one.uniform.wins) == (word, False, False)


def test_the_best_of_many_uniform_policies_is_not_significantly_better():
    """Alone it would be: 0.02 above with p 0.02. As one of nine it is not."""
    lucky = [0.13, 0.11, 0.12, 0.12, 0.105]
    some = [(configuration("lucky", lucky), _known(0.1))]
    assert baselines.compare(some, REWARD)["lucky"].uniform.wins
    others = [configuration(str(place), [0.09, 0.11, 0.10 + place / 1000, 0.12, 0.08]) for place in range(8)]
    compared = baselines.compare([*some, *((other, _known(0.1)) for other in others)], REWARD)
    assert compared["lucky"].summary == "not significantly different from the uniform policy"


@pytest.mark.parametrize(
    ("chance", "ceiling", "better"),
    [({0: 0.1, 1: 0.5}, {0: 0.4, 1: 0.9}, "up"), (0.4, 0.5, "down"), (0.1, {0: 0.9}, "up")],
)
def test_overlapping_baselines_are_refused(chance, ceiling, better):
    with pytest.raises(ValueError, match="for the uniform policy is not clearly worse than "):
        baselines.normalized_scores(configuration("arm", [0.3]), _known(chance, None, ceiling), REWARD, better)


def test_regret_to_full_feedback_can_be_negative():
    # Differences 0.3 and 0.1: their mean 0.2, and t of one degree of freedom, 12.7062, times 0.1.
    against = _word([0.5, 0.7], full_feedback={0: 0.8, 1: 0.8}).full_feedback
    assert baselines.regret(against) == pytest.approx((0.2, 0.2 - 1.27062, 0.2 + 1.27062, 2), abs=1e-5)
    above = _word([0.9, 0.9], full_feedback={0: 0.8, 1: 0.7}).full_feedback
    assert baselines.regret(above)[0] == pytest.approx(-0.15)
    assert baselines.regret(above, "down")[0] == pytest.approx(0.15)  # Where less is better, as of a loss.
    assert baselines.regret(_word([math.nan], full_feedback={0: 0.8}).full_feedback) is None


REWARDS = np.random.default_rng(5).normal([0.4, 0.7], 0.05, (8, 2))  # [seeds, tasks]
BOUNDS = ((0.1, {0: 0.89, 1: 0.9, 2: 0.91}), ({0: 0.2, 1: 0.21, 2: 0.19}, {0: 0.79, 1: 0.8, 2: 0.81}))
FIVE = dict.fromkeys(range(5), 0.5)
NORMAL = (REWARDS - [0.1, 0.2]) / [0.8, 0.6]


def _results(task, rewards, uniform, full_feedback):
    """Results of a task's configurations, which share their uniform policy and full-feedback baseline."""
    known = _known(uniform, None, full_feedback)
    return [(task, configuration(name, values), known) for name, values in rewards.items()]


def _two(more=lambda task: {}, bounds=BOUNDS):
    """Results of two tasks, and what further configurations each has."""
    found = []
    for task in range(2):
        found += _results(f"task {task}", {"arm": REWARDS[:, task].tolist()} | more(task), *bounds[task])
    return found


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


def test_a_single_task_has_no_score_and_less_can_be_better():
    found = _over(_two(bounds=(BOUNDS[0], (0.8, BOUNDS[1][1]))))
    assert (found.scores, found.left_out[-1]) == ({}, "fewer than two tasks are left")
    assert _over([]) is _over(_two()[:1]) is None
    rewards = {"arm": dict.fromkeys(range(5), 3.0)}
    results = [result for task in "ab" for result in _results(task, rewards, 4.0, {0: 2.0, 1: 2.0})]
    assert _over(results, "down").scores["arm"].mean == 0.5


@pytest.mark.parametrize(
    ("more", "bounds", "printed"),
    [
        ({}, ({0: 0.1, 1: 0.5}, {0: 0.4, 1: 0.9}), "no score, as 0.3 (-2.241 to 2.841) for the uniform policy is not"),
        ({"often": {0: 0.91, 1: 0.92}}, (0.1, 0.8), "often is above the full-feedback baseline, which may have been"),
        ({}, (0.1, {0: 0.8, 1: 0.81, 2: math.nan}), "the full-feedback baseline diverged with seed 2"),
    ],
)
def test_a_task_whose_baselines_set_no_scale_is_named_and_left_out(more, bounds, printed):
    found = _over([*_two(), *_results("task 2", {"arm": {0: 0.5, 1: 0.6}} | more, *bounds)])
    assert found.scores == _over(_two()).scores
    assert found.left_out[0].startswith(f"task 2: {printed}")


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


def test_the_interquartile_mean_by_hand():
    scores = {"arm": [[9.0, 1, 2, 3], [4, 5, 6, -9]]}  # The middle four of eight numbers count.
    state = np.random.get_state()[1].copy()
    estimates = baselines.interquartile_means(scores)
    assert (estimates["arm"].mean, estimates["arm"].size) == (3.5, 8)
    assert estimates == baselines.interquartile_means(scores)
    assert (np.random.get_state()[1] == state).all()
