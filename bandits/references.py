"""References of a run's reward on held-out data, and the accuracy of a log's simulator.

The references are the uniform policy, the best fixed action of the training clients, and a linear model that is fitted
centrally; they appear in a run's closing lines and in recommendations. A log's simulator (`data.logged_clients`) is
compared with the log on held-out clients, which its regression has not seen: for the logging policy with the logged
mean, and for the uniform policy with the doubly robust value, which is unbiased for any regression.
"""

import dataclasses
import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from data import clients, logged_clients, tasks, text
from optimization.study import intervals

UNIFORM, FIXED = "the uniform policy", "the best fixed action"
LINEAR = "a linear model fitted centrally"
_NEAR = 0.8  # Share of the linear model's gain over the uniform policy.
_TO_99 = 2.576 / 1.960  # From the half width of a 95% interval to that of a 99% interval.
_ROUNDING = 1e-13  # Where all clients agree, rounding errors leave a spread of this many times the values.


def in_words(earned: np.ndarray, references: Mapping[str, np.ndarray], counts: np.ndarray, action: str) -> str:
    """Lines that compare a run's greedy policy with references, by 95% intervals over held-out clients.

    Args:
      earned: float64 [clients], sums of the run's rewards over each held-out client's rows.
      references: The same of the references, by `UNIFORM` and `FIXED`.
      counts: int [clients], numbers of rows.
      action: Name of the best fixed action.
    """
    lines: list[str] = []
    verdicts: dict[str, list[str]] = {}
    for name, sums in references.items():
        difference = row_mean(earned, counts, minus=sums)
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
    if verdicts:
        parts = [f"{word} {(' or ' if 'not' in word else ' and ').join(names)}" for word, names in verdicts.items()]
        lines.append(f"On held-out data this run is {', and '.join(parts)}.")
    return "\n".join(lines)


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
    gain = row_mean(sums[LINEAR], counts, minus=sums[UNIFORM])
    if isinstance(held_out, logged_clients.LoggedClients):
        gain = _gain([part for part in parts if isinstance(part, logged_clients.LoggedClients)])
    return References(
        {name: row_mean(each, counts) for name, each in sums.items()},
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
    return row_mean(np.array([each.sum() for each in gains]), np.array([len(each) for each in gains]))


def _rewards(part: clients.ClientData, index: int, matrix: np.ndarray) -> np.ndarray:
    """Rewards of a client's rows, float64 [rows, actions]; doubly robust ones of a log."""
    if isinstance(part, logged_clients.LoggedClients):
        log = part.rows(index)
        return logged_clients.doubly_robust(part.predicted(index), log.actions, log.rewards, log.propensities)
    labels = part.load(index).labels
    return (labels @ matrix if labels.ndim > 1 else matrix[labels]).astype(float)


@dataclasses.dataclass(frozen=True)
class Score:
    """A policy's value by simulator and log, with 95% intervals over clients.

    Attributes:
      policy: Name of the policy.
      simulated: Mean of sampled rewards.
      logged: Value by the log.
      difference: Simulated minus logged value. Its interval can cover the sampling of the training clients, too.
    """

    policy: str
    simulated: intervals.Interval
    logged: intervals.Interval
    difference: intervals.Interval

    @property
    def is_off(self) -> bool:
        """Whether the difference is significant."""
        return self.difference.low > 0 or self.difference.high < 0

    @property
    def is_contradicted(self) -> bool:
        """Whether even the 99% interval of the difference excludes 0; of correct logs, few are."""
        return abs(self.difference.mean) > _TO_99 * (self.difference.high - self.difference.low) / 2

    def in_words(self) -> str:
        """The score as a line of text."""
        text = f"{self.policy}: simulator {np.nan_to_num(self.simulated.mean):.4f}, log {_text(self.logged)}, "
        return text + f"difference {_text(self.difference, '+')}{', significant' if self.is_off else ''}"


def _text(interval: intervals.Interval, sign: str = "") -> str:
    if math.isnan(interval.low):
        return "cannot be estimated" if math.isnan(interval.mean) else f"{interval.mean:{sign}.4f} (no interval)"
    return f"{interval.mean:{sign}.4f} ({interval.low:{sign}.4f} to {interval.high:{sign}.4f})"


_scores: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Of held-out clients, which all seeds share.


def simulator_scores(held_out: clients.ClientData, training: clients.ClientData | None = None) -> list[Score]:
    """The simulator's scores on the log's held-out clients, for the logging and the uniform policy.

    Args:
      held_out: Held-out clients.
      training: Clients that the regression was fitted on. The simulator inherits the sampling error of their rewards,
        which the intervals of the differences then cover, too: few clicks may fall on one side by chance.

    Raises:
      TypeError: If the held-out clients are not those of a log.
    """
    if not isinstance(held_out, logged_clients.LoggedClients):
        raise TypeError(f"Only a log's clients have scores, not {type(held_out).__name__}.")
    if held_out in _scores:
        return _scores[held_out]
    counts, sums = _sums(held_out)
    errors = [0.0, 0.0]
    if isinstance(training, logged_clients.LoggedClients):
        fitted_counts, (_, of_log, _, of_uniform) = _sums(training)
        intervals_of_fit = [row_mean(each, fitted_counts) for each in (of_log, of_uniform)]
        errors = [float(np.nan_to_num(each.high - each.low)) / 2 for each in intervals_of_fit]
    scores = []
    for place, policy in enumerate(("logging policy", "uniformly random actions")):
        simulated, logged = sums[2 * place], sums[2 * place + 1]
        difference = row_mean(simulated, counts, minus=logged)
        half = math.hypot((difference.high - difference.low) / 2, errors[place])
        difference = difference._replace(low=difference.mean - half, high=difference.mean + half)
        scores.append(Score(policy, row_mean(simulated, counts), row_mean(logged, counts), difference))
    _scores[held_out] = scores
    return scores


def _sums(part: logged_clients.LoggedClients) -> tuple[np.ndarray, np.ndarray]:
    """Rows of each client; and float64 [4, clients], sums of simulated and logged rewards for both policies."""
    rows, sums = [], []
    for client in range(len(part)):
        log, sampled, predicted = part.rows(client), part.sampled_rewards(client), part.predicted(client)
        logged = np.arange(len(log)), log.actions
        weights = 1 / (predicted.shape[1] * np.asarray(log.propensities, float))
        doubly_robust = predicted.mean(axis=1) + weights * (log.rewards - predicted[logged])
        values = (sampled[logged], log.rewards, sampled.mean(axis=1), doubly_robust)
        rows.append(len(log))
        sums.append([np.sum(value, dtype=float) for value in values])
    return np.array(rows), np.transpose(sums)


def row_mean(sums: np.ndarray, rows: np.ndarray, minus: np.ndarray | None = None) -> intervals.Interval:
    """Mean over all rows, or the difference of two, with a 95% interval over clients.

    The interval is the delta method's for a ratio (Cochran, Sampling Techniques, 1977, chapter 6). A mean in which all
    clients agree has none, nor has a difference that is 0 for all; and a mean of 0 without any spread is not a number:
    no row earned anything.

    Args:
      sums: float64 [clients], over each client's rows.
      rows: int [clients], how many these are.
      minus: What is taken from `sums`, likewise.
    """
    total, differences = rows.sum(), sums if minus is None else sums - minus
    mean = float(differences.sum() / total)
    influences = (differences - mean * rows) / total
    interval = intervals.of_mean(mean + len(rows) * influences)._replace(mean=mean)
    rounding = _ROUNDING * (abs(sums.sum()) + (0 if minus is None else abs(minus.sum()))) / total
    if np.sqrt(np.sum(influences**2)) > rounding or (minus is not None and abs(mean) > rounding):
        return interval
    return intervals.Interval((mean or math.nan) if minus is None else 0.0, math.nan, math.nan, len(rows))


def scores_as_json(scores: list[Score]) -> dict[str, Any]:
    """Content of `simulator.json`."""
    return {
        each.policy: {
            name: {key: None if math.isnan(value) else value for key, value in getattr(each, name)._asdict().items()}
            for name in ("simulated", "logged", "difference")
        }
        for each in scores
    }
