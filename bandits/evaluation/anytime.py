"""Anytime-valid intervals of a log: the unit of one observation, and the confidence sequence."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from bandits.evaluation import confidence_sequence, evaluation_flags, target_policies
from bandits.evaluation.estimators import Terms
from data import interaction_log
from data.errors import UsageError
from data.reward_bounds import RewardBounds
from optimization.study import cli

COHORTS = "cohorts"  # How a run drew them, in the report of a log that is saved apart from it.


def flags_of_log(path: str) -> Mapping[str, Any]:
    """Flags of the run that wrote a log, from its folder or one of its files; empty if unknown."""
    location = pathlib.Path(path)
    for folder in (location, *list(location.parents)[:2]):
        try:
            return dict(json.loads((folder / "config.json").read_text())["flags"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return {}


def cohorts(path: str) -> dict[str, Any]:
    """Flags of the log's run that decide whether its rounds are independent samples of one value."""
    flags = flags_of_log(path)
    return {name: flags[name] for name in confidence_sequence.RUN_FLAGS if name in flags}


def is_own_model(log: str, target: target_policies.Target) -> bool:
    """Whether a policy is the model of the run that wrote the log (its folder or one of its files)."""
    path = pathlib.Path(log).resolve()
    return target.kind == "run" and pathlib.Path(target.name).resolve() in (path, *path.parents)


def check(settings: cli.Settings, target: target_policies.Target, *, is_runs: bool) -> None:
    """Refuses a log without rounds or without uniform cohorts, before it is read.

    Args:
      settings: The flags.
      target: The policy, which may not have learned from the log.
      is_runs: Whether a run wrote the log.

    Raises:
      UsageError: If it refuses.
    """
    if not settings.anytime:
        return
    if target.kind == "logged":
        raise UsageError(
            "--anytime: --policy=logged is the policy that acted, which may have learned from the log and so has no "
            "single value: leave out --anytime, or name a policy that was fixed without this log."
        )
    if is_runs:
        if is_own_model(settings.log, target):
            raise UsageError(
                f"--anytime: the model of --policy=run:{cli.shown_path(target.name)} was trained on this log, and the "
                "interval holds for policies that were fixed without it: leave out --anytime, or take another log."
            )
        confidence_sequence.unit(flags_of_log(settings.log))
    elif not (settings.round_column or settings.period_column):
        raise UsageError("--anytime needs the round of each row: name its column with --round_column.")


def sequence(
    settings: cli.Settings, log: interaction_log.InteractionLog, rows: Terms, bounds: RewardBounds, *, is_runs: bool
) -> tuple[confidence_sequence.ConfidenceSequence, list[str]]:
    """Confidence sequence of a log, and its notes.

    Args:
      settings: The flags.
      log: The log.
      rows: Its terms.
      bounds: Bounds of the rewards in the user's unit, which the sequence has.
      is_runs: Whether a run wrote it.

    Raises:
      UsageError: If the log has no rounds, does not keep its bounds, or has cohorts that no interval goes with.
    """
    limits = evaluation_flags.bounds(settings)
    of_table = "periods" if settings.period_column else "rounds"
    flags = log.report.get(COHORTS) or flags_of_log(settings.log)
    unit = confidence_sequence.unit(flags) if is_runs else of_table
    when = log.periods if unit == "periods" else log.rounds
    looks, observed = confidence_sequence.observations(rows, when, limits, log.client_ids, settings.seed)
    result = confidence_sequence.sequence(looks, observed)
    ends = {name: bounds.to_user(getattr(result, name)) for name in ("estimates", "lows", "highs")}
    return result._replace(**ends), evaluation_flags.anytime_sentences(result, limits, bounds)
