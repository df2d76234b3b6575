"""Flags that choose a task and its data, shared by the experiment binaries that train on one."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from data import files
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import cli

TABLE_HELP = (
    "table: .csv or .tsv (a header line; commas, semicolons or tabs; also gzipped) or .parquet; a name that is no file "
    "in the working directory is looked up in --data_dir, or FEDBANDITS_DATA_DIR, and then in data/examples"
)


def define_choice(flags: cli.FlagSet, default: str = "digits") -> None:
    """Defines `--task_type`."""
    tasks = {name: entry.help for name, entry in registry.TASKS.items()}
    flags.choice("task_type", default, tasks, "data, model and rewards")


def define_variant(flags: cli.FlagSet) -> None:
    """Defines `--variant` for studies in which only tasks of another one have any."""
    told = "for tasks of the contextual bandits' study: whose text counts where it and its program differ"
    flags.choice("variant", "paper", ["paper", "reference_code"], told)


def define_data(flags: cli.FlagSet) -> None:
    """Defines the groups of flags that say where a task's data is and what is made of it."""
    flags.group("Data")
    flags.path(
        "data_dir",
        None,
        "folder of the task's files (default: FEDBANDITS_DATA_DIR in the environment; for what can be downloaded, the "
        "cache folder)",
    )
    flags.path(
        "cache_dir",
        None,
        "folder for downloads, and for compiled rounds of run_federated (default: ~/.cache/federated_bandits)",
    )
    flags.switch(
        "random_data",
        None,
        "random examples of the data set's size instead of a download, to measure time and memory; rewards mean "
        "nothing (default: no)",
    )
    flags.path(
        "public_statistics",
        None,
        "file of means, categories and labels, or of words and tags, "
        "made elsewhere from public data, such as a run's statistics.json (default: learned from the clients, which no "
        "guarantee of privacy covers)",
    )

    flags.group("Tag prediction")
    flags.integer("num_tags", 50, "most frequent tags, which are the actions", low=2)
    flags.spelled("num_tags", "stackoverflow_tag_size")
    flags.integer("vocabulary_size", 10000, "most frequent words, which are the features", low=1)
    flags.spelled("vocabulary_size", "stackoverflow_vocab_size")
    flags.integer("max_words", None, "most distinct words of a post", low=1)
    flags.choice(
        "text_normalisation",
        None,
        ["mean", "l2"],
        "word counts divided by their sum, or by their L2 norm, to which the learning rates belong (default: l2)",
    )
    flags.switch(
        "keep_untagged",
        None,
        "keep posts with none of the tags, for which no action pays (default: no, but with --variant=reference_code)",
    )

    flags.group("Models of images and tables")
    flags.choice(
        "model",
        None,
        {
            "linear": "linear; default of tabular",
            "linear_l2": "linear, of images scaled to an L2 norm of 1",
            "mlp": "with hidden layers",
            "cnn": "two-layer CNN with a dense layer of 512, of 28 x 28 images",
            "cnn_small": "two-layer CNN of the posterior study's Table D.1, likewise",
            "cnn_dropout": "two-layer CNN with dropout of its Table D.2, likewise",
            "resnet18": "ResNet-18",
        },
        "model (default: the task's)",
    )
    flags.choice(
        "norm",
        "group",
        {
            "group": "group normalisation, each example alone",
            "batch": "batch normalisation by the batch at hand, in training and in evaluation",
        },
        "normalisation",
    )
    flags.choice(
        "initial_weights",
        None,
        {
            "glorot_uniform": "uniform, of variance 2 / (inputs + outputs); default",
            "glorot_normal": "normal, cut off at two standard deviations, of the same variance",
            "zeros": "all zero, of a linear model",
        },
        "how kernels are drawn; with --variant=reference_code, cnn is by default glorot_normal, linear_l2 zeros",
    )

    flags.group("Made clients")
    flags.integer("partition_clients", None, "clients (default: 100, synthetic 30)", low=1, high=10**6)
    flags.integer("partition_seed", 0, "seed of the clients, which --seed does not change", high=2**32 - 1)
    flags.choice(
        "partition_by",
        "client",
        {
            "client": "those of a client's labels; clients of equal size",
            "label": "those of a label's clients, Dir_K; clients of unequal size",
        },
        "which shares are Dirichlet",
    )
    flags.number(
        "partition_alpha",
        None,
        "Dirichlet parameter of a client's labels; small: few labels (default: 0.3)",
        above=True,
    )
    flags.number(
        "partition_beta",
        None,
        "deal by its 20 superclasses with --partition_alpha, and within each by its classes with this "
        "parameter (default: by the 100 classes alone)",
        above=True,
    )
    flags.integer("partition_examples", 0, "examples of a client; 0 to deal all")
    flags.number(
        "synthetic_alpha", 1.0, "variance of the means of clients' models; by its definition it changes no label"
    )
    flags.number("synthetic_beta", 1.0, "variance of the means of clients' features")

    flags.group("Your own table")
    flags.path("data_file", None, TABLE_HELP)
    flags.text("client_column", None, "column that names the client of a row; rows:N deals the rows to N clients")
    flags.text("label_column", None, "column of the right action, which pays 1")
    flags.text("reward_columns", None, "instead: a column of rewards for each action, separated by commas, or all")
    flags.text("feature_columns", None, "columns of the context, separated by commas (default: the others)")
    define_columns(flags)
    flags.group("Your own log")
    flags.text("action_column", None, "column of the action that was played")
    flags.text("reward_column", None, "column of what it earned")
    flags.text("propensity_column", None, "column of the probability with which it was played")
    flags.group("Reward shift")
    flags.integer(
        "init_labels",
        None,
        "init_shift: labels or tags that the initial training pays for, the most frequent ones (default: half of the "
        "labels, 10 tags; with --variant=reference_code three fifths of the tags)",
        low=1,
    )

    for name in frozenset().union(*(entry.options for entry in registry.TASKS.values())):
        flags.belong(name, task_type=[task for task, entry in registry.TASKS.items() if name in entry.options])
    flags.belong("num_tags", "vocabulary_size", public_statistics=False)
    flags.belong("norm", model=("resnet18",))
    flags.belong("partition_beta", "partition_examples", partition_by=("client",))


