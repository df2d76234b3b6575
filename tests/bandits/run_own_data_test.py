"""Whole runs on data of the user's own: they equal runs on the same data as a task, and are recorded and continued."""

import importlib
import json
import sys

import numpy as np
import pandas as pd
import pytest

import bandits
from bandits import run_federated
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization import posterior
from optimization.study import frame
from tests.bandits import whole_runs
from tests.bandits.whole_runs import assert_same

pytestmark = pytest.mark.slow

MODULE = """
import numpy as np


def client(number):
    draw = np.random.default_rng(number)
    labels = draw.integers(3, size=20)
    return np.eye(3)[labels] + draw.normal(size=(20, 3)), labels


def make(count):
    return {number: client(number) for number in range(count)}
"""


@pytest.fixture(scope="module")
def folder(tff_worker, tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture
def users(tmp_path, monkeypatch):
    (tmp_path / "users_clients.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("users_clients")
    del sys.modules["users_clients"]


def test_a_run_on_the_digits_clients_equals_the_run_on_the_task(folder):
    task = registry.load(TaskOptions("digits"))
    given, held_out = (
        {name: tuple(part.load(place)) for place, name in enumerate(part.client_ids)}
        for part in (task.clients, task.held_out)
    )
    settings = {"total_rounds": 4, "clients_per_round": 5, "bandits_deploy_freq": 2, "seed": 7}
    settings |= {"scenario": "init_shift", "init_rounds": 2, "init_clients": 10, "init_server_optimizer": "sgd"}
    settings |= {"init_server_learning_rate": 1.0, "root_output_dir": folder}
    expected = bandits.run(experiment_name="digits", **settings)
    own = bandits.run(data=given, eval_data=held_out, model="mlp", hidden=64, **settings)
    assert_same(own.folder, expected.folder)


def test_a_dictionary_is_recorded_and_continued_with_equal_data_only(users, folder):
    where = {"root_output_dir": folder, "clients_per_round": 4, "bandits_deploy_freq": 2}
    own = bandits.run(data=users.make(30), total_rounds=2, **where)
    assert own.folder.name == "own_scratch_softmax_dict"
    assert json.loads((own.folder / "config.json").read_text())["data_report"] == {
        "clients": 24,
        "held_out_clients": 6,
        "form": "features float64 (3,), class indices",
        "actions": 3,
        "examples": 480,
    }
    longer = bandits.run(data=users.make(30), total_rounds=4, **where)
    at_once = bandits.run(data=users.make(30), total_rounds=4, experiment_name="at_once", **where)
    whole_runs.assert_same_model(at_once.folder, longer.folder)  # They were evaluated in other rounds.
    with pytest.raises(UsageError, match=r"--data was dict in memory .*the data has a different checksum"):
        bandits.run(data=users.make(31), total_rounds=4, **where)
    with pytest.raises(UsageError, match=r"trained on arrays .*: apply run.weights to arrays"):
        longer.predict(pd.DataFrame({"x": [1.0]}))


def test_a_name_on_the_command_line_is_the_object_in_python(users, folder):
    flags = {"total_rounds": 3, "clients_per_round": 4, "actions": 3, "root_output_dir": str(folder)}
    words = [f"--{flag}={value}" for flag, value in flags.items()]
    settings = whole_runs.parse(*words, "--data=users_clients:make(12)", "--experiment_name=named")
    assert frame.program(run_federated.STUDY, settings) == 0
    run = bandits.load(folder / "named")
    assert run.flags["data"].startswith("users_clients:make(12) ")
    assert run.flags["task_type"] == "own"
    assert_same(run.folder, bandits.run(data=users.make(12), experiment_name="in_python", **flags).folder)


def test_rewards_of_each_action_have_no_accuracy(users, folder):
    given = {name: (features, 3 * np.eye(3)[labels]) for name, (features, labels) in users.make(12).items()}
    where = {"root_output_dir": folder, "experiment_name": "rewards", "total_rounds": 2}
    held_out = {f"held_out_{name}": client for name, client in given.items()}
    run = bandits.run(data=given, eval_data=held_out, actions=["a", "b", "c"], **where)
    assert run.flags["reward_bounds"] == "0.0,3.0"
    assert run.metrics["eval/accuracy"].isna().all()
    assert run.metrics["eval/reward"].iloc[-1] > 0
    with pytest.raises(UsageError, match="rewards has no effect here"):
        bandits.run(data=given, rewards=lambda label, action: 1.0)


def test_other_studies_train_on_the_same_clients(users, folder):
    flags = {"data": users.make(30), "root_output_dir": folder, "total_rounds": 2, "clients_per_round": 4}
    selection = bandits.client_selection.run(client_selection="rand", rounds_per_eval=2, **flags)
    assert len(pd.read_csv(selection.folder / "private_clients.csv")) == 24
    assert len(posterior.run(algorithm="fedavg", **flags).metrics) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task_type": "digits"}, "--data belongs to --task_type=own, not to digits"),
        ({"data": None, "actions": 3}, "--actions belongs to --"),
        ({"table": pd.DataFrame({"x": [1]})}, "--data belongs to --task_type=own, not to tabular"),
        ({"scenario": "init_shift", "init_clients": 99}, "--init_clients=99 leaves none"),
    ],
)
def test_other_settings_that_do_not_go_with_data_are_refused(users, folder, settings, message):
    with pytest.raises(UsageError, match=message):
        bandits.run(**{"data": users.make(12), "root_output_dir": folder, **settings})
