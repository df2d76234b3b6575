"""Tests of bandits.references."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, references
from data import interaction_log, logged_clients
from data.tasks import registry
from data.tasks.options import TaskOptions


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


def make_log(bias: float, clients: int = 60) -> logged_clients.LoggedClients:
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
    logging, uniform = references.simulator_scores(make_log(0.0))
    assert logging.logged.mean == pytest.approx(0.75 * 0.2 + 0.25 * 0.6, abs=0.02)
    assert uniform.logged.mean == pytest.approx(0.4, abs=0.03)
    for one in (logging, uniform):
        assert one.simulated.mean == pytest.approx(one.logged.mean, abs=0.03)
        assert not one.is_off
        assert one.difference.mean == pytest.approx(one.simulated.mean - one.logged.mean)


def test_a_biased_simulator_is_reported_apart_and_the_log_still_right():
    logging, uniform = references.simulator_scores(make_log(0.2))
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
    alone, both = references.simulator_scores(make_log(0.0)), references.simulator_scores(make_log(0.0), make_log(0.0))
    for less, more in zip(alone, both, strict=True):
        assert more.difference.mean == less.difference.mean
        halves = [(one.high - one.low) / 2 for one in (less.difference, less.logged)]
        assert (more.difference.high - more.difference.low) / 2 == pytest.approx(np.hypot(*halves))


def test_a_run_that_is_not_above_a_reference_says_so():
    counts, earned = np.array([10, 10, 20]), np.array([9.0, 8.0, 18.0])
    lines, is_above = references.compared(earned, {"uniform": earned / 4, "fixed, a": earned - [1, -1, 0]}, counts)
    assert lines[0] == "Held-out reward of the greedy policy, 0.8750"
    assert lines[1].startswith("  minus uniform (0.2188): +0.6")
    assert is_above == [True, False]


@pytest.mark.parametrize(
    ("average", "is_above", "explores_only", "notice"),
    [
        (0.4, True, False, ""),
        (
            0.4,
            False,
            False,
            "Did not learn: the held-out reward of its greedy policy (0.5000) is not significantly above that of the "
            "best fixed action (0.4500).",
        ),
        (
            0.1,
            True,
            False,
            "Earned no more than a simple policy: its average reward over all rounds (0.1000) is not above that of the "
            "uniform policy (0.1000) or that of the best fixed action (0.3000); its trained model is better, so deploy "
            "models more often (--bandits_deploy_freq) or explore less.",
        ),
        (0.1, True, True, ""),
    ],
)
def test_a_notice_names_the_simple_policies_that_earned_as_much(average, is_above, explores_only, notice):
    table = pd.DataFrame({metrics.AVERAGE_REWARD: [0.9, average]})
    recorded = {
        "participating": {"chance": 0.1, "constant": 0.3},
        "held_out": {"chance": 0.1, "constant": 0.45},
        "greedy": {"reward": 0.5, "chance": True, "constant": is_above},
    }
    assert references.notice(table, recorded, explores_only=explores_only) == notice
    assert references.notice(table, {}) == ""
