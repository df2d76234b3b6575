"""Schema of a table or log: the roles that flags assign to columns."""

import csv
import dataclasses
import pathlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from data import memory
from data.errors import UsageError, did_you_mean, first, near_names
from data.settings import Count, setting

POINT, COMMA = ".", ","  # Decimal signs.
UNOBSERVED = {
    "refuse": "refused",
    "drop": "left out, assuming that missing rewards are distributed like observed ones, given context and action",
    "zero": "counted as 0",
}
HOLD_OUT = {"clients": "a fifth of the clients", "time": "the latest fifth of all clients' rows"}
_TIMED, _CATALOGUE, _LONG = {"time_column": True}, {"action_table": True}, {"decision_column": True}
POLICY = "--policy=column"  # The flag that names the columns of a target policy.
_LISTED = 20  # Maximum number of names in a message.
_ALSO_TIME = ("--feature_columns", "--round_column", "--period_column")
# Roles that a single column has.
_SINGLE = ("label", "action", "reward", "propensity", "round", "period", "position", "offered", "decision", "chosen")

# Column names that are common in logs, in lower case, with words joined by underscores.
_PROPENSITY = (
    r"(.*_)?(propensity|propensities|pscores?)(_.*)?|p_score"
    r"|(action|logging|logged|behaviou?r)(_policy)?_prob(s|ability|abilities)?"
)
_PROBABILITY = r"p|(policy_|log_?)?prob|prob(s|ability|abilities)|label_probability|sampling_prob(ability)?|pi_b|ipw"
_ACTION = r"action(_id|_taken)?|arm(_id)?|chosen|(chosen|selected)_(arm|action)"
_PERHAPS_ACTION = r"a|item(_id)?|ad(_id)?|choice|offer|variant|treatment"
_REWARD = r"rewards?|payout|payoff|(is_)?click"
_LIKELY_REWARD = r"clicked|conversion|converted"  # Reward of the chosen action, or of an earlier one.
_ANY_ACTION, _ANY_REWARD = f"{_ACTION}|{_PERHAPS_ACTION}", f"{_REWARD}|{_LIKELY_REWARD}|r|cost|clicks|return|outcome|y"
# Combinations of action, reward and propensity by which a log is recognized. An `@` marks the label column.
_LOGS = (
    (f"@?({_ANY_ACTION})", f"@?({_ANY_REWARD})", f"@?({_PROPENSITY})"),
    ("", "", f"@?({_PROPENSITY})"),
    (f"@?({_ANY_ACTION})", _ANY_REWARD, _PROBABILITY),
    (f"@?({_ACTION})", f"@?({_REWARD})", ""),
    (_ACTION, _LIKELY_REWARD, ""),
    (f"@({_PERHAPS_ACTION})", _REWARD, ""),
    ("(item|ad)_id", "(is_)?click", ""),
)
_PARTS_OF_A_LOG = ("the chosen action", "its reward", "its propensity")


def listed(flag: str | None) -> list[str]:
    """Splits the value of a flag at commas; quoted words may contain commas."""
    return [name.strip() for name in next(csv.reader([flag], skipinitialspace=True))] if flag else []


def action_entries(text: str | None, names: Sequence[str]) -> list[tuple[str, str]]:
    """Entries of a flag as (action, column); the action is empty unless an entry has the form `ACTION=COLUMN`.

    Args:
      text: Value of the flag.
      names: All columns of the file; an entry that is a column's name is not split at `=`.
    """
    pairs = [entry.partition("=") if entry not in names and "=" in entry else ("", "", entry) for entry in listed(text)]
    return [(action.strip(), column.strip()) for action, _, column in pairs]


