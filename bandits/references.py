"""Simple references of a run's reward on held-out data, for its closing lines and for recommendations.

They are the uniform policy, the best fixed action of the training clients, a full-feedback run beside this one, and a
linear model that is fitted centrally.
"""

import contextlib
import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from bandits import metrics, simulator
from data import clients, logged_clients, tasks, text
from data.errors import UsageError
from data.tasks.options import TaskOptions
from optimization.study import intervals, results

UNIFORM, FIXED = "the uniform policy", "the best fixed action"
LINEAR = "a linear model fitted centrally"
_NEAR = 0.8  # Share of the linear model's gain over the uniform policy.
# Flags of a full-feedback run that must equal this run's.
_SHARED = {field.name for field in dataclasses.fields(TaskOptions)} - {"model", "hidden"}
_SHARED |= {"scenario", "seed", "total_rounds", "reward_drift", "max_validation_samples"}


def in_words(
    earned: np.ndarray, references: Mapping[str, np.ndarray], counts: np.ndarray, action: str, further: str = ""
) -> str:
    """Lines that compare a run's greedy policy with references, by 95% intervals over held-out clients.

    Args:
      earned: float64 [clients], sums of the run's rewards over each held-out client's rows.
      references: The same of the references, by `UNIFORM` and `FIXED`.
      counts: int [clients], numbers of rows.
      action: Name of the best fixed action.
      further: Line on a further reference.
    """
    lines: list[str] = []
    verdicts: dict[str, list[str]] = {}
    for name, sums in references.items():
        difference = simulator.row_mean(earned, counts, minus=sums)
        has_interval = difference.high > difference.low
        text = difference.text(signed=True, label="95% CI ") if has_interval else f"{difference.mean:+.3g}"
        reward = f"{sums.sum() / counts.sum():.4f}{f', action {action}' if name == FIXED else ''}"
        lines.append(f"  minus {name} ({reward}): {text}")
        low, high = (difference.low, difference.high) if has_interval else (difference.mean, difference.mean)
        word = "significantly " if len(counts) > 1 else ""
        if high < 0:
            verdicts.setdefault(f"{word}below", []).append(name)
        elif not low > 0:
            verdicts.setdefault(f"not {word}above", []).append(name)
    over = (
        f"95% intervals over {len(counts):,} clients with held-out rows, weighted by rows"
        if len(counts) > 1
        else "no interval"
    )
    lines.insert(0, f"Held-out reward of the greedy policy, {earned.sum() / counts.sum():.4f} ({over}),")
    lines += [further] * bool(further)
    if verdicts:
        parts = [f"{word} {(' or ' if 'not' in word else ' and ').join(names)}" for word, names in verdicts.items()]
        lines.append(f"On held-out data this run is {', and '.join(parts)}.")
    return "\n".join(lines)


def full_feedback(folder: pathlib.Path) -> str:
    """Held-out reward of a full-feedback run on the same data, in a folder beside this run's; empty without one."""
    own = results.read_json(folder / "config.json")
    seed = folder.name if folder.name.startswith("seed_") else "."
    for path in sorted(folder.parents[seed != "."].glob(f"*/{seed}/config.json")):
        with contextlib.suppress(UsageError, KeyError):
            other = results.read_json(path)
            is_same = all(other["flags"].get(name) == own["flags"].get(name) for name in _SHARED)
            is_same &= other["data_checksum"] == own["data_checksum"] and path.parent != folder
            if is_same and other["flags"]["bandits_type"].startswith("supervised"):
                reward = results.read_metrics(path.parent)[metrics.HELD_OUT_REWARD].iloc[-1]
                return f"  full-feedback baseline: {reward:.4f} ({path.parent})"
    return ""


