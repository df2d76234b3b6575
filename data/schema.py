"""Schema of a table or log: the roles that flags assign to columns."""

import csv
import dataclasses
import difflib
import pathlib
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from data import memory
from data.errors import UsageError
from data.settings import Count, setting

POINT, COMMA = ".", ","  # Decimal signs.
UNOBSERVED = {
    "refuse": "refused",
    "drop": "left out, which assumes that rewards are missing independently of the reward, given context and action",
    "zero": "counted as 0",
}
HOLD_OUT = {"clients": "a fifth of the clients", "time": "the latest fifth of the rows, mostly of clients seen before"}
POLICY = "--policy=column"  # Names the columns of a target policy.
_LISTED = 20  # If a file has more columns than this, a message lists only those with the most similar names.
_NEAREST = 5
_SHOWN_ACTIONS = 20
_ALSO_TIME = ("--feature_columns", "--round_column", "--period_column")
_SINGLE = ("label", "action", "reward", "propensity", "round", "period", "position")  # Roles that only one column has.

# Column names that are common in logs, in lower case, with words joined by underscores.
_CERTAIN = re.compile(
    r"(.*_)?(propensity|propensities|pscores?)(_.*)?|p_score"
    r"|(action|logging|logged|behaviou?r)(_policy)?_(prob|probs|probability|probabilities)"
)
_PROBABILITIES = {"p", "prob", "probs", "probability", "probabilities", "pi_b", "label_probability"}
_PROBABILITIES |= {"sampling_prob", "sampling_probability", "policy_prob", "logprob", "log_prob", "ipw"}
_ACTIONS = {"action", "action_id", "action_taken", "arm", "arm_id", "chosen", "chosen_action", "chosen_arm"}
_ACTIONS |= {"selected_arm", "selected_action"}
_PERHAPS_ACTIONS = {"a", "item", "item_id", "ad", "ad_id", "choice", "offer", "variant", "treatment"}
_REWARDS = {"reward", "rewards", "payout", "payoff", "click", "is_click"}
_LIKELY_REWARDS = {"clicked", "conversion", "converted"}  # Reward of the chosen or an earlier action.
_PERHAPS_REWARDS = {"r", "cost", "clicks", "return", "outcome", "y"}


def listed(flag: str | None) -> list[str]:
    """Splits the value of a flag at commas; quoted words may contain commas."""
    return [name.strip() for name in next(csv.reader([flag], skipinitialspace=True))] if flag else []


def action_entries(text: str | None, names: Sequence[str]) -> list[tuple[str, str]]:
    """Entries of a flag as (action, column); the action is empty unless an entry has the form `ACTION=COLUMN`.

    Args:
      text: Value of the flag.
      names: All columns of the file; column names that contain `=` are recognized.
    """
    entries = []
    for entry in listed(text):
        splits = [(entry[: sign.start()].strip(), entry[sign.end() :].strip()) for sign in re.finditer("=", entry)]
        known = [pair for pair in splits if pair[1] in names]
        entries.append(("", entry) if entry in names or not splits else (known or splits)[0])
    return entries


