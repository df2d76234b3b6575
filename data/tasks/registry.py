"""The tasks by name, each in a module with `load(options) -> Task`.

Modules are named as text, so that flags are checked before anything slow is imported.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

from data import tasks
from data.tasks.options import TaskOptions


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """A value of `TaskOptions.task_type`.

    Attributes:
      module: Module with `load(options) -> data.tasks.Task`.
      help: One line.
      options: Options of some tasks only that this one reads.
      defaults: Values where none is given: of options, and of the cap on a client's examples.
    """

    module: str
    help: str
    options: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


DEFAULTS = {"max_words": 200, "max_examples_per_client": 0}
_SMALL_POPULATION = {"max_examples_per_client": 100}
_MADE_IMAGES = {"partition_clients": 100, "partition_alpha": 0.3}
_DOWNLOADED = frozenset({"random_data"})
_WEIGHTS = frozenset({"initial_weights"})
_MODEL = _WEIGHTS | {"model", "norm"}
_IMAGES = (
    _MODEL
    | _DOWNLOADED
    | {"partition_clients", "partition_seed", "partition_by", "partition_alpha", "partition_examples"}
)
_TEXT = frozenset(
    {"num_tags", "vocabulary_size", "max_words", "text_normalisation", "keep_untagged", "init_labels"}
    | {"public_statistics"}
)
# The learning rates belong to this one: with the mean, features and steps are ten times smaller.
_L2_TEXT = {"text_normalisation": "l2"}
_TABLE = frozenset(
    {"data_file", "client_column", "label_column", "reward_columns", "feature_columns"}
    | {"ignore_columns", "category_columns", "missing_values"}
)
_LOG = frozenset(
    {"data_file", "client_column", "action_column", "reward_column", "propensity_column"}
    | {"feature_columns", "ignore_columns", "category_columns", "missing_values"}
)

TASKS = {
    "digits": TaskEntry(
        "data.tasks.digits",
        "8x8 digits, 60 made clients, 10 actions; needs no file",
        frozenset({"init_labels", "partition_alpha"}),
        {"partition_alpha": 1.0},
    ),
    "emnist_chars": TaskEntry(
        "data.tasks.emnist",
        "federated EMNIST, 3400 writers, 62 actions, CNN; or LEAF's files in --data_dir",
        _MODEL | _DOWNLOADED,
    ),
    "emnist_digits": TaskEntry(
        "data.tasks.emnist", "federated EMNIST digits, 3383 writers, 10 actions, CNN", _MODEL | _DOWNLOADED
    ),
    "emnist62_linear": TaskEntry("data.tasks.emnist", "emnist_chars with a linear model", _WEIGHTS | _DOWNLOADED),
    "emnist10_linear": TaskEntry("data.tasks.emnist", "emnist_digits with a linear model", _WEIGHTS | _DOWNLOADED),
    "unipen62": TaskEntry(
        "data.tasks.handwriting",
        "UNIPEN characters, 211 writers, 62 actions, CNN; needs --data_dir",
        _MODEL,
        _SMALL_POPULATION,
    ),
    "mnist_writers": TaskEntry(
        "data.tasks.handwriting",
        "MNIST by NIST writer, 539 writers, 10 actions, CNN; needs --data_dir",
        _MODEL,
        _SMALL_POPULATION,
    ),
    "fashion_mnist": TaskEntry(
        "data.tasks.images",
        "Fashion-MNIST dealt with label skew, 100 made clients, 10 actions, MLP",
        _IMAGES,
        _MADE_IMAGES,
    ),
    "mnist": TaskEntry(
        "data.tasks.images",
        "MNIST dealt with label skew, 100 made clients, 10 actions, CNN",
        _IMAGES,
        _MADE_IMAGES,
    ),
    "cifar100": TaskEntry(
        "data.tasks.images",
        "CIFAR-100 dealt with label skew, 100 made clients, 100 actions, MLP",
        _IMAGES | {"partition_beta"},
        _MADE_IMAGES,
    ),
    "synthetic": TaskEntry(
        "data.tasks.synthetic",
        "Synthetic(alpha, beta) of Li et al., 30 made clients, 10 actions, linear; needs no file",
        frozenset({"partition_clients", "partition_seed", "synthetic_alpha", "synthetic_beta"}),
        {"partition_clients": 30},
    ),
    "stackoverflow_tag": TaskEntry(
        "data.tasks.stackoverflow",
        "TFF's Stack Overflow, 342,477 users, the 50 top tags as actions, linear",
        _TEXT | _DOWNLOADED,
        _L2_TEXT | {"max_words": 256, "max_examples_per_client": 256},
    ),
    "stackexchange_tag": TaskEntry(
        "data.tasks.stackexchange",
        "posts of Stack Exchange sites by user, the 50 top tags, linear; needs --data_dir",
        _TEXT,
        _L2_TEXT,
    ),
    "tabular": TaskEntry(
        "data.tasks.tabular",
        "your own table: --data_file, --client_column and --label_column or --reward_columns",
        _TABLE | {"model", "init_labels", "public_statistics"},
    ),
    "logged": TaskEntry(
        "data.tasks.logged",
        "your own log of a bandit, or a run's: --data_file, and of your own the four --..._column",
        _LOG | {"model", "norm", "initial_weights", "partition_seed"},
    ),
}


def load(options: TaskOptions) -> tasks.Task:
    """Opens a task's data.

    Raises:
      UsageError: If it is not there.
    """
    return importlib.import_module(TASKS[options.task_type].module).load(options)
