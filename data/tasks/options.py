"""Options of a task."""

import dataclasses
import pathlib

from data import objects
from data.schema import Schema
from data.settings import Count, Positive, numbers, setting

# Sources of the labels of a log.
SIMULATOR, REPLAY = "simulator", "replay"
LEARN_FROM = {
    SIMULATOR: "rewards sampled from a cross-fitted regression of the log, for any action: "
    "values are the direct method's, with its bias",
    REPLAY: "rows where the chosen action is the logged one, without the others; for a log of uniformly random "
    "actions alone (Li et al. 2011)",
    "regression": "the log itself, offline: squared error of the logged action's reward",
    "ips": "the same, each row weighing 1 / propensity",
    "dr": "offline too: squared error of all actions' doubly robust rewards",
}
OFFLINE = ("regression", "ips", "dr")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Data:
    """Settings of the data source."""

    data: objects.UserObject | None = setting(None, "Data of your own, see docs/own_parts.md", takes_objects=True)
    eval_data: objects.UserObject | None = setting(
        None, "Held-out clients (default: a fifth of those in --data)", takes_objects=True, only={"data": True}
    )
    actions: str | None = setting(None, "Number or names of actions (default: from labels)", only={"data": True})
    data_dir: str | None = setting(
        None,
        "Folder of the task's files (default: FEDBANDITS_DATA_DIR in the environment; for what can be downloaded, the "
        "cache folder)",
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
        "Random examples of the data set's size instead of a download, to measure time and memory; rewards are "
        "meaningless (default: no)",
        unset=False,
    )
    public_statistics: str | None = setting(
        None,
        "File of means, categories and labels, or of words and tags, from public data, such as a run's "
        "statistics.json (default: learned from the clients, which no privacy guarantee covers)",
        pathlib.Path,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tags:
    """Settings of tag prediction, and of text columns in a table."""

    num_tags: int = setting(
        50,
        "Number of the most frequent tags, which are the actions",
        low=2,
        only={"public_statistics": False},
        alias="stackoverflow_tag_size",
    )
    vocabulary_size: Count = setting(
        10000,
        "Number of the most frequent words, which are the features; also of --text_columns",
        only={"public_statistics": False},
        alias="stackoverflow_vocab_size",
    )
    max_words: Count = setting(None, "Maximum number of distinct words of a post or row", unset=200)
    text_normalisation: str = setting(
        None,
        "Word counts divided by their sum, or by their L2 norm, which the learning rates are tuned for (default: l2)",
        ["mean", "l2"],
        unset="mean",
        alias="text_normalization",
    )
    keep_untagged: bool = setting(
        None,
        "Keep posts with none of the tags, which reward no action (default: no, but yes with --variant=reference_code)",
        unset=False,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Models:
    """Settings of models for digits, images and tables."""

    model: str | None = setting(
        None,
        "Model (default: the task's); digits and tables take linear or mlp; or a Keras model of your own, as "
        "module:object, of which only the architecture counts",
        {
            "linear": "linear; default of tabular",
            "linear_l2": "linear, of images scaled to an L2 norm of 1",
            "mlp": "with hidden layers",
            "cnn": "two-layer CNN with a dense layer of 512, of 28 x 28 images",
            "cnn_small": "two-layer CNN of the posterior study's Table D.1, also of 28 x 28 images",
            "cnn_dropout": "two-layer CNN with dropout of its Table D.2, also of 28 x 28 images",
            "resnet18": "ResNet-18",
        },
        takes_objects=True,
    )
    hidden: tuple[int, ...] | None = setting(
        None,
        "Widths of the hidden layers of mlp, separated by commas, such as 256,128 (default: the task's)",
        numbers(whole=True, high=1 << 16),
    )
    norm: str = setting(
        "group",
        "Normalization",
        {
            "group": "group normalization, each example alone",
            "batch": "batch normalization by the batch at hand, in training and in evaluation",
        },
        only={"model": ("resnet18",)},
    )
    initial_weights: str | None = setting(
        None,
        "Initialization of kernels; with --variant=reference_code, the default of cnn is glorot_normal, of linear_l2 "
        "zeros",
        {
            "glorot_uniform": "uniform, of variance 2 / (inputs + outputs); default",
            "glorot_normal": "normal, cut off at two standard deviations, of the same variance",
            "zeros": "all zero, of a linear model",
        },
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SyntheticClients:
    """Settings of synthetic clients."""

    partition_clients: int = setting(
        None, "Number of clients (default: 100, synthetic 30)", low=1, high=10**6, unset=100
    )
    partition_seed: int = setting(0, "Seed of the partition, independent of --seed", high=2**32 - 1)
    partition_by: str = setting(
        "client",
        "Shares that follow a Dirichlet distribution",
        {
            "client": "those of a client's labels; clients of equal size",
            "label": "those of a label's clients, Dir_K; clients of unequal size",
        },
    )
    partition_alpha: Positive = setting(
        None,
        "Dirichlet parameter of a client's labels; small values give few labels (default: 0.3; digits, tabular 1)",
        unset=1.0,
    )
    partition_beta: Positive | None = setting(
        None,
        "Dirichlet parameter of the classes within each of the 20 superclasses, whose parameter is then "
        "--partition_alpha (default: no superclasses)",
        only={"partition_by": ("client",)},
    )
    partition_examples: int = setting(0, "Examples of a client; 0 for all", only={"partition_by": ("client",)})
    synthetic_alpha: float = setting(1.0, "Variance of the means of clients' models; by definition it changes no label")
    synthetic_beta: float = setting(1.0, "Variance of the means of clients' features")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rewards:
    """Settings of rewards in a table or log."""

    action_prices: str | None = setting(
        None,
        "Price of each action, which its rewards are less by, such as small=0,large=0.1; without names, in the order "
        "of --reward_columns (default: none)",
        only={"reward_columns": True},
    )
    reward_bounds: str | None = setting(
        None,
        "LOW,HIGH: smallest and largest reward, after prices, of a table with rewards or a log. Training maps them to "
        "0 and 1, and clips rewards outside (default: recognized, or learned from observed rewards)",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardShift:
    """Settings of a reward shift."""

    init_labels: Count | None = setting(
        None,
        "Init_shift: number of most frequent labels or tags that the initial training rewards (default: half of the "
        "labels, 10 tags; with --variant=reference_code three fifths of the tags)",
    )


@dataclasses.dataclass(frozen=True)
class TaskOptions(Schema, Data, Tags, Models, SyntheticClients, Rewards, RewardShift):
    """All options that define a task, so that tasks with equal options are the same. Each task uses some of them.

    For tables and logs, they include the roles of the columns, see `Schema`.

    Attributes:
      task_type: A key of `registry.TASKS`.
      variant: Either `paper` or `reference_code`, the published code of the bandit paper, where the two differ.
      learn_from: For logs, the source of the labels, a key of `LEARN_FROM`.
    """

    task_type: str
    variant: str = "paper"
    learn_from: str = SIMULATOR

    @property
    def model_name(self) -> str | None:
        """Name of the model; None for the task's default and for a model of the user's."""
        return None if objects.label(self.model) else self.model

    @property
    def is_published(self) -> bool:
        """Whether to follow the published code instead of the paper."""
        return self.variant == "reference_code"
