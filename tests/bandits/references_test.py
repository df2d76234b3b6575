"""Tests of bandits.references."""

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest

from bandits import metrics, references
from bandits.references import Bounds
from data import clients, interaction_log, logged_clients
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.options import Cohorts
from tests.bandits.whole_runs import options_of


def _context_of_two_actions(tmp_path, count=2000):
    """A table whose right action is b where x > 0, and otherwise a; a is right in two thirds of the rows."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"who": np.arange(count) % 40, "x": draw.uniform(-2, 1, count).round(3)})
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
        (0.4, False, False, "Did not learn: .* greedy policy (0.5000) .* that of the best fixed action (0.4500)."),
        (
            0.1,
            True,
            False,
            "Earned no more than a simple policy: .* (0.1000) is not above that of the uniform policy (0.1000) or that "
            "of the best fixed action (0.3000); its trained model is better, so deploy models more often .*",
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
    pattern = re.escape(notice).replace(r"\.\*", ".*")
    assert re.fullmatch(pattern, references.notice(table, recorded, explores_only=explores_only))
    assert references.notice(table, {}) == ""


# Recorded bounds.

LABELS = [[0, 0, 0, 1], [1], [], [2, 2]]
MATRIX = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]], np.float32)


def _clients(labels):
    owners = np.repeat(np.arange(len(labels)), [len(some) for some in labels])
    flat = np.array([one for some in labels for one in some])
    examples = clients.Examples(np.zeros((len(flat), 1), np.float32), flat)
    return clients.ArrayClients(examples, owners, [str(index) for index in range(len(labels))])


def _values(members=range(4), cap=0, cohort=None, population=None):
    """Mean rewards of actions, number of clients, and their shares."""
    return references.action_values(population or _clients(LABELS), members, MATRIX, cap, cohort)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # Labels 0, 1, 2 occur 3, 2, 2 times.
        ((), [3 / 7, 2 / 7, (1.5 + 1.0 + 2.0) / 7]),
        ((range(4), 0, Cohorts(4)), [3 / 7, 2 / 7, 4.5 / 7]),
        # Two of four examples of the first client count: 1.5 and 0.5 on average.
        ((range(4), 2), [1.5 / 5, 1.5 / 5, (0.75 + 0.75 + 2.0) / 5]),
        # Only those who take part count.
        ((range(1, 3),), [0.0, 1.0, 0.5]),
        ((range(2, 3),), [np.nan] * 3),
    ],
    ids=["all", "a cohort of all", "capped", "some", "without examples"],
)
def test_values_by_hand(arguments, expected):
    values, read, _ = _values(*arguments)
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert read == (len(arguments[0]) if arguments else 4)


@pytest.mark.parametrize("sampling", ["fixed", "poisson", "cyclic"])
def test_rounds_of_one_client_weigh_clients_alike(sampling):
    # Each round is the mean of one client: label 0 at 3/4, 0 and 0, the one without examples left out. By Poisson
    # sampling, rounds of several clients come between: cohorts {0, 1} have 3/5, {0, 3} 3/6, {0, 1, 3} 3/7.
    values, *_ = _values(cohort=Cohorts(1, sampling))
    one, two, three = 1 / 4 * 9 / 16, 1 / 16 * 3 / 4, 1 / 64
    by_coins = (one * 3 / 4 + two * (3 / 5 + 3 / 6) + three * 3 / 7) / (1 - 27 / 64)
    expected = by_coins if sampling == "poisson" else (3 / 4 + 0 + 0) / 3
    assert values[0] == pytest.approx(expected, abs=0.006)


def test_rounds_are_as_rounds_are_drawn():
    # A large client with the label, ten small ones without it: 20,000 rounds, drawn and averaged plainly.
    population = _clients([[0] * 30, *[[1]] * 10])
    values, *_ = references.action_values(population, range(11), MATRIX, 0, Cohorts(3))
    draw = np.random.default_rng(5)
    drawn = np.argsort(draw.random((20_000, 11)), axis=1)[:, :3]
    plain = np.where((drawn == 0).any(axis=1), 30 / 32, 0.0)
    assert values[0] == pytest.approx(plain.mean(), abs=4 * plain.std() / 20_000**0.5)


def test_several_labels_of_an_example_add_up():
    examples = clients.Examples(np.zeros((2, 1), np.float32), np.array([[1, 0, 1], [0, 1, 1]], np.float32))
    population = clients.ArrayClients(examples, np.array([0, 0]), ["0"])
    values, *_ = references.action_values(population, range(1), np.eye(3, dtype=np.float32), 0)
    assert values.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("cohort", [None, Cohorts(5)])
def test_the_error_of_a_sample_is_the_spread_over_samples(cohort, monkeypatch):
    """Unequal clients, 60 of 400, drawn again and again by another order of theirs."""
    monkeypatch.setattr(references, "MOST_CLIENTS", 60)
    monkeypatch.setattr(references, "_DRAWS", 300)
    draw = np.random.default_rng(3)
    sizes = draw.integers(1, 12, 400)
    population = _clients([list(draw.integers(0, 3, size)) if draw.random() < 0.7 else [0] * size for size in sizes])
    found = [references.action_values(population, draw.permutation(400), MATRIX, 0, cohort) for _ in range(150)]
    bounds = [references._bounds(one, 0, 400) for one in found]
    for name in ("chance", "constant"):
        spread = np.std([getattr(one, name) for one in bounds], ddof=1)
        printed = np.mean([getattr(one, f"{name}_error") for one in bounds])
        assert printed == pytest.approx(spread, rel=0.2)


@pytest.fixture(scope="module")
def digits():
    return registry.load(options_of().task)


def test_digits_by_counting_them(digits):
    found = references.bounds_of_run(options_of(), digits)
    labels = np.concatenate([digits.clients.load(index).labels for index in range(len(digits.clients))])
    counts = np.bincount(labels)
    best = int(counts.argmax())
    here = found["participating"]
    # Clients have 23 or 24 examples, so a round's mean is close to the mean over all.
    assert (here.chance_error, here.constant_error) == (0.0, 0.0)  # All clients are read.
    assert here == Bounds(pytest.approx(0.1), pytest.approx(counts[best] / len(labels), abs=1e-4), best, 60, 60)
    held_out = digits.held_out.load(0).labels
    assert references.bounds_as_json(found)["held_out"] == dataclasses.asdict(found["held_out"])
    assert found["held_out"] == Bounds(pytest.approx(0.1), pytest.approx((held_out == best).mean()), best, 1, 1)


def test_where_rewards_drift_a_constant_action_earns_the_mean_over_rounds(digits):
    """A client's own time decides how many rounds each of its two reward matrices counts."""
    options = options_of("--reward_drift=client", "--total_rounds=10", "--drift_start=3", "--drift_rounds=6")
    found = references.bounds_of_run(options, digits)
    own, permuted = options.drift.matrices(np.eye(10, dtype=np.float32))
    totals = np.zeros(10)
    for client in range(60):
        before = 10 - options.drift.at(range(1, 11), client).sum()
        counts = np.bincount(digits.clients.load(client).labels, minlength=10)
        totals += counts @ (before * own + (10 - before) * permuted) / 10
    best = int(totals.argmax())
    assert found["participating"].action == best
    assert found["participating"].constant == pytest.approx(totals[best] / totals.sum(), abs=1e-4)
    held_out = permuted[digits.held_out.load(0).labels]
    assert found["held_out"].constant == pytest.approx(held_out[:, best].mean())


def test_where_a_selector_prefers_some_clients_the_held_out_ones_alone_are_reported(digits):
    assert list(references.bounds_of_run(options_of("--client_selection=ucb_cs"), digits)) == ["held_out"]
