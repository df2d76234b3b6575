"""Tests of bandits.advice.findings: values of runs, and the verdict."""

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

_POINT = {"server_learning_rate": "0.01", "client_learning_rate": "0.1"}
_TABLE = f"""round_num,{metrics.AVERAGE_REWARD},{metrics.HELD_OUT_REWARD},{metrics.CLIP_NORM},{metrics.EXAMPLES}
1,0.1,,1,5
2,0.2,0.5,2,5
3,0.3,,3,5
4,0.4,0.9,4,5
"""


def _read(folder, rounds: int, reward: float = 0.0) -> Configuration:
    """Reads a run of four rounds, evaluated after the second and the last, as one of so many rounds."""
    (run,) = planning.runs((f"--total_rounds={rounds}", "--task_type=digits"), "greedy", _POINT, 2000, 1)
    (folder / run.name).mkdir(parents=True)
    (folder / run.name / "metrics.csv").write_text(_TABLE)
    described = {"format": run_folder.FORMAT, "flags": {"seed": 2000}, "command": "run"}
    (folder / run.name / "config.json").write_text(json.dumps(described))
    return findings.with_runs("greedy", _POINT, [sweep.Outcome(run, sweep.FINISHED, rounds, reward)], folder)


@pytest.mark.parametrize(("rounds", "model"), [(4, 0.9), (3, 0.5), (2, 0.5)])
def test_only_the_planned_rounds_of_a_run_count_and_none_of_a_diverged_one(tmp_path, rounds, model):
    results = _read(tmp_path, rounds)
    measured = (findings.REWARD, metrics.HELD_OUT_REWARD, metrics.CLIP_NORM, findings.DECISIONS)
    expected = [rounds / 10, model, rounds, 5 * rounds]
    assert [results.by_seed(metric)[2000] for metric in measured] == pytest.approx(expected)
    lost = _read(tmp_path / "diverged", rounds, reward=math.nan)
    assert lost.diverged == {2000}
    assert math.isnan(lost.by_seed(metrics.HELD_OUT_REWARD)[2000])


def _verdict(values, uniform, best_fixed=None):
    by_seed = {name: some if isinstance(some, dict) else dict(enumerate(some)) for name, some in values.items()}
    results = {name: configuration.of_values(name, findings.REWARD, some) for name, some in by_seed.items()}
    pairs = zip(Baseline, (uniform, best_fixed), strict=False)
    known = {baseline: ReferenceValue(str(baseline), value) for baseline, value in pairs if value is not None}
    return findings.verdict(results, known)


def test_a_strategy_above_the_uniform_policy_is_recommended_if_greedy_is_not_above_it():
    values = {"greedy": (0.2, 0.34, 0.19, 0.27), "softmax": (0.25, 0.6, 0.22, 0.45), "falcon": (0.3, 0.31, 0.3, 0.305)}
    found = _verdict(values, 0.2)
    assert (found.pays, found.recommended, found.best) == (False, "falcon", "falcon")


def test_a_strategy_above_the_best_fixed_action_is_preferred_to_greedy():
    values = {"greedy": (0.6, 0.9, 0.5, 0.8), "falcon": (0.82, 0.83, 0.81, 0.82)}
    recommended = [_verdict(values, 0.1, fixed).recommended for fixed in (0.63, 0.3, 0.9)]
    assert recommended == ["falcon", "greedy", "greedy"]


def test_a_strategy_above_greedy_but_not_above_the_uniform_policy_is_not_recommended():
    softmax = {0: 0.6, 1: 0.9, 2: 0.3}
    greedy = {seed: softmax.get(seed, 0.6) - 0.1 + 0.0001 * seed for seed in range(8)}
    printed = _verdict({"greedy": greedy, "softmax": softmax}, 0.1)
    assert printed.than("softmax", "greedy").wins
    assert not printed.beats("softmax", findings.UNIFORM_POLICY)
    assert (printed.pays, printed.recommended) == (False, "greedy")
