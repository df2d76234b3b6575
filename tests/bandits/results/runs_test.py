"""Tests of bandits.results.runs."""

import math
import pathlib

import numpy as np
import pytest

from bandits import metrics
from bandits.results import baselines, comparison, configuration, runs
from bandits.results.configuration import ReferenceValue
from optimization.study.results import Run
from tests.bandits.results.tables import rewards_table

BOUNDS = {"participating": {"chance": 0.1, "constant": 0.2}, "held_out": {"chance": 0.3, "constant": math.nan}}


def _run(rewards=(0.5,), seed=0, bounds=BOUNDS, privacy=None, **flags):
    table, flags = rewards_table(rewards), {"seed": seed, **flags}
    return Run(pathlib.Path("r"), table, flags, "run", privacy or {}, columns=metrics.COLUMNS, bounds=bounds)


def test_an_outcome_is_the_last_value_or_the_mean_of_the_last_tenth():
    run = _run([0.0] * 18 + [0.5, 1.0])
    assert runs.final_value(run, metrics.ROUND_REWARD) == 0.75
    assert runs.final_value(run, metrics.AVERAGE_REWARD) == 1.5 / 20
    assert runs.final_value(run, "missing") is None
    run.metrics["eval/reward"] = [0.25] + [np.nan] * 19
    assert runs.final_value(run, metrics.HELD_OUT_REWARD) == 0.25


def test_a_run_whose_clients_diverged_has_no_result():
    sound, lost = _run(seed=3), _run(seed=4, clients_per_round=2)
    lost.metrics[metrics.NONFINITE_CLIENTS] = 2
    one = configuration.of_runs("a", [sound, lost], [metrics.ROUND_REWARD], {})
    assert one.by_seed(metrics.ROUND_REWARD) == pytest.approx({3: 0.5, 4: math.nan}, nan_ok=True)


@pytest.mark.parametrize(
    ("more", "unpaired"),
    [
        ({"noise_multiplier": 0.0, "privacy": {"epsilon": None}}, False),
        ({"noise_multiplier": 0.5}, True),
        ({"target_epsilon": 8.0}, True),
        ({"noise_multiplier": 0.5, "insecure_seeded_noise": True}, False),
        ({"privacy": {"epsilon": 3.0}}, True),
    ],
)
def test_noise_that_is_not_seeded_makes_runs_unpaired(more, unpaired):
    assert runs.is_unpaired([_run(**more)]) is unpaired


UNIFORM, FIXED = baselines.RECORDED


def test_a_bound_is_that_of_the_clients_whose_reward_it_is():
    found = [_run(), _run(seed=1)]
    known = baselines.recorded(found, metrics.AVERAGE_REWARD)
    assert known == {UNIFORM: ReferenceValue(str(UNIFORM), 0.1), FIXED: ReferenceValue(str(FIXED), 0.2)}
    assert baselines.recorded(found, metrics.HELD_OUT_REWARD) == {UNIFORM: ReferenceValue(str(UNIFORM), 0.3)}
    assert baselines.recorded(found, metrics.LOSS) == {}
    assert baselines.recorded([*found, _run(seed=2, bounds={})], metrics.ROUND_REWARD) == {}


def test_baselines_that_differ_by_seed_are_paired_by_seed():
    found = [_run([0.3 + seed / 5], seed, {"participating": {"chance": 0.29 + seed / 5}}) for seed in range(3)]
    known = baselines.recorded(found, metrics.ROUND_REWARD)
    assert known[UNIFORM].by_seed(metrics.ROUND_REWARD) == pytest.approx({0: 0.29, 1: 0.49, 2: 0.69})
    one = configuration.of_runs("softmax", found, [metrics.ROUND_REWARD], {})
    uniform = baselines.compare([(one, known)], metrics.ROUND_REWARD)["softmax"].uniform
    assert (uniform.difference, uniform.kind) == (pytest.approx(0.01), comparison.PAIRED)


def test_a_bound_of_a_sample_has_an_error_and_is_unknown_without_one():
    sample = {"chance": 0.1, "chance_error": 0.02, "constant": 0.2, "clients": 2000, "population": 3000}
    found = [_run(bounds={"participating": sample}), _run(seed=1, bounds={"participating": sample})]
    assert baselines.recorded(found, metrics.ROUND_REWARD) == {UNIFORM: ReferenceValue(str(UNIFORM), 0.1, 0.02, 2000)}
    exact = [_run(bounds={"participating": sample | {"chance_error": 1e-18}})]
    assert baselines.recorded(exact, metrics.ROUND_REWARD)[UNIFORM] == ReferenceValue(str(UNIFORM), 0.1)


def test_few_clients_have_no_interval():
    few, enough = (runs.bootstrapped(np.arange(clients)[np.newaxis], np.mean) for clients in (19, 20))
    assert (few.mean, few.size, enough.mean, enough.size) == (9, 19, 9.5, 20)
    assert np.isfinite([few.low, few.high, enough.low, enough.high]).tolist() == [False, False, True, True]
