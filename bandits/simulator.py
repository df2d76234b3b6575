"""Accuracy of a log's simulator (`data.logged_clients`): its sampled rewards against the log's.

On held-out clients, which the regression has not seen, the mean sampled reward is compared with the logged mean for the
logging policy, and with the doubly robust value, which is unbiased for any regression, for the uniform policy.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from data import clients, logged_clients
from optimization.study import intervals

_TO_99 = 2.576 / 1.960  # From the half width of a 95% interval to that of a 99% interval.
_ROUNDING = 1e-13  # Where all clients agree, rounding errors leave a spread of this many times the values.


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


@functools.lru_cache(maxsize=1)  # All seeds share the task.
def score(held_out: clients.ClientData, training: clients.ClientData | None = None) -> list[Score]:
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


def as_json(scores: list[Score]) -> dict[str, Any]:
    """Content of `simulator.json`."""
    return {
        each.policy: {
            name: {key: None if math.isnan(value) else value for key, value in getattr(each, name)._asdict().items()}
            for name in ("simulated", "logged", "difference")
        }
        for each in scores
    }
