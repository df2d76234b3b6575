"""Phrases of reports, terminals and advice: names of configurations, numbers and verdicts."""

import json
import math
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bandits.results import runs
from bandits.results.comparison import MOST_SEEDS, UNPAIRED, Comparison
from data import objects
from data.errors import counted
from optimization.study.intervals import Interval

WHAT_INTERVALS_ARE_OVER = "Intervals over seeds generalize to other seeds on this data, not to other clients."
ONE_SEED = "A difference cannot be tested with a single seed: run several, for example with --repeat=8."
# Endings of flags whose values are clear without the flag's name.
_CHOICES = ("_type", "_rule", "_selection", "algorithm", "scenario", "server_optimizer")
_SHORTER = (("bandits_", ""), ("learning_rate", "lr"), ("_freq", ""), ("total_rounds", "rounds"), ("_", " "))
_ROUNDS = "total_rounds"
_LONGEST_NAME = 60
_KEY_LENGTH = 12


def capital(text: str) -> str:
    """Capitalizes the first letter."""
    return text[:1].upper() + text[1:]


def lower(text: str) -> str:
    """Changes the first letter to lower case."""
    return text[:1].lower() + text[1:]


def listed(names: Sequence[str]) -> str:
    """Joins names into an enumeration: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def why_no_test(comparison: Comparison) -> str:
    """Explains why a comparison has no verdict."""
    return {0: "no common finished seed", 1: "one seed"}.get(comparison.pairs, "diverged")


def short_verdict(comparison: Comparison) -> str:
    """Returns the verdict for a column whose title names the reference."""
    if not comparison.is_judged:
        return f"{why_no_test(comparison)}: no test"
    return ("better" if comparison.is_better else "worse") if comparison.is_significant else "no significant difference"


def seeds_needed(comparison: Comparison) -> str:
    """Returns the seeds required to detect the observed difference; empty if significant or unknown."""
    needed = comparison.seeds_needed
    if comparison.is_significant or math.isnan(needed):
        return ""
    return f"about {needed:,}" if math.isfinite(needed) else f"more than {MOST_SEEDS:,}"


def seeds(number: int) -> str:
    """Returns a number of seeds as text."""
    return counted(number, "seed")


def p_value(p: float) -> str:
    """Returns a p value as text. A small value is never rounded to 0."""
    if math.isnan(p):
        return "-"
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def estimate(one: Interval, *, signed: bool = False, label: str = "95% CI ") -> str:
    """Formats a mean and its interval, if there is one, such as `0.359 (95% CI 0.341 to 0.378)`."""
    return one.text(signed=signed, label=label) if one.high > one.low else f"{one.mean:{'+' * signed}.3g}"


def effect(comparison: Comparison) -> str:
    """Formats a difference, such as `+0.136 (95% CI +0.119 to +0.153, 8 seeds)`."""
    mean, _, bounds = estimate(comparison.interval, signed=True).partition(" (")
    return f"{mean} ({', '.join(filter(None, [bounds.removesuffix(')'), seeds(comparison.pairs)]))})"


def what_seeds_vary(*, partition: bool = False, initial_model: bool = True, noise: bool = False) -> str:
    """Returns a sentence that lists what differs between seeds.

    Args:
      partition: Whether the assignment of examples to clients differs (`--resplit`).
      initial_model: Whether the initial weights differ. Weights from a file do not.
      noise: Whether privacy noise is sampled.
    """
    varied = ["the cohorts", *["the initial weights"] * initial_model, "the clients' samples"]
    varied += [*["the noise"] * noise, *["which client holds which examples"] * partition]
    return f"Seeds vary {', '.join(varied[:-1])} and {varied[-1]}."


def family(comparisons: Iterable[Comparison]) -> str:
    """Returns a sentence that names the tests; empty if there are none."""
    judged = [comparison for comparison in comparisons if comparison.is_judged]
    if not judged:
        return ""
    tests = " and ".join(
        ["a paired t test"] * any(comparison.kind != UNPAIRED for comparison in judged)
        + ["Welch's for configurations with unseeded noise or cohorts"]
        * any(comparison.kind == UNPAIRED for comparison in judged)
    )
    many = f", adjusted by Holm for {len(judged)} configurations" if len(judged) > 1 else ""
    return f"Significant: p below 5% by {tests}{many}."


def configuration_names(
    flags: Sequence[Mapping[str, Any]], owners: Sequence[pathlib.Path], shown: Sequence[str], strategy: str = ""
) -> list[str]:
    """Names configurations by strategy and the fewest flags that distinguish them, or by their folders.

    Args:
      flags: For each configuration, the flags that its runs share.
      owners: The folder of each configuration.
      shown: Flags that are shown in lists of presets.
      strategy: The flag that every name begins with, if it is set.
    """
    folders = runs.labels(map(_descriptive, owners))
    first = [strategy] if any(strategy in settings for settings in flags) else []
    first += sorted({name for settings in flags for name, value in settings.items() if objects.label(value)})
    chosen = list(dict.fromkeys([*first, *_fewest(flags, [*first, *_by_importance(flags, shown)])]))
    names = [_named(settings, chosen) for settings in flags]
    if not chosen or max(map(len, names)) > max(_LONGEST_NAME, *map(len, folders)):
        names = [
            f"{_named(settings, first)} ({folder})" if strategy in settings else folder
            for settings, folder in zip(flags, folders, strict=True)
        ]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name} ({owner})"
        for name, owner in zip(names, runs.labels(owners), strict=True)
    ]


def task_name(flags: Mapping[str, Any]) -> str | None:
    """Names a run's task, and the options that change its rewards: `--hold_out`, and for a log `--learn_from`."""
    name = flags.get("task_type")
    source = f" from {flags['learn_from']}" if name == "logged" and "learn_from" in flags else ""
    return name and f"{name}{source}{' held out by time' * (flags.get('hold_out') == 'time')}"


