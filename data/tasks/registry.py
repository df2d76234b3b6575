"""The tasks by name, each a module with `load(settings, variant) -> Task`.

Modules are named as text, so that flags are checked before anything slow is imported.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from data import tasks


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """A value of `--task_type`.

    Attributes:
      module: Module with `load(settings) -> data.tasks.Task`.
      help: One line.
      variant: Passed on to `load`, for modules that hold several tasks.
      defaults: Values of flags that are not given.
      flags: Flags of some tasks only that this one reads.
    """

    module: str
    help: str
    variant: str = ""
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    flags: frozenset[str] = frozenset()


# Agarwal et al. 2023, section 4.2 and appendix A.2, with softmax' learning rates of Table 1.
_STUDY = {
    "total_rounds": 800,
    "clients_per_round": 64,
    "client_batch_size": 16,
    "bandits_deploy_freq": 200,
    "server_learning_rate": 0.002,
    "client_learning_rate": 0.1,
    "init_server_learning_rate": 0.5,
    "init_client_learning_rate": 0.5,
    "rounds_per_eval": 50,
    "rounds_per_checkpoint": 25,
}
_SMALL_POPULATION = _STUDY | {
    "total_rounds": 200,
    "bandits_deploy_freq": 50,
    "max_examples_per_client": 100,
}

_MADE_IMAGES = {"partition_clients": 100, "partition_alpha": 0.3, "init_clients": 20}
_MODEL_FLAGS = frozenset({"model", "norm"})
_IMAGE_FLAGS = _MODEL_FLAGS | {"partition_clients", "partition_seed", "partition_alpha", "partition_examples"}
_TEXT_FLAGS = frozenset(
    {"num_tags", "vocabulary_size", "max_words", "text_normalisation", "keep_untagged", "public_statistics"}
)

TASKS = {
    "digits": TaskEntry(
        "data.tasks.digits",
        "8x8 digits, 60 made clients, 10 actions; needs no file",
        defaults={"init_clients": 10, "init_rounds": 50},
    ),
    "emnist_chars": TaskEntry(
        "data.tasks.emnist",
        "federated EMNIST, 3400 writers, 62 actions, CNN; or LEAF's files in --data_dir",
        "chars",
        _STUDY,
        _MODEL_FLAGS,
    ),
    "emnist_digits": TaskEntry(
        "data.tasks.emnist",
        "federated EMNIST digits, 3383 writers, 10 actions, CNN",
        "digits",
        _STUDY,
        _MODEL_FLAGS,
    ),
    "emnist62_linear": TaskEntry("data.tasks.emnist", "emnist_chars with a linear model", "chars_linear", _STUDY),
    "emnist10_linear": TaskEntry("data.tasks.emnist", "emnist_digits with a linear model", "digits_linear", _STUDY),
    "unipen62": TaskEntry(
        "data.tasks.handwriting",
        "UNIPEN characters, 211 writers, 62 actions, CNN; needs --data_dir",
        "unipen62",
        _SMALL_POPULATION,
        _MODEL_FLAGS,
    ),
    "mnist_writers": TaskEntry(
        "data.tasks.handwriting",
        "MNIST by NIST writer, 539 writers, 10 actions, CNN; needs --data_dir",
        "mnist_writers",
        _SMALL_POPULATION,
        _MODEL_FLAGS,
    ),
    "fashion_mnist": TaskEntry(
        "data.tasks.images",
        "Fashion-MNIST dealt with label skew, 100 made clients, 10 actions, MLP",
        "fashion_mnist",
        _MADE_IMAGES,
        _IMAGE_FLAGS,
    ),
    "mnist": TaskEntry(
        "data.tasks.images",
        "MNIST dealt with label skew, 100 made clients, 10 actions, CNN",
        "mnist",
        _MADE_IMAGES,
        _IMAGE_FLAGS,
    ),
    "cifar100": TaskEntry(
        "data.tasks.images",
        "CIFAR-100 dealt with label skew, 100 made clients, 100 actions, MLP",
        "cifar100",
        _MADE_IMAGES,
        _IMAGE_FLAGS | {"partition_beta"},
    ),
    "synthetic": TaskEntry(
        "data.tasks.synthetic",
        "Synthetic(alpha, beta) of Li et al., 30 made clients, 10 actions, linear; needs no file",
        defaults={"partition_clients": 30, "init_clients": 10},
        flags=frozenset({"partition_clients", "partition_seed", "synthetic_alpha", "synthetic_beta"}),
    ),
    "stackoverflow_tag": TaskEntry(
        "data.tasks.stackoverflow",
        "TFF's Stack Overflow, 342,477 users, the 50 top tags as actions, linear",
        defaults=_STUDY
        | {
            "total_rounds": 1600,
            "max_examples_per_client": 256,
            "max_words": 256,
            "server_learning_rate": 0.01,
            "client_learning_rate": 1.0,
            "init_server_optimizer": "adam",
            "init_server_learning_rate": 0.05,
            "init_client_learning_rate": 0.2,
        },
        flags=_TEXT_FLAGS,
    ),
    "stackexchange_tag": TaskEntry(
        "data.tasks.stackexchange",
        "posts of Stack Exchange sites by user, the 50 top tags, linear; needs --data_dir",
        defaults={
            "total_rounds": 300,
            "clients_per_round": 32,
            "bandits_deploy_freq": 20,
            "client_learning_rate": 1.0,
            "init_clients": 100,
            "init_server_optimizer": "adam",
            "init_server_learning_rate": 0.01,
            "init_client_learning_rate": 1.0,
            # The learning rates belong to this one: with the mean, features and steps are ten times smaller.
            "text_normalisation": "l2",
            "rounds_per_eval": 20,
        },
        flags=_TEXT_FLAGS,
    ),
    "tabular": TaskEntry(
        "data.tasks.tabular",
        "your own table: --data_file, --client_column and --label_column or --reward_columns",
        flags=frozenset(
            {
                "data_file",
                "client_column",
                "label_column",
                "reward_columns",
                "feature_columns",
                "model",
                "init_labels",
                "public_statistics",
            }
        ),
    ),
}


def load_task(settings: Mapping[str, Any]) -> "tasks.Task":
    """Opens the data of `--task_type`.

    Raises:
      UsageError: If it is not there.
    """
    entry = TASKS[settings["task_type"]]
    return importlib.import_module(entry.module).load(settings, entry.variant)
