"""Policies against Vowpal Wabbit's `--cb_explore_adf` for equal scores; see `vowpal_wabbit.py` for the fixture.

Vowpal Wabbit predicts costs, so a predicted reward is a negative score. Its options correspond to ours as follows.

- `--epsilon` is the probability of a uniformly random action, which can also be the best one, as here.
- `--lambda` multiplies costs in the softmax, so it is 1 / temperature.
- `--squarecb` uses mu = the number of offered actions, and gamma = `gamma_scale` * decisions ^ `gamma_exponent`, where
  decisions are those that it has learned.
"""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from bandits import policies

FIXTURE = json.loads(pathlib.Path(__file__).with_name("vowpal_wabbit.json").read_text())
LEARNED = FIXTURE["learned"]
POLICIES = {
    "epsilon": policies.EpsilonGreedy(0.2),
    "softmax": policies.Softmax(1 / 3),
    "squarecb": policies.InverseGapWeighting(None, 10 * LEARNED**0.5),
    "squarecb_greedier": policies.InverseGapWeighting(None, 50 * LEARNED**0.75),
}


def test_the_fixture_has_every_policy_and_sets_of_1_2_and_7_actions():
    sizes = {(case["name"], len(case["scores"])) for case in FIXTURE["cases"]}
    assert sizes == {(name, size) for name in POLICIES for size in (1, 2, 7)}


@pytest.mark.parametrize("name", POLICIES)
def test_probabilities_equal_vowpal_wabbits_in_sets_of_any_size(name):
    cases = [case for case in FIXTURE["cases"] if case["name"] == name]
    predicted = np.full((len(cases), 9), -np.inf, np.float32)
    expected = np.zeros(predicted.shape)
    for row, case in enumerate(cases):  # Sets begin at different slots, among actions that are not offered.
        offered = slice(row, row + len(case["scores"]))
        predicted[row, offered] = -np.array(case["scores"])
        expected[row, offered] = case["probabilities"]
    probabilities = POLICIES[name](tf.constant(predicted), offered=tf.constant(predicted > -np.inf)).numpy()
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    assert (probabilities[predicted == -np.inf] == 0).all()
