"""What arms are called: the flags in which they differ, in few words."""

import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits.results import runs

# How flags end whose values speak for themselves.
_CHOICES = ("_type", "_rule", "_selection", "algorithm", "scenario", "server_optimizer")
_SHORTER = (("bandits_", ""), ("learning_rate", "lr"), ("_freq", ""), ("total_rounds", "rounds"), ("_", " "))
_ROUNDS = "total_rounds"
_LONGEST_NAME = 60
_KEY_LENGTH = 12


def of(flags: Sequence[Mapping[str, Any]], owners: Sequence[pathlib.Path], shown: Sequence[str]) -> list[str]:
    """Returns what arms are called: what tells them apart, in as few flags as can be, or their folders' names.

    Args:
      flags: What each arm's runs share.
      owners: The folder of each.
      shown: Flags that presets are known by.
    """
    folders = runs.labels(map(_telling, owners))
    chosen = _fewest(flags, _by_importance(flags, shown))
    named = _named(flags, chosen)
    if len(flags) == 1 or not chosen or max(map(len, named)) > max(_LONGEST_NAME, *map(len, folders)):
        named = folders
    counts = Counter(named)
    return [
        name if counts[name] == 1 else f"{name} ({owner})"
        for name, owner in zip(named, runs.labels(owners), strict=True)
    ]


def task(flags: Mapping[str, Any]) -> str | None:
    """Returns a run's task; of a log with what its rows are to the run, as rewards are of another kind in each."""
    found = flags.get("task_type")
    return f"{found} from {flags['learn_from']}" if found == "logged" and "learn_from" in flags else found


def _telling(owner: pathlib.Path) -> pathlib.Path:
    """Returns the folder whose name says what a run is: a grid's, where its only run has a hash for its name."""
    is_hash = owner.parent.name == "runs" and len(owner.name.rpartition("-")[2]) == _KEY_LENGTH
    return owner.parent.parent if is_hash and owner.name.startswith("run-") else owner


def _by_importance(flags: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> list[str]:
    """Returns the flags that differ: choices first, then those that presets are known by.

    The rounds, of which the results have a column, come last.
    """

    def rank(name: str) -> tuple:
        values = {json.dumps(one.get(name), default=str) for one in flags}
        is_choice = name.endswith(_CHOICES)
        return name == _ROUNDS, not is_choice, -len(values) if is_choice else 0, name not in shown, name

    return sorted(differing(flags), key=rank)


def _fewest(flags: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """Returns the first flags that tell as many arms apart as all do, without numbers that others make superfluous."""

    def told_apart(some: Iterable[str]) -> int:
        some = list(some)
        return len({json.dumps([one.get(name) for name in some], default=str) for one in flags})

    chosen: list[str] = []
    for name in names:
        if told_apart([*chosen, name]) > told_apart(chosen):
            chosen.append(name)
    # The rounds make nothing else superfluous.
    for name in [name for name in reversed(chosen) if not name.endswith((*_CHOICES, _ROUNDS))]:
        kept = [other for other in chosen if other != _ROUNDS]
        if told_apart(other for other in kept if other != name) == told_apart(kept):
            chosen.remove(name)
    return chosen


def _named(flags: Sequence[Mapping[str, Any]], chosen: Sequence[str]) -> list[str]:
    """Returns a name of each arm: the values of the chosen flags, without what most arms have in common."""
    common = {}
    for name in chosen[1:]:
        (value, count), *_ = Counter(json.dumps(one.get(name), default=str) for one in flags).most_common()
        if name.endswith(_CHOICES) and 2 * count > len(flags):
            common[name] = value

    def words(one: Mapping[str, Any], left_out: Mapping[str, str]) -> str:
        kept = [name for name in chosen if name in one and left_out.get(name) != json.dumps(one[name], default=str)]
        return ", ".join(word(name, one[name]) for name in kept) or "default"

    short, full = ([words(one, left_out) for one in flags] for left_out in (common, {}))
    return short if len(set(short)) == len(set(full)) else full


def word(name: str, value: Any) -> str:
    """Returns a flag and its value in short."""
    short = name
    for long, shorter in _SHORTER:
        short = short.replace(long, shorter)
    if isinstance(value, bool):
        return short if value else f"no {short}"
    if isinstance(value, str):
        text = pathlib.PurePath(value).name if "/" in value else value
        return text if name.endswith(_CHOICES) else f"{short} {text}"
    return f"{short} {value:g}" if isinstance(value, int | float) else f"{short} {value}"


def differing(flags: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the flags that are not the same in all arms."""
    names = sorted({name for one in flags for name in one})
    return [name for name in names if len({json.dumps(one.get(name), default=str) for one in flags}) > 1]
