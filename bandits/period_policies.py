"""What a run's clients played: its policy on the deployed model of each period."""

import numpy as np
import tensorflow as tf

from bandits import experiment, interactions
from bandits.options import phases
from data import text
from data.errors import UsageError
from optimization import models, task_model
from optimization.study import files

_BATCH = 4096


def probabilities(run: interactions.LoggedRun) -> np.ndarray:
    """Returns what each logged row's own policy played: of the model that acted there.

    Args:
      run: The run, its log read with contexts.

    Returns:
      float64 [rows, actions]; at the logged actions, the logged propensities but for rounding.

    Raises:
      UsageError: If a period's model is not there.
    """
    log = run.log
    if log.contexts is None:
        raise ValueError("The log was read without contexts.")
    *_, phase = phases(run.options, run.task)
    model = task_model.build(run.task)
    policy, loss = run.options.policy.build(), experiment.build_loss(run.options, phase, run.task.num_actions)
    found = np.zeros((len(log), run.task.num_actions))
    acted = np.asarray(log.models)
    for period in np.unique(acted):
        if period not in run.models:
            raise UsageError(f"{run.folder} has no model of period {period} any more.")
        kept = files.read_arrays(run.models[period])
        weights = [tf.constant(kept[name]) for name in model.shapes]
        rows = np.flatnonzero(acted == period)
        for start in range(0, len(rows), _BATCH):
            part = rows[start : start + _BATCH]
            contexts = log.contexts.take(part) if isinstance(log.contexts, text.Bags) else log.contexts[part]
            features = models.dense(tf.nest.map_structure(tf.convert_to_tensor, contexts))
            found[part] = policy(loss.predicted_rewards(model.forward(weights, features))).numpy()
    return found
