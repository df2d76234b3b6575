"""Action probabilities of the models that a run deployed, for tests of its log."""

import numpy as np

from bandits import interactions
from bandits.evaluation import target_policies
from bandits.options import phases
from optimization import models


def probabilities(run: interactions.LoggedRun) -> np.ndarray:
    """Action probabilities of the deployed model that acted in each row of a log with contexts, [rows, slots]."""
    *_, phase = phases(run.options, run.task)
    model, num_actions = models.of_task(run.task, run.options.heads), run.task.num_actions
    by_row, acted = np.zeros((len(run.log), run.log.slot_actions.shape[1])), np.asarray(run.log.models)
    for period in np.unique(acted):
        arrays = np.load(run.models[period])
        weights = tuple(arrays[name] for name in model.shapes)
        rows = np.flatnonzero(acted == period)
        run_model = target_policies.RunModel(phase, num_actions, model, weights)
        by_row[rows] = run_model.probabilities(run.log.take(rows).encoded_contexts, len(rows), int(period))
    return by_row
