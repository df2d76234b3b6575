"""The user's own table: `tabular`."""

from data import clients, schema, statistics, tabular, tasks
from data.errors import UsageError
from data.tasks import rewards
from data.tasks.options import TaskOptions

_HIDDEN = {"linear": (), "mlp": (64,)}


def load(options: TaskOptions) -> tasks.Task:
    """Returns the task of a table with a label or with rewards; only the former has a reward shift.

    Who is held out depends on no run's seed, so that runs of several seeds are compared on the same data.

    Raises:
      UsageError: If an option is missing, or does not fit the table.
    """
    for flag, what in (("data_file", "the .csv or .parquet file"), ("client_column", "the clients' column, or rows:N")):
        if not getattr(options, flag):
            raise UsageError(f"--task_type=tabular needs --{flag}: {what}.")
    model = options.model or "linear"
    if model not in _HIDDEN:
        raise UsageError(f"--model={model} takes images; a table takes {' or '.join(_HIDDEN)}.")
    if options.reward_columns and options.init_labels is not None:
        raise UsageError("--init_labels has no effect with --reward_columns: a table of rewards has no labels.")
    known = statistics.read_table(options.public_statistics)
    table = tabular.load(options.data_file, schema.of_options(options), known=known)
    num_actions = len(table.action_names)
    phases = {"exact": rewards.exact(num_actions)}
    if table.label_counts:
        phases |= rewards.label_rewards(table.label_counts, options.init_labels)
    return tasks.Task(
        clients=table.train,
        held_out=table.held_out,
        num_actions=num_actions,
        feature_spec=((len(table.feature_names),), "float32"),
        model="mlp",
        model_arguments={
            "num_features": len(table.feature_names),
            "hidden": _HIDDEN[model],
            "num_outputs": num_actions,
        },
        rewards=phases,
        report=table.report,
        **tasks.learned(options, table.statistics),
        multi_label=not table.label_counts,
        label_range=(0.0, 1.0) if table.label_counts else _range(table.train),
        action_names=table.action_names,
    )


def _range(rewards_of: clients.ClientData) -> tuple[float, float]:
    each = [rewards_of.load(index).labels for index in range(len(rewards_of))]
    return min(float(one.min()) for one in each if one.size), max(float(one.max()) for one in each if one.size)
