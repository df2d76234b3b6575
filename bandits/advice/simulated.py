"""Whether a log's simulator may answer: only where the log itself does not contradict it."""

import math
import shlex
from collections.abc import Sequence

from bandits.advice import amounts
from bandits.simulator import Score
from data.errors import UsageError
from optimization.study import cli

_NAMES = {"uniformly random actions": "uniform policy"}


def check(scores: Sequence[Score], module: str, base: Sequence[str]) -> None:
    """Refuses a simulator that held-out clients of the log contradict.

    Args:
      scores: Of the logging policy and of the uniform policy, by the simulator and by the log.
      module: The program that trains offline.
      base: Flags of all runs.

    Raises:
      UsageError: If a 95% interval of a difference lies on one side of 0.
    """
    if not any(one.is_off for one in scores):
        return
    values = "\n".join(f"  {_in_words(one)}" for one in scores)
    file = next((flag.partition("=")[2] for flag in base if flag.startswith("--data_file=")), "LOG")
    raise UsageError(
        "The log contradicts its simulator, so a recommendation from the simulator would be wrong. Nothing was run.\n"
        f"Average reward on held-out clients:\n{values}\n"
        "Use the log itself, by doubly robust (DR) estimation:\n"
        f"  value of a policy: scripts.evaluate_policy --log={shlex.quote(file)} --policy=uniform, with the log's "
        "columns\n"
        f"  offline training:  {cli.command_line(module, [*base, '--learn_from=dr'])}\n"
        "Neither says whether exploration pays: for that, log more actions, or columns that explain rewards better."
    )


def _in_words(one: Score) -> str:
    name = _NAMES.get(one.policy, one.policy)
    by = "doubly robust" if name == "uniform policy" else "logged"
    if math.isnan(one.difference.low):
        return f"{name}: cannot be compared, as all rewards are equal"
    digits = amounts.decimals(one.difference.low, one.difference.high)
    ends = f"{amounts.number(one.difference.low, digits, '+')} to {amounts.number(one.difference.high, digits, '+')}"
    return (
        f"{name}: {amounts.number(one.simulated.mean, digits)} simulated, {amounts.number(one.logged.mean, digits)} "
        f"{by}, difference {amounts.number(one.difference.mean, digits, '+')} (95% CI {ends})"
    )


def in_words(scores: Sequence[Score]) -> str:
    """Returns what a recommendation says first, where the log does not contradict its simulator."""
    values = "\n".join(f"- {_in_words(one)}" for one in scores)
    is_known = any(math.isfinite(one.difference.low) for one in scores)
    checked = "do not contradict it" if is_known else "cannot check it"
    return (
        "Rewards are simulated: they are drawn from a regression of the log, and have its bias.\n"
        f"Held-out clients of the log {checked}:\n{values}\n"
        "scripts.evaluate_policy estimates a policy's value from the log itself.\n"
    )