def as_flag(words: Iterable[str], *, quoted: bool = False) -> str:
    """Joins words to the value of a flag, for `listed` and a shell; `quoted` adds quotes even where none are needed."""
    value = ",".join(f'"{word}"' if "," in word else word for word in words)
    return f"'{value}'" if quoted and "'" not in value else shlex.quote(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Settings of the user's own table."""

    data_file: str = setting(
        None,
        "Table: .csv or .tsv (a header line; commas, semicolons or tabs; also gzipped) or .parquet; looked up in the "
        "working directory, --data_dir or FEDBANDITS_DATA_DIR, and data/examples",
        pathlib.Path,
        unset="",
        basic=True,
    )
    client_column: str = setting(
        None, "Column that names the client of a row; rows:N partitions the rows over N clients", unset="", basic=True
    )
    label_column: str | None = setting(None, "Column of the correct action, whose reward is 1", basic=True)
    reward_columns: str | None = setting(
        None, "Instead, a column of rewards for each action, separated by commas, or all"
    )
    feature_columns: str | None = setting(None, "Columns of the context, separated by commas (default: the others)")
    text_columns: str | None = setting(
        None, "Columns of text, separated by commas, which become counts of words (default: none)"
    )
    partition_column: str | None = setting(
        None,
        "With rows:N, column by whose values rows are partitioned: each client has a mix from a Dirichlet distribution "
        "of --partition_alpha (default: at random)",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Columns:
    """Settings of columns."""

    ignore_columns: str | None = setting(None, "Columns to leave out, such as identifiers, separated by commas")
    category_columns: str | None = setting(None, "Numeric or date features to treat as categories")
    missing_values: str | None = setting(
        None,
        "Texts that mean a missing value, separated by commas, besides NA, nan, null ... in features. In columns of "
        "clients, labels and actions, only empty cells are missing otherwise",
    )
    decimal: str = setting(
        POINT,
        "Decimal sign of numbers that are written as text; with a comma, points group thousands, as in 1.234,56",
        [POINT, COMMA],
    )
    max_table_rows: Count = setting(
        memory.MAX_ROWS, "Maximum number of rows; a larger table is refused before it is read"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Log:
    """Settings of the user's own log."""

    action_column: str | None = setting(None, "Column of the logged action")
    reward_column: str | None = setting(None, "Column of its reward")
    propensity_column: str | None = setting(None, "Column of the logged action's probability")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Time:
    """Settings of the time column in a table or log."""

    time_column: str | None = setting(
        None,
        "Column of each row's time, dates or numbers. Rows are read in this order. It is a feature only if "
        "--feature_columns names it",
    )
    from_time: str | None = setting(
        None,
        "First time of the rows that are read, such as 2023-01-31; also --from (default: all)",
        only={"time_column": True},
        alias="from",
    )
    until_time: str | None = setting(
        None, "Time before which rows are read; also --until (default: all)", only={"time_column": True}, alias="until"
    )
    reward_window: str | None = setting(
        None,
        "Time after an action in which its reward counts, such as 7d, or a number if times are numbers. Later rewards "
        "count as 0, and rows that are too recent are left out. --hold_out=time leaves as long a gap",
        only={"time_column": True},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Settings of the held-out part of a table or log."""

    hold_out: str = setting("clients", "Part that is held out for evaluation; time needs --time_column", HOLD_OUT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RewardTime:
    """Settings of delayed and missing rewards in a log."""

    reward_time_column: str | None = setting(
        None, "Column of the time at which the reward was observed; empty where it was not", only={"time_column": True}
    )
    log_until: str | None = setting(
        None,
        "Time until which rewards were observed (default: the latest time in the log)",
        only={"reward_window": True},
    )
    unobserved_rewards: str = setting("refuse", "Meaning of an empty reward", UNOBSERVED)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schema(Table, Columns, Log, Time, HeldOut, RewardTime):
    """The roles that flags assign to columns.

    Column names are separated by commas; a name that contains a comma is quoted. A table has either a label or the
    reward of each action. A log has the chosen action, its reward and its propensity.

    Attributes:
      file_flag: The flag that names the file, for messages.
      propensity_columns: For logs, one column per action with its probability; None if there are none.
      round_column: For logs, the column with the round, a whole number; None if there is none.
      period_column: For logs, the column with the deployment period, a whole number; None if there is none.
      position_column: For logs, a categorical feature, such as the position on a page; None if there is none.
      probability_columns: For logs, a column with the probability of the chosen action under a target policy, or one
        column per action (see `matched`); None if there is none.
      action_names: For logs, further possible actions that occur in no row.
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
        return bool(self.action_column)

    @property
    def categories(self) -> list[str]:
        """Features to treat as categories."""
        return [*filter(None, [self.position_column]), *listed(self.category_columns)]

    @property
    def read_as_text(self) -> list[str]:
        """Columns that are read as text: names and texts, in which 007 is not a number, and unused columns."""
        names = [self.client_column, *listed(self.client_column), self.label_column, self.action_column]
        others = [*self.categories, *listed(self.ignore_columns), *listed(self.text_columns)]
        return [*filter(None, [*names, self.partition_column]), *others]

    @property
    def num_synthetic_clients(self) -> int:
        """The number N in `rows:N`; 0 if the flag names a column instead.

        Raises:
          UsageError: If N is not a whole number, or is below 2.
        """
        if self.is_log or not self.client_column.startswith("rows:"):
            return 0
        number = self.client_column.removeprefix("rows:")
        if not number.isdecimal() or int(number) < 2:
            raise UsageError(f"--client_column={self.client_column} must be rows:N, N at least 2, or a column.")
        return int(number)

    def check(self) -> None:
        """Checks the flags without reading the table.

        Raises:
          UsageError: If a table has both a label and rewards, or neither; if a log has no reward or no propensity; or
            if the rows cannot be partitioned into clients as requested.
        """
        if self.is_log and not (self.reward_column and (self.propensity_column or self.propensity_columns)):
            raise UsageError("A log needs --reward_column and --propensity_column beside --action_column.")
        if not self.is_log and bool(self.label_column) == bool(self.reward_columns):
            flags = "both are set" if self.label_column else "neither is set"
            raise UsageError(f"Give either --label_column or --reward_columns: {flags}.")
        if not self.num_synthetic_clients and self.partition_column:
            raise UsageError(f"--partition_column={self.partition_column} needs --client_column=rows:N.")
        if self.unobserved_rewards == "drop" and self.reward_window and self.reward_time_column:
            raise UsageError("--unobserved_rewards=drop does not go with --reward_window, where a late reward is 0.")


@dataclasses.dataclass(frozen=True)
class Roles:
    """The columns of one file by role; each column has one role.

    Attributes:
      clients: Columns that name the client; empty for synthetic clients.
      label: Column of the label, or of the chosen action; None for a table of rewards.
      rewards: Columns with the reward of each action, if there is no label.
      uses: For each column, the flag that names it.
      features: Feature columns.
      texts: Feature columns whose words are counted.
      ignored: Columns that are left out.
      named: Features that flags name explicitly.
      suspected: Columns that suggest that the file is a log, although the schema is that of a table.
    """

    clients: list[str]
    label: str | None
    rewards: list[str]
    uses: dict[str, str]
    features: list[str]
    texts: list[str]
    ignored: list[str]
    named: list[str]
    suspected: list[str]


def resolve(schema: Schema, names: Sequence[str], path: str) -> Roles:
    """Determines the roles of a file's columns.

    Args:
      schema: Roles that flags assign.
      names: Names of all columns.
      path: The file, for messages.

    Raises:
      UsageError: If a column is missing or has two roles, or if there are fewer than two reward columns.
    """
    if len(names) == 1:
        raise UsageError(
            f"{path} has only one column, {names[0]!r}: separate columns by commas, semicolons or tabs, and remove "
            "lines before the header."
        )
    clients = [schema.client_column] if schema.client_column in names else listed(schema.client_column)
    clients = [] if schema.num_synthetic_clients else clients
    features, ignored, categories, texts = (
        listed(flag)
        for flag in (schema.feature_columns, schema.ignore_columns, schema.category_columns, schema.text_columns)
    )
    label, takes_all = schema.label_column or schema.action_column, schema.reward_columns == "all"
    position = schema.position_column
    used = {*clients, label, *features, *ignored, *categories, *texts, schema.partition_column, schema.time_column}
    rewards = [name for name in names if name not in used] if takes_all else listed(schema.reward_columns)
    chosen: dict[str, Sequence[str | None]] = {
        "--client_column": clients,
        "--reward_columns": rewards,
        **{f"--{role}_column": [getattr(schema, f"{role}_column")] for role in _SINGLE},
        "--propensity_columns": [column for _, column in action_entries(schema.propensity_columns, names)],
        POLICY: [column for _, column in action_entries(schema.probability_columns, names)],
        "--feature_columns": [name for name in features if name != position],
        "--text_columns": texts,
        "--partition_column": [schema.partition_column],
        "--ignore_columns": ignored,
        "--reward_time_column": [schema.reward_time_column],
        "--time_column": [schema.time_column],
    }
    uses: dict[str, str] = {}
    for flag, named in chosen.items():
        for name in filter(None, named):
            _check_known(flag, name, names, path)
            if flag == "--time_column" and uses.get(name) in _ALSO_TIME:
                continue
            if name in uses:
                other = "twice" if uses[name] == flag else f"that {uses[name]} names already"
                raise UsageError(f"{flag} names column {name!r} {other}: a column has one use.")
            uses[name] = flag
    if schema.reward_columns and len(rewards) < 2:
        raise UsageError(f"--reward_columns={schema.reward_columns}: a bandit needs two actions, a column each.")
    left = [name for name in names if name not in uses]
    context = features or left
    if schema.is_log:
        context = [name for name in names if name in {position, *context}]
    for name in categories:
        _check_known("--category_columns", name, names, path)
        if name not in context:
            raise UsageError(f"--category_columns names column {name!r}, which is not a feature.")
    suspected = rewards if takes_all else []
    if not features and (left or label or takes_all):
        suspected = [*filter(None, [label]), *rewards, *left]
    return Roles(clients, label, rewards, uses, context, texts, ignored, [*features, *schema.categories], suspected)


def _check_known(flag: str, name: str, names: Sequence[str], path: str) -> None:
    if name not in names:
        shown, which = names, "its columns are"
        if len(names) > _LISTED:
            shown = difflib.get_close_matches(name, names, _NEAREST) or names[:_NEAREST]
            which = f"of its {len(names)} columns the nearest are"
        comment = " Remove comments, and other lines before the header." * names[0].startswith(("#", "sep="))
        raise UsageError(f"{flag}: there is no column {name!r} in {path}; {which} {', '.join(shown)}.{comment}")


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
    every = {name: _words(name) for name in names}
    others = {name: words for name, words in every.items() if name != label}
    labels = {name: words for name, words in every.items() if name == label}
    rewards = _REWARDS, _LIKELY_REWARDS, _PERHAPS_REWARDS
    action, reward = _first(every, _ACTIONS, _PERHAPS_ACTIONS), _first(others, *rewards)
    if propensity := next((name for name, words in every.items() if _CERTAIN.fullmatch(words)), None):
        reward = reward or _first(every, *rewards)
        reward = None if reward == action else reward
    elif action and reward:
        propensity = _first(others, _PROBABILITIES)
    if propensity is None:
        pairs = (
            (_first(every, _ACTIONS), _first(every, _REWARDS)),
            (_first(others, _ACTIONS), _first(others, _LIKELY_REWARDS)),
            (_first(labels, _PERHAPS_ACTIONS), _first(others, _REWARDS)),
            (_first(others, {"item_id", "ad_id"}), _first(others, {"click", "is_click"})),
        )
        action, reward = next((pair for pair in pairs if all(pair)), (None, None))
    if propensity or action:
        roles = {"as the chosen action": action, "as its reward": reward, "as its propensity": propensity}
        shown = ", ".join(f"{name!r} {role}" for role, name in roles.items() if name)
        raise UsageError(
            f"{path} looks like a log of a bandit, with {shown}. A log has only the chosen action's reward, and this "
            "task needs the correct action of each row, or every action's reward. If it is no log, name the features "
            "with --feature_columns, or leave such columns out with --ignore_columns. To evaluate policies on a log: "
            "scripts.evaluate_policy; to learn and simulate from one: --task_type=logged (docs/logs.md)."
        )


def _words(name: str) -> str:
    """Converts a name to lower case with underscores between words, such as `actionId` to `action_id`."""
    return "_".join(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def _first(called: Mapping[str, str], *known: set[str]) -> str | None:
    return next((name for words in known for name, own in called.items() if own in words), None)


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
    columns = [column for _, column in pairs]
    if len(set(columns)) == len(columns) == len(actions):
        if not any(action for action, _ in pairs):
            ways = [by_name(columns, actions), by_name(columns, actions, str.casefold)]
            pairs = [pair for way in ways if way for pair in way.items()][: len(actions)]
        if sorted(action for action, _ in pairs) == sorted(actions):
            return {action: dict(pairs)[action] for action in actions}
    example = as_flag(
        [f"{action}=COLUMN" for action in actions[:_SHOWN_ACTIONS]] + ["..."] * (len(actions) > _SHOWN_ACTIONS)
    )
    raise UsageError(
        f"{flag} must name one column for each action, and it is not clear which: the {len(actions)} actions are "
        f"{_shown(actions)}, and the {len(columns)} columns are {_shown(columns)}. Write pairs: {flag}:{example}."
    )


def described(by_action: Mapping[str, object]) -> str:
    """Describes a mapping from actions, such as `low: pi_low, high: pi_high`."""
    shown = ", ".join(f"{action}: {value}" for action, value in list(by_action.items())[:_SHOWN_ACTIONS])
    return shown + (f" and {len(by_action) - _SHOWN_ACTIONS} more" if len(by_action) > _SHOWN_ACTIONS else "")


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN_ACTIONS])) + (" ..." if len(names) > _SHOWN_ACTIONS else "")


def by_name(columns: Sequence[str], actions: Sequence[str], fold: Callable[[str], str] = str) -> dict[str, str] | None:
    """Matches columns to actions by a common prefix and suffix; None if there is no way, or more than one."""
    written, first = {fold(column): column for column in columns}, fold(actions[0])
    ways = set()
    for column in written:
        for place in re.finditer(f"(?={re.escape(first)})", column):
            before, after = column[: place.start()], column[place.start() + len(first) :]
            ways.add(tuple(written.get(before + fold(action) + after, "") for action in actions))
    ways = {way for way in ways if len(set(way) - {""}) == len(actions)}
    return dict(zip(actions, ways.pop(), strict=True)) if len(ways) == 1 else None
