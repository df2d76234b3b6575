"""Tests of bandits.results.arms."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, studies
from bandits.results import arms, grouping, runs


def _run(name, rewards=(0.5,), seed=0, **flags):
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
    return runs.Run(pathlib.Path(name), table, {"task_type": "digits", "seed": seed, **flags}, "run", {})


def _part(**rewards) -> arms.Part:
    """Returns the part of runs of a round, by the bandits that gave these rewards, a seed each."""
    found = [
        _run(f"{bandit}/seed_{seed}", [reward], seed, bandits_type=bandit)
        for bandit, values in rewards.items()
        for seed, reward in enumerate(values)
    ]
    (part,) = grouping.parts(found)
    return part


def test_an_estimate_is_the_mean_and_students_interval():
    one = arms.estimate([1.0, 2.0, 3.0])
    assert one == (pytest.approx(2.0), pytest.approx(2 - 4.302653 / 3**0.5), pytest.approx(2 + 4.302653 / 3**0.5), 3)
    assert arms.estimate([0.5]) == (0.5, 0.5, 0.5, 1)
    assert arms.estimate([0.5, 0.5]) == (0.5, 0.5, 0.5, 2)
    assert arms.estimate([]) is None


def test_the_interval_of_a_share_stays_within_0_and_1():
    assert arms.estimate([0.9, 1.0], is_share=True)[2] == 1.0
    assert arms.estimate([0.9, 1.0]).high == pytest.approx(0.95 + 12.7062047 * 0.05)
    assert arms.estimate([0.0, 0.1], is_share=True).low == 0.0
    found = [_run(f"a/seed_{seed}", seed=seed) for seed in (0, 1)]
    for run, accuracy in zip(found, (0.9, 1.0), strict=True):
        run.metrics[metrics.ACCURACY] = accuracy
    ((arm,),) = (part.arms for part in grouping.parts(found))
    assert arm.estimate(metrics.ACCURACY).high == 1.0


def test_a_result_with_the_numbers_of_another_is_no_column():
    run = _run("a", [0.5, 0.5])
    run.metrics[metrics.ACCURACY] = [np.nan, 0.5]
    run.metrics[metrics.HELD_OUT_REWARD] = [np.nan, 0.5]
    (part,) = grouping.parts([run])
    assert part.equal == {metrics.ACCURACY: metrics.HELD_OUT_REWARD}
    assert part.columns == (metrics.ROUND_REWARD, metrics.AVERAGE_REWARD, metrics.HELD_OUT_REWARD)
    other = _run("b", [0.5, 0.5])
    other.metrics[metrics.ACCURACY], other.metrics[metrics.HELD_OUT_REWARD] = [np.nan, 0.5], [np.nan, 0.25]
    (part,) = grouping.parts([run, other])
    assert part.equal == {}


def test_arms_lie_between_chance_and_ceiling():
    part = _part(
        uniform=[0.11, 0.12],
        softmax=[0.50, 0.53],
        greedy=[0.0, 0.4],
        falcon=[0.7],
        supervised_mse=[0.90, 0.92],
        init=[0.01, 0.0],
    )
    assert [arm.role for arm in part.arms] == ["chance", "", "", "", "ceiling", ""]
    places = {arm.name: part.place(arm) for arm in part.arms}
    assert places == {
        "uniform": "",
        "softmax": "at a normalized score of 0.50",
        "greedy": "not significantly different from the uniform policy",
        "falcon": "one seed: not judged",
        "supervised_mse": "",
        "init": "not significantly different from the uniform policy",
    }
    assert [arm.name for arm in part.ranked()][:3] == ["supervised_mse", "falcon", "softmax"]


def test_chance_alone_is_a_bound():
    part = _part(uniform=[0.11, 0.12], softmax=[0.50, 0.512], falcon=[0.7])
    assert [part.place(arm) for arm in part.arms] == ["", "above the uniform policy", "one seed: not judged"]
    alone = _part(uniform=[0.11], supervised_mse=[0.9], softmax=[0.5, 0.52])
    assert [alone.place(arm) for arm in alone.arms] == ["", "", "one seed: not judged"]
    assert [_part(softmax=[0.5, 0.6]).place(arm) for arm in _part(softmax=[0.5, 0.6]).arms] == [""]


def _bounded(bandit, rewards, **bounds):
    return [
        dataclasses.replace(_run(f"{bandit}/seed_{seed}", [reward], seed, bandits_type=bandit), bounds=bounds)
        for seed, reward in enumerate(rewards)
    ]


def test_chance_that_was_computed_is_a_bound_where_none_was_played():
    known = {"participating": {"chance": 0.1, "constant": 0.3}}
    found = [*_bounded("softmax", [0.5, 0.52, 0.51], **known), *_bounded("init", [0.1, 0.12, 0.09], **known)]
    (part,) = grouping.parts(found)
    assert [part.place(arm) for arm in part.arms] == [
        "above the uniform policy",
        "not significantly different from the uniform policy",
    ]
    assert [part.is_at_chance(arm) for arm in part.arms] == [
        "",
        " (not significantly different from the uniform policy)",
    ]
    assert part.marks(part.arms[0]) == {"chance": 0.1, "constant": 0.3}


def test_arms_are_compared_with_greedy_of_the_most_equal_flags_in_one_family():
    found = [
        _run(f"{bandit}{freq}/seed_{seed}", [reward + 0.01 * seed], seed, bandits_type=bandit, bandits_deploy_freq=freq)
        for bandit, freq, reward in (("softmax", 1, 0.5), ("greedy", 1, 0.2), ("softmax", 5, 0.4), ("greedy", 5, 0.1))
        for seed in (0, 1)
    ]
    (part,) = grouping.parts(found)
    pairs = [(one.name, other.name) for one, other, _ in part.compared()]
    assert pairs == [("softmax, deploy 1", "greedy, deploy 1"), ("softmax, deploy 5", "greedy, deploy 5")]
    named = [(one.name, other.name) for one, other, _ in part.compared("softmax, deploy 5")]
    assert {other for _, other in named} == {"softmax, deploy 5"}
    assert len(named) == 3
    assert part.compared("falcon") == []


def test_of_several_references_that_are_asked_for_one_of_the_same_data_counts_first():
    found = [
        _run(f"{bandit}{alpha}{freq}", bandits_type=bandit, partition_alpha=alpha, bandits_deploy_freq=freq)
        for bandit, alpha, freq in (("greedy", 0.1, 1), ("greedy", 1.0, 5), ("softmax", 1.0, 1))
    ]
    (part,) = grouping.parts(found)
    ((one, other, _),) = [pair for pair in part.compared("greedy") if pair[0].flags["bandits_type"] == "softmax"]
    assert (one.flags["partition_alpha"], other.flags["partition_alpha"]) == (1.0, 1.0)


def test_without_greedy_the_first_arm_is_the_reference_and_marks_are_not_compared():
    part = _part(uniform=[0.1, 0.12], softmax=[0.5, 0.52], falcon=[0.6, 0.7], supervised_mse=[0.9, 0.93])
    assert [(one.name, other.name) for one, other, _ in part.compared()] == [("falcon", "softmax")]


def test_what_was_played_for_longer_is_compared_where_it_is_asked_for_alone():
    found = [
        _run(f"{name}/seed_{seed}", [0.5 + seed / 10], seed, bandits_type=bandit, total_rounds=rounds)
        for name, bandit, rounds in (("a", "greedy", 5), ("b", "softmax", 50))
        for seed in (0, 1)
    ]
    (part,) = grouping.parts(found)
    assert part.compared() == []
    assert len(part.compared("greedy")) == 1


def test_noise_that_no_seed_determines_pairs_nothing():
    found = [
        _run(f"{bandit}/seed_{seed}", [0.5 + seed / 10], seed, bandits_type=bandit, noise_multiplier=noise)
        for bandit, noise in (("greedy", 0.0), ("softmax", 1.0))
        for seed in (0, 1)
    ]
    (part,) = grouping.parts(found)
    ((_, _, one),) = part.compared()
    assert one.kind == "unpaired"


def test_the_reference_of_an_arm_is_that_of_the_most_equal_flags():
    found = [
        _run(f"{bandit}{freq}", bandits_type=bandit, bandits_deploy_freq=freq)
        for bandit in ("uniform", "softmax")
        for freq in (1, 5)
    ]
    (part,) = grouping.parts(found)
    assert [part.reference(arm, arms.CHANCE).name for arm in part.arms[2:]] == [
        "uniform, deploy 1",
        "uniform, deploy 5",
    ]


def test_arms_of_other_rewards_or_data_bound_nothing():
    chance = _run("chance", bandits_type="uniform", scenario="scratch")
    shifted = _run("a", bandits_type="softmax", scenario="init_shift")
    others = _run("b", bandits_type="softmax", scenario="scratch", partition_alpha=0.1)
    pretrained = _run("c", bandits_type="softmax", scenario="init", init_labels=3)
    (part,) = grouping.parts([chance, shifted, others, pretrained])
    bounds = [part.reference(arm, arms.CHANCE) for arm in part.arms[1:]]
    assert bounds == [None, None, None]


@pytest.mark.parametrize(
    ("name", "value"), [("total_rounds", 150), ("clients_per_round", 5), ("cohort_sampling", "poisson")]
)
def test_arms_that_were_played_otherwise_bound_nothing(name, value):
    alike = {"total_rounds": 20, "clients_per_round": 10, "cohort_sampling": "fixed"}
    found = [_run(bandit, bandits_type=bandit, **alike) for bandit in ("uniform", "softmax")]
    (part,) = grouping.parts([*found, _run("other", bandits_type="softmax", **(alike | {name: value}))])
    assert [part.reference(arm, arms.CHANCE) for arm in part.arms[1:]] == [part.arms[0], None]


def test_a_bound_that_is_deployed_otherwise_is_named():
    settings = [("uniform", 5), ("supervised_mse", 10), ("softmax", 10)]
    (part,) = grouping.parts([_run(bandit, bandits_type=bandit, bandits_deploy_freq=freq) for bandit, freq in settings])
    assert [part.bounds(arm) for arm in part.arms] == ["", "", "uniform policy: uniform (deploy 5, not 10)"]


def test_less_of_a_loss_is_better():
    column = studies.load(studies.STUDIES["run_client_selection"]).ranked_by
    found = [
        runs.Run(pathlib.Path(name), pd.DataFrame({"round_num": [1], column: [loss]}), {"clip": loss}, "run", {})
        for name, loss in (("a", 2.0), ("b", 1.0))
    ]
    (part,) = grouping.parts(found)
    assert [arm.name for arm in part.ranked()] == ["clip 1", "clip 2"]
