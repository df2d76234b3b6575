"""Tests of bandits.results.of_runs."""

import math
import pathlib

import numpy as np
import pandas as pd
import pytest

from bandits import metrics
from bandits.results import comparison, of_runs
from optimization.study.results import Run

BOUNDS = {"participating": {"chance": 0.1, "constant": 0.2}, "held_out": {"chance": 0.3, "constant": math.nan}}


def _run(rewards=(0.5,), seed=0, bounds=BOUNDS, **more):
    table = pd.DataFrame({"round_num": range(1, len(rewards) + 1), metrics.ROUND_REWARD: rewards})
    table[metrics.AVERAGE_REWARD] = table[metrics.ROUND_REWARD].expanding().mean()
    privacy, clients = more.pop("privacy", {}), more.pop("clients", {})
    found = {"clients": list(clients), "rewards": list(clients.values())} if clients else {}
    return Run(
        pathlib.Path("r"),
        table,
        {"seed": seed, **more},
        "run",
        privacy,
        columns=metrics.COLUMNS,
        bounds=bounds,
        client_rewards=found,
    )


def test_an_outcome_is_the_last_value_or_the_mean_of_the_last_tenth():
    run = _run([0.0] * 18 + [0.5, 1.0])
    assert of_runs.outcome(run, metrics.ROUND_REWARD) == 0.75
    assert of_runs.outcome(run, metrics.AVERAGE_REWARD) == 1.5 / 20
    assert of_runs.outcome(run, "missing") is None
    run.metrics["eval/reward"] = [0.25] + [np.nan] * 19
    assert of_runs.outcome(run, metrics.HELD_OUT_REWARD) == 0.25


def test_a_run_whose_clients_diverged_has_no_result():
    sound, lost = _run(seed=3), _run(seed=4, clients_per_round=2)
    lost.metrics[metrics.NONFINITE_CLIENTS] = 2
    found = of_runs.by_seed([sound, lost], metrics.ROUND_REWARD)
    assert found[3] == 0.5
    assert math.isnan(found[4])


@pytest.mark.parametrize(
    ("more", "unpaired"),
    [
        ({}, False),
        ({"noise_multiplier": 0.0}, False),
        ({"noise_multiplier": 0.5}, True),
        ({"noise_multiplier": 0.5, "insecure_seeded_noise": True}, False),
        ({"privacy": {"epsilon": None}}, False),
        ({"privacy": {"epsilon": 3.0}}, True),
    ],
)
def test_noise_that_is_not_seeded_makes_runs_unpaired(more, unpaired):
    assert of_runs.is_unpaired([_run(**more)]) is unpaired


def test_a_bound_is_that_of_the_clients_whose_reward_it_is():
    found = [_run(), _run(seed=1)]
    assert of_runs.bound(found, metrics.AVERAGE_REWARD, of_runs.CHANCE) == pytest.approx(0.1)
    assert of_runs.bound(found, metrics.HELD_OUT_REWARD, of_runs.CHANCE) == pytest.approx(0.3)
    assert of_runs.bound(found, metrics.HELD_OUT_REWARD, of_runs.CONSTANT) is None
    assert of_runs.bound(found, metrics.LOSS, of_runs.CHANCE) is None
    assert of_runs.bound([*found, _run(seed=2, bounds={})], metrics.ROUND_REWARD, of_runs.CHANCE) is None


def test_bounds_that_differ_by_seed_are_told_by_seed_and_pair_with_it():
    found = [_run([0.3 + seed / 5], seed, {"participating": {"chance": 0.29 + seed / 5}}) for seed in range(3)]
    chance = of_runs.bound(found, metrics.ROUND_REWARD, of_runs.CHANCE)
    assert chance == pytest.approx({0: 0.29, 1: 0.49, 2: 0.69})
    stand = of_runs.stands({"softmax": found}, metrics.ROUND_REWARD)["softmax"]
    assert stand.chance.difference == pytest.approx(0.01)
    assert stand.chance.kind == comparison.PAIRED


def test_a_bound_of_a_sample_has_an_error_and_is_unknown_without_one():
    sample = {"chance": 0.1, "chance_error": 0.02, "constant": 0.2, "clients": 2000, "population": 3000}
    found = [_run(bounds={"participating": sample})] * 2
    assert of_runs.bound(found, metrics.ROUND_REWARD, of_runs.CHANCE) == comparison.Sampled(0.1, 0.02, 2000)
    assert of_runs.bound(found, metrics.ROUND_REWARD, of_runs.CONSTANT) is None
    exact = [_run(bounds={"participating": sample | {"chance_error": 1e-18}})]
    assert of_runs.bound(exact, metrics.ROUND_REWARD, of_runs.CHANCE) == 0.1


def test_arms_stand_by_what_their_runs_recorded():
    arms = {
        "softmax": [_run([reward], seed) for seed, reward in enumerate([0.5, 0.6, 0.55])],
        "greedy": [_run([reward], seed) for seed, reward in enumerate([0.1, 0.12, 0.09])],
        "old": [_run([reward], seed, bounds={}) for seed, reward in enumerate([0.1, 0.12, 0.09])],
        "single": [_run([0.9])],
    }
    found = of_runs.stands(arms, metrics.ROUND_REWARD)
    assert {name: stand.word for name, stand in found.items()} == {
        "softmax": "above the uniform policy",
        "greedy": "not significantly different from the uniform policy",
        "old": "",
        "single": "one seed: not judged",
    }
    notes = [of_runs.chance_note(stand) for stand in found.values()]
    assert notes == ["", " (not significantly different from the uniform policy)", "", ""]


def test_the_difference_over_clients_is_that_of_those_that_both_evaluated():
    common = [str(client) for client in range(20)]
    ours = [_run(seed=seed, clients=dict.fromkeys(common, 0.5) | {"b": 0.75, "c": 1.0}) for seed in (0, 1)]
    theirs = [_run(seed=seed, clients=dict.fromkeys(common, 0.25) | {"b": 0.5, "d": 1.0}) for seed in (0, 2)]
    found = of_runs.over_clients(ours, theirs)
    assert (found.mean, found.low, found.high, found.size) == (0.25, 0.25, 0.25, 21)
    assert of_runs.over_clients(ours, [_run(seed=5, clients={"a": 0.5, "b": 0.5})]) is None
    assert of_runs.over_clients(ours, [_run()]) is None
