"""What the log of one deployment says of all candidates, as rows of the study's records."""

import itertools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import reward_model
from bandits.papers import records
from bandits.plans.plan import Run
from bandits.results import runs
from scripts.select_before_deploying import plan, scores, tables
from scripts.select_before_deploying.plan import Study

Rows = list[dict[str, Any]]


class Found(NamedTuple):
    """Rows of the records of a log.

    Attributes:
      scores: One an estimator and release.
      candidates: One a candidate.
    """

    scores: Rows
    candidates: Rows


def of_log(study: Study, run: Run, candidates: Sequence[Run], folder: pathlib.Path, draws: int) -> Found:
    """Returns what the log of a run says of the candidates; imports TensorFlow Federated, and starts its worker.

    Args:
      study: The study.
      run: The logging deployment.
      candidates: The runs of the candidates' models.
      folder: Where all runs lie.
      draws: Draws of the noise of private values.

    Raises:
      UsageError: If a run is damaged, or its data not there any more.
    """
    from optimization.runtime import worker_process

    with worker_process.importing():
        from scripts.select_before_deploying import rewards

    deployment = rewards.read(folder / run.name)
    predictions = reward_model.predictions(study.reward_model_settings(run.seed), deployment.log)
    terms, true = {}, np.zeros(0)
    for one, temperature in itertools.product(candidates, study.temperatures):
        played = rewards.played(folder / one.name, temperature, deployment)
        true = np.append(true, deployment.true_reward(played))
        terms[plan.label(one, temperature)] = deployment.terms(played, predictions)
    names = deployment.log.client_ids
    found = [
        _row(estimator, values[np.newaxis], true, names)
        for estimator, values in (
            *scores.open_estimates(list(terms.values())).items(),
            (tables.CHANCE, np.full(len(true), np.nan)),
        )
    ]
    for release, by_estimator in scores.private_estimates(terms, names, study, run.seed, draws):
        found += [_row(estimator, values, true, names, release) for estimator, values in by_estimator.items()]
    key, always = {"task": study.name, "seed": run.seed}, _always(folder / run.name)
    return Found(
        [key | row | {"rows": len(deployment.log)} | always for row in found],
        [key | {"candidate": name, "true": value} for name, value in zip(terms, true, strict=True)],
    )


def _row(
    estimator: str,
    estimated: np.ndarray,
    true: np.ndarray,
    client_ids: Sequence[str],
    release: scores.Release | None = None,
) -> dict[str, Any]:
    """Returns an estimator's row, its scores the means over draws: estimated float64 [draws, candidates]."""
    about = release or scores.Release(np.nan, 1, len(client_ids), np.nan)
    means = np.mean([scores.score(one, true) for one in estimated], axis=0)
    return {"estimator": estimator} | about._asdict() | dict(zip(scores.Score._fields, means.tolist(), strict=True))


def _always(folder: pathlib.Path) -> dict[str, Any]:
    config = runs.read_json(folder / "config.json")
    commit = (config.get("git_commit") or "")[:12]
    return {"data": config.get("data_checksum"), "commit": commit, "machine": records.machine()}
