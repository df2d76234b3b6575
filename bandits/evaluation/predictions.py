"""Predictions of a run's final model on a table in memory; see `optimization.study.results.Run.predict`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from bandits.evaluation import run_policy
from bandits.options import Phase
from data import clients, columns, reward_bounds, schema, statistics, table_file, tables, text
from data.errors import UsageError
from data.tasks import tabular
from data.tasks.options import TaskOptions
from optimization.study import results, run_folder

if TYPE_CHECKING:
    import pandas as pd


def predict(run: results.Run, frame: "pd.DataFrame") -> "pd.DataFrame":
    """Predicted rewards and action probabilities, float64 [rows, (what, action)]; see `Run.predict`.

    Raises:
      UsageError: Likewise.
    """
    is_log = run.flags.get("task_type") == "logged" and (run.folder / run_folder.STATISTICS_FILE).exists()
    if not (is_log or run.flags.get("task_type") == "tabular") or "bandits_type" not in run.flags:
        raise UsageError(
            f"{run.folder} predicts nothing: only runs of run_federated on a table do, or on a log of yours."
        )
    if run.weights is None:
        raise UsageError(f"{run.folder} has no model yet: the same call continues the run.")
    import pandas as pd
    import tensorflow as tf

    from bandits import experiment, process
    from bandits.evaluation import run_policies
    from optimization import models

    folder = str(run.folder)
    chosen = run_policy.options(folder)
    known = statistics.read_table(chosen.task.public_statistics) or run_policy.known_statistics(folder)
    values, width = _encoded(frame, chosen.task, known)
    num_actions = list(run.weights.values())[-1].size // chosen.heads
    vectors = tabular.model(chosen.task, width, num_actions)
    model = models.build(vectors["model"], vectors["model_arguments"], chosen.heads)
    weights = tuple(run_folder.load_model(folder, model.shapes))
    phase = Phase(**vars(chosen), label=chosen.name, population=range(0))
    loss = experiment.build_loss(phase, num_actions)
    policy = run_policies.of_period(phase, num_actions, phase.periods)
    outputs = tf.constant(run_policies.outputs(model, weights, values, len(frame)))
    bounds = chosen.task.reward_bounds and reward_bounds.parse(chosen.task.reward_bounds)
    predicted = process.predicted_rewards(model, loss, outputs).numpy()
    columns_of = {
        "predicted_reward": bounds.to_user(predicted) if bounds else predicted,
        "probability": run_policies.probabilities(model, weights, loss, policy, values, len(frame)),
    }
    names: list[Any] = list(known.labels) if known else []
    rewards = run.flags.get("reward_columns")
    names = names or ([*range(num_actions)] if rewards == "all" else [*schema.listed(rewards)])
    parts = [pd.DataFrame(part, frame.index, names, dtype=float) for part in columns_of.values()]
    return pd.concat(parts, axis=1, keys=list(columns_of))


def _encoded(
    frame: "pd.DataFrame", options: TaskOptions, known: statistics.OfTable | None
) -> tuple[clients.Features, int]:
    """The features of a run's model, and their number; the constant 1 without features."""
    table = table_file.of_frame(frame, "the DataFrame", schema.of_options(options))
    names, texts = list(known.columns) if known else [], schema.listed(options.text_columns)
    table = tables.with_lists_as_columns(table, [name for name in table.frame if f"{name}[0]" in names])
    if missing := [name for name in (*names, *texts) if name not in table.frame]:
        raise UsageError(f"The DataFrame lacks columns that the run's model takes: {', '.join(missing)}.")
    if more := [part for parts in table.lists.values() for part in parts if part not in names]:
        raise UsageError(f"The DataFrame has longer lists than the run's model takes, up to {more[-1]}.")
    if not known or not (names or texts):
        return np.ones((len(frame), 1), np.float32), 1
    values = columns.encode(table.frame[names], dict(known.columns), show=table.cells).values
    if not texts:
        return values, values.shape[1]
    every = np.arange(len(frame))
    bags = tables.words(table.frame[texts]).bags(known.vocabulary, every, options.max_words, options.text_normalisation)
    return text.with_numbers(bags, values, len(known.vocabulary)), len(known.vocabulary) + values.shape[1]
