"""How well estimates from a deployment's log choose among candidates whose true rewards the labels tell.

Imports TensorFlow.
"""

import dataclasses
import functools
import itertools
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from bandits import interactions, process
from bandits import registry as bandits
from bandits.evaluation import (
    bounds,
    estimates,
    estimators,
    private,
    private_sums,
    reward_model,
    run_policy,
    terms,
    totals,
)
from bandits.evaluation.terms import Terms
from bandits.options import phases
from bandits.papers import records, selection
from bandits.papers.selection import Study
from bandits.plans.plan import Run
from data import interaction_log, keys, log_checks, tasks
from data.errors import UsageError
from data.tasks import registry
from data.tasks.options import TaskOptions

Rows = list[dict[str, Any]]
_PRIVATE = (estimators.Ips(), estimators.Snips())  # Others need a model, which would be a release of its own.
_LOOKS = 1  # Each release is the only one.


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A log, and each of its contexts once.

    Attributes:
      log: The log, with contexts.
      distinct: A row of it for each context, however often clients met it.
      context: int64 [rows], which of these each row's is.
      expected: float64 [contexts, actions], the expected reward of each action, from the labels.
    """

    log: interaction_log.InteractionLog
    distinct: interaction_log.InteractionLog
    context: np.ndarray
    expected: np.ndarray

    def true_reward(self, played: np.ndarray) -> float:
        """Returns the expected mean reward of an interaction: over the log's own rows, exact, with nothing drawn.

        Args:
          played: float64 [contexts, actions], what a policy plays.
        """
        return float((played * self.expected).sum(axis=1)[self.context].mean())

    def terms(self, played: np.ndarray, predictions: np.ndarray | None) -> terms.Terms:
        """Returns the terms of the log's rows for a policy; see `terms.of_rows`.

        Args:
          played: float64 [contexts, actions], what the policy plays.
          predictions: float64 [rows, actions], of a reward model; None for none.
        """
        log = self.log
        target = played[self.context]
        return terms.of_rows(log.clients, log.actions, log.rewards, log.propensities, target, predictions)


def read_deployment(folder: pathlib.Path) -> Deployment:
    """Reads the log of a run.

    Raises:
      UsageError: If it is deterministic, its rewards drift, or its data is not there any more.
    """
    run = interactions.read_run(folder)
    if run.options.drift.kind != "none":
        raise UsageError(f"{folder}: true rewards are those of labels, and --reward_drift changed what was paid.")
    log_checks.check_random(run.log.propensities, str(folder))
    distinct, context = each_once(run.log)
    phase = phases(run.options, run.task)[-1]
    return Deployment(run.log, distinct, context, expected_rewards(run.task, phase.rewards, distinct))


def each_once(log: interaction_log.InteractionLog) -> tuple[interaction_log.InteractionLog, np.ndarray]:
    """Returns the first row of each context, as a log, and int64 [rows], which of these has each row's context."""
    keys = np.stack([log.clients, np.asarray(log.rows)], axis=1)
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return log.take(first[order]), np.argsort(order)[number]


def expected_rewards(task: tasks.Task, phase: str, log: interaction_log.InteractionLog) -> np.ndarray:
    """Returns what each action is expected to earn in the contexts of a log's rows, float64 [rows, actions].

    Args:
      task: The task that it was played on.
      phase: Key of the task's rewards.
      log: The log.
    """
    place = {name: index for index, name in enumerate(task.clients.client_ids)}
    bounds = np.searchsorted(log.clients, np.arange(len(log.client_ids) + 1))
    labels = [
        task.clients.load(place[name]).labels[np.asarray(log.rows)[bounds[client] : bounds[client + 1]]]
        for client, name in enumerate(log.client_ids)
    ]
    return process.reward_vectors(np.concatenate(labels), task.rewards[phase]).numpy().astype(np.float64)


def played(folder: pathlib.Path, temperature: float, deployment: Deployment) -> np.ndarray:
    """Returns what a run's final model plays by softmax of a temperature, float64 [contexts, actions]."""
    chosen = run_policy.options(str(folder))
    policy = bandits.POLICIES["softmax"].chosen({"temperature": temperature})
    contexts = deployment.distinct.contexts
    assert contexts is not None
    return run_policy.of_contexts(_task(chosen.task), contexts, len(deployment.distinct), str(folder), chosen, policy)


@functools.lru_cache(maxsize=1)  # Candidates share it.
def _task(options: TaskOptions) -> tasks.Task:
    return registry.load(options)


class Score(NamedTuple):
    """How well estimates choose.

    Attributes:
      rho: Spearman's rank correlation with the true rewards; 0 where estimates are all the same.
      regret: True reward of the best candidate less that of the one whose estimate is the highest.
      error: Root of the mean square of what estimates are off by; not a number if one is missing.
    """

    rho: float
    regret: float
    error: float


def score(estimated: np.ndarray, true: np.ndarray) -> Score:
    """Returns how well estimates choose among candidates.

    Args:
      estimated: float64 [candidates]; what has none, not a number, ranks last. Of several highest, any is picked.
      true: float64 [candidates], the true rewards.
    """
    ranked = np.where(np.isnan(estimated), -np.inf, estimated)
    is_picked = ranked == ranked.max()
    rho = 0.0 if is_picked.all() else float(stats.spearmanr(ranked, true).correlation)
    error = math.sqrt(np.square(estimated - true).mean())
    return Score(rho, float(true.max() - true[is_picked].mean()), error)


