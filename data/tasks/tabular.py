"""The user's own table, with one example per row, as a federated data set."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from data import clients, schema, statistics, table_report, tables, tasks, text
from data.action_sets import Spec
from data.errors import UsageError
from data.tasks.options import TaskOptions

_FLOAT32 = (-float(np.finfo(np.float32).max), float(np.finfo(np.float32).max))


def load(options: TaskOptions) -> tasks.Task:
    """Opens the task of a table with labels or rewards, see `tables.read`; only tables with labels have a reward shift.

    Features are float32 [examples, features] or, with `TaskOptions.text_columns`, bags of words, in which the other
    features have the ids that follow those of the vocabulary. Labels are int32 [examples], positions in
    `Task.action_names`, or float32 [examples, actions], the reward of each action minus its price. If rows offer sets
    of actions, features are an `ActionSets`; if actions have features, labels are the rewards of slots. Clients and
    labels are sorted by name, or numerically if all names are numbers. If a table of rewards has no feature columns,
    the only feature is the constant 1, for a bandit without context. The choice of held-out clients does not depend on
    the seed of a run, so that runs with different seeds are compared on the same data.

    Raises:
      UsageError: If an option is missing or does not match the table; if the file or a column is missing or invalid; or
        if the file is a bandit log.
    """
    for flag, what in (("data_file", "the .csv or .parquet file"), ("client_column", "the clients' column, or rows:N")):
        if not getattr(options, flag):
            raise UsageError(f"--task_type=tabular needs --{flag}: {what}.")
    if options.is_log:
        raise UsageError("--action_column in a table needs --decision_column; for a log, use --task_type=logged.")
    has_rewards = not options.label_column or options.action_table
    if has_rewards and options.init_labels is not None:
        raise UsageError("--init_labels has no effect on rewards of actions, which have no labels: leave it out.")
    if options.reward_bounds and not has_rewards:
        raise UsageError("--reward_bounds has no effect with --label_column, whose rewards are 0 and 1: leave it out.")
    if options.reward_window and options.hold_out != "time":
        raise UsageError("--reward_window has no effect without --hold_out=time, because all rewards are known.")
    known = statistics.read_table(options.public_statistics)
    rows = tables.read(options.data_file, options, known=known, concentration=options.partition_alpha)
    labels: Any = rows.labels
    prices, offered, split = {}, rows.offered, rows.split
    if offered and offered.rewards is not None:
        labels = offered.rewards
        if rows.roles.rewards:
            prices = _prices(options, rows.label_names)
            priced = np.array(list(prices.values()), np.float32)[offered.actions[offered.entries]]
            labels = labels - np.where(offered.entries >= 0, priced, np.float32(0))
    elif offered and len(offered.features.columns):
        labels = np.eye(offered.entries.shape[1], dtype=np.float32)[labels]
    elif labels is None:
        each = [
            rows.table.numbers(rows.frame[name], "--reward_columns", "reward", _FLOAT32).astype(np.float32)
            for name in rows.roles.rewards
        ]
        prices = _prices(options, rows.label_names)
        labels = np.stack(each, axis=1) - np.array(list(prices.values()), np.float32)
    features, actions = rows.features(split.is_train, known), rows.of_actions(split.is_train, known)
    report = table_report.of(rows, features, actions, knows_labels=bool(known))
    if options.action_prices:
        report["prices"] = prices
    values: clients.Features = features.values
    names = features.names
    vocabulary: tuple[str, ...] = ()
    if rows.roles.texts:
        words = tables.words(rows.frame[rows.roles.texts])
        if known is None and not (frequencies := words.counts(split.is_train)):
            raise UsageError(f"--text_columns={options.text_columns} holds no words in the training rows.")
        vocabulary = known.vocabulary if known else tuple(text.most_frequent(frequencies, options.vocabulary_size))
        bags = words.bags(vocabulary, np.arange(len(labels)), options.max_words, options.text_normalisation)
        values, names = text.with_numbers(bags, features.values, len(vocabulary)), [*vocabulary, *names]
        report["words"] = len(vocabulary)
    if not names and rows.roles.label and not actions.names:
        raise UsageError(f"{options.data_file} has no features: --feature_columns must name a column with values.")
    if not names and not actions.names:
        values, names = np.ones((len(labels), 1), np.float32), ["constant"]
        report["warnings"].append(
            "no feature is left, so all rows look alike, and the best policy chooses the same action in all of them."
        )
    if known is None:
        is_labelled, count = labels.ndim == 1, len(rows.label_names)
        counts = np.bincount(labels[split.is_train], minlength=count).tolist() if is_labelled else []
        by_label = dict(zip(rows.label_names, counts, strict=False))
        known = statistics.OfTable(features.learned, by_label, vocabulary, actions.learned)
    num_actions = len(rows.label_names) if offered is None else offered.entries.shape[1]
    if not known.labels:
        is_offered = offered and offered.entries[split.is_train] >= 0
        of_labels = tasks.reward_labels(options, labels[split.is_train], is_offered)
    else:
        of_labels = {"rewards": tasks.label_rewards(tuple(known.labels.values()), options.init_labels)}

    if offered and actions.names:
        fields = tasks.catalogue_model(options, values, len(names), actions.values, offered.actions)
    else:
        fields = model(options, len(names), num_actions)
        fields["feature_spec"] = Spec(fields["feature_spec"]) if offered else fields["feature_spec"]
    values = rows.contexts(values)

    def part(chosen: np.ndarray, members: list[int]) -> clients.ClientData:
        examples = clients.Examples(values, labels).take(np.flatnonzero(chosen))
        member_of_row = np.searchsorted(members, rows.clients[chosen])
        return clients.ArrayClients(
            examples, member_of_row, [rows.client_ids[client] for client in members], rows.table.checksum
        )

    return tasks.Task(
        clients=part(split.is_train, split.train),
        held_out=part(split.is_held_out, split.held_out),
        num_actions=num_actions,
        report={
            # Digest of the data that runs learn from; the checksum, in contrast, depends on how the table was read.
            "content": clients.array_checksum(values, labels, rows.clients, *[actions.values] * bool(actions.names)),
            "training_rows": int(split.is_train.sum()),
            "held_out_rows": int(split.is_held_out.sum()),
            "held_out": split.how,
            **report,
        },
        **tasks.learned(options, known),
        **of_labels,
        action_names=tuple(rows.label_names),
        feature_names=tuple(names),
        **fields,
    )


def _prices(options: TaskOptions, actions: Sequence[str]) -> dict[str, float]:
    """Price of each action.

    Prices are listed as `ACTION=PRICE` pairs or in the order of `--reward_columns`; they are 0 if none are listed.
    """
    entries = [entry.rpartition("=") for entry in schema.listed(options.action_prices) or ["0"] * len(actions)]
    names = [name.strip() for name, sign, _ in entries if sign]
    has_order = options.reward_columns != "all" or not options.action_prices
    by_action = dict(zip(names or (actions if has_order else ()), (price for *_, price in entries), strict=False))
    try:
        prices = {action: float(np.float32(by_action[action])) for action in actions}
    except (KeyError, ValueError):
        prices = {"": np.nan}
    if len(entries) != len(actions) or not np.isfinite(list(prices.values())).all():
        example = schema.as_flag([f"{actions[0]}=0", f"{actions[1]}=0.1", *["..."] * (len(actions) > 2)])
        raise UsageError(
            f"--action_prices={options.action_prices} must be {len(actions)} numbers, separated by commas: the "
            f"prices of {', '.join(actions)}. Write each price with its action (required with --reward_columns=all): "
            f"--action_prices={example}."
        )
    return prices


def model(options: TaskOptions, num_features: int, num_actions: int) -> dict[str, Any]:
    """Fields of a task that depend on its contexts, including the model.

    Raises:
      UsageError: If `TaskOptions.model` does not support these contexts.
    """
    if not options.text_columns:
        return tasks.vector_model(options, num_features, num_actions)
    if options.model_name not in (None, "linear") or options.hidden:
        raise UsageError(f"--model={options.model_name or 'mlp'} cannot read words: use linear for --text_columns.")
    return tasks.words_model(num_features, num_actions)
