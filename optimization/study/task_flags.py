"""Flags of a task and its data, shared by the experiment binaries."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data import files, memory, schema
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.options import named
from optimization.study import cli
from optimization.study.settings import Numbers, Setting, declared, setting, title

TASK_TYPE = Setting(
    "task_type",
    {name: one.help for name, one in registry.TASKS.items()},
    "Data, model and rewards",
    "digits",
    basic=True,
)
# Title in studies where only another study's tasks have such flags.
VARIANT = Setting(
    "variant",
    ["paper", "reference_code"],
    "For tasks of the contextual bandits' study: the paper or its published code, where they differ",
    "paper",
)


class _Data:
    """Data.

    Attributes:
      data_dir: Folder of the task's files (default: FEDBANDITS_DATA_DIR in the environment; for what can be downloaded,
        the cache folder).
      cache_dir: Folder for downloads, and for compiled rounds of run_federated (default: ~/.cache/federated_bandits).
      random_data: Random examples of the data set's size instead of a download, to measure time and memory; rewards
        are meaningless (default: no).
      public_statistics: File of means, categories and labels, or of words and tags, from public data, such as a run's
        statistics.json (default: learned from the clients, which no privacy guarantee covers).
    """

    data_dir: pathlib.Path = setting(basic=True)
    cache_dir: pathlib.Path = setting()
    random_data: bool = setting()
    public_statistics: pathlib.Path = setting()


class _TagPrediction:
    """Tag prediction, texts of a table.

    Attributes:
      num_tags: Number of the most frequent tags, which are the actions.
      vocabulary_size: Number of the most frequent words, which are the features; also of --text_columns.
      max_words: Maximum number of distinct words of a post or row.
      text_normalisation: Word counts divided by their sum, or by their L2 norm, which the learning rates are tuned for
        (default: l2).
      keep_untagged: Keep posts with none of the tags, which reward no action (default: no, but yes with
        --variant=reference_code).
    """

    num_tags: int = setting(50, low=2, only={"public_statistics": False}, spelled="stackoverflow_tag_size")
    vocabulary_size: int = setting(10000, low=1, only={"public_statistics": False}, spelled="stackoverflow_vocab_size")
    max_words: int = setting(low=1)
    text_normalisation: str = setting(words=["mean", "l2"], spelled="text_normalization")
    keep_untagged: bool = setting()


class _ModelsOfImagesAndTables:
    """Models of digits, images and tables.

    Attributes:
      model: Model (default: the task's); digits and tables take linear or mlp.
      hidden: Widths of the hidden layers of mlp, separated by commas, such as 256,128 (default: the task's).
      norm: Normalization.
      initial_weights: Initialization of kernels; with --variant=reference_code, the default of cnn is glorot_normal, of
        linear_l2 zeros.
    """

    model: str = setting(
        words={
            "linear": "linear; default of tabular",
            "linear_l2": "linear, of images scaled to an L2 norm of 1",
            "mlp": "with hidden layers",
            "cnn": "two-layer CNN with a dense layer of 512, of 28 x 28 images",
            "cnn_small": "two-layer CNN of the posterior study's Table D.1, likewise",
            "cnn_dropout": "two-layer CNN with dropout of its Table D.2, likewise",
            "resnet18": "ResNet-18",
        }
    )
    hidden: tuple = setting(words=Numbers(whole=True, high=1 << 16))
    norm: str = setting(
        "group",
        {
            "group": "group normalization, each example alone",
            "batch": "batch normalization by the batch at hand, in training and in evaluation",
        },
        only={"model": ("resnet18",)},
    )
    initial_weights: str = setting(
        words={
            "glorot_uniform": "uniform, of variance 2 / (inputs + outputs); default",
            "glorot_normal": "normal, cut off at two standard deviations, of the same variance",
            "zeros": "all zero, of a linear model",
        }
    )


class _SyntheticClients:
    """Synthetic clients.

    Attributes:
      partition_clients: Number of clients (default: 100, synthetic 30).
      partition_seed: Seed of the partition, independent of --seed.
      partition_by: Shares that follow a Dirichlet distribution.
      partition_alpha: Dirichlet parameter of a client's labels; small values give few labels (default: 0.3;
        digits, tabular 1).
      partition_beta: Dirichlet parameter of the classes within each of the 20 superclasses, whose parameter is then
        --partition_alpha (default: no superclasses).
      partition_examples: Examples of a client; 0 for all.
      synthetic_alpha: Variance of the means of clients' models; by definition it changes no label.
      synthetic_beta: Variance of the means of clients' features.
    """

    partition_clients: int = setting(low=1, high=10**6)
    partition_seed: int = setting(0, high=2**32 - 1)
    partition_by: str = setting(
        "client",
        {
            "client": "those of a client's labels; clients of equal size",
            "label": "those of a label's clients, Dir_K; clients of unequal size",
        },
    )
    partition_alpha: float = setting(above=True)
    partition_beta: float = setting(above=True, only={"partition_by": ("client",)})
    partition_examples: int = setting(0, only={"partition_by": ("client",)})
    synthetic_alpha: float = setting(1.0)
    synthetic_beta: float = setting(1.0)


class _UserTable:
    """Your own table.

    Attributes:
      data_file: Table: .csv or .tsv (a header line; commas, semicolons or tabs; also gzipped) or .parquet; looked up in
        the working directory, --data_dir or FEDBANDITS_DATA_DIR, and data/examples.
      client_column: Column that names the client of a row; rows:N partitions the rows over N clients.
      label_column: Column of the correct action, whose reward is 1.
      reward_columns: Instead, a column of rewards for each action, separated by commas, or all.
      action_prices: Price of each action, which its rewards are less by, such as small=0,large=0.1; without names, in
        the order of --reward_columns (default: none).
      reward_bounds: LOW,HIGH: smallest and largest reward, after prices, of a table with rewards or a log. Training
        maps them to 0 and 1, and clips rewards outside (default: recognized, or learned from observed rewards).
      feature_columns: Columns of the context, separated by commas (default: the others).
      text_columns: Columns of text, separated by commas, which become counts of words (default: none).
      partition_column: With rows:N, column by whose values rows are partitioned: each client has a mix from a Dirichlet
        distribution of --partition_alpha (default: at random).
    """

    data_file: pathlib.Path = setting(basic=True)
    client_column: str = setting(basic=True)
    label_column: str = setting(basic=True)
    reward_columns: str = setting()
    action_prices: str = setting(only={"reward_columns": True})
    reward_bounds: str = setting()
    feature_columns: str = setting()
    text_columns: str = setting()
    partition_column: str = setting()


class _UserLog:
    """Your own log.

    Attributes:
      action_column: Column of the logged action.
      reward_column: Column of its reward.
      propensity_column: Column of the logged action's probability.
    """

    action_column: str = setting()
    reward_column: str = setting()
    propensity_column: str = setting()


class Time:
    """Time of a table or log.

    Attributes:
      time_column: Column of each row's time, dates or numbers. Rows are read in this order. It is a feature only if
        --feature_columns names it.
      from_time: First time of the rows that are read, such as 2023-01-31; also --from (default: all).
      until_time: Time before which rows are read; also --until (default: all).
      reward_window: Time after an action in which its reward counts, such as 7d, or a number if times are numbers.
        Later rewards count as 0, and rows that are too recent are left out. --hold_out=time leaves as long a gap.
    """

    time_column: str = setting()
    from_time: str = setting(only={"time_column": True}, spelled="from")
    until_time: str = setting(only={"time_column": True}, spelled="until")
    reward_window: str = setting(only={"time_column": True})


class RewardTime:
    """Late and missing rewards of a log.

    Attributes:
      reward_time_column: Column of the time at which the reward was observed; empty where it was not.
      log_until: Time until which rewards were observed (default: the latest time in the log).
      unobserved_rewards: Meaning of an empty reward.
    """

    reward_time_column: str = setting(only={"time_column": True})
    log_until: str = setting(only={"reward_window": True})
    unobserved_rewards: str = setting("refuse", schema.UNOBSERVED)


class _HoldOut:
    """Held-out part of a table or log.

    Attributes:
      hold_out: Part that is held out for evaluation; time needs --time_column.
    """

    hold_out: str = setting("clients", schema.HOLD_OUT)


class _RewardShift:
    """Reward shift.

    Attributes:
      init_labels: Init_shift: number of most frequent labels or tags that the initial training rewards (default: half
        of the labels, 10 tags; with --variant=reference_code three fifths of the tags).
    """

    init_labels: int = setting(low=1)


class Columns:
    """Columns.

    Attributes:
      ignore_columns: Columns to leave out, such as identifiers, separated by commas.
      category_columns: Numeric or date features to treat as categories.
      missing_values: Texts that mean a missing value, separated by commas, besides NA, nan, null ... in features. In
        columns of clients, labels and actions, only empty cells are missing otherwise.
      decimal: Decimal sign of numbers that are written as text; with a comma, points group thousands, as in 1.234,56.
      max_table_rows: Maximum number of rows; a larger table is refused before it is read.
    """

    ignore_columns: str = setting()
    category_columns: str = setting()
    missing_values: str = setting()
    decimal: str = setting(schema.POINT, [schema.POINT, schema.COMMA])
    max_table_rows: int = setting(memory.MAX_ROWS, low=1)


# Each under the title of its first class.
_GROUPS: Sequence[Sequence[type]] = (
    (_Data,),
    (_TagPrediction,),
    (_ModelsOfImagesAndTables,),
    (_SyntheticClients,),
    (_UserTable, Columns),
    (_UserLog,),
    (Time, _HoldOut),
    (RewardTime,),
    (_RewardShift,),
)


def define_data(flags: cli.FlagSet, **only: Mapping[str, Any]) -> None:
    """Defines the groups of settings of a task and its data.

    Args:
      flags: The flags to extend.
      **only: By setting, further conditions of this study.
    """
    for group in _GROUPS:
        settings = []
        for one in (one for kind in group for one in declared(kind)):
            tasks = [task for task, entry in registry.TASKS.items() if one.name in entry.options]
            of_tasks = {"task_type": tasks} if tasks else {}
            settings.append(dataclasses.replace(one, only={**one.only, **of_tasks, **only.get(one.name, {})}))
        flags.group(title(group[0]), *settings)


# What a table has only with another of its flags.
_OF_TABLES = {name: "text_columns" for name in ("vocabulary_size", "max_words", "text_normalisation")}
_OF_TABLES |= {"partition_alpha": "partition_column"}


def with_table_path(settings: cli.Settings) -> cli.Settings:
    """Settings whose `--data_file`, if it names no file here, names the one in the data folder."""
    if not settings.data_file:
        return settings
    name = os.path.relpath(settings.data_file, cli.user_path(""))
    return settings.replace(data_file=files.find_table(settings.data_file, name, settings.get("data_dir")))


def resolve(settings: cli.Settings) -> cli.Settings:
    """Completes defaults that depend on the task and on other flags. Needs `--variant`."""
    settings = with_table_path(settings)
    for name, needed in _OF_TABLES.items() if settings.task_type == "tabular" else ():
        if name in settings.set_by_user and not settings[needed]:
            raise UsageError(f"--{name} of a table belongs to --{needed}: give both, or neither.")
    if settings.text_columns:
        settings = settings.filled({"text_normalisation": "l2"})
    settings = settings.filled(registry.DEFAULTS | dict(registry.TASKS[settings.task_type].defaults))
    keeps = settings.variant == "reference_code" and "keep_untagged" in registry.TASKS[settings.task_type].options
    return settings.filled({"text_normalisation": "mean", "keep_untagged": keeps})


def options(settings: Mapping[str, Any]) -> TaskOptions:
    """Arguments of `registry.load`."""
    return named(TaskOptions, settings)
