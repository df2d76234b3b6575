"""Baselines that need no rounds, and the accuracy of a log's simulator.

A run records the rewards of the uniform policy and of the best fixed action in `bounds.json`. Both are computed from
the labels and the reward matrix.

Recommendations (`bandits.advice`) also use a linear model that is fitted centrally. A log's simulator
(`data.logged_clients`) is compared with the log on held-out clients, to which its regression was not fitted. For the
logging policy, simulated rewards are compared with the mean logged reward; for the uniform policy, with its doubly
robust value, which is unbiased for any regression.
"""

import dataclasses
import functools
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bandits import metrics
from bandits.options import BanditOptions, Phase, phases
from data import action_sets, clients, keys, logged_clients, tasks, text
from data.action_sets import ActionSets
from optimization.options import Cohorts
from optimization.study import intervals

if TYPE_CHECKING:
    import pandas as pd

UNIFORM, FIXED = "the uniform policy", "the best fixed action"
KEYS = {"chance": UNIFORM, "constant": FIXED}  # Keys in `bounds.json`.
GREEDY = "greedy"  # Key in `bounds.json` of the comparison on held-out data.
LINEAR = "a linear model fitted centrally"
_NEAR = 0.8  # Share of the linear model's gain over the uniform policy.
_TO_99 = 2.576 / 1.960  # Ratio of the half widths of a 99% and a 95% interval.
_ROUNDING = 1e-13  # Relative spread that rounding errors can cause where all clients are equal.
MOST_CLIENTS = 2000  # Reading more clients would take seconds.
_PRIOR_ROWS = 10
_DRAWS = 2000  # Number of sampled cohorts.


@dataclasses.dataclass(frozen=True)
class References:
    """Held-out rewards of policies that need no rounds. These policies are chosen on the training clients' data.

    On a log, the rewards are doubly robust estimates.

    Attributes:
      rewards: Rewards of the uniform policy, the best fixed action and the central linear model, by name.
      linear_gain: Reward of the linear model minus that of the uniform policy. On a log, it is measured on training and
        held-out clients, each with a regression that was fitted without that client.
      measured: Rewards of the uniform policy and the linear model, measured in the way that runs measure a model. If
        the task is a log, its simulator gives these rewards.
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
        """Measured reward at `_NEAR` of the linear model's gain; NaN if the model does not beat the uniform policy."""
        return self.measured[0] + _NEAR * self.measured_gain if self.measured_gain > 0 else math.nan


def simple_policies(task: tasks.Task, matrix: np.ndarray) -> References:
    """Returns the references of a table or a log.

    On a table, the linear model is a ridge regression of every action's reward on the context or, if actions have
    features, of rewards on pairs of context and action. On a log, it is the regression of the logged rewards.

    Args:
      task: A table or a log.
      matrix: float [labels, actions], the reward of an action given one label.
    """
    parts, held_out = (task.clients, task.held_out), task.held_out
    train, tested = ([_rewards(task, part, index, matrix) for index in range(len(part))] for part in parts)
    counts = np.array([len(client) for client, _ in tested])
    (everyone, _), (rewards, actions) = (map(np.concatenate, zip(*part, strict=True)) for part in (train, tested))
    is_offered, measured = actions >= 0, rewards
    ranking = _ranking(task, train) if isinstance(task.feature_spec, action_sets.Spec) else everyone.mean(axis=0)
    if isinstance(held_out, logged_clients.LoggedClients):
        predicted = np.concatenate([held_out.predicted(index) for index in range(len(counts))])
        measured = np.concatenate([held_out.sampled_rewards(index) for index in range(len(counts))])
    elif task.has_action_features:
        predicted = _predicted_by_pairs(task)
    else:
        from sklearn import linear_model

        width = task.model_arguments.get("vocabulary_size") or task.model_arguments["num_features"]
        loaded: list[Any] = [
            clients.joined([part.load(index) for index in range(len(part))]).features for part in parts
        ]
        contexts, of_held_out = (text.design(getattr(each, "contexts", each), width) for each in loaded)
        predicted = linear_model.Ridge().fit(contexts, everyone).predict(of_held_out)
    rows, linear = np.arange(len(rewards)), _best(predicted, is_offered)
    earned = {
        UNIFORM: _means(rewards, is_offered),
        FIXED: rewards[rows, _best(ranking[actions], is_offered)],
        LINEAR: rewards[rows, linear],
    }
    starts = np.cumsum([0, *counts[:-1]])
    sums = {name: np.add.reduceat(each, starts) for name, each in earned.items()}
    gain = row_mean(sums[LINEAR], counts, minus=sums[UNIFORM])
    if isinstance(held_out, logged_clients.LoggedClients):
        gain = _gain(task, [part for part in parts if isinstance(part, logged_clients.LoggedClients)])
    return References(
        {name: row_mean(each, counts) for name, each in sums.items()},
        gain,
        (float(_means(measured, is_offered).mean()), float(measured[rows, linear].mean())),
    )


