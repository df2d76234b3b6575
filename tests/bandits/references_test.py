"""Tests of bandits.references."""

import json

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, references
from data.tasks import registry
from data.tasks.options import TaskOptions

COUNTS = np.array([10, 20, 10, 20])


def _words(per_row, fixed=0.5, **more):
    sums = {references.UNIFORM: 0.1 * COUNTS, references.FIXED: fixed * COUNTS}
    return references.in_words(np.array(per_row) * COUNTS, sums, COUNTS, "ice", **more).splitlines()


def test_a_run_that_is_not_above_the_best_fixed_action_says_so():
    head, uniform, fixed, further, verdict = _words([0.5, 0.4, 0.6, 0.55], further="  full feedback: 0.9")
    over = "95% intervals over 4 clients with held-out rows, weighted by rows"
    assert head == f"Held-out reward of the greedy policy, 0.5000 ({over}),"
    # Four times the clients' influences, (0, -2, 1, 1) / 60, have deviation 0.0943: half a width is 3.182 * 0.0943 / 2.
    assert uniform == "  minus the uniform policy (0.1000): +0.40 (95% CI +0.25 to +0.55)"
    assert fixed == "  minus the best fixed action (0.5000, action ice): +0.00 (95% CI -0.15 to +0.15)"
    assert further == "  full feedback: 0.9"
    assert verdict == "On held-out data this run is not significantly above the best fixed action."


def test_a_run_that_is_worse_than_one_reference_and_no_better_than_another_says_both():
    *_, verdict = _words([0.15, 0.05, 0.12, 0.09])
    expected = "not significantly above the uniform policy, and significantly below the best fixed action"
    assert verdict == f"On held-out data this run is {expected}."


def test_a_run_above_its_references_has_no_complaint():
    assert len(_words([0.9, 0.8, 0.9, 0.85])) == 3


@pytest.mark.parametrize(
    ("fixed", "below"), [(0.5, []), (0.9, ["On held-out data this run is below the best fixed action."])]
)
def test_one_test_set_has_no_interval(fixed, below):
    counts = np.array([8])
    sums = {references.UNIFORM: 0.1 * counts, references.FIXED: fixed * counts}
    head, uniform, _, *verdict = references.in_words(0.6 * counts, sums, counts, "ice").splitlines()
    assert head == "Held-out reward of the greedy policy, 0.6000 (no interval),"
    assert uniform == "  minus the uniform policy (0.1000): +0.5"
    assert verdict == below


def test_a_full_feedback_run_counts_if_its_data_and_rounds_are_the_same(tmp_path):
    def run(name, reward, **flags):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        flags = {"bandits_type": "supervised_mse", "seed": 0, "total_rounds": 3} | flags
        config = {"flags": flags, "data_checksum": "a"}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "metrics.csv").write_text(f"round_num,{metrics.HELD_OUT_REWARD}\n3,{reward}\n")
        return folder

    own = run("own", 0.5, bandits_type="softmax")
    run("longer", 0.7, total_rounds=4)
    run("greedy", 0.7, bandits_type="greedy")
    assert references.full_feedback(own) == ""
    baseline = run("baseline", 0.75)
    assert references.full_feedback(own) == f"  full-feedback baseline: 0.7500 ({baseline})"
    seed = run("seeds/seed_0", 0.5, bandits_type="softmax")
    other = run("baselines/seed_0", 0.8)
    assert references.full_feedback(seed) == f"  full-feedback baseline: 0.8000 ({other})"


def _context_of_two_actions(tmp_path, count=2000):
    """A table whose right action is b where x > 0, and otherwise a; a is right in two thirds of the rows."""
    draw = np.random.default_rng(0)
    x = draw.uniform(-2, 1, count).round(3)
    frame = pd.DataFrame({"who": np.arange(count) % 40, "x": x})
    return draw, frame, tmp_path / "data.csv"


def test_simple_policies_of_a_table_are_chosen_on_training_clients(tmp_path):
    _, frame, path = _context_of_two_actions(tmp_path)
    frame.assign(a=100.0 * (frame.x <= 0), b=100.0 * (frame.x > 0)).to_csv(path, index=False)
    task = registry.load(TaskOptions("tabular", data_file=str(path), client_column="who", reward_columns="a,b"))
    simple = references.simple_policies(task, task.rewards["exact"])
    found = simple.rewards
    rows = np.concatenate([task.held_out.load(index).labels for index in range(len(task.held_out))])
    assert found[references.FIXED].mean == pytest.approx(rows[:, 0].mean())
    assert found[references.FIXED].low < 66.7 < found[references.FIXED].high
    assert found[references.UNIFORM].mean == pytest.approx(50)
    assert found[references.LINEAR].mean > 95
    assert simple.linear_gain.low > 40
    assert simple.measured == pytest.approx((50, found[references.LINEAR].mean))
    assert simple.near_linear == pytest.approx(50 + 0.8 * simple.measured_gain)


def test_simple_policies_of_a_log_are_evaluated_by_its_logged_rewards(tmp_path):
    draw, frame, path = _context_of_two_actions(tmp_path, 8000)
    is_b = draw.random(len(frame)) < 0.5
    paid = 1000.0 * (is_b == (frame.x > 0)) + draw.normal(0, 10, len(frame))
    frame.assign(action=np.where(is_b, "b", "a"), paid=paid, p=0.5).to_csv(path, index=False)
    columns = {"action_column": "action", "reward_column": "paid", "propensity_column": "p"}
    task = registry.load(TaskOptions("logged", data_file=str(path), client_column="who", **columns))
    simple = references.simple_policies(task, task.rewards["exact"])
    found = simple.rewards
    assert found[references.FIXED].low < 667 < found[references.FIXED].high
    assert found[references.LINEAR].low > 900
    assert 400 < simple.linear_gain.low < simple.linear_gain.high < 520