def open_estimates(candidates: Sequence[Terms]) -> dict[str, np.ndarray]:
    """Returns what each estimator says without privacy, float64 [candidates]; SLOPE chooses for each candidate anew.

    Args:
      candidates: Terms of each, with a model's predictions.
    """
    paths = estimates.paths(True, {})
    layout = estimates.layout(paths)
    found = [
        {each.name: each.value.mean for each in estimates.estimates(totals.sums(one, layout), layout, paths, None)}
        for one in candidates
    ]
    return {name: np.array([one[name] for one in found]) for name in paths}


class Release(NamedTuple):
    """How private values are released.

    Attributes:
      epsilon: What it costs; infinite for bounds without noise.
      times: How many clients each one of the log stands for.
      clients: How many it is accounted for.
      noise_multiplier: Standard deviation of its noise, in clip norms.
    """

    epsilon: float
    times: int
    clients: int
    noise_multiplier: float


def private_estimates(
    candidates: Mapping[str, Terms], client_ids: Sequence[str], study: Study, seed: int, draws: int
) -> Iterator[tuple[Release, dict[str, np.ndarray]]]:
    """Yields each release, and what it says of the candidates by estimator, float64 [draws, candidates].

    All candidates are one jointly clipped vector a client. The noise is drawn by the seed: it protects nobody.

    Args:
      candidates: Terms of each.
      client_ids: The client's name for each number in `Terms.clients`.
      study: Has the bounds and epsilons.
      seed: Of the rows that count, and of the noise.
      draws: How often noise is drawn; once where there is none.
    """
    query = private_sums.Query(tuple(candidates), _PRIVATE, study.bounds)
    bounded = [bounds.apply(one, study.bounds, client_ids, seed)[0] for one in candidates.values()]
    total = private_sums.clipped(private_sums.of_clients(bounded, query), query.norm).sum(axis=0)
    settings = [(math.inf, 1), *((epsilon, times) for times in study.populations for epsilon in study.epsilons)]
    for place, (epsilon, times) in enumerate(settings):
        clients = times * len(client_ids)
        own = private.mechanism(clients, 0.0)
        if not math.isinf(epsilon):
            own = private.calibrated(own, _LOOKS, epsilon)
        generator = keys.generator(seed, keys.Purpose.NOISE, 0, place)
        values = [
            private.values(private.add_noise(times * total, query, own, generator.normal), query, own)
            for _ in range(1 if math.isinf(epsilon) else draws)
        ]
        yield (
            Release(epsilon, times, clients, own.noise_multiplier),
            {
                one.name: np.array(
                    [[value.interval.mean for value in draw if value.estimator == one] for draw in values]
                )
                for one in _PRIVATE
            },
        )


def of_log(study: Study, run: Run, candidates: Sequence[Run], folder: pathlib.Path, draws: int) -> tuple[Rows, Rows]:
    """Returns what the log of a run says of the candidates, as rows of the figure's records: scores, and true rewards.

    Args:
      study: The study.
      run: The logging deployment.
      candidates: The runs of the candidates' models.
      folder: Where all runs lie.
      draws: Draws of the noise of private values.

    Raises:
      UsageError: If a run is damaged, or its data not there any more.
    """
    deployment = read_deployment(folder / run.name)
    predictions = reward_model.predictions(study.reward_model_settings(run.seed), deployment.log)
    terms_of, true = {}, np.zeros(0)
    for one, temperature in itertools.product(candidates, study.temperatures):
        action_probabilities = played(folder / one.name, temperature, deployment)
        true = np.append(true, deployment.true_reward(action_probabilities))
        terms_of[selection.label(one, temperature)] = deployment.terms(action_probabilities, predictions)
    names = deployment.log.client_ids
    found = [
        _row(estimator, values[np.newaxis], true, names)
        for estimator, values in (
            *open_estimates(list(terms_of.values())).items(),
            (selection.CHANCE, np.full(len(true), np.nan)),
        )
    ]
    for release, by_estimator in private_estimates(terms_of, names, study, run.seed, draws):
        found += [_row(estimator, values, true, names, release) for estimator, values in by_estimator.items()]
    always = records.provenance(folder / run.name)
    key = {"task": study.name, "seed": run.seed}
    return (
        [key | row | {"rows": len(deployment.log)} | always for row in found],
        [key | {"candidate": name, "true": value} for name, value in zip(terms_of, true, strict=True)],
    )


def _row(
    estimator: str,
    estimated: np.ndarray,
    true: np.ndarray,
    client_ids: Sequence[str],
    release: Release | None = None,
) -> dict[str, Any]:
    """Returns an estimator's row, its scores the means over draws: estimated float64 [draws, candidates]."""
    about = release or Release(np.nan, 1, len(client_ids), np.nan)
    means = np.mean([score(one, true) for one in estimated], axis=0)
    return {"estimator": estimator} | about._asdict() | dict(zip(Score._fields, means.tolist(), strict=True))
