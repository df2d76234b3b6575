"""Tests of data.tasks.tabular."""

import dataclasses
import json

import numpy as np
import pytest

from data import tasks
from data.errors import UsageError
from data.tasks import tabular
from data.tasks.options import TaskOptions

SITES = TaskOptions("tabular", client_column="site", label_column="y")
# Labels r, q, p of 3, 2 and 1 rows a client; with the seed 0, client c is held out.
LABELS = "site,age,color,y\n" + "".join(
    f"{site},{row},{'red' if row % 2 else 'blue'},{label}\n" for site in "abcde" for row, label in enumerate("pqqrrr")
)
REWARDS = "site,age,left,right\n" + "".join(f"{site},{row},{row},0.5\n" for site in "abcde" for row in range(3))


@pytest.fixture
def load(tmp_path):
    """Opens the task of a table with this text."""

    def write_and_load(text: str = LABELS, **changes) -> tasks.Task:
        (tmp_path / "table.csv").write_text(text)
        return tabular.load(dataclasses.replace(SITES, **{"data_file": str(tmp_path / "table.csv"), **changes}))

    return write_and_load


def test_the_linear_task_has_the_tables_sizes(load):
    task = load()
    assert task.num_actions == 3
    assert task.feature_spec == ((3,), "float32")
    assert task.model == "mlp"
    assert task.model_arguments == {"num_features": 3, "hidden": (), "num_outputs": 3}
    assert not task.multi_label
    assert task.clients.client_ids == ["a", "b", "d", "e"]
    assert task.held_out.client_ids == ["c"]


def test_features_and_labels_fit_the_task(load):
    task = load()
    examples = task.clients.load(0)
    assert task.normalise(examples.features).shape == (6, *task.feature_spec[0])
    assert examples.features.dtype == task.feature_spec[1]
    assert examples.labels.tolist() == [0, 1, 1, 2, 2, 2]


def test_the_mlp_has_a_hidden_layer_of_64(load):
    assert load(model="mlp").model_arguments["hidden"] == (64,)


# By the number of labels in the initial training: which they are. The default is 2, half of 3 rounded up.
@pytest.mark.parametrize(("init_labels", "paid"), [(None, [0, 1, 1]), (1, [0, 0, 1]), (2, [0, 1, 1]), (3, [1, 1, 1])])
def test_the_initial_training_pays_for_the_most_frequent_labels_only(load, init_labels, paid):
    rewards = load(init_labels=init_labels).rewards
    np.testing.assert_array_equal(rewards["init"], np.diag(paid))
    np.testing.assert_array_equal(rewards["bandits"], np.eye(3))
    np.testing.assert_array_equal(rewards["exact"], np.eye(3))
    assert {matrix.dtype for matrix in rewards.values()} == {np.dtype(np.float32)}


def test_labels_are_counted_on_training_clients(load):
    # The held-out client c has most of all p.
    rewards = load(LABELS + "c,1,red,p\n" * 50, init_labels=1).rewards
    np.testing.assert_array_equal(rewards["init"], np.diag([0, 0, 1]))


@pytest.mark.parametrize("init_labels", [0, -1, 4])
def test_more_or_fewer_labels_than_there_are_are_refused(load, init_labels):
    with pytest.raises(UsageError, match=f"--init_labels={init_labels} must lie between 1 and 3"):
        load(init_labels=init_labels)


def test_rewards_are_the_labels_and_have_no_shift(load):
    task = load(REWARDS, label_column=None, reward_columns="left,right")
    assert (task.num_actions, task.multi_label) == (2, True)
    assert task.feature_spec == ((1,), "float32")
    assert list(task.rewards) == ["exact"]
    examples = task.clients.load(0)
    np.testing.assert_array_equal(examples.labels @ task.rewards["exact"], [[0, 0.5], [1, 0.5], [2, 0.5]])
    assert task.reward_range("exact") == (0, 2)


def test_init_labels_is_refused_with_rewards(load):
    with pytest.raises(UsageError, match="--init_labels has no effect with --reward_columns"):
        load(REWARDS, label_column=None, reward_columns="left,right", init_labels=1)


@pytest.mark.parametrize("flag", ["data_file", "client_column"])
def test_the_table_needs_a_file_and_clients(load, flag):
    with pytest.raises(UsageError, match=f"--task_type=tabular needs --{flag}"):
        load(**{flag: ""})


def test_the_tables_mistakes_are_passed_on(load):
    with pytest.raises(UsageError, match="--label_column: there is no column 'z'"):
        load(label_column="z")


def test_the_real_hospitals_make_a_task(shared_data):
    path = str(shared_data / "heart_disease_4sites.csv")
    task = tabular.load(dataclasses.replace(SITES, data_file=path, label_column="target"))
    assert (len(task.clients), task.num_actions, task.feature_spec) == (4, 5, ((23,), "float32"))
    # The three most frequent of five.
    np.testing.assert_array_equal(task.rewards["init"], np.diag([1, 1, 1, 0, 0]))


def test_the_real_advertisements_make_a_task(shared_data):
    path = str(shared_data / "Ads_CTR_Optimisation.csv")
    task = tabular.load(TaskOptions("tabular", data_file=path, client_column="rows:100", reward_columns="all"))
    assert (len(task.clients), len(task.held_out), task.num_actions) == (80, 20, 10)
    assert task.model_arguments == {"num_features": 1, "hidden": (), "num_outputs": 10}


def test_what_was_learned_from_clients_is_named_unless_it_is_public(load, tmp_path):
    learned = load()
    assert learned.private_statistics == (
        "means, deviations and categories of the table's columns",
        "the table's labels and their counts",
    )
    assert learned.statistics["labels"] == {"p": 4, "q": 8, "r": 12}
    (tmp_path / "statistics.json").write_text(json.dumps(learned.statistics))
    public = load(public_statistics=str(tmp_path / "statistics.json"))
    assert (public.private_statistics, public.statistics) == ((), {})
    assert public.checksum not in (learned.checksum, "")
    np.testing.assert_array_equal(public.clients.load(0).features, learned.clients.load(0).features)


def test_a_table_of_rewards_without_context_teaches_nothing(load):
    task = load("site,left,right\n" + "a,0,1\nb,1,0\n" * 9, label_column=None, reward_columns="all")
    assert (task.private_statistics, task.statistics) == ((), {})
