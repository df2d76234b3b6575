"""What can be chosen by name: bandits, tasks, and the flags that come with them.

A new policy is one file and one line in POLICIES and BANDITS; a new task one file and one line in TASKS. Modules are
named as text, so that flags are checked before anything slow is imported.
"""

import dataclasses
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bandits import tasks


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A policy's hyperparameter, and its flag `--bandits_<name>`.

    Attributes:
      default: Value if the flag is not given.
      help: One line.
      low: Smallest value.
      high: Largest value, or None.
      above: Whether `low` itself is excluded.
    """

    default: float
    help: str
    low: float = 0.0
    high: float | None = None
    above: bool = False


@dataclasses.dataclass(frozen=True)
class PolicyEntry:
    """An exploration policy.

    Attributes:
      target: `module:Class` of a `bandits.policies.Policy`.
      parameters: The class' arguments.
    """

    target: str
    parameters: Mapping[str, Parameter] = dataclasses.field(default_factory=dict)

    def build(self, values: Mapping[str, float]):
        """Returns the policy, from values of its parameters."""
        return load(self.target)(**values)


POLICIES = {
    "greedy": PolicyEntry("bandits.policies:Greedy"),
    "uniform": PolicyEntry("bandits.policies:Uniform"),
    "epsilon_greedy": PolicyEntry(
        "bandits.policies:EpsilonGreedy",
        {"epsilon": Parameter(0.05, "probability of a uniformly random action", high=1.0)},
    ),
    "softmax": PolicyEntry(
        "bandits.policies:Softmax",
        {"temperature": Parameter(0.05, "temperature (beta); lower is greedier", above=True)},
    ),
    "falcon": PolicyEntry(
        "bandits.policies:Falcon",
        {
            "mu": Parameter(100.0, "weight of uniform exploration", above=True),
            "gamma": Parameter(1000.0, "inverse of the reward gap still explored; higher is greedier"),
        },
    ),
}


@dataclasses.dataclass(frozen=True)
class BanditEntry:
    """A value of `--bandits_type`: a policy, and the loss that its data is trained with.

    Attributes:
      policy: Name in POLICIES.
      help: One line.
      importance_weighted: Default of `--importance_weighting`.
      cross_entropy: Whether model outputs are logits.
      supervised: Whether training sees every action's reward.
      trains: Whether the model is trained at all.
    """

    policy: str
    help: str
    importance_weighted: bool = False
    cross_entropy: bool = False
    supervised: bool = False
    trains: bool = True


BANDITS = {
    "greedy": BanditEntry("greedy", "best predicted action"),
    "epsilon_greedy_unweight": BanditEntry("epsilon_greedy", "epsilon-greedy, regression loss (the study's)"),
    "epsilon_greedy": BanditEntry(
        "epsilon_greedy", "epsilon-greedy, importance-weighted loss", importance_weighted=True
    ),
    "softmax": BanditEntry("softmax", "softmax of predicted rewards"),
    "falcon": BanditEntry("falcon", "inverse gap weighting"),
    "uniform": BanditEntry("uniform", "uniformly random actions"),
    "greedy_ce": BanditEntry("greedy", "the same with cross entropy", cross_entropy=True),
    "epsilon_greedy_ce_unweight": BanditEntry("epsilon_greedy", "epsilon-greedy, cross entropy", cross_entropy=True),
    "epsilon_greedy_ce": BanditEntry(
        "epsilon_greedy",
        "epsilon-greedy, importance-weighted cross entropy",
        importance_weighted=True,
        cross_entropy=True,
    ),
    "softmax_ce": BanditEntry("softmax", "softmax, cross entropy", cross_entropy=True),
    "falcon_ce": BanditEntry("falcon", "inverse gap weighting, cross entropy", cross_entropy=True),
    "supervised_mse": BanditEntry("greedy", "all rewards shown, squared loss", supervised=True),
    "supervised_ce": BanditEntry("greedy", "all rewards shown, cross entropy", supervised=True, cross_entropy=True),
    "init": BanditEntry("greedy", "greedy on the initial model, never trained (baseline)", trains=False),
}


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """A value of `--task_type`.

    Attributes:
      module: Module with `load(settings) -> bandits.tasks.Task`.
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
        "bandits.tasks.digits",
        "8x8 digits, 60 made clients, 10 actions; needs no file",
        defaults={"init_clients": 10, "init_rounds": 50},
    ),
    "emnist_chars": TaskEntry(
        "bandits.tasks.emnist",
        "federated EMNIST, 3400 writers, 62 actions, CNN; or LEAF's files in --data_dir",
        "chars",
        _STUDY,
        _MODEL_FLAGS,
    ),
    "emnist_digits": TaskEntry(
        "bandits.tasks.emnist",
        "federated EMNIST digits, 3383 writers, 10 actions, CNN",
        "digits",
        _STUDY,
        _MODEL_FLAGS,
    ),
    "emnist62_linear": TaskEntry("bandits.tasks.emnist", "emnist_chars with a linear model", "chars_linear", _STUDY),
    "emnist10_linear": TaskEntry("bandits.tasks.emnist", "emnist_digits with a linear model", "digits_linear", _STUDY),
    "unipen62": TaskEntry(
        "bandits.tasks.handwriting",
        "UNIPEN characters, 211 writers, 62 actions, CNN; needs --data_dir",
        "unipen62",
        _SMALL_POPULATION,
        _MODEL_FLAGS,
    ),
    "mnist_writers": TaskEntry(
        "bandits.tasks.handwriting",
        "MNIST by NIST writer, 539 writers, 10 actions, CNN; needs --data_dir",
        "mnist_writers",
        _SMALL_POPULATION,
        _MODEL_FLAGS,
    ),
    "fashion_mnist": TaskEntry(
        "bandits.tasks.images",
        "Fashion-MNIST dealt with label skew, 100 made clients, 10 actions, MLP",
        "fashion_mnist",
        _MADE_IMAGES,
        _IMAGE_FLAGS,
    ),
    "mnist": TaskEntry(
        "bandits.tasks.images",
        "MNIST dealt with label skew, 100 made clients, 10 actions, CNN",
        "mnist",
        _MADE_IMAGES,
        _IMAGE_FLAGS,
    ),
    "cifar100": TaskEntry(
        "bandits.tasks.images",
        "CIFAR-100 dealt with label skew, 100 made clients, 100 actions, MLP",
        "cifar100",
        _MADE_IMAGES,
        _IMAGE_FLAGS | {"partition_beta"},
    ),
    "synthetic": TaskEntry(
        "bandits.tasks.synthetic",
        "Synthetic(alpha, beta) of Li et al., 30 made clients, 10 actions, linear; needs no file",
        defaults={"partition_clients": 30, "init_clients": 10},
        flags=frozenset({"partition_clients", "partition_seed", "synthetic_alpha", "synthetic_beta"}),
    ),
    "stackoverflow_tag": TaskEntry(
        "bandits.tasks.stackoverflow",
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
        "bandits.tasks.stackexchange",
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
        "bandits.tasks.tabular",
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


def load(target: str) -> Any:
    """Returns the object named `module:attribute`."""
    module, attribute = target.split(":")
    return getattr(importlib.import_module(module), attribute)


def load_task(settings: Mapping[str, Any]) -> "tasks.Task":
    """Opens the data of `--task_type`.

    Raises:
      UsageError: If it is not there.
    """
    entry = TASKS[settings["task_type"]]
    return load(f"{entry.module}:load")(settings, entry.variant)
