"""Tests of the task `synthetic`."""

from data import tasks
from data.tasks import synthetic
from data.tasks.options import TaskOptions


def load(**changes) -> tasks.Task:
    made = {"partition_clients": 4, "partition_seed": 1, "synthetic_alpha": 0.5, "synthetic_beta": 2.0}
    return synthetic.load(TaskOptions("synthetic", **made | changes))


def test_the_task_is_multinomial_logistic_regression_of_60_features():
    task = load()
    assert (len(task.clients), task.num_actions, task.feature_spec) == (4, 10, ((60,), "float32"))
    assert task.model_arguments == {"num_features": 60, "hidden": (), "num_outputs": 10}


def test_the_flags_change_the_clients_but_for_alpha():
    changes = [{}, {"partition_seed": 2}, {"synthetic_beta": 0.0}, {"partition_clients": 5}]
    assert len({load(**change).clients.checksum for change in changes}) == 4
    assert load(synthetic_alpha=0.0).clients.checksum == load().clients.checksum
