"""Defaults of `run_federated` that depend on the task. The task's own defaults are in `data.tasks.registry`."""

from collections.abc import Mapping
from typing import Any

PRETRAINED = ("init", "init_shift")  # Scenarios with initial training.
_USUAL = {
    "total_rounds": 150,
    "clients_per_round": 20,
    "client_batch_size": 16,
    "client_epochs_per_round": 1,
    "bandits_deploy_freq": 10,
    "server_learning_rate": 0.01,
    "client_learning_rate": 0.1,
    "init_rounds": 100,
    "init_clients": 100,
    "init_server_optimizer": "sgd",
    "init_server_learning_rate": 1.0,
    "init_client_learning_rate": 0.1,
    "rounds_per_eval": 10,
    "rounds_per_checkpoint": 25,
}
NAMES = tuple(_USUAL)
# Agarwal et al. 2023, section 4.2 and appendix A.2. Learning rates are those of softmax in Table 1.
_STUDY = {
    "total_rounds": 800,
    "clients_per_round": 64,
    "bandits_deploy_freq": 200,
    "server_learning_rate": 0.002,
    # Training is faster with these rates than with those in the paper's tables, which the presets use
    # (docs/papers/agarwal2023.md).
    "init_server_optimizer": "adam",
    "init_server_learning_rate": 0.005,
    "init_client_learning_rate": 0.5,
    "rounds_per_eval": 50,
}
_SMALL_POPULATION = _STUDY | {"total_rounds": 200, "bandits_deploy_freq": 50}
_EMNIST = ("emnist_chars", "emnist_digits", "emnist62_linear", "emnist10_linear")
_OF_TASK: Mapping[str, Mapping[str, Any]] = {
    "digits": {
        "init_clients": 10,
        "init_rounds": 50,
        "init_server_optimizer": "adam",
        "init_server_learning_rate": 0.01,
    },
    **dict.fromkeys(_EMNIST, _STUDY),
    "unipen62": _SMALL_POPULATION,
    "mnist_writers": _SMALL_POPULATION,
    "fashion_mnist": {"init_clients": 20},
    "mnist": {"init_clients": 20},
    "cifar100": {"init_clients": 20},
    "synthetic": {"init_clients": 10},
    "tabular": {"init_clients": None},  # A share of the clients, because a table may have few.
    "logged": {"init_clients": None},
    "own": {"init_clients": None},
    "stackoverflow_tag": _STUDY
    | {
        "total_rounds": 1600,
        "server_learning_rate": 0.01,
        "client_learning_rate": 1.0,
        "init_server_learning_rate": 0.05,
        "init_client_learning_rate": 0.2,
    },
    "stackexchange_tag": {
        "total_rounds": 300,
        "clients_per_round": 32,
        "bandits_deploy_freq": 20,
        "client_learning_rate": 1.0,
        "init_server_optimizer": "adam",
        "init_server_learning_rate": 0.01,
        "init_client_learning_rate": 1.0,
        "rounds_per_eval": 20,
    },
}
# Section 4.2: the 100 rounds of initial training are subtracted from the number of bandit rounds.
_SHORTENED, _ROUNDS_OF_INITIAL_TRAINING = (*_EMNIST, "stackoverflow_tag"), 100


def of(name: str, settings: Mapping[str, Any]) -> Any:
    """Returns the default of a setting that the user did not set.

    Args:
      name: The setting, one of `NAMES`.
      settings: The other settings. They include the task, and the scenario or the path of an initial model, which
        determine whether the bandits start from a trained model.
    """
    value = {**_USUAL, **_OF_TASK.get(settings["task_type"], {})}[name]
    has_initial = settings["scenario"] in PRETRAINED or settings["initial_model_path"]
    if name == "total_rounds" and has_initial and settings["task_type"] in _SHORTENED:
        return value - _ROUNDS_OF_INITIAL_TRAINING
    return value
