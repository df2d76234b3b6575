"""How well estimates from a deployment's log choose among candidates; their true rewards follow from the labels.

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
_PRIVATE = (estimators.Ips(), estimators.Snips())  # Other estimators need a model, which would be another release.
_RELEASES = 1


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A log, with its distinct contexts.

    Attributes:
      log: The log, with contexts.
      distinct: One row of the log for each distinct context.
      context: int64 [rows], index of each row's context in `distinct`.
      expected: float64 [contexts, actions], the expected reward of each action, from the labels.
    """

    log: interaction_log.InteractionLog
    distinct: interaction_log.InteractionLog
    context: np.ndarray
    expected: np.ndarray

    def true_reward(self, probabilities: np.ndarray) -> float:
        """Exact expected mean reward per interaction, over the rows of the log.

        Args:
          probabilities: float64 [contexts, actions], the policy's action probabilities.
        """
        return float((probabilities * self.expected).sum(axis=1)[self.context].mean())

    def terms(self, probabilities: np.ndarray, predictions: np.ndarray | None) -> terms.Terms:
        """The terms of the log's rows for a policy.

        Args:
          probabilities: float64 [contexts, actions], the policy's action probabilities.
          predictions: float64 [rows, actions] of a reward model; None without one.
        """
        return terms.of_log(self.log, probabilities[self.context], predictions)


def read_deployment(folder: pathlib.Path) -> Deployment:
    """Reads the log of a run.

    Raises:
      UsageError: If its policy is deterministic, its rewards drift, or its data is missing.
    """
    run = interactions.read_run(folder)
    if run.options.drift.kind != "none":
        raise UsageError(f"{folder}: true rewards are those of labels, and --reward_drift changed what was paid.")
    log_checks.check_random(run.log.propensities, str(folder))
    distinct, context = each_once(run.log)
    phase = phases(run.options, run.task)[-1]
    return Deployment(run.log, distinct, context, expected_rewards(run.task, phase.rewards, distinct))


def each_once(log: interaction_log.InteractionLog) -> tuple[interaction_log.InteractionLog, np.ndarray]:
    """The first row of each context, as a log, and int64 [rows], the index of each row's context in it."""
    keys = np.stack([log.clients, np.asarray(log.rows)], axis=1)
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return log.take(first[order]), np.argsort(order)[number]