def define_columns(flags: cli.FlagSet) -> None:
    """Defines how columns of a table are read, for all studies that take one."""
    flags.text("ignore_columns", None, "columns that are left out, such as identifiers, separated by commas")
    flags.text("category_columns", None, "features that are categories though their values are numbers or dates")
    flags.text(
        "missing_values", None, "texts, separated by commas, that mean a missing value, besides NA, nan, null ..."
    )


def with_found_table(settings: cli.Settings) -> cli.Settings:
    """Returns settings in which `--data_file`, if it names no file here, names the one where else tables lie."""
    if not settings.data_file:
        return settings
    name = os.path.relpath(settings.data_file, cli.user_path(""))
    return settings.replace(data_file=files.find_table(settings.data_file, name, settings.get("data_dir")))


def resolve(settings: cli.Settings) -> cli.Settings:
    """Fills in what depends on the task and on other flags. Needs `--variant`."""
    settings = with_found_table(settings)
    settings = settings.filled(registry.DEFAULTS | dict(registry.TASKS[settings.task_type].defaults))
    keeps = settings.variant == "reference_code" and "keep_untagged" in registry.TASKS[settings.task_type].options
    return settings.filled({"text_normalisation": "mean", "keep_untagged": keeps})


def options(settings: Mapping[str, Any]) -> TaskOptions:
    """Returns what `registry.load` takes."""
    # Not all studies that take a task take whatever belongs to it.
    values = {field.name: settings.get(field.name) for field in dataclasses.fields(TaskOptions)}
    return TaskOptions(**{name: value for name, value in values.items() if value is not None})
