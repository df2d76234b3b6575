"""Flags of a task and its data, shared by the experiment binaries."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any

from data import files, schema
from data.errors import UsageError
from data.settings import Setting, declared, make_options
from data.tasks import options as task_options
from data.tasks import registry
from data.tasks.options import TaskOptions
from optimization.study import cli

TASK_TYPE = Setting(
    "task_type",
    {name: one.help for name, one in registry.TASKS.items()},
    "Data, model and rewards",
    "digits",
    basic=True,
    convert=lambda name, settings: "own" if settings.get("data") and not settings.is_given("task_type") else name,
)
# For studies that also offer the tasks of the contextual bandits' study.
VARIANT = Setting(
    "variant",
    ["paper", "reference_code"],
    "For tasks of the contextual bandits' study: whether to follow the paper or its published code where they differ",
    "paper",
)
_GROUPS = {
    "Data": task_options.Data,
    "Tag prediction, and texts in a table": task_options.Tags,
    "Models for digits, images and tables": task_options.Models,
    "Synthetic clients": task_options.SyntheticClients,
    "Your own table": schema.Table,
    "Sets of actions": schema.Sets,
    "Rewards in a table or log": task_options.Rewards,
    "Columns": schema.Columns,
    "Your own log": schema.Log,
    "Time in a table or log": schema.Time,
    "Held-out part of a table or log": schema.HeldOut,
    "Late and missing rewards in a log": schema.RewardTime,
    "Reward shift": task_options.RewardShift,
}
_DEPEND_ON_TASK = {*registry.DEFAULTS, *(name for entry in registry.TASKS.values() for name in entry.defaults)}


def _text_normalisation(settings: cli.Settings) -> str:
    return "l2" if settings.text_columns else registry.default("text_normalisation", settings) or "mean"


def _keep_untagged(settings: cli.Settings) -> bool:
    has_tags = "keep_untagged" in registry.TASKS[settings.task_type].options
    return settings.variant == "reference_code" and has_tags


def found_table(path: str, settings: cli.Settings) -> str:
    """Path of a table. If there is no file at this path, the path is taken to be relative to the data folder."""
    name = os.path.relpath(path, cli.user_path(""))
    return files.find_table(path, name, settings.get("data_dir"))


def define_data(flags: cli.FlagSet, **changes: Mapping[str, Any]) -> None:
    """Defines the groups of settings of a task and its data.

    Args:
      flags: The flags to extend.
      **changes: For each setting, the attributes whose values differ in this study.
    """
    defaults = {name: {"default": functools.partial(registry.default, name)} for name in _DEPEND_ON_TASK}
    others: dict[str, Mapping[str, Any]] = {
        "text_normalisation": {"default": _text_normalisation},
        "keep_untagged": {"default": _keep_untagged},
        "data_file": {"convert": found_table},
        "action_table": {"convert": found_table},
    }
    for title, group in _GROUPS.items():
        settings = []
        for one in declared(group, **defaults | others | changes):
            tasks = [task for task, entry in registry.TASKS.items() if one.name in entry.options]
            settings.append(dataclasses.replace(one, only={**one.only, **({"task_type": tasks} if tasks else {})}))
        flags.group(title, *settings)


# Settings that have an effect on a table only with another flag.
_OF_TABLES = {name: "text_columns" for name in ("vocabulary_size", "max_words", "text_normalisation")}
_OF_TABLES |= {"partition_alpha": "partition_column"}


def check(settings: cli.Settings) -> None:
    """Checks that the flags of a table have an effect.

    Raises:
      UsageError: If a flag lacks the other flag that it needs.
    """
    for name, needed in _OF_TABLES.items() if settings.task_type == "tabular" else ():
        if name in settings.set_by_user and not settings[needed]:
            raise UsageError(f"--{name} has an effect on a table only with --{needed}: give both, or neither.")


def options(settings: Mapping[str, Any]) -> TaskOptions:
    """Builds the options for `registry.load` from flags."""
    return make_options(TaskOptions, settings)