@dataclasses.dataclass(frozen=True)
class References:
    """Held-out rewards of policies that need no rounds, chosen on all data of training clients.

    On a log, they are doubly robust estimates.

    Attributes:
      rewards: Of the uniform policy, the best fixed action and the central linear model, by name.
      linear_gain: Reward of the linear model minus that of the uniform policy. On a log, it is measured on all clients,
        each with a regression that was fitted without it.
      measured: Rewards of the uniform policy and the linear model as runs measure a model: on a log, by its simulator.
    """

    rewards: Mapping[str, intervals.Interval]
    linear_gain: intervals.Interval
    measured: tuple[float, float]

    @property
    def measured_gain(self) -> float:
        """Measured reward of the linear model minus that of the uniform policy."""
        return self.measured[1] - self.measured[0]

    @property
    def near_linear(self) -> float:
        """Measured reward in the neighbourhood of the linear model; NaN if that does not exceed the uniform policy."""
        return self.measured[0] + _NEAR * self.measured_gain if self.measured_gain > 0 else math.nan


def simple_policies(task: tasks.Task, matrix: np.ndarray) -> References:
    """References of a table or a log.

    On a table, the linear model is a ridge regression of every action's reward. On a log, it is the regression of the
    logged rewards.

    Args:
      task: A table or a log.
      matrix: float [labels, actions], the reward of an action given one label.
    """
    parts, held_out = (task.clients, task.held_out), task.held_out
    train, tested = ([_rewards(part, index, matrix) for index in range(len(part))] for part in parts)
    counts, everyone, rewards = (
        np.array([len(client) for client in tested]),
        np.concatenate(train),
        np.concatenate(tested),
    )
    measured = rewards
    if isinstance(held_out, logged_clients.LoggedClients):
        predicted = np.concatenate([held_out.predicted(index) for index in range(len(counts))])
        measured = np.concatenate([held_out.sampled_rewards(index) for index in range(len(counts))])
    else:
        from sklearn import linear_model

        width = task.model_arguments.get("vocabulary_size") or task.model_arguments["num_features"]
        loaded = [clients.joined([part.load(index) for index in range(len(part))]) for part in parts]
        contexts, of_held_out = (text.design(examples.features, width) for examples in loaded)
        predicted = linear_model.Ridge().fit(contexts, everyone).predict(of_held_out)
    rows, linear = np.arange(len(rewards)), predicted.argmax(axis=1)
    earned = {
        UNIFORM: rewards.mean(axis=1),
        FIXED: rewards[:, everyone.mean(axis=0).argmax()],
        LINEAR: rewards[rows, linear],
    }
    starts = np.cumsum([0, *counts[:-1]])
    sums = {name: np.add.reduceat(each, starts) for name, each in earned.items()}
    gain = simulator.row_mean(sums[LINEAR], counts, minus=sums[UNIFORM])
    if isinstance(held_out, logged_clients.LoggedClients):
        gain = _gain([part for part in parts if isinstance(part, logged_clients.LoggedClients)])
    return References(
        {name: simulator.row_mean(each, counts) for name, each in sums.items()},
        gain,
        (float(measured.mean()), float(measured[rows, linear].mean())),
    )


def _gain(parts: Sequence[logged_clients.LoggedClients]) -> intervals.Interval:
    """Doubly robust gain of the actions that regressions without a client choose for it over the uniform policy."""
    gains = []
    for part in parts:
        for index in range(len(part)):
            rewards, chosen = _rewards(part, index, np.empty(0)), part.predicted(index).argmax(axis=1)
            gains.append(rewards[np.arange(len(rewards)), chosen] - rewards.mean(axis=1))
    return simulator.row_mean(np.array([each.sum() for each in gains]), np.array([len(each) for each in gains]))


def _rewards(part: clients.ClientData, index: int, matrix: np.ndarray) -> np.ndarray:
    """Rewards of a client's rows, float64 [rows, actions]; doubly robust ones of a log."""
    if isinstance(part, logged_clients.LoggedClients):
        log = part.rows(index)
        return logged_clients.doubly_robust(part.predicted(index), log.actions, log.rewards, log.propensities)
    labels = part.load(index).labels
    return (labels @ matrix if labels.ndim > 1 else matrix[labels]).astype(float)
