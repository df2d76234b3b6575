"""Tests of bandits.fedlinucb."""

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bandits import fedlinucb, theory
from bandits.event_triggered import FedLinUcb
from data import keys
from tests.bandits import event_triggered_test

SMALL = fedlinucb.Experiment(num_clients=4, num_features=5, num_actions=6)


def _steps(experiment, seed, count):
    """Client, actions, expected rewards, rewards and coin of each step."""
    key = keys.tensorflow_key(seed, keys.Purpose.LABORATORY, 3)
    for number in range(count):
        client, actions, noise, coin = (part.numpy() for part in experiment.draw(key, tf.constant(number)))
        expected = actions @ np.full(experiment.num_features, experiment.num_features**-0.5)
        yield client, actions, expected, expected + noise, coin


def _in_numpy(experiment, seed, count):
    """Regret and messages after each step, float64 [2, steps]."""
    learner = event_triggered_test.InNumpy(experiment.learner, experiment.num_features, experiment.num_clients)
    regret, messages, seen, started = 0.0, 0, [], set()
    for client, actions, expected, rewards, coin in _steps(experiment, seed, count):
        if experiment.starts_empty and client not in started:
            (choice,), uploads = learner.act(client, actions[:1][np.newaxis], rewards[:1][np.newaxis])[0], coin
        else:
            (choice,), uploads = learner.act(client, actions[np.newaxis], rewards[np.newaxis])
        if uploads:
            started.add(client)
            learner.exchange([client])
        regret += expected.max() - expected[choice]
        messages += (1 + experiment.receivers) * bool(uploads)
        seen.append((regret, messages))
    return np.array(seen).T


@pytest.mark.parametrize("name", fedlinucb.EXPERIMENTS)
def test_the_simulation_is_a_loop_in_numpy(name):
    _, experiment = fedlinucb.EXPERIMENTS[name]
    expected = _in_numpy(experiment, 3, 100)
    np.testing.assert_allclose(experiment.run(3, range(1, 101)), expected, rtol=0, atol=1e-6)
    assert expected[1, -1] > 0


def test_the_results_do_not_depend_on_the_listed_times():
    whole, parts = SMALL.run(5, (300,)), SMALL.run(5, (1, 120, 300))
    np.testing.assert_array_equal(whole[:, 0], parts[:, -1])
    assert not np.array_equal(whole, SMALL.run(6, (300,)))


def test_the_simulation_equals_the_tff_rounds(tff_worker, tmp_path):
    inputs_type = (np.float64, (None, 6, 5)), (np.float64, (None, 6))
    rounds = event_triggered_test.tff_rounds(tmp_path, SMALL.learner, inputs_type, 5, 4, ())
    state, regret, messages, seen = rounds.initialize(), 0.0, 0, []
    for round_num, (client, actions, expected, rewards, _) in enumerate(_steps(SMALL, 7, 200), 1):
        inputs = [((actions[np.newaxis], rewards[np.newaxis]), int(client))]
        state, ((choice,),), sent = rounds.next(state, (), inputs, round_num)
        regret, messages = regret + expected.max() - expected[choice], messages + sent
        seen.append((regret, messages))
    np.testing.assert_allclose(SMALL.run(7, range(1, 201)), np.transpose(seen), rtol=0, atol=1e-9)
    assert 0 < messages < 400


def test_regret_in_two_dimensions_grows_at_most_with_the_root_of_the_steps():
    central = fedlinucb.Experiment(FedLinUcb(threshold=0.0), num_clients=1, num_features=2, num_actions=10)
    times = (250, 500, 1000, 2000, 4000, 8000)
    regrets = np.stack([central.run(seed, times)[0] for seed in range(6)])
    slope = theory.slope(times, regrets)
    assert slope.low > 0
    assert slope.high < 0.5
    # Actions that ignore rewards have a regret that is linear in the steps.
    uniform = sum(expected.max() - expected.mean() for _, _, expected, *_ in _steps(central, 0, 200)) / 200
    assert regrets.mean(axis=0)[-1] < 0.05 * uniform * times[-1]


def _walks(draw, runs):
    return draw.normal(size=(runs, 10)).cumsum(axis=1)  # As correlated as regrets are.


def test_the_joint_test_keeps_its_level_and_finds_a_difference(monkeypatch):
    monkeypatch.setattr(fedlinucb, "_SAMPLES", 200)
    draw = np.random.default_rng(4)

    def p_value(shift):
        other = _walks(draw, 20) + shift
        return fedlinucb.joint_test(_walks(draw, 20), other.mean(axis=0), other.std(axis=0, ddof=1), 20)[1]

    assert np.mean([p_value(0.0) < 0.05 for _ in range(150)]) == pytest.approx(0.05, abs=0.05)
    assert p_value(4.0 * (np.arange(10) == 3)) < 0.02


def test_measures_without_variance_must_be_equal():
    own, deviations = np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]]), np.array([1.0, 0.0])
    same, statistic = (fedlinucb.largest_difference(own, np.array([2.5, one]), deviations, 3) for one in (7.0, 7.1))
    assert same == pytest.approx(0.5 / np.sqrt(2 / 3))
    assert statistic == np.inf


def test_the_table_has_the_published_numbers(monkeypatch):
    monkeypatch.setattr(fedlinucb, "_SAMPLES", 200)
    monkeypatch.setattr(fedlinucb.Experiment, "run", lambda self, seed, times: np.outer([1 + seed, 400], times))
    table, verdict = fedlinucb.compare("FedLinUCB, Algorithm 1", 1, 3)
    assert table.iloc[-1].tolist() == [30000, "90000.0 ± 30000.0", "92.2 ± 10.1", "12000000.0 ± 0.0", "400.4 ± 3.9"]
    assert len(table) == 13
    assert verdict.startswith("Significantly different from the published results (largest Welch statistic of 26: ")


def test_the_published_numbers_are_those_of_the_shared_file(shared_data):
    own, other = (pd.read_csv(path) for path in (fedlinucb._REFERENCE, shared_data / "fedlinucb_reference.csv"))
    pd.testing.assert_frame_equal(own, other)


@pytest.mark.slow
def test_runs_do_not_differ_from_the_published_results():
    table, verdict = fedlinucb.compare("FedLinUCB, start of the published code", 0, 4)
    assert verdict.startswith("No significant difference"), table
