"""Tests of bandits.simulator."""

import dataclasses

import numpy as np
import pytest

from bandits import simulator
from data import interaction_log, logged_clients


def make(bias: float, clients: int = 60) -> logged_clients.LoggedClients:
    """Clients whose actions earn 0.2 and 0.6, with a regression that is biased by this much."""
    draw, rows = np.random.default_rng(1), 100
    count = clients * rows
    actions = (draw.random(count) < 0.25).astype(int)
    rewards = (draw.random(count) < np.array([0.2, 0.6])[actions]) * 1.0
    columns = {"actions": actions, "rewards": rewards, "propensities": np.array([0.75, 0.25])[actions]}
    names = [f"c{number:02d}" for number in range(clients)]
    contexts = np.zeros((count, 1), np.float32)
    log = interaction_log.ordered(names, np.repeat(np.arange(clients), rows), contexts, ["a", "b"], columns)
    one = logged_clients.Regression(0.0, np.array([[0.0, 0.0], [0.2 + bias, 0.6 + bias]]), 0.0, 1.0, 1.0)
    known = logged_clients.Rewards((one,), np.zeros(0), 0.0, 1.0)
    return logged_clients.LoggedClients(
        log,
        known,
        np.zeros(clients, int),
        feedback="simulator",
        keeps_log=False,
        seed=0,
        numbers=range(clients),
        checksum="",
    )


def test_a_true_simulator_agrees_with_its_log():
    logging, uniform = simulator.score(make(0.0))
    assert logging.logged.mean == pytest.approx(0.75 * 0.2 + 0.25 * 0.6, abs=0.02)
    assert uniform.logged.mean == pytest.approx(0.4, abs=0.03)
    for one in (logging, uniform):
        assert one.simulated.mean == pytest.approx(one.logged.mean, abs=0.03)
        assert not one.is_off
        assert one.difference.mean == pytest.approx(one.simulated.mean - one.logged.mean)


def test_a_biased_simulator_is_reported_apart_and_the_log_still_right():
    logging, uniform = simulator.score(make(0.2))
    assert logging.is_off
    assert uniform.is_off
    assert uniform.logged.mean == pytest.approx(0.4, abs=0.03)
    assert uniform.difference.mean == pytest.approx(0.2, abs=0.03)
    assert uniform.in_words().endswith(", significant")
    assert uniform.is_contradicted
    half = uniform.difference.mean / 1.2  # Outside of a 95% interval, inside of a 99% interval.
    near = uniform.difference._replace(low=uniform.difference.mean - half, high=uniform.difference.mean + half)
    unsure = dataclasses.replace(uniform, difference=near)
    assert unsure.is_off
    assert not unsure.is_contradicted


def test_the_sampling_of_the_training_clients_widens_the_intervals():
    alone, both = simulator.score(make(0.0)), simulator.score(make(0.0), make(0.0))
    for less, more in zip(alone, both, strict=True):
        assert more.difference.mean == less.difference.mean
        halves = [(one.high - one.low) / 2 for one in (less.difference, less.logged)]
        assert (more.difference.high - more.difference.low) / 2 == pytest.approx(np.hypot(*halves))


def test_scores_are_computed_once_for_a_task():
    one = make(0.0, 5)
    scores = simulator.score(one)
    assert simulator.score(one) is scores
    assert set(simulator.as_json(scores)) == {"logging policy", "uniformly random actions"}
