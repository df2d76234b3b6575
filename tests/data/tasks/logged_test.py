"""Tests of data.tasks.logged."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from data import frames, interaction_log, reward_bounds
from data.errors import UsageError
from data.tasks import logged
from data.tasks.options import TaskOptions

COUNT = 400


def _log(**changed) -> interaction_log.InteractionLog:
    draw = np.random.default_rng(0)
    actions = draw.integers(0, 4, COUNT)
    rewards = (draw.random(COUNT) < 0.2 + 0.2 * actions) * 1.0
    columns = {"actions": actions, "rewards": rewards, "propensities": np.full(COUNT, 0.25)}
    contexts = changed.pop("contexts", draw.normal(size=(COUNT, 5)).astype(np.float32))
    names, owners = [f"c{number}" for number in range(10)], np.repeat(np.arange(10), 40)
    return interaction_log.ordered(names, owners, contexts, list("abcd"), columns | changed)


@pytest.fixture
def load(tmp_path):
    """Opens the task of a log."""

    def write_and_load(log=None, **options):
        path = tmp_path / "log.parquet"
        interaction_log.write(_log() if log is None else log, path)
        return logged.load(TaskOptions("logged", data_file=str(path), **options))

    return write_and_load


def test_labels_of_a_simulator_are_a_reward_of_each_action(load):
    task = load()
    examples = task.clients.load(0)
    assert (len(task.clients), len(task.held_out), task.num_actions) == (8, 2, 4)
    assert (examples.features.shape, examples.labels.shape) == ((40, 5), (40, 4))
    assert task.rewards["exact"].shape == (4, 4)
    assert task.reward_range("exact") == (0, 1)
    assert task.private_statistics == ("the regression on the log, from which rewards are sampled",)


def test_rewards_are_mapped_by_the_range_of_what_training_clients_logged(load):
    assert load().reward_bounds is None
    draw = np.random.default_rng(3)
    earned = load(_log(rewards=draw.normal(2000, 100, COUNT)), learn_from="ips")
    assert earned.has_learned_bounds
    assert earned.reward_bounds.low == pytest.approx(2000 - 233, abs=60)
    assert earned.reward_bounds.high == pytest.approx(2000 + 233, abs=60)
    assert load(_log(rewards=draw.choice([-1.0, 1.0], COUNT))).reward_bounds == reward_bounds.RewardBounds(-1, 1)


def test_a_data_frame_is_a_log_whose_statistics_are_recorded():
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"who": np.arange(60) % 6, "x": draw.normal(size=60), "act": np.arange(60) % 3})
    frame = frame.assign(paid=draw.random(60), p=1 / 3)
    columns = {"action_column": "act", "reward_column": "paid", "propensity_column": "p"}
    with frames.lent(frame) as name:
        task = logged.load(TaskOptions("logged", data_file=name, client_column="who", **columns))
        with pytest.raises(UsageError, match="--client_column, --action_column"):
            logged.load(TaskOptions("logged", data_file=name))
    assert task.clients.checksum == name.removeprefix(frames.PREFIX)
    assert task.statistics["labels"] == {"0": 20, "1": 20, "2": 20}
    assert task.statistics["columns"]["x"]["mean"] == pytest.approx(frame.x.mean())
    assert task.private_statistics[1] == "the counts of the log's actions"


def test_what_contexts_reveal_and_which_rows_are_missing_is_reported(load, capsys):
    report = {"learned_statistics": True, "dropped_rows": {"without_action": 3}, "duplicated_rows": 2}
    task = load(dataclasses.replace(_log(), report=report))
    assert task.private_statistics[0] == "the means, deviations and categories of the log's columns"
    message = capsys.readouterr().err
    assert "Warning: Rows were left out: 3 without action." in message
    assert "Warning: Duplicates: 2 rows equal to an earlier one" in message


@pytest.mark.parametrize("learn_from", ["replay", "regression", "ips"])
def test_other_labels_end_in_the_logged_action_which_has_no_reward(load, learn_from):
    task = load(learn_from=learn_from)
    labels = task.clients.load(0).labels
    assert labels.shape == (40, 7)
    np.testing.assert_array_equal(labels @ task.rewards["exact"], labels[:, :4])
    assert task.private_statistics == ()


def test_held_out_clients_are_predicted_by_a_regression_of_training_clients_alone(load):
    task, log = load(), _log()
    is_held_out = np.isin(log.clients, [log.client_ids.index(name) for name in task.held_out.client_ids])
    changed = dataclasses.replace(log, rewards=np.where(is_held_out, 1 - log.rewards, log.rewards))
    np.testing.assert_array_equal(load(changed).held_out.predicted(0), task.held_out.predicted(0))


def test_an_unfit_log_is_refused(load):
    with pytest.raises(UsageError, match="has no contexts"):
        load(_log(contexts=None))
    with pytest.raises(UsageError, match="--model=cnn takes images"):
        load(model="cnn")
    with pytest.raises(UsageError, match="--learn_from=replay needs a log of uniformly random actions"):
        load(_log(propensities=np.full(COUNT, 0.5)), learn_from="replay")
    with pytest.raises(UsageError, match="needs --data_file"):
        logged.load(TaskOptions("logged"))


def test_a_log_of_ones_own_is_read_by_its_columns(write):
    lines = [f"u{row % 10},{row % 2},{row % 3 == 0:d},0.5,{row}.5,{'xy'[row % 2]}" for row in range(200)]
    columns = {"client_column": "user", "action_column": "arm", "reward_column": "click", "propensity_column": "p"}
    path = write("\n".join(["user,arm,click,p,age,site", *lines]))
    own = TaskOptions("logged", data_file=path, learn_from="replay", **columns)
    task = logged.load(own)
    assert (task.num_actions, task.feature_spec) == (2, ((3,), "float32"))
    with pytest.raises(UsageError, match="is not a run's log: name the columns of your own log with --client_column"):
        logged.load(dataclasses.replace(own, action_column=None))
    with pytest.raises(UsageError, match="no column 'armm'"):
        logged.load(dataclasses.replace(own, action_column="armm"))