def _best(values: np.ndarray, is_offered: np.ndarray) -> np.ndarray:
    """Slot of the offered action with the highest value, int64 [rows]."""
    return np.where(is_offered, values, -np.inf).argmax(axis=1)


def _means(values: np.ndarray, is_offered: np.ndarray) -> np.ndarray:
    """Mean over each row's offered actions, float64 [rows]."""
    return values.mean(axis=1) if is_offered.all() else values.mean(axis=1, where=is_offered)


def _predicted_by_pairs(task: tasks.Task) -> np.ndarray:
    """Predicts rewards of held-out rows, float64 [rows, slots], by ridge regression on pairs of context and action."""

    def pairs(part: clients.ClientData, indices: Iterable[int]) -> Iterator[tuple[np.ndarray, np.ndarray, Any]]:
        for index in indices:
            examples = part.load(index)
            sets: Any = task.normalize(examples.features)
            places = np.nonzero(sets.entries >= 0)
            features = logged_clients.pairs(text.take(sets.contexts, places[0]), sets.actions[places])
            yield text.design(features, features.shape[1]), examples.labels, places

    products, moments = np.zeros((1, 1)), np.zeros(1)  # The first addition broadcasts them to their final shapes.
    for features, labels, places in pairs(task.clients, _some(range(len(task.clients)))):
        products, moments = products + features.T @ features, moments + features.T @ labels[places]
    weights, predicted = np.linalg.solve(products + np.eye(len(products)), moments), []
    for features, labels, places in pairs(task.held_out, range(len(task.held_out))):
        predicted.append(np.zeros(labels.shape))
        predicted[-1][places] = features @ weights
    return np.concatenate(predicted)


def _gain(task: tasks.Task, parts: Sequence[logged_clients.LoggedClients]) -> intervals.Interval:
    """Doubly robust gain over the uniform policy of regressions, each for the client that it was not fitted to."""
    gains = []
    for part in parts:
        for index in range(len(part)):
            rewards, actions = _rewards(task, part, index, np.empty(0))
            chosen = _best(part.predicted(index), actions >= 0)
            gains.append(rewards[np.arange(len(rewards)), chosen] - _means(rewards, actions >= 0))
    return row_mean(np.array([each.sum() for each in gains]), np.array([len(each) for each in gains]))


