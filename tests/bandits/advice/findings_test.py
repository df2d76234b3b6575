"""Tests of bandits.advice.findings."""

import dataclasses
import json
import math

import pytest

from bandits import metrics
from bandits.advice import findings
from bandits.advice import plan as planning
from bandits.plans import sweep
from bandits.results import configuration
from bandits.results.configuration import Baseline, Configuration, ReferenceValue
from optimization.study import run_folder

_POINT = (("server_learning_rate", "0.01"), ("client_learning_rate", "0.1"))


def _describe(folder, flags):
    """Writes the config.json of a run."""
    described = {"format": run_folder.FORMAT, "flags": flags, "command": "run"}
    (folder / "config.json").write_text(json.dumps(described))


def _read(folder, rounds: int, status: str = sweep.FINISHED) -> Configuration:
    """Reads a run of four rounds, evaluated after the second and the last, as one of so many rounds."""
    (run,) = planning.runs((f"--total_rounds={rounds}", "--task_type=digits"), "greedy", _POINT, 2000, 1)
    (folder / run.name).mkdir(parents=True)
    names = ["round_num", metrics.ROUND_REWARD, metrics.AVERAGE_REWARD, metrics.ACCURACY, metrics.CLIP_NORM]
    names.append(metrics.WORST_TENTH)
    rows = [
        names,
        [1, 0.1, 0.1, "", 1, ""],
        [2, 0.3, 0.2, 0.5, 2, 0.25],
        [3, 0.5, 0.3, "", 3, ""],
        [4, 0.7, 0.4, 0.9, 4, 0.75],
    ]
    (folder / run.name / "metrics.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    _describe(folder / run.name, {})
    outcome = sweep.Outcome(run, status, rounds, 0.1 * rounds)
    return findings.with_runs(findings.planned("greedy", _POINT), [outcome], folder, metrics.ACCURACY)


def test_a_run_gives_its_rewards_its_model_and_its_clip_norm(tmp_path):
    results = _read(tmp_path, 4)
    measured = (findings.REWARD, metrics.ROUND_REWARD, metrics.ACCURACY, metrics.CLIP_NORM, metrics.WORST_TENTH)
    assert [results.by_seed(metric)[2000] for metric in measured] == [0.4, 0.7, 0.9, 4.0, 0.75]


@pytest.mark.parametrize(("rounds", "model"), [(3, math.nan), (2, 0.5)])
def test_of_a_run_that_went_on_the_model_is_that_of_the_rounds_that_count_or_unknown(tmp_path, rounds, model):
    results = _read(tmp_path, rounds)
    assert results.by_seed(metrics.ACCURACY)[2000] == pytest.approx(model, nan_ok=True)
    assert results.by_seed(metrics.CLIP_NORM) == {2000: float(rounds)}


def _bounded(folder, seed, **bounds):
    path = folder / "greedy-1" / f"seed_{seed}"
    path.mkdir(parents=True)
    (path / "metrics.csv").write_text(f"round_num,{metrics.AVERAGE_REWARD}\n1,0.5\n")
    _describe(path, {"seed": seed})
    (path / "bounds.json").write_text(json.dumps({"participating": bounds}))


def test_bounds_are_of_each_seeds_own_data_where_seeds_have_any(tmp_path):
    for seed, constant in ((2000, 0.25), (2001, 0.5)):
        _bounded(tmp_path, seed, chance=0.1, constant=constant, clients=9, population=9)
    known = findings.recorded_baselines(tmp_path)
    assert known[Baseline.uniform_policy].mean == 0.1
    assert known[Baseline.best_fixed_action].by_seed(findings.REWARD) == {2000: 0.25, 2001: 0.5}


def test_a_run_that_diverged_gives_no_numbers(tmp_path):
    results = _read(tmp_path, 3, sweep.DIVERGED)
    assert results.diverged == {2000}
    assert math.isnan(results.by_seed(metrics.ACCURACY)[2000])


def _verdict(values, uniform, best_fixed):
    rewards = {name: some if isinstance(some, dict) else dict(enumerate(some)) for name, some in values.items()}
    results = {name: configuration.of_values(name, findings.REWARD, some) for name, some in rewards.items()}
    for name, some in rewards.items():
        diverged = frozenset(seed for seed, value in some.items() if math.isnan(value))
        results[name] = dataclasses.replace(results[name], diverged=diverged)
    pairs = zip(Baseline, (uniform, best_fixed), strict=False)
    known = {baseline: ReferenceValue(str(baseline), value) for baseline, value in pairs if value is not None}
    return findings.verdict(results, known)


def test_of_planning_not_different_from_greedy_one_above_the_uniform_policy_is_recommended():
    values = {"greedy": (0.2, 0.34, 0.19, 0.27), "softmax": (0.25, 0.6, 0.22, 0.45), "falcon": (0.3, 0.31, 0.3, 0.305)}
    found = _verdict(values, 0.2, None)
    assert (found.pays, found.recommended, found.best) == (False, "falcon", "falcon")


def test_a_strategy_above_the_best_fixed_action_is_preferred_to_greedy():
    values = {"greedy": (0.6, 0.9, 0.5, 0.8), "falcon": (0.82, 0.83, 0.81, 0.82)}
    assert _verdict(values, 0.1, 0.63).recommended == "falcon"
    assert _verdict(values, 0.1, 0.3).recommended == "greedy"
    assert _verdict(values, 0.1, 0.9).recommended == "greedy"


def test_without_greedy_to_compare_with_the_best_by_mean_is_recommended():
    values = {"greedy": (math.nan,) * 4, "softmax": (0.5, 0.51, 0.52, 0.5), "falcon": (0.8, 0.81, 0.82, 0.8)}
    assert _verdict(values, 0.1, None).recommended == "falcon"


def test_a_strategy_above_greedy_but_not_above_the_uniform_policy_is_not_recommended():
    softmax = {0: 0.6, 1: 0.9, 2: 0.3}
    greedy = {seed: softmax.get(seed, 0.6) - 0.1 + 0.0001 * seed for seed in range(8)}
    printed = _verdict({"greedy": greedy, "softmax": softmax}, 0.1, None)
    assert printed.than("softmax", "greedy").wins
    assert not printed.beats("softmax", findings.UNIFORM_POLICY)
    assert (printed.pays, printed.recommended) == (False, "greedy")
