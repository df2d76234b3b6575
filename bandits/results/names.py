"""Names of configurations: the flags in which they differ, in few words."""

import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits.results import runs
from optimization.study import objects

# How flags end whose values speak for themselves.
_CHOICES = ("_type", "_rule", "_selection", "algorithm", "scenario", "server_optimizer")
_SHORTER = (("bandits_", ""), ("learning_rate", "lr"), ("_freq", ""), ("total_rounds", "rounds"), ("_", " "))
_ROUNDS = "total_rounds"
_POLICY = f"{objects.FLAG}policy"  # With such an object, bandits_type names the loss alone: softmax is the usual one.
_LONGEST_NAME = 60
_KEY_LENGTH = 12


def of(
    flags: Sequence[Mapping[str, Any]], owners: Sequence[pathlib.Path], shown: Sequence[str], strategy: str = ""
) -> list[str]:
    """Names of configurations: the strategy, then the fewest flags that distinguish them, or their folders' names.

    Args:
      flags: Flags that each configuration's runs share.
      owners: The folder of each configuration.
      shown: Flags that lists of presets show.
      strategy: The flag that every name begins with, if it is set.
    """
    folders = runs.labels(map(_descriptive, owners))
    first = [strategy] if any(strategy in settings for settings in flags) else []
    first += sorted({name for settings in flags for name in settings if _is_object(name, settings)})
    chosen = list(dict.fromkeys([*first, *_fewest(flags, [*first, *_by_importance(flags, shown)])]))
    names = _named(flags, chosen)
    if not chosen or max(map(len, names)) > max(_LONGEST_NAME, *map(len, folders)):
        names = [
            f"{word(strategy, settings[strategy])} ({folder})" if strategy in settings else folder
            for settings, folder in zip(flags, folders, strict=True)
        ]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name} ({owner})"
        for name, owner in zip(names, runs.labels(owners), strict=True)
    ]


def task(flags: Mapping[str, Any]) -> str | None:
    """A run's task; with what is held out, and for a log with `--learn_from`: the measured rewards depend on both."""
    name = flags.get("task_type")
    source = f" from {flags['learn_from']}" if name == "logged" and "learn_from" in flags else ""
    return name and f"{name}{source}{' held out by time' * (flags.get('hold_out') == 'time')}"


def _descriptive(owner: pathlib.Path) -> pathlib.Path:
    """The grid's folder instead of its single run's, whose name is a hash."""
    is_hash = owner.parent.name == "runs" and len(owner.name.rpartition("-")[2]) == _KEY_LENGTH
    return owner.parent.parent if is_hash and owner.name.startswith("run-") else owner


def _by_importance(flags: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> list[str]:
    """Flags that differ: choices first, then those that lists of presets show; rounds, which have a column, last."""

    def rank(name: str) -> tuple:
        values = {json.dumps(settings.get(name), default=str) for settings in flags}
        is_choice = name.endswith(_CHOICES)
        return name == _ROUNDS, not is_choice, -len(values) if is_choice else 0, name not in shown, name

    return sorted(differing(flags), key=rank)


def _fewest(flags: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """The first flags that distinguish as many configurations as all flags do, without redundant numbers."""

    def distinguished(by: Iterable[str]) -> int:
        by = list(by)
        return len({json.dumps([settings.get(name) for name in by], default=str) for settings in flags})

    chosen: list[str] = []
    for name in names:
        if distinguished([*chosen, name]) > distinguished(chosen):
            chosen.append(name)
    # The number of rounds makes no other flag redundant.
    for name in [name for name in reversed(chosen) if not name.endswith((*_CHOICES, _ROUNDS))]:
        kept = [other for other in chosen if other != _ROUNDS]
        if distinguished(other for other in kept if other != name) == distinguished(kept):
            chosen.remove(name)
    return chosen


def _named(flags: Sequence[Mapping[str, Any]], chosen: Sequence[str]) -> list[str]:
    """Names by the values of the chosen flags, without the values that most configurations share."""
    common = {}
    for name in chosen[1:]:
        (value, count), *_ = Counter(json.dumps(settings.get(name), default=str) for settings in flags).most_common()
        if name.endswith(_CHOICES) and 2 * count > len(flags):
            common[name] = value

    def words(values: Mapping[str, Any], left_out: Mapping[str, str]) -> str:
        kept = [
            name
            for name in chosen
            if name in values and left_out.get(name) != json.dumps(values[name], default=str)
            if _is_object(name, values) or not name.startswith(objects.FLAG)
            if not (name == "bandits_type" and values[name] == "softmax" and _is_object(_POLICY, values))
        ]
        return ", ".join(word(name, values[name]) for name in kept) or "default"

    short, full = ([words(values, left_out) for values in flags] for left_out in (common, {}))
    return short if len(set(short)) == len(set(full)) else full


def _is_object(name: str, values: Mapping[str, Any]) -> bool:
    return name.startswith(objects.FLAG) and values.get(name) is not None


def word(name: str, value: Any) -> str:
    """A flag and its value in short."""
    short = name
    for long, shorter in _SHORTER:
        short = short.replace(long, shorter)
    if name.startswith(objects.FLAG):
        return objects.short(str(value))
    if isinstance(value, bool):
        return short if value else f"no {short}"
    if isinstance(value, str):
        text = pathlib.PurePath(value).name if "/" in value else value
        return text if name.endswith(_CHOICES) else f"{short} {text}"
    return f"{short} {value:g}" if isinstance(value, int | float) else f"{short} {value}"


def differing(flags: Sequence[Mapping[str, Any]]) -> list[str]:
    """Flags that differ between configurations."""
    names = sorted({name for settings in flags for name in settings})
    return [name for name in names if len({json.dumps(each.get(name), default=str) for each in flags}) > 1]
