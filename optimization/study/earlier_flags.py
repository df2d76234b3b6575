"""What flags in a run's `config.json` are today: some were added, and one got another meaning, after runs were made."""

from collections.abc import Mapping
from typing import Any

_ALGORITHM_FLAGS = ("algorithm", "model_aggregation")
_LINEAR_TASKS = ("emnist62_linear", "emnist10_linear")
_MODES = ("fedkp", "fedkp_cluster_mean", "fedkppa")


def in_todays_words(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run's flags as today's program would have been given them for the same numbers.

    Runs from before `--mean_shift_weights` weighed by the kernel's slope, and their SGLD was the clients' own. Those
    without an initial training recorded its defaults, which are others now. Ads were shown once each. The published
    program's linear models were plain ones before `--initial_weights`. What a bandit's clients had above their cap was
    chosen once, unless a run said otherwise. Importance weights of the published code had no flag of their own.
    """
    found = dict(flags)
    if flags.get("scenario") == "scratch":
        found |= without_initial_training(flags)
    if "local_pulls" in flags:
        found.setdefault("pulls_per_impression", 1)
    is_published = flags.get("variant") == "reference_code" and flags.get("task_type") in _LINEAR_TASKS
    if is_published and "initial_weights" not in flags:
        found |= {"model": flags.get("model") or "linear", "initial_weights": "glorot_uniform"}
    is_weighted = flags.get("importance_weighting") and "epsilon_greedy" in str(flags.get("bandits_type"))
    if is_weighted and flags.get("variant") == "reference_code":
        found.setdefault("importance_weights", "published_code")
    if "bandits_type" in flags and flags.get("max_examples_per_client") and flags.get("redraw_examples") is None:
        found["redraw_examples"] = False
    for name in _ALGORITHM_FLAGS:
        if name not in flags or "mean_shift_weights" in flags:
            continue
        if flags[name] in _MODES:
            found["mean_shift_weights"] = "profile"
        if flags[name] == "sgld":
            found[name] = "client_sgld"
    return found


def without_initial_training(flags: Mapping[str, Any]) -> dict[str, None]:
    """Returns the flags of the initial training without a value, which a run that has none did not read."""
    return {name: None for name in flags if name.startswith("init_")}
