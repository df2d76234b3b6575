"""Flags of a task and its data, shared by the experiment binaries."""

import dataclasses
import os
import pathlib
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from data import files, schema
from data.errors import UsageError
from data.schema import Schema
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.options import named
from optimization.study import cli
from optimization.study.settings import Numbers, Setting, declared, title

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


_MODELS = {
    "linear": "linear; default of tabular",
    "linear_l2": "linear, of images scaled to an L2 norm of 1",
    "mlp": "with hidden layers",
    "cnn": "two-layer CNN with a dense layer of 512, of 28 x 28 images",
    "cnn_small": "two-layer CNN of the posterior study's Table D.1, likewise",
    "cnn_dropout": "two-layer CNN with dropout of its Table D.2, likewise",
    "resnet18": "ResNet-18",
}
_NORMS = {
    "group": "group normalization, each example alone",
    "batch": "batch normalization by the batch at hand, in training and in evaluation",
}
_WEIGHTS = {
    "glorot_uniform": "uniform, of variance 2 / (inputs + outputs); default",
    "glorot_normal": "normal, cut off at two standard deviations, of the same variance",
    "zeros": "all zero, of a linear model",
}
_SHARES = {
    "client": "those of a client's labels; clients of equal size",
    "label": "those of a label's clients, Dir_K; clients of unequal size",
}


def _group(title: str, **details: Mapping[str, Any]) -> type:
    """Settings that are fields of `TaskOptions`, as a class such as `declared` takes.

    Types, defaults and help are those of the fields.

    Args:
      title: The group's title.
      **details: By setting, further attributes of it, or other ones than the field's.
    """
    docs = "".join(kind.__doc__ or "" for kind in (TaskOptions, Schema))
    defaults = {field.name: field.default for field in dataclasses.fields(TaskOptions)}
    types = {name: kind for name, kind in typing.get_type_hints(TaskOptions).items() if name in details}
    types = {name: next(iter(typing.get_args(kind)), kind) for name, kind in types.items()}
    settings = {
        name: Setting(**{"default": defaults[name] or None, **others})  # A text of nothing is none.
        for name, others in details.items()
    }
    return type(title, (), {"__doc__": f"{title}.\n{docs}", "__annotations__": types, **settings})


_PATH = {"type": pathlib.Path}
# Their defaults depend on the task.
_OF_TASK = {"default": None}
_WITH_TIMES = {"only": {"time_column": True}}
Time = _group(
    "Time of a table or log",
    time_column={},
    from_time={**_WITH_TIMES, "spelled": "from"},
    until_time={**_WITH_TIMES, "spelled": "until"},
    reward_window=_WITH_TIMES,
)
RewardTime = _group(
    "Late and missing rewards of a log",
    reward_time_column=_WITH_TIMES,
    log_until={"only": {"reward_window": True}},
    unobserved_rewards={"type": schema.UNOBSERVED},
)
Columns = _group(
    "Columns",
    ignore_columns={},
    category_columns={},
    missing_values={},
    decimal={"type": [schema.POINT, schema.COMMA]},
    max_table_rows={"low": 1},
)
# Each under the title of its first class.
_GROUPS: Sequence[Sequence[type]] = (
    (
        _group(
            "Data",
            data_dir={**_PATH, "basic": True},
            cache_dir=_PATH,
            random_data=_OF_TASK,
            public_statistics=_PATH,
        ),
    ),
    (
        _group(
            "Tag prediction, texts of a table",
            num_tags={"low": 2, "only": {"public_statistics": False}, "spelled": "stackoverflow_tag_size"},
            vocabulary_size={"low": 1, "only": {"public_statistics": False}, "spelled": "stackoverflow_vocab_size"},
            max_words={**_OF_TASK, "low": 1},
            text_normalisation={**_OF_TASK, "type": ["mean", "l2"], "spelled": "text_normalization"},
            keep_untagged=_OF_TASK,
        ),
    ),
    (
        _group(
            "Models of digits, images and tables",
            model={"type": _MODELS},
            hidden={"type": Numbers(whole=True, high=1 << 16)},
            norm={"type": _NORMS, "only": {"model": ("resnet18",)}},
            initial_weights={"type": _WEIGHTS},
        ),
    ),
    (
        _group(
            "Synthetic clients",
            partition_clients={**_OF_TASK, "low": 1, "high": 10**6},
            partition_seed={"default": 0, "high": 2**32 - 1},
            partition_by={"type": _SHARES},
            partition_alpha={**_OF_TASK, "above": True},
            partition_beta={"above": True, "only": {"partition_by": ("client",)}},
            partition_examples={"default": 0, "only": {"partition_by": ("client",)}},
            synthetic_alpha={},
            synthetic_beta={},
        ),
    ),
    (
        _group(
            "Your own table",
            data_file={**_PATH, "basic": True},
            client_column={"basic": True},
            label_column={"basic": True},
            reward_columns={},
            action_prices={"only": {"reward_columns": True}},
            reward_bounds={},
            feature_columns={},
            text_columns={},
            partition_column={},
        ),
        Columns,
    ),
    (_group("Your own log", action_column={}, reward_column={}, propensity_column={}),),
    (Time, _group("Held-out part of a table or log", hold_out={"type": schema.HOLD_OUT})),
    (RewardTime,),
    (_group("Reward shift", init_labels={"low": 1}),),
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
