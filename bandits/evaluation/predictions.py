"""A run's final model and policy, and their predictions on a table in memory; see `results.Run.predict`."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bandits.evaluation import target_policies
from bandits.options import Phase
from data import clients, columns, offers, reward_bounds, schema, statistics, table_file, tables, text
from data.action_sets import of_entries, with_features
from data.errors import UsageError
from data.tasks import sets_model, tabular
from data.tasks.options import TaskOptions
from optimization.study import results, run_folder

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Predictor(target_policies.RunModel):
    """A run's final model and policy, with the encoding of columns.

    Attributes:
      known: Statistics that are used to encode the columns; empty without features.
      actions: Names of the actions.
    """

    known: statistics.OfTable
    actions: list[Any]

    @property
    def task(self) -> TaskOptions:
        """Options of the run's task."""
        return self.phase.task

    def rewards(self, outputs: "tf.Tensor", dtype: "tf.DType") -> "tf.Tensor":
        """Converts the model's outputs to predicted rewards in the user's unit, [batch, actions] of the given dtype."""
        import tensorflow as tf

        from bandits import process

        predicted = tf.cast(process.predicted_rewards(self.model, self.loss, outputs), dtype)
        bounds = reward_bounds.parse(self.task.reward_bounds) if self.task.reward_bounds else reward_bounds.UNIT
        return bounds.low + bounds.span * predicted


def of_run(run: results.Run) -> Predictor:
    """The final model and policy of a run.

    Raises:
      UsageError: If the run is not a run of run_federated on a user's table or log, or if it has no model yet.
    """
    if run.flags.get("task_type") == "own":
        raise UsageError(
            f"{run.folder} was trained on arrays (--data), whose features have no names for `predict` and `export`: "
            "apply run.weights to arrays (see docs/own_parts.md), or train on a table, whose columns have names."
        )
    is_log = run.flags.get("task_type") == "logged" and (run.folder / run_folder.STATISTICS_FILE).exists()
    if not (is_log or run.flags.get("task_type") == "tabular") or "bandits_type" not in run.flags:
        raise UsageError(
            f"{run.folder} cannot predict: only runs of run_federated on a table, or on a log of your own, can."
        )
    if run.weights is None:
        raise UsageError(f"{run.folder} has no model yet: finish the run with the same call that started it.")
    from optimization import models

    folder = str(run.folder)
    chosen = target_policies.options_of_run(folder)
    known = statistics.read_table(chosen.task.public_statistics) or target_policies.known_statistics(folder)
    known = known or statistics.OfTable({}, {})
    if (path := run.folder / run_folder.KERAS_FILE).is_file():
        from optimization import keras_models

        architecture = keras_models.read(path)
        model, num_actions = architecture.build(), architecture.model.output_shape[-1]
    elif known.actions:
        num_contexts = _encoded_width(known.columns) + len(known.vocabulary)
        fields = sets_model(chosen.task, text.Bags, num_contexts, _encoded_width(known.actions))
        model = models.of_sets(fields["model"], fields["model_arguments"])
        num_actions = run.data_report.get("log", run.data_report)["sets"]["largest"]
    else:
        first, *_, last = run.weights.values()
        num_actions = last.size // chosen.heads
        vectors = tabular.model(chosen.task, first.shape[0], num_actions)
        model = models.build(vectors["model"], vectors["model_arguments"], chosen.heads)
        model = models.restricted(model) if chosen.task.has_sets else model
    phase = Phase(**vars(chosen), label=chosen.name, population=range(0))
    rewards = run.flags.get("reward_columns")
    names: list[Any] = [*range(num_actions)] if rewards == "all" else [*schema.listed(rewards)]
    if rewards == "all" and chosen.task.has_sets:
        names = [column["name"] for column in run.data_report["columns"] if column["use"] == "reward"]
    weights = tuple(run_folder.load_model(folder, model.shapes))
    sums, actions = target_policies.policy_sums(folder), list(known.labels) or names
    return Predictor(phase, num_actions, model, weights, known, actions, sums=sums)


def _encoded_width(known: columns.Learned) -> int:
    return columns.encode(pd.DataFrame(columns=list(known), dtype=object), known=known).values.shape[1]