def expected_rewards(task: tasks.Task, phase: str, log: interaction_log.InteractionLog) -> np.ndarray:
    """Expected reward of each action in the contexts of a log's rows, float64 [rows, actions].

    Args:
      task: The task of the log.
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


def probabilities(folder: pathlib.Path, temperature: float, deployment: Deployment) -> np.ndarray:
    """Softmax action probabilities of a run's final model, float64 [contexts, actions]."""
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
      rho: Spearman's rank correlation with the true rewards; 0 if all estimates are equal.
      regret: True reward of the best candidate minus that of the candidate with the highest estimate.
      error: Root mean squared error of the estimates; NaN if one is missing.
    """

    rho: float
    regret: float
    error: float


def score(estimated: np.ndarray, true: np.ndarray) -> Score:
    """How well estimates choose among candidates.

    Args:
      estimated: float64 [candidates]; NaN ranks last. Ties for the highest estimate are broken at random.
      true: float64 [candidates], the true rewards.
    """
    ranked = np.where(np.isnan(estimated), -np.inf, estimated)
    is_picked = ranked == ranked.max()
    rho = 0.0 if is_picked.all() else float(stats.spearmanr(ranked, true).correlation)
    error = math.sqrt(np.square(estimated - true).mean())
    return Score(rho, float(true.max() - true[is_picked].mean()), error)


def open_estimates(candidates: Sequence[Terms]) -> dict[str, np.ndarray]:
    """Each estimator's values without privacy, float64 [candidates]; SLOPE selects separately for each candidate.

    Args:
      candidates: Terms of each candidate, with a model's predictions.
    """
    paths = estimates.paths(True, {})
    layout = estimates.layout(paths)
    values = [
        {
            each.name: each.value.mean
            for each in estimates.estimates(totals.sums(candidate, layout), layout, paths, None)
        }
        for candidate in candidates
    ]
    return {name: np.array([candidate[name] for candidate in values]) for name in paths}


class Release(NamedTuple):
    """How private values are released.

    Attributes:
      epsilon: Privacy loss; infinite for bounds without noise.
      times: How many clients each client of the log represents.
      clients: Number of clients in the privacy accounting.
      noise_multiplier: Standard deviation of the noise, in clip norms.
    """

    epsilon: float
    times: int
    clients: int
    noise_multiplier: float


def private_estimates(
    candidates: Mapping[str, Terms], client_ids: Sequence[str], study: Study, seed: int, draws: int
) -> Iterator[tuple[Release, dict[str, np.ndarray]]]:
    """Each release with the candidates' values by estimator, float64 [draws, candidates].

    All candidates form one jointly clipped vector per client. The noise is seeded, so it protects nobody.

    Args:
      candidates: Terms of each.
      client_ids: The client's name for each number in `Terms.clients`.
      study: Bounds and epsilons.
      seed: Selects the rows that count, and the noise.
      draws: Number of noise samples; one without noise.
    """
    query = private_sums.Query(tuple(candidates), _PRIVATE, study.bounds)
    bounded = [bounds.apply(candidate, study.bounds, client_ids, seed)[0] for candidate in candidates.values()]
    total = private_sums.clipped(private_sums.of_clients(bounded, query), query.norm).sum(axis=0)
    settings = [(math.inf, 1), *((epsilon, times) for times in study.populations for epsilon in study.epsilons)]
    for index, (epsilon, times) in enumerate(settings):
        clients = times * len(client_ids)
        mechanism = private.mechanism(clients, 0.0)
        if not math.isinf(epsilon):
            mechanism = private.calibrated(mechanism, _RELEASES, epsilon)
        generator = keys.generator(seed, keys.Purpose.NOISE, 0, index)
        releases = [
            private.values(private.add_noise(times * total, query, mechanism, generator.normal), query, mechanism)
            for _ in range(1 if math.isinf(epsilon) else draws)
        ]
        yield (
            Release(epsilon, times, clients, mechanism.noise_multiplier),
            {
                estimator.name: np.array(
                    [[value.interval.mean for value in draw if value.estimator == estimator] for draw in releases]
                )
                for estimator in _PRIVATE
            },
        )


def of_log(study: Study, run: Run, candidates: Sequence[Run], folder: pathlib.Path, draws: int) -> tuple[Rows, Rows]:
    """Rows of the figure's records for one log: scores of the estimators, and true rewards of the candidates.

    Args:
      study: The study.
      run: The logging deployment.
      candidates: The runs of the candidates' models.
      folder: Folder of all runs.
      draws: Number of noise samples for private values.

    Raises:
      UsageError: If a run is damaged, or its data is missing.
    """
    deployment = read_deployment(folder / run.name)
    predictions = reward_model.predictions(study.reward_model_settings(run.seed), deployment.log)
    terms_of, true = {}, np.zeros(0)
    for candidate_run, temperature in itertools.product(candidates, study.temperatures):
        action_probabilities = probabilities(folder / candidate_run.name, temperature, deployment)
        true = np.append(true, deployment.true_reward(action_probabilities))
        terms_of[selection.label(candidate_run, temperature)] = deployment.terms(action_probabilities, predictions)
    names = deployment.log.client_ids
    rows = [
        _row(estimator, values[np.newaxis], true, names)
        for estimator, values in (
            *open_estimates(list(terms_of.values())).items(),
            (selection.RANDOM, np.full(len(true), np.nan)),
        )
    ]
    for release, by_estimator in private_estimates(terms_of, names, study, run.seed, draws):
        rows += [_row(estimator, values, true, names, release) for estimator, values in by_estimator.items()]
    always = records.provenance(folder / run.name)
    key = {"task": study.name, "seed": run.seed}
    return (
        [key | row | {"rows": len(deployment.log)} | always for row in rows],
        [key | {"candidate": name, "true": value} for name, value in zip(terms_of, true, strict=True)],
    )


def _row(
    estimator: str,
    estimated: np.ndarray,
    true: np.ndarray,
    client_ids: Sequence[str],
    release: Release | None = None,
) -> dict[str, Any]:
    """An estimator's row, with scores averaged over draws; `estimated` is float64 [draws, candidates]."""
    about = release or Release(np.nan, 1, len(client_ids), np.nan)
    means = np.mean([score(draw, true) for draw in estimated], axis=0)
    return {"estimator": estimator} | about._asdict() | dict(zip(Score._fields, means.tolist(), strict=True))
