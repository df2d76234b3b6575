"""Options of a task."""

import dataclasses
import pathlib

from data import objects
from data.schema import Schema
from data.settings import Count, Positive, numbers, setting

# Sources of the labels of a log.
SIMULATOR, REPLAY = "simulator", "replay"
LEARN_FROM = {
    SIMULATOR: "rewards of any action, sampled from a cross-fitted regression on the log; values of policies are "
    "therefore direct-method estimates, with their bias",
    REPLAY: "only rows where the chosen action equals the logged one; valid only if all logged actions are "
    "uniformly random (Li et al. 2011)",
    "regression": "offline on the log itself: squared error of the logged action's reward",
    "ips": "as regression, with each row weighted by 1 / propensity",
    "dr": "offline: squared error of the doubly robust rewards of all actions",
}
OFFLINE = ("regression", "ips", "dr")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """Settings of the data source."""

    data: objects.UserObject | None = setting(None, "Your federated data, see docs/own_parts.md", takes_objects=True)
    eval_data: objects.UserObject | None = setting(
        None, "Held-out clients (default: a fifth of those in --data)", takes_objects=True, only={"data": True}
    )
    actions: str | None = setting(None, "Number or names of actions (default: from the labels)", only={"data": True})
    data_dir: str | None = setting(
        None,
        "Folder of the task's files (default: FEDBANDITS_DATA_DIR in the environment, or the cache folder for data "
        "sets that can be downloaded)",
        pathlib.Path,
        basic=True,
    )
    cache_dir: str | None = setting(
        None,
        "Folder for downloads, and for compiled rounds of run_federated (default: ~/.cache/federated_bandits)",
        pathlib.Path,
    )
    random_data: bool = setting(
        None,
        "Generate random data of the same size as the data set instead of downloading it, to measure time and "
        "memory; rewards are meaningless (default: no)",
        unset=False,
    )
    public_statistics: str | None = setting(
        None,
        "File with means, categories and labels, or with words and tags, that come from public data, such as the "
        "statistics.json of a run on public data (default: learned from the clients, without a privacy guarantee)",
        pathlib.Path,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tags:
    """Settings of tag prediction, and of text columns in a table."""

    num_tags: int = setting(
        50,
        "Number of actions: the most frequent tags",
        low=2,
        only={"public_statistics": False},
        alias="stackoverflow_tag_size",
    )
    vocabulary_size: Count = setting(
        10000,
        "Vocabulary size: the most frequent words are the features; also applies to --text_columns",
        only={"public_statistics": False},
        alias="stackoverflow_vocab_size",
    )
    max_words: Count = setting(None, "Maximum number of distinct words per post or row", unset=200)
    text_normalisation: str = setting(
        None,
        "Divide word counts by their sum (mean) or by their L2 norm; learning rates are tuned for l2 (default: l2)",
        ["mean", "l2"],
        unset="mean",
        alias="text_normalization",
    )
    keep_untagged: bool = setting(
        None,
        "Keep posts without any of the tags, whose rewards are all 0 (default: no; yes with --variant=reference_code)",
        unset=False,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
    """Settings of models."""

    model: str | None = setting(
        None,
        "Model (default: the task's). Digits and tables take linear or mlp. For your own Keras model, give "
        "module:object; only its architecture is used",
        {
            "linear": "linear; default for tabular",
            "linear_l2": "linear, for images scaled to an L2 norm of 1",
            "mlp": "multilayer perceptron, see --hidden",
            "cnn": "two-layer CNN with a dense layer of 512 units, for 28 x 28 images",
            "cnn_small": "two-layer CNN from the posterior study's Table D.1, for 28 x 28 images",
            "cnn_dropout": "two-layer CNN with dropout from the posterior study's Table D.2, for 28 x 28 images",
            "resnet18": "ResNet-18",
            "bilinear": "for actions with features: each context feature times each action feature",
            "two_tower": "for actions with features: multilayer perceptrons of context and action, see --hidden",
        },
        takes_objects=True,
    )
    hidden: tuple[int, ...] | None = setting(
        None,
        "Widths of the layers of mlp or two_tower, separated by commas, such as 256,128 (default: the task's)",
        numbers(whole=True, high=1 << 16),
    )
    interaction_bits: Count | None = setting(
        None,
        "For actions with features and the model linear: hash products of context and action features to 2^N weights "
        "(default: one weight per product)",
        high=24,
    )
    norm: str = setting(
        "group",
        "Normalization",
        {
            "group": "group normalization of each example separately",
            "batch": "batch normalization with the statistics of the current batch, in training and in evaluation",
        },
        only={"model": ("resnet18",)},
    )
    initial_weights: str | None = setting(
        None,
        "Initialization of kernels; with --variant=reference_code, the default is glorot_normal for cnn and zeros "
        "for linear_l2",
        {
            "glorot_uniform": "uniform, with variance 2 / (inputs + outputs); default",
            "glorot_normal": "normal, cut off at two standard deviations, with the same variance",
            "zeros": "all zero; only for linear models",
        },
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyntheticClients:
    """Settings of synthetic clients and generated sets of actions."""

    partition_clients: int = setting(
        None, "Number of clients (default: 100, synthetic 30)", low=1, high=10**6, unset=100
    )
    partition_seed: int = setting(0, "Seed of the partition, independent of --seed", high=2**32 - 1)
    partition_by: str = setting(
        "client",
        "What follows a Dirichlet distribution",
        {
            "client": "each client's distribution over labels; clients have equal sizes",
            "label": "each label's distribution over clients, Dir_K; clients have unequal sizes",
        },
    )
    partition_alpha: Positive = setting(
        None,
        "Dirichlet parameter of the partition; small values make clients differ more (default: 0.3; digits, tabular 1)",
        unset=1.0,
    )
    partition_beta: Positive | None = setting(
        None,
        "Dirichlet parameter of a client's classes within each of the 20 superclasses of CIFAR-100; "
        "--partition_alpha is then the parameter of the superclasses (default: no superclasses)",
        only={"partition_by": ("client",)},
    )
    partition_examples: int = setting(0, "Examples per client; 0 to use all", only={"partition_by": ("client",)})
    synthetic_alpha: float = setting(1.0, "Variance of the mean of each client's weights; does not change any label")
    synthetic_beta: float = setting(1.0, "Variance of the mean of each client's features")
    action_features: Count = setting(15, "Number of features of an action")
    context_features: int = setting(0, "Number of features of a context")
    smallest_set: Count | None = setting(None, "Smallest number of actions in a set (default: --largest_set)")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rewards:
    """Settings of rewards in a table or log."""

    action_prices: str | None = setting(
        None,
        "Price of each action, which is subtracted from its rewards, such as small=0,large=0.1; without names, in "
        "the order of --reward_columns (default: none)",
        only={"reward_columns": True},
    )
    reward_bounds: str | None = setting(
        None,
        "LOW,HIGH: smallest and largest reward, after prices, where data has rewards instead of labels. Training maps "
        "them to 0 and 1, and clips rewards outside (default: 0,1 or -1,1 if these are the only rewards, otherwise the "
        "1st and 99th percentiles)",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardShift:
    """Settings of a reward shift."""

    init_labels: Count | None = setting(
        None,
        "With init_shift: number of labels or tags, the most frequent ones, that have a reward in the initial "
        "training (default: for labels, half of them; for tags, 10, or three fifths of them with "
        "--variant=reference_code)",
    )


@dataclasses.dataclass(frozen=True)
class TaskOptions(Schema, Data, Tags, Models, SyntheticClients, Rewards, RewardShift):
    """All options that define a task, so that tasks with equal options are the same. Each task uses some of them.

    For tables and logs, they include the roles of the columns, see `Schema`.

    Attributes:
      task_type: A key of `registry.TASKS`.
      variant: Whether to follow the bandit paper (`paper`) or its published code (`reference_code`) where they differ.
      learn_from: For logs, the source of the labels, a key of `LEARN_FROM`.
    """

    task_type: str
    variant: str = "paper"
    learn_from: str = SIMULATOR

    @property
    def model_name(self) -> str | None:
        """Name of the model; None for the task's default and for the user's own model."""
        return None if objects.label(self.model) else self.model

    @property
    def is_published(self) -> bool:
        """Whether to follow the published code instead of the paper."""
        return self.variant == "reference_code"