def predict(run: results.Run, frame: pd.DataFrame) -> pd.DataFrame:
    """Predicted rewards and action probabilities; see `Run.predict`.

    Raises:
      UsageError: If the run cannot predict, or the frame lacks a column.
    """
    predictor = of_run(run)
    import tensorflow as tf

    table, offered = table_file.of_frame(frame, "the DataFrame", predictor.task), None
    if predictor.task.has_sets:
        rows, values, offered = _sets(table, predictor)
    else:
        rows, values = table.frame.index, _encoded(table, predictor.task, predictor.known)
    outputs = target_policies.outputs(predictor.model, predictor.weights, values, len(rows))
    predicted = {
        "predicted_reward": predictor.rewards(tf.constant(outputs), tf.float64).numpy(),
        "probability": predictor.probabilities(values, len(rows)),
    }
    if predictor.known.actions and offered is not None:
        place = rows.get_indexer(offered["decision"]), offered.groupby("decision").cumcount()
        names = {"action": offered["id"].astype(object).to_numpy()} if "id" in offered else {}
        return pd.DataFrame(names | {name: part[place] for name, part in predicted.items()}, frame.index[offered.index])
    parts = [pd.DataFrame(part, frame.index[rows], predictor.actions, dtype=float) for part in predicted.values()]
    return pd.concat(parts, axis=1, keys=list(predicted))


def _sets(table: table_file.Table, predictor: Predictor) -> tuple[pd.Index, clients.Features, pd.DataFrame]:
    """The first row of each decision, the sets of actions, and all offered actions; see `offers`."""
    options, frame, known = predictor.task, table.frame, predictor.known
    catalogue = offers.read_catalogue(options)
    of_table = [name for name in catalogue.features if name + offers.IN_TABLE not in known.actions] if catalogue else []
    of_frame = [name for name in known.actions if name in frame and name not in of_table]
    source = offers.Source(table, options, schema.Roles([], None, [], {}, [], [], [], of_frame), catalogue)
    if options.decision_column:
        _require([options.decision_column, options.action_column], frame)
        names = [*schema.listed(options.client_column), options.decision_column]
        groups = frame.index.to_series().groupby([frame[name] for name in names if name in frame], dropna=False)
        offered = pd.DataFrame({"decision": groups.transform("first")})
        if options.action_column:
            offered["id"] = columns.named(frame[options.action_column])
    else:
        _require([options.offered_column], frame)
        offered = pd.DataFrame({"id": source.ids(frame, predictor.actions)}).assign(decision=lambda ids: ids.index)
    decisions, names = frame.loc[offered["decision"].unique()], [] if known.actions else predictor.actions
    made = source.offers(decisions, names, offered.assign(reward=0.0))
    sets = of_entries(_encoded(dataclasses.replace(table, frame=decisions), options, known), made.entries)
    if known.actions:
        of_actions = dataclasses.replace(table, frame=made.features), dataclasses.replace(options, text_columns=None)
        sets = with_features(sets, _encoded(*of_actions, statistics.OfTable(known.actions, {})))
    return decisions.index, sets, offered


def _require(names: Sequence[str | None], frame: pd.DataFrame) -> None:
    if missing := [name for name in names if name and name not in frame]:
        raise UsageError(f"The DataFrame lacks columns that the run's model needs: {', '.join(missing)}.")


def _encoded(table: table_file.Table, options: TaskOptions, known: statistics.OfTable) -> Any:
    """A table's columns encoded as features for a run's model; the constant 1 without features."""
    names, texts = list(known.columns), schema.listed(options.text_columns)
    _require([*names, *texts], table.frame)
    if not (names or texts or known.actions):
        return np.ones((len(table.frame), 1), np.float32)
    values = columns.encode(table.frame[names], known=known.columns, show=table.cells).values
    if not texts:
        return values
    every = np.arange(len(table.frame))
    bags = tables.words(table.frame[texts]).bags(known.vocabulary, every, options.max_words, options.text_normalisation)
    return text.with_numbers(bags, values, len(known.vocabulary))