def _rewards(task: tasks.Task, part: clients.ClientData, index: int, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
    """Returns a client's rewards, float64 [rows, slots], which are doubly robust for a log, and the actions.

    Actions are positions in the task's names, or -1 for slots without an action.
    """
    if isinstance(part, logged_clients.LoggedClients):
        log, predicted = part.rows(index), part.predicted(index)
        rewards = logged_clients.doubly_robust(predicted, log.actions, log.rewards, log.propensities)
        return rewards, np.broadcast_to(log.slot_actions, rewards.shape)
    examples = part.load(index)
    if isinstance(task.feature_spec, action_sets.Spec):
        return _rewards_of_sets(task, examples)
    labels = examples.labels
    rewards = (labels @ matrix if labels.ndim > 1 else matrix[labels]).astype(float)
    return rewards, np.broadcast_to(np.arange(rewards.shape[1]), rewards.shape)


def compared(
    earned: np.ndarray, references: Mapping[str, np.ndarray], counts: np.ndarray
) -> tuple[list[str], list[bool]]:
    """Compares a policy with references, with 95% intervals over clients, weighted by rows.

    Args:
      earned: float64 [clients], the sum of the policy's rewards over each client's rows.
      references: The same sums for each reference, by name.
      counts: int [clients], each client's number of rows.

    Returns:
      The comparison as lines of text, and whether the policy is significantly above each reference. Without an
      interval, its mean must be above that of the reference.
    """
    lines, is_above = [f"Held-out reward of the greedy policy, {earned.sum() / counts.sum():.4f}"], []
    for name, sums in references.items():
        difference = row_mean(earned, counts, minus=sums)
        has_interval = difference.high > difference.low
        text = difference.text(signed=True, label="95% CI ") if has_interval else f"{difference.mean:+.3g}"
        lines.append(f"  minus {name} ({sums.sum() / counts.sum():.4f}): {text}")
        is_above.append(bool((difference.low if has_interval else difference.mean) > 0))
    return lines, is_above


def notice(table: "pd.DataFrame", recorded: Mapping[str, Mapping[str, Any]], *, explores_only: bool = False) -> str:
    """Returns a warning unless a run is better than both the uniform policy and the best fixed action; otherwise "".

    Args:
      table: The rows of the run's `metrics.csv`.
      recorded: Content of its `bounds.json`.
      explores_only: Whether the run acts with the uniform policy, so that only its model can be better.
    """
    average, greedy = table[metrics.AVERAGE_REWARD].iloc[-1], recorded.get(GREEDY, {})
    during, held_out = ({} if explores_only else recorded.get("participating", {})), recorded.get("held_out", {})
    earned = [
        f"that of {name} ({during[key]:.4f})" for key, name in KEYS.items() if average <= during.get(key, -math.inf)
    ]
    learned = [f"that of {name} ({held_out[key]:.4f})" for key, name in KEYS.items() if not greedy.get(key, True)]
    parts = []
    if learned:
        reward = f"the held-out reward of its greedy policy ({greedy['reward']:.4f})"
        parts.append(f"{reward} is not significantly above {' or '.join(learned)}")
    if earned:
        parts.append(f"its average reward over all rounds ({average:.4f}) is not above {' or '.join(earned)}")
    if earned and greedy and not learned:
        parts.append("its trained model is better, so deploy models more often (--bandits_deploy_freq) or explore less")
    head = "Did not learn" if learned else "Earned no more than a simple policy"
    return f"{head}: {'; '.join(parts)}." if parts else ""


@dataclasses.dataclass(frozen=True)
class Score:
    """A policy's value according to the simulator and to the log, with 95% intervals over clients.

    Attributes:
      policy: Name of the policy.
      simulated: Mean of sampled rewards.
      logged: Value estimated from the log.
      difference: Simulated minus logged value. Its interval can include the sampling error of the training clients.
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
        """Whether even the 99% interval of the difference excludes 0, which is rare for correct logs."""
        return abs(self.difference.mean) > _TO_99 * (self.difference.high - self.difference.low) / 2

    def in_words(self) -> str:
        """Returns the score as a line of text."""
        text = f"{self.policy}: simulator {np.nan_to_num(self.simulated.mean):.4f}, log {_text(self.logged)}, "
        return text + f"difference {_text(self.difference, '+')}{', significant' if self.is_off else ''}"


def _text(interval: intervals.Interval, sign: str = "") -> str:
    if math.isnan(interval.low):
        return "cannot be estimated" if math.isnan(interval.mean) else f"{interval.mean:{sign}.4f} (no interval)"
    return f"{interval.mean:{sign}.4f} ({interval.low:{sign}.4f} to {interval.high:{sign}.4f})"


_scores: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Keyed by held-out clients, which all seeds share.


def simulator_scores(held_out: clients.ClientData, training: clients.ClientData | None = None) -> list[Score]:
    """Scores the simulator on the log's held-out clients, for the logging policy and the uniform policy.

    Args:
      held_out: Held-out clients.
      training: Clients that the regression was fitted to. The simulator inherits the sampling error of their rewards,
        which can be large if rewards are rare, so the intervals of the differences include it. None to leave it out.

    Raises:
      TypeError: If the held-out clients do not belong to a log.
    """
    if not isinstance(held_out, logged_clients.LoggedClients):
        raise TypeError(f"Only the clients of a log have scores, not {type(held_out).__name__}.")
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
    """Returns each client's number of rows, and sums of simulated and logged rewards, float64 [4, clients]."""
    rows, sums = [], []
    for client in range(len(part)):
        log, sampled, predicted = part.rows(client), part.sampled_rewards(client), part.predicted(client)
        logged = np.arange(len(log)), log.actions
        weights = 1 / (log.set_sizes * np.asarray(log.propensities, float))
        doubly_robust = _means(predicted, log.offered) + weights * (log.rewards - predicted[logged])
        values = (sampled[logged], log.rewards, _means(sampled, log.offered), doubly_robust)
        rows.append(len(log))
        sums.append([np.sum(value, dtype=float) for value in values])
    return np.array(rows), np.transpose(sums)


def row_mean(sums: np.ndarray, rows: np.ndarray, minus: np.ndarray | None = None) -> intervals.Interval:
    """Returns the mean over all rows, or a difference of two means, with a 95% interval over clients.

    The interval uses the delta method for a ratio (Cochran, Sampling Techniques, 1977, chapter 6). A mean has no
    interval if it is the same for all clients, and is NaN if no row earned anything. A difference has no interval if it
    is 0 for every client.

    Args:
      sums: float64 [clients], the sum over each client's rows.
      rows: int [clients], the number of rows of each client.
      minus: float64 [clients], sums of the value to subtract.
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
    """Returns the content of `simulator.json`."""
    return {
        each.policy: {
            name: {key: None if math.isnan(value) else value for key, value in getattr(each, name)._asdict().items()}
            for name in ("simulated", "logged", "difference")
        }
        for each in scores
    }


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Mean rewards of two baselines on some clients' examples.

    Attributes:
      chance: The uniform policy's mean reward.
      constant: The best fixed action's mean reward.
      action: Index of the best fixed action.
      clients: Number of clients that were read; they are sampled at random.
      population: Total number of clients.
      chance_error: Standard error of `chance` as an estimate for the population; 0 if all clients were read.
      constant_error: Standard error of `constant` as an estimate for the population.
    """

    chance: float
    constant: float
    action: int
    clients: int
    population: int
    chance_error: float = 0.0
    constant_error: float = 0.0


class Values(NamedTuple):
    """Mean rewards of actions.

    Attributes:
      mean: float64 [actions]; NaN if the clients have no examples.
      clients: Number of clients that were read.
      shares: float64 [clients, actions], each client's linearized influence on the mean, about 0 on average.
    """

    mean: np.ndarray
    clients: int
    shares: np.ndarray


def of_sets(task: tasks.Task, examples: clients.Examples, ranking: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the rewards of the uniform policy and of a ranking, float64 [examples] each, by name.

    From each row, the ranking chooses the offered action that it ranks first. It plays the part of the best fixed
    action where that may not be offered.

    Args:
      task: A task whose rows offer sets of actions.
      examples: Examples as they are loaded, before `Task.normalize`.
      ranking: float64 [actions], the value by which actions are ranked; see `set_values`.
    """
    rewards, actions = _rewards_of_sets(task, examples)
    is_offered = actions >= 0
    first = _best(ranking[actions], is_offered)
    return {UNIFORM: _means(rewards, is_offered), FIXED: rewards[np.arange(len(rewards)), first]}


def set_values(task: tasks.Task, indices: Sequence[int]) -> np.ndarray:
    """Returns the value by which each action is ranked, float64 [actions], from the rows of some clients.

    The value is the action's mean reward when offered, shrunk towards the mean of all actions as if the action had been
    offered `_PRIOR_ROWS` more times with that mean. Otherwise, an action that was offered once would often be the best.
    """
    return _ranking(task, (_rewards_of_sets(task, task.clients.load(int(index))) for index in _some(indices)))


def _ranking(task: tasks.Task, rewards_and_actions: Iterable[tuple[np.ndarray, ...]]) -> np.ndarray:
    """Value of each action from several clients' rewards and actions; see `set_values`."""
    sums, counts = np.zeros((2, len(task.action_names) or task.num_actions))
    for rewards, actions in rewards_and_actions:
        is_offered = actions >= 0
        np.add.at(sums, actions[is_offered], rewards[is_offered])
        np.add.at(counts, actions[is_offered], 1)
    return (sums + _PRIOR_ROWS * sums.sum() / max(counts.sum(), 1)) / (counts + _PRIOR_ROWS)


def _rewards_of_sets(task: tasks.Task, examples: clients.Examples) -> tuple[np.ndarray, np.ndarray]:
    """Rewards, and actions as positions in the task's names (slots if it has none) or -1, both [examples, slots]."""
    sets: ActionSets = examples.features  # type: ignore[assignment]
    actions, labels = sets.entries, examples.labels
    if not task.has_action_features:
        matrix = task.rewards["exact"]
        return (labels @ matrix if labels.ndim > 1 else matrix[labels]).astype(float), actions
    named = np.broadcast_to(np.arange(actions.shape[1]), actions.shape)
    if task.catalogue_actions is not None:
        named = task.catalogue_actions[actions]
    return labels[:, : actions.shape[1]].astype(float), np.where(actions >= 0, named, -1)


_last: list[tuple[Any, Any, dict[str, Bounds]]] = []  # Bounds of the current task, which all seeds share.


def bounds_of_run(options: BanditOptions, task: tasks.Task) -> dict[str, Bounds]:
    """Returns the bounds of a run's bandit phase.

    Returns:
      `participating`: Bounds for the participating clients, weighted like the rewards of rounds. If a client has n
      examples, each of them has weight min(n, cap) / n, the probability of being sampled. A round's reward
      is the mean over its cohort's examples, however many there are (`weights_of_rounds`). The action is the best one
      on these same examples, so its value is optimistically biased. If rewards drift, the mean is over all rounds.
      This entry is missing if a selector prefers some clients, if clients can be absent, or if rewards are delayed.
      `held_out`: Bounds for the same action and the uniform policy on held-out examples, in the environment of the last
      round.
    """
    phase = phases(options, task)[-1]
    cap = options.max_examples_per_client
    drift, last = phase.drift, phase.total_rounds
    rounds = range(1, last + 1) if drift.kind != "none" else ()
    acted = [phase.acted_in(round_num) for round_num in rounds]
    is_uniform = phase.selection.is_uniform and phase.delay.kind == "none"
    is_uniform = is_uniform and not phase.cohorts.availability.may_be_absent
    key = (phase.population, phase.rewards, cap, is_uniform, phase.cohorts, drift, tuple(acted))
    if _last and _last[0][0]() is task and _last[0][1] == key:
        return _last[0][2]
    if isinstance(task.feature_spec, action_sets.Spec):
        bounds = _bounds_of_sets(task, phase, is_uniform)
        _last[:] = [(weakref.ref(task), key, bounds)]
        return bounds
    matrix = task.rewards[phase.rewards]
    matrix_of: Any = drift.mean_matrix(matrix, acted, None)
    if drift.kind == "client":
        matrix_of = functools.partial(drift.mean_matrix, matrix, acted)
    values = action_values(task.clients, phase.population, matrix_of, cap, phase.cohorts)
    action = int(np.argmax(values.mean))
    in_the_end = drift.mean_matrix(matrix, [last], None)
    held_out = action_values(task.held_out, range(len(task.held_out)), in_the_end, 0)
    bounds = {}
    if is_uniform:
        bounds["participating"] = _bounds(values, action, len(phase.population))
    bounds["held_out"] = _bounds(held_out, action, len(task.held_out))
    _last[:] = [(weakref.ref(task), key, bounds)]
    return bounds


def _bounds_of_sets(task: tasks.Task, phase: Phase, is_uniform: bool) -> dict[str, Bounds]:
    """Bounds in which a ranking by the participating clients replaces the best fixed action; see `bounds_of_run`."""
    ranking = set_values(task, phase.population)

    def bounds(part: clients.ClientData, indices: Sequence[int], cap: int, cohort: Cohorts | None) -> Bounds:
        chosen = _some(indices)
        totals, counts = np.zeros((len(chosen), 2)), np.zeros(len(chosen))
        for place, index in enumerate(chosen):
            earned = np.stack(list(of_sets(task, part.load(int(index)), ranking).values()), axis=1)
            counts[place] = min(len(earned), cap or len(earned))
            totals[place] = counts[place] * earned.mean(axis=0) if len(earned) else 0
        values = _values(totals, counts, cohort)
        errors = [_error(values.shares[:, place], len(indices)) for place in range(2)]
        chance, constant = values.mean.tolist()
        return Bounds(chance, constant, int(ranking.argmax()), values.clients, len(indices), *errors)

    cap = phase.max_examples_per_client
    found = {"participating": bounds(task.clients, phase.population, cap, phase.cohorts)} if is_uniform else {}
    return {**found, "held_out": bounds(task.held_out, range(len(task.held_out)), 0, None)}


def _some(indices: Sequence[int]) -> Sequence[int]:
    """At most `MOST_CLIENTS` of these clients, sampled at random."""
    if len(indices) <= MOST_CLIENTS:
        return indices
    draw = keys.generator(0, keys.Purpose.EVALUATION, 0, 1)
    return [indices[place] for place in np.sort(draw.choice(len(indices), MOST_CLIENTS, replace=False))]


def _bounds(values: Values, action: int, population: int) -> Bounds:
    errors = [_error(shares, population) for shares in (values.shares.mean(axis=1), values.shares[:, action])]
    return Bounds(float(values.mean.mean()), float(values.mean[action]), action, values.clients, population, *errors)


def _error(shares: np.ndarray, population: int) -> float:
    """Standard error of a mean over clients that are sampled without replacement (Cochran 1977, section 6.4)."""
    count = len(shares)
    if not 1 < count < population:
        return 0.0
    return float(np.sqrt(count * (1 - count / population) * np.var(shares, ddof=1)))


def action_values(
    population: clients.ClientData,
    indices: Sequence[int],
    matrix: np.ndarray | Callable[[int], np.ndarray],
    cap: int,
    cohort: Cohorts | None = None,
) -> Values:
    """Returns the mean reward of each action, over at most `MOST_CLIENTS` clients.

    Args:
      population: The clients.
      indices: Indices of the clients to average over.
      matrix: float [labels, actions], the reward of an action given one label; the rewards of several labels are
        summed. Alternatively, a function that maps a client's index to its matrix.
      cap: Maximum number of examples per client; 0 for all.
      cohort: How a round's clients are sampled, to average over rounds; None to average over all examples.
    """
    chosen = _some(indices)
    matrix_of = matrix if callable(matrix) else lambda _: matrix
    actions = matrix_of(int(chosen[0]) if len(chosen) else 0).shape[1]
    totals, counts = np.zeros((len(chosen), actions)), np.zeros(len(chosen))
    for place, index in enumerate(chosen):
        labels = population.load(int(index)).labels
        if not (count := len(labels)):
            continue
        counts[place] = min(count, cap or count)
        is_single = labels.ndim == 1
        rewards = matrix_of(int(index)).astype(float)
        occur = np.bincount(labels, minlength=len(rewards)) if is_single else labels.sum(axis=0, dtype=float)
        totals[place] = counts[place] / count * (occur @ rewards)
    return _values(totals, counts, cohort)


def _values(totals: np.ndarray, counts: np.ndarray, cohort: Cohorts | None) -> Values:
    """Mean rewards from each client's sums, float64 [clients, columns], and its number of examples; see `Values`."""
    if not counts.any():
        return Values(np.full(totals.shape[1], np.nan), len(counts), np.zeros_like(totals))
    overall = totals.sum(axis=0) / counts.sum()
    gaps = totals - counts[:, np.newaxis] * overall  # They sum to 0, so a constant weight has no effect.
    weights = weights_of_rounds(counts, cohort) if cohort else np.zeros(len(counts))
    shares = (1 / counts.sum() + weights)[:, np.newaxis] * gaps
    return Values(overall + weights @ gaps, len(counts), shares)


def weights_of_rounds(counts: np.ndarray, cohort: Cohorts) -> np.ndarray:
    """Returns the weight of a client's sums in a round's mean, minus their weight in the mean of all examples.

    A round's mean is taken over the examples of its cohort. Rounds without examples have no mean.

    If clients differ in size, the average of the rounds' means is not the mean over all examples: a large client makes
    its own rounds large, so that each of its examples has less weight. For each client, the weight is averaged over
    sampled cohorts of other clients, which keeps the sampling error small.

    Args:
      counts: float64 [clients], their numbers of examples; at least one is above 0.
      cohort: How a round's clients are sampled.

    Returns:
      float64 [clients], up to an additive constant.
    """
    number = len(counts)
    size = min(cohort.size, number)
    usual, weights, rounds = 1 / (size * counts.mean()), np.zeros(number), 0.0
    draw = keys.generator(0, keys.Purpose.EVALUATION, 0, 2)
    for _ in range(_DRAWS):
        if cohort.sampling == "poisson":
            is_other, joins = draw.random(number) < size / number, np.ones(number, bool)
        else:
            is_other = np.zeros(number, bool)
            is_other[draw.choice(number, size - 1, replace=False)] = True
            joins = ~is_other
        examples = counts @ is_other + np.where(is_other, 0.0, counts)
        has_any = joins & (examples > 0)
        inverse = np.divide(1.0, examples, out=np.full(number, usual), where=has_any)
        weights += size / joins.sum() * joins * (inverse - usual)
        rounds += has_any.sum() / joins.sum()
    if cohort.sampling == "poisson":
        rounds = _DRAWS * (1 - (1 - size / number) ** np.count_nonzero(counts))
    return weights / rounds


def bounds_as_json(by_name: Mapping[str, Bounds]) -> dict[str, Any]:
    """Returns the content of `bounds.json`."""
    return {name: dataclasses.asdict(bounds) for name, bounds in by_name.items()}