def as_flag(words: Iterable[str], *, quoted: bool = False) -> str:
    """Joins words into a value that `listed` can split, quoted for a shell if needed, or always if `quoted`."""
    value = ",".join(f'"{word}"' if "," in word else word for word in words)
    return f"'{value}'" if quoted and "'" not in value else shlex.quote(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Settings of the user's own table."""

    data_file: str = setting(
        None, "Table: .csv or .tsv (also gzipped) or .parquet, see docs/tasks.md", pathlib.Path, unset="", basic=True
    )
    client_column: str = setting(None, "Client column(s), or rows:N for N synthetic clients", unset="", basic=True)
    label_column: str | None = setting(None, "Column of the correct action, whose reward is 1", basic=True)
    reward_columns: str | None = setting(
        None, "Instead of a label: one column of rewards per action, or all to use all remaining columns"
    )
    feature_columns: str | None = setting(None, "Columns of the context, separated by commas (default: all others)")
    text_columns: str | None = setting(None, "Columns of text, which become counts of words (default: none)")
    partition_column: str | None = setting(None, "With rows:N: column whose mix of values differs between clients")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Settings of how columns are read."""

    ignore_columns: str | None = setting(None, "Columns to leave out, such as identifiers, separated by commas")
    category_columns: str | None = setting(None, "Numeric or date features to treat as categories")
    missing_values: str | None = setting(None, "Texts that mean a missing value (in features, so do NA, nan, null ...)")
    decimal: str = setting(POINT, "Decimal sign; with a comma, points group thousands: 1.234,56", [POINT, COMMA])
    max_table_rows: Count = setting(memory.MAX_ROWS, "Maximum number of rows; larger tables are refused")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    """Settings of the user's own log."""

    action_column: str | None = setting(None, "Column of the logged action")
    reward_column: str | None = setting(None, "Column of the logged action's reward")
    propensity_column: str | None = setting(None, "Column of the logged action's probability")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sets:
    """Settings of a table or log whose rows offer different actions, or actions with features."""

    action_table: str | None = setting(None, "Table with one row per action: its id and its features", pathlib.Path)
    action_id_column: str | None = setting(
        None, "Column of ids in --action_table (default: the first)", only=_CATALOGUE
    )
    offered_column: str | None = setting(None, "Column of the ids that a row offers: lists, or a|b|c (default: all)")
    decision_column: str | None = setting(None, "Column of decisions in a table with one row per decision and action")
    chosen_column: str | None = setting(
        None, "In a log with --decision_column: column with 1 for the chosen action", only=_LONG
    )
    largest_set: Count | None = setting(
        None, "Maximum number of actions with features per row (default: as in the data; linear_synthetic 25)"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Time:
    """Settings of the time column in a table or log."""

    time_column: str | None = setting(None, "Column of dates or numbers that determine the order of rows")
    from_time: str | None = setting(
        None, "Read only rows from this time on, such as 2023-01-31; also --from", only=_TIMED, alias="from"
    )
    until_time: str | None = setting(None, "Read only rows before this time; also --until", only=_TIMED, alias="until")
    reward_window: str | None = setting(
        None, "Time within which a reward counts, such as 7d or a number; later rewards count as 0", only=_TIMED
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Settings of the held-out part of a table or log."""

    hold_out: str = setting("clients", "Data that is held out for evaluation; time needs --time_column", HOLD_OUT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardTime:
    """Settings of delayed and missing rewards in a log."""

    reward_time_column: str | None = setting(None, "Column of each reward's time, empty if there is none", only=_TIMED)
    log_until: str | None = setting(None, "Time until which rewards were observed", only={"reward_window": True})
    unobserved_rewards: str = setting("refuse", "How rows without a reward are treated", UNOBSERVED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema(Table, Columns, Log, Sets, Time, HeldOut, RewardTime):
    """The roles that flags assign to columns.

    Column names are separated by commas; a name that contains a comma is quoted. A table has either a label or the
    reward of each action. A log has the chosen action, its reward and its propensity. With `decision_column`, the file
    is in long form, with one row per decision and action; it is a log if it has a `chosen_column`.

    Attributes:
      file_flag: The flag that names the file, for messages.
      propensity_columns: For logs, one column per action with its probability; None if there are none.
      round_column: For logs, the column with the round, a whole number; None if there is none.
      period_column: For logs, the column with the deployment period, a whole number; None if there is none.
      position_column: For logs, a categorical feature, such as the position on a page; None if there is none.
      probability_columns: For logs, a column with the probability of the chosen action under a target policy, or one
        column per action (see `matched`); None if there is none.
      action_names: For logs, further possible actions, which need not occur in any row.
    """

    file_flag: str = "--data_file"
    propensity_columns: str | None = None
    round_column: str | None = None
    period_column: str | None = None
    position_column: str | None = None
    probability_columns: str | None = None
    action_names: str | None = None

    @property
    def is_log(self) -> bool:
        """Whether the file is a log; otherwise, it is a table with a label or with the rewards of all actions."""
        return bool(self.chosen_column or (self.action_column and not self.decision_column))

    @property
    def has_sets(self) -> bool:
        """Whether rows offer sets of actions, with or without features."""
        return bool(self.action_table or self.offered_column or self.decision_column)

    @property
    def categories(self) -> list[str]:
        """Features to treat as categories."""
        return [*filter(None, [self.position_column]), *listed(self.category_columns)]

    @property
    def read_as_text(self) -> list[str]:
        """Columns that are read as text: names and texts, in which 007 is not a number, and unused columns."""
        names = [self.client_column, *listed(self.client_column), self.label_column, self.action_column]
        names += [self.action_id_column, self.offered_column, self.decision_column]
        others = [*self.categories, *listed(self.ignore_columns), *listed(self.text_columns)]
        return [*filter(None, [*names, self.partition_column]), *others]

    @property
    def num_synthetic_clients(self) -> int:
        """The number N in `rows:N`; 0 if the flag names a column instead.

        Raises:
          UsageError: If N is not a whole number, or is below 2.
        """
        kind, _, number = self.client_column.partition(":")
        if kind != "rows" or ":" not in self.client_column:
            return 0
        if not number.isdecimal() or int(number) < 2:
            raise UsageError(f"--client_column={self.client_column} must be a column, or rows:N with N at least 2.")
        return int(number)

    def check(self) -> None:
        """Checks the flags without reading the table.

        Raises:
          UsageError: If a flag is missing, such as the reward column of a log, or if flags exclude each other, such as
            the label and the rewards of a table.
        """
        if self.is_log and not (self.reward_column and (self.propensity_column or self.propensity_columns)):
            column = "--chosen_column" if self.decision_column else "--action_column"
            raise UsageError(f"A log needs --reward_column and --propensity_column in addition to {column}.")
        long_form = bool(self.decision_column)
        if long_form and (not self.reward_column or (self.action_table and not self.action_column)):
            raise UsageError("--decision_column needs --reward_column and, with --action_table, --action_column.")
        if long_form and (self.label_column or self.reward_columns or self.offered_column):
            raise UsageError("--decision_column excludes --label_column, --reward_columns and --offered_column.")
        if not (self.is_log or long_form) and bool(self.label_column) == bool(self.reward_columns):
            flags = "both are set" if self.label_column else "neither is set"
            raise UsageError(f"Give either --label_column or --reward_columns: {flags}.")
        if not self.num_synthetic_clients and self.partition_column:
            raise UsageError(f"--partition_column={self.partition_column} needs --client_column=rows:N.")
        if self.unobserved_rewards == "drop" and self.reward_window and self.reward_time_column:
            raise UsageError("--unobserved_rewards=drop conflicts with --reward_window, where late rewards are 0.")


@dataclasses.dataclass(frozen=True)
class Roles:
    """The columns of one file by role. Only a time column can have a second role.

    Attributes:
      clients: Columns that name the client; empty for synthetic clients.
      label: Column of the label, or of the chosen action; None for a table of rewards, and in long form.
      rewards: Columns with the reward of each action, if there is no label.
      uses: For each column that a flag names, the flag.
      features: Feature columns without those in `texts`.
      texts: Feature columns whose words are counted.
      named: Features that flags name explicitly.
      action_features: In long form, columns that describe actions instead of decisions; see `offers.Source.decisions`.
    """

    clients: list[str]
    label: str | None
    rewards: list[str]
    uses: dict[str, str]
    features: list[str]
    texts: list[str]
    named: list[str]
    action_features: list[str] = dataclasses.field(default_factory=list)


def resolve(schema: Schema, names: Sequence[str], path: str, of_actions: Sequence[str] = ()) -> Roles:
    """Determines the roles of a file's columns.

    Args:
      schema: Roles that flags assign.
      names: Names of all columns.
      path: The file, for messages.
      of_actions: Columns of `Sets.action_table`, some of which may be ignored or treated as categories, too.

    Raises:
      UsageError: If the file has a single column, if a column is missing or its roles conflict, if there are fewer than
        two reward columns, or if a log is read as a table.
    """
    if len(names) == 1:
        remedy = "separate columns by commas, semicolons or tabs, and remove lines before the header"
        raise UsageError(f"{path} has only one column, {names[0]!r}: {remedy}.")
    clients = [schema.client_column] if schema.client_column in names else listed(schema.client_column)
    label, takes_all = schema.label_column or schema.action_column, schema.reward_columns == "all"
    label = None if schema.decision_column else label
    others = set(of_actions) - set(names)
    features, categories = listed(schema.feature_columns), listed(schema.category_columns)
    chosen: dict[str, Sequence[str | None]] = {
        "--client_column": clients * (not schema.num_synthetic_clients),
        "--reward_columns": listed(schema.reward_columns) * (not takes_all),
        **{f"--{role}_column": [getattr(schema, f"{role}_column")] for role in _SINGLE},
        "--propensity_columns": [column for _, column in action_entries(schema.propensity_columns, names)],
        POLICY: [column for _, column in action_entries(schema.probability_columns, names)],
        "--feature_columns": [name for name in features if name != schema.position_column],
        "--text_columns": listed(schema.text_columns),
        "--partition_column": [schema.partition_column],
        "--ignore_columns": [name for name in listed(schema.ignore_columns) if name not in others],
        "--reward_time_column": [schema.reward_time_column],
        "--time_column": [schema.time_column],
    }
    uses: dict[str, str] = {}
    for flag, name in [(flag, name) for flag, named in chosen.items() for name in named if name]:
        _check_known(flag, name, names, path)
        if flag == "--time_column" and uses.get(name) in _ALSO_TIME:
            continue
        if name in uses:
            other = "twice" if uses[name] == flag else f"that {uses[name]} already names"
            raise UsageError(f"{flag} names column {name!r} {other}: give each column a single use.")
        uses[name] = flag
    if takes_all:
        uses |= dict.fromkeys([name for name in names if name not in {*uses, *categories}], "--reward_columns")
    by_flag = {flag: [name for name in uses if uses[name] == flag] for flag in chosen}
    rewards, left = by_flag["--reward_columns"], [name for name in names if name not in uses]
    if schema.reward_columns and len(rewards) < 2:
        raise UsageError(f"--reward_columns={schema.reward_columns}: a bandit needs columns for two actions or more.")
    context = features or left
    if schema.is_log:
        context = [name for name in names if name in {schema.position_column, *context}]
    for name in [name for name in categories if name not in others]:
        _check_known("--category_columns", name, names, path)
        if name not in context:
            raise UsageError(f"--category_columns names column {name!r}, which is not a feature: leave it out.")
    suspected = rewards if takes_all else []
    if not features and (left or label or takes_all):
        suspected = [*filter(None, [label]), *rewards, *left]
    if not schema.is_log:
        check_no_log(suspected, path, label)
    named = [*features, *schema.categories]
    return Roles(by_flag["--client_column"], label, rewards, uses, context, by_flag["--text_columns"], named)


def _check_known(flag: str, name: str, names: Sequence[str], path: str) -> None:
    if name not in names:
        every = f"its columns are {first(names, _LISTED)}."
        hint = every if len(names) <= _LISTED else did_you_mean(near_names(name, names), every)
        comment = " Remove comments and other lines before the header." * names[0].startswith(("#", "sep="))
        raise UsageError(f"{flag}: there is no column {name!r} in {path}; {hint}{comment}")


def check_no_log(names: Sequence[str], path: str, label: str | None = None) -> None:
    """Refuses a bandit log that is read as a table, because its propensity or even its reward would be a feature.

    A log has only the reward of the chosen action, but a table needs the reward of every action. The file is a log,
    judging by its column names, if it has a propensity column; if it has a probability column as well as an action and
    a reward that is not the label; or if it has columns with unambiguous names for an action and a reward.

    Args:
      names: Columns that no flag names as features, including rewards and the label.
      path: The file, for the message.
      label: The column that a flag names as the label.

    Raises:
      UsageError: If the file is a log; the message names the columns.
    """
    written = {name: "@" * (name == label) + _words(name) for name in names}
    for patterns in _LOGS:
        columns = [next((name for name in names if re.fullmatch(one, written[name])), "") for one in patterns]
        if all(column or not pattern for column, pattern in zip(columns, patterns, strict=True)):
            shown = [f"{name!r} as {part}" for name, part in zip(columns, _PARTS_OF_A_LOG, strict=True) if name]
            raise UsageError(
                f"{path} looks like a log of a bandit, with {', '.join(shown)}. A log has only the chosen action's "
                "reward, but this task needs each row's correct action, or every action's reward. If the file is "
                "not a log, name features with --feature_columns, or leave out such columns with --ignore_columns. "
                "For logs, use scripts.evaluate_policy or --task_type=logged (docs/logs.md)."
            )


def _words(name: str) -> str:
    """Converts a name to lower case with underscores between words, such as `actionId` to `action_id`."""
    return "_".join(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def matched(text: str, names: Sequence[str], actions: Sequence[str], flag: str) -> dict[str, str]:
    """Returns the column of each action, in the order of the actions.

    Without `ACTION=COLUMN` pairs, each column must have the name of its action, except for a prefix and a suffix that
    all columns share, such as `pi_`. Upper and lower case may differ if there is only one way to match the names.

    Args:
      text: Value of the flag.
      names: All columns of the file.
      actions: Names of the actions.
      flag: The flag, for messages.

    Raises:
      UsageError: If the columns do not match the actions.
    """
    pairs = action_entries(text, names)
    columns, by_action = [column for _, column in pairs], dict(pairs)
    if len(set(columns)) == len(columns) == len(actions):
        if not any(by_action):
            by_action = by_name(columns, actions) or by_name(columns, actions, str.casefold) or {}
        if set(by_action) == set(actions):
            return {action: by_action[action] for action in actions}
    example = as_flag([f"{action}=COLUMN" for action in actions[:_LISTED]])
    raise UsageError(
        f"{flag} must name one column for each action, but the columns cannot be matched to the actions: the "
        f"{len(actions)} actions are {first(actions, _LISTED)}, and the {len(columns)} columns are "
        f"{first(columns, _LISTED)}. Write pairs: {flag}{':' if flag == POLICY else '='}{example}."
    )


def described(by_action: Mapping[str, object]) -> str:
    """Describes a mapping from actions, such as `low: pi_low, high: pi_high`."""
    return first([f"{action}: {value}" for action, value in by_action.items()], _LISTED)


def by_name(columns: Sequence[str], actions: Sequence[str], fold: Callable[[str], str] = str) -> dict[str, str] | None:
    """Matches columns to actions by a common prefix and suffix; None if that is impossible or ambiguous."""
    written, one = {fold(column): column for column in columns}, fold(actions[0])
    ways = set()
    for column in written:
        for place in re.finditer(f"(?={re.escape(one)})", column):
            before, after = column[: place.start()], column[place.start() + len(one) :]
            ways.add(tuple(written.get(before + fold(action) + after, "") for action in actions))
    ways = {way for way in ways if len(set(way) - {""}) == len(actions)}
    return dict(zip(actions, ways.pop(), strict=True)) if len(ways) == 1 else None
