"""Tests of bandits.references."""

import json

import numpy as np
import pytest

from bandits import metrics, references

COUNTS = np.array([10, 20, 10, 20])


def _words(per_row, fixed=0.5, **more):
    sums = {references.UNIFORM: 0.1 * COUNTS, references.FIXED: fixed * COUNTS}
    return references.in_words(np.array(per_row) * COUNTS, sums, COUNTS, "ice", **more).splitlines()


def test_a_run_that_is_not_above_the_best_fixed_action_says_so():
    head, uniform, fixed, further, verdict = _words([0.5, 0.4, 0.6, 0.55], further="  full feedback: 0.9")
    assert (
        head
        == "Held-out reward of the greedy policy, 0.5000 (95% intervals over 4 held-out clients, weighted by rows),"
    )
    # Four times the clients' influences, (0, -2, 1, 1) / 60, have deviation 0.0943: half a width is 3.182 * 0.0943 / 2.
    assert uniform == "  minus the uniform policy (0.1000): +0.40 (95% CI +0.25 to +0.55)"
    assert fixed == "  minus the best fixed action (0.5000, action ice): +0.00 (95% CI -0.15 to +0.15)"
    assert further == "  full feedback: 0.9"
    assert verdict == "On held-out data this run is not significantly above the best fixed action."


def test_a_run_above_its_references_has_no_complaint():
    assert len(_words([0.9, 0.8, 0.9, 0.85])) == 3


@pytest.mark.parametrize(
    ("fixed", "below"), [(0.5, []), (0.9, ["On held-out data this run is not above the best fixed action."])]
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
