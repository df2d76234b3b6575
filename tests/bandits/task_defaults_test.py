"""Tests of bandits.task_defaults, as `run_federated` resolves them."""

import pytest

from bandits import flags, run_federated, task_defaults
from data.tasks import registry
from optimization.study import frame


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), {"total_rounds": 150, "clients_per_round": 20, "init_clients": None, "max_examples_per_client": 0}),
        ((), {"bandits_deploy_freq": 10, "client_batch_size": 16, "rounds_per_eval": 10, "rounds_per_checkpoint": 25}),
        ((), {"server_learning_rate": 0.01, "client_learning_rate": 0.1, "client_epochs_per_round": 1}),
        (("--scenario=init",), {"total_rounds": 150, "init_clients": 10, "init_server_optimizer": "adam"}),
        (
            ("--scenario=init",),
            {"init_rounds": 50, "init_server_learning_rate": 0.01, "init_client_learning_rate": 0.1},
        ),
        (("--task_type=emnist_chars",), {"total_rounds": 800, "clients_per_round": 64, "server_learning_rate": 0.002}),
        (("--task_type=emnist_chars",), {"bandits_deploy_freq": 200, "client_learning_rate": 0.1}),
        (("--task_type=emnist10_linear", "--scenario=init"), {"init_clients": 100, "init_client_learning_rate": 0.5}),
        (("--task_type=unipen62",), {"bandits_deploy_freq": 50, "rounds_per_eval": 50, "max_examples_per_client": 100}),
        (("--task_type=stackoverflow_tag",), {"total_rounds": 1600, "init_server_optimizer": None}),
        (("--task_type=stackexchange_tag",), {"clients_per_round": 32, "init_clients": None, "rounds_per_eval": 20}),
        (("--task_type=stackexchange_tag", "--scenario=init"), {"init_clients": 100, "init_server_optimizer": "adam"}),
        (("--task_type=emnist_chars", "--scenario=init_shift"), {"total_rounds": 700, "init_rounds": 100}),
        (("--task_type=emnist_digits", "--scenario=init"), {"total_rounds": 700, "init_server_optimizer": "adam"}),
        (("--task_type=stackoverflow_tag", "--initial_model_path=a"), {"total_rounds": 1500}),
        (("--task_type=stackoverflow_tag", "--scenario=init", "--total_rounds=9"), {"total_rounds": 9}),
        (("--task_type=unipen62", "--scenario=init"), {"total_rounds": 200, "init_server_learning_rate": 0.005}),
        (("--task_type=tabular", "--data_file=a.csv", "--scenario=init"), {"init_clients": None, "total_rounds": 150}),
        (("--task_type=cifar100",), {"partition_clients": 100, "rounds_per_checkpoint": 25}),
        (("--task_type=cifar100", "--scenario=init"), {"init_clients": 20, "init_server_optimizer": "sgd"}),
        (
            ("--preset=emnist_init_softmax", "--scenario=scratch"),
            {"init_rounds": None, "init_client_learning_rate": None},
        ),
        (("--task_type=emnist_chars", "--total_rounds=3"), {"total_rounds": 3, "rounds_per_eval": 50}),
    ],
)
def test_flags_that_are_not_given_follow_the_task(arguments, expected):
    settings = flags.resolve(frame.flag_set(run_federated.STUDY).parse(["run_federated", *arguments]))
    assert {name: settings[name] for name in expected} == expected


def test_only_known_tasks_have_defaults():
    assert set(task_defaults._OF_TASK) <= set(registry.TASKS)


# Of the digits, before 2026-11-22.
