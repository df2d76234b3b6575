"""The tasks by name, each with a function that opens it.

The names of functions are stored as text, so that flags are checked before any slow import.
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
      opener: Module in `data.tasks` and function `TaskOptions -> data.tasks.Task`, such as `logged:load`.
      help: One line of help.
      options: Options that this task uses, without those that all tasks use.
      defaults: Default values of options, and of the maximum number of examples per client.
    """

    opener: str
    help: str
    options: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)


DEFAULTS = {"max_words": 200, "max_examples_per_client": 0}
_SMALL_POPULATION = {"max_examples_per_client": 100}
_MADE_IMAGES = {"partition_clients": 100, "partition_alpha": 0.3}
_WEIGHTS = frozenset({"initial_weights"})
_MODEL = _WEIGHTS | {"model", "hidden", "norm"}
_TFF_IMAGES = _MODEL | {"random_data"}
_PARTITION = {"partition_clients", "partition_seed", "partition_by", "partition_alpha", "partition_examples"}
_CIFAR = _TFF_IMAGES | _PARTITION | {"partition_beta"}
_DIGITS, _EVEN = frozenset({"model", "hidden", "init_labels", "partition_alpha"}), {"partition_alpha": 1.0}
_SYNTHETIC = frozenset({"partition_clients", "partition_seed", "synthetic_alpha", "synthetic_beta"})
_SETS = frozenset({"model", "hidden", "interaction_bits", "largest_set", "reward_bounds"})
_GENERATED_SETS = _SETS | {"action_features", "context_features", "smallest_set"}
_GENERATED_SETS |= {"partition_clients", "partition_seed", "partition_examples"}
_FEW = {"partition_clients": 30}
_WORDS = frozenset({"vocabulary_size", "max_words", "text_normalisation"})
_TEXT = _WORDS | {"num_tags", "keep_untagged", "init_labels", "public_statistics"}
# The learning rates were chosen for L2 normalization; with the mean, features and steps are about ten times smaller.
_L2_TEXT = {"text_normalisation": "l2"}
_COLUMNS = frozenset(
    {"data_file", "client_column", "feature_columns", "ignore_columns", "category_columns", "missing_values"}
    | {"decimal", "max_table_rows", "time_column", "from_time", "until_time", "reward_window", "hold_out"}
    | {"action_table", "action_id_column", "offered_column", "decision_column", "largest_set"}
)
_TABLE = _COLUMNS | _WORDS | {"label_column", "reward_columns", "action_prices", "text_columns", "partition_column"}
_TABLE |= {"action_column", "reward_column", "interaction_bits"}
_TABLE |= {"partition_alpha", "model", "hidden", "init_labels", "public_statistics", "reward_bounds"}
_LOG = _COLUMNS | _MODEL | {"action_column", "reward_column", "propensity_column", "partition_seed", "reward_bounds"}
_LOG |= {"reward_time_column", "log_until", "unobserved_rewards", "chosen_column", "interaction_bits"}
_OWN = frozenset({"data", "eval_data", "actions", "model", "hidden", "init_labels", "reward_bounds"})

_WRITERS, _PARTITIONED = "handwriting:load", "images:load_partitioned"
_SKEWED = "partitioned with label skew, 100 synthetic clients"

TASKS = {
    "digits": TaskEntry(
        "images:load_digits", "8x8 digits, 60 synthetic clients, 10 actions; needs no file", _DIGITS, _EVEN
    ),
    "emnist_chars": TaskEntry(_WRITERS, "federated EMNIST, 3400 writers, 62 actions, CNN", _TFF_IMAGES),
    "emnist_digits": TaskEntry(_WRITERS, "federated EMNIST digits, 3383 writers, 10 actions, CNN", _TFF_IMAGES),
    "emnist62_linear": TaskEntry(_WRITERS, "emnist_chars with a linear model", _WEIGHTS | {"random_data"}),
    "emnist10_linear": TaskEntry(_WRITERS, "emnist_digits with a linear model", _WEIGHTS | {"random_data"}),
    "unipen62": TaskEntry(
        _WRITERS, "UNIPEN characters, 211 writers, 62 actions, CNN; needs --data_dir", _MODEL, _SMALL_POPULATION
    ),
    "mnist_writers": TaskEntry(
        _WRITERS, "MNIST by NIST writer, 539 writers, 10 actions, CNN; needs --data_dir", _MODEL, _SMALL_POPULATION
    ),
    "fashion_mnist": TaskEntry(
        _PARTITIONED, f"Fashion-MNIST {_SKEWED}, 10 actions, MLP", _TFF_IMAGES | _PARTITION, _MADE_IMAGES
    ),
    "mnist": TaskEntry(_PARTITIONED, f"MNIST {_SKEWED}, 10 actions, CNN", _TFF_IMAGES | _PARTITION, _MADE_IMAGES),
    "cifar100": TaskEntry(_PARTITIONED, f"CIFAR-100 {_SKEWED}, 100 actions, MLP", _CIFAR, _MADE_IMAGES),
    "synthetic": TaskEntry(
        "synthetic:load", "Synthetic(alpha, beta) of Li et al., 10 actions, linear; needs no file", _SYNTHETIC, _FEW
    ),
    "linear_synthetic": TaskEntry(
        "linear_synthetic:load",
        "generated sets of actions whose rewards are linear in their features; needs no file",
        _GENERATED_SETS,
        {"partition_clients": 15, "partition_examples": 2000},
    ),
    "stackoverflow_tag": TaskEntry(
        "tags:load_stackoverflow",
        "TFF's Stack Overflow, 342,477 users, the 50 most frequent tags as actions, linear",
        _TEXT | {"random_data"},
        _L2_TEXT | {"max_words": 256, "max_examples_per_client": 256},
    ),
    "stackexchange_tag": TaskEntry(
        "tags:load_stackexchange", "posts of Stack Exchange sites by user, linear; needs --data_dir", _TEXT, _L2_TEXT
    ),
    "tabular": TaskEntry("tabular:load", "your own table: --data_file, --client_column and labels or rewards", _TABLE),
    "own": TaskEntry("own:load", "your own federated data: --data", _OWN),
    "logged": TaskEntry("logged:load", "a run's log, or your own: --data_file and four --..._column flags", _LOG),
}


def default(name: str, settings: Mapping[str, Any]) -> Any:
    """Task-specific default of an option, or of the maximum number of examples per client; None if there is none."""
    return (DEFAULTS | dict(TASKS[settings["task_type"]].defaults)).get(name)


def load(options: TaskOptions) -> tasks.Task:
    """Opens a task's data.

    Raises:
      UsageError: If the data is missing or invalid, or if options do not match the task.
    """
    module, _, function = TASKS[options.task_type].opener.partition(":")
    return getattr(importlib.import_module(f"data.tasks.{module}"), function)(options)
