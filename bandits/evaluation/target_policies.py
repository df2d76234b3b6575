"""Policies whose value is asked for, by name; nothing here imports TensorFlow."""

import pathlib
from typing import NamedTuple

import numpy as np

from data import interaction_log, log_checks, schema
from data.errors import UsageError

KINDS = {
    "logged": "the logging policy itself, of a run by its model of each period; a check with weights of 1",
    "uniform": "every action equally often",
    "constant:ACTION": "always that action",
    "column:NAME,...": "the probability of the logged action in a column of the log; or a column for each action, "
    "matched by name (column low or pi_low for action low) or by pairs: column:low=pi_1,high=pi_2",
    "run:FOLDER": "a run's model, with the run's exploration or that of --bandits_type",
}
_WITHOUT_NAME = ("logged", "uniform")
_WITH_NAME = ("constant", "column", "run")


class Target(NamedTuple):
    """The policy that `--policy` names.

    Attributes:
      kind: `logged`, `uniform`, `constant`, `column` or `run`.
      name: The action, the columns, or the folder; empty for the first two.
      run: The folder of the run whose predictions are in these columns; empty for other policies.
    """

    kind: str
    name: str = ""
    run: str = ""

    def __str__(self) -> str:
        if self.run:
            folder = pathlib.Path(self.run)
            return f"run:{'/'.join(folder.parts[-2:]) if folder.name.startswith('seed_') else folder.name}"
        return f"{self.kind}:{self.name}" if self.name else self.kind

    @property
    def has_each_probability(self) -> bool:
        """Whether the probability of each action is known, which the value of a reward model needs."""
        return self.kind != "logged" and (self.kind != "column" or len(schema.listed(self.name)) > 1)


def parse(text: str) -> Target:
    """The target policy of `--policy`.

    Raises:
      UsageError: If it is none of `KINDS`, or a run's folder is not there.
    """
    kind, _, name = text.partition(":")
    if text not in _WITHOUT_NAME and (kind not in _WITH_NAME or not name):
        raise UsageError(f"--policy={text} must be one of {', '.join(KINDS)}.")
    if kind == "run" and not pathlib.Path(name).is_dir():
        raise UsageError(f"--policy={text}: there is no folder {name}.")
    return Target(kind, name)


def probabilities(target: Target, log: interaction_log.InteractionLog) -> np.ndarray:
    """Action probabilities of a policy that is not a run's.

    Args:
      target: The policy.
      log: The log; for `column`, with `probabilities`.

    Returns:
      float64 [rows, actions]; for `logged` and for one column, [rows], of the logged actions.

    Raises:
      UsageError: If the log has no such action, or no probabilities.
    """
    count = len(log.action_names)
    if target.kind == "logged":
        return log.propensities
    if target.kind == "uniform":
        return np.broadcast_to(1 / count, (len(log), count))
    if target.kind == "constant":
        row = np.zeros(count)
        row[log_checks.check_action(target.name, log.action_names, f"--policy={target}")] = 1
        return np.broadcast_to(row, (len(log), count))
    if log.probabilities is None:
        raise UsageError(f"--policy={target}: the log has no such columns.")
    return log.probabilities