def _descriptive(owner: pathlib.Path) -> pathlib.Path:
    """Replaces the folder of a grid's single run, whose name is a hash, with the grid's folder."""
    is_hash = owner.parent.name == "runs" and len(owner.name.rpartition("-")[2]) == _KEY_LENGTH
    return owner.parent.parent if is_hash and owner.name.startswith("run-") else owner


def _by_importance(flags: Sequence[Mapping[str, Any]], shown: Sequence[str]) -> list[str]:
    """Sorts the flags that differ: choices, flags in lists of presets, others, and last the number of rounds."""

    def rank(name: str) -> tuple:
        values = {json.dumps(settings.get(name), default=str) for settings in flags}
        is_choice = name.endswith(_CHOICES)
        return name == _ROUNDS, not is_choice, -len(values) if is_choice else 0, name not in shown, name

    return sorted(differing_flags(flags), key=rank)


def _fewest(flags: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """Returns the first few flags that distinguish as many configurations as all flags do."""

    def distinguished(by: Iterable[str]) -> int:
        by = list(by)
        return len({json.dumps([settings.get(name) for name in by], default=str) for settings in flags})

    chosen: list[str] = []
    for name in names:
        if distinguished([*chosen, name]) > distinguished(chosen):
            chosen.append(name)
    return chosen


def _named(values: Mapping[str, Any], chosen: Sequence[str]) -> str:
    """Names a configuration by the values of the chosen flags."""
    kept = [
        name
        for name in chosen
        if name in values
        if not (name == "policy" and not values[name])
        if not (name == "bandits_type" and values.get("policy"))
    ]
    words = [flag_word(name, values[name]) for name in kept]
    # With a policy of the user's, bandits_type only selects the loss.
    words += ["cross entropy"] * bool(values.get("policy") and values.get("bandits_type") == "softmax_ce")
    return ", ".join(words) or "default"


def flag_word(name: str, value: Any) -> str:
    """Returns a short form of a flag and its value."""
    short = name
    for long, shorter in _SHORTER:
        short = short.replace(long, shorter)
    if label := objects.label(value):
        return label
    if isinstance(value, bool):
        return short if value else f"no {short}"
    if isinstance(value, str):
        text = pathlib.PurePath(value).name if "/" in value else value
        return text if name.endswith(_CHOICES) else f"{short} {text}"
    return f"{short} {value:g}" if isinstance(value, int | float) else f"{short} {value}"


def differing_flags(flags: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the flags that differ between configurations."""
    names = sorted({name for settings in flags for name in settings})
    return [name for name in names if len({json.dumps(each.get(name), default=str) for each in flags}) > 1]
