"""What the columns of a table are for."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence

from data.errors import UsageError
from data.table_file import listed

_LISTED = 20  # Of more columns, a message names the nearest.
_NEAREST = 5


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The columns that flags name; several are separated by commas, and one that holds a comma is quoted.

    Attributes:
      client_column: Column that says whose row it is; or `rows:N`, which deals the rows to N clients at random.
      label_column: Column of the class, one action each. Either this or `reward_columns` must be given.
      reward_columns: Columns of the reward of each action; `all` for all that have no other use.
      feature_columns: Columns of the features; None for all that have no other use.
      ignore_columns: Columns that are left out.
      category_columns: Features that are categories, whatever they hold.
    """

    client_column: str
    label_column: str | None = None
    reward_columns: str | None = None
    feature_columns: str | None = None
    ignore_columns: str | None = None
    category_columns: str | None = None

    @property
    def text_columns(self) -> list[str]:
        """Columns whose values are names, where 007 is no number; and those that nobody reads."""
        names = [name for name in (self.client_column, self.label_column) if name]
        return names + listed(self.category_columns) + listed(self.ignore_columns)

    @property
    def num_made_clients(self) -> int:
        """N of `rows:N`; 0 for the name of a column.

        Raises:
          UsageError: If N is no number, or below 2.
        """
        if not self.client_column.startswith("rows:"):
            return 0
        number = self.client_column.removeprefix("rows:")
        if not number.isdecimal() or int(number) < 2:
            raise UsageError(
                f"--client_column={self.client_column} must be rows:N with N at least 2, or name a column."
            )
        return int(number)


@dataclasses.dataclass(frozen=True)
class Roles:
    """What the columns are for, one thing each.

    Attributes:
      client: The clients' column; None where clients are made.
      label: The labels', or None.
      rewards: Those of rewards, if there is no label.
      features: Those of features.
      ignored: Those that are left out.
      categories: Features that are categories, whatever they hold.
      named: Features that were asked for by name, not as what is left.
      guessed: Rewards and features that no flag names, and the label if no feature is named.
    """

    client: str | None
    label: str | None
    rewards: list[str]
    features: list[str]
    ignored: list[str]
    categories: list[str]
    named: list[str]
    guessed: list[str]

    @property
    def suspected(self) -> list[str]:
        """What may belong to a log: `guessed`, and named rewards if no feature is named."""
        return self.guessed + [name for name in self.rewards if self.guessed and name not in self.guessed]

    @property
    def guessed_numbers(self) -> list[str]:
        """Rewards and features that no flag names."""
        return [name for name in self.guessed if name != self.label and name not in self.categories]


def check(wanted: Wanted) -> None:
    """Checks what can be told without the table.

    Raises:
      UsageError: If both labels and rewards are named, or neither; or if clients cannot be made so.
    """
    if bool(wanted.label_column) == bool(wanted.reward_columns):
        flags = "both are given" if wanted.label_column else "neither is given"
        raise UsageError(f"Give either --label_column or --reward_columns: {flags}.")
    _ = wanted.num_made_clients


def of(names: Sequence[str], path: str, wanted: Wanted) -> Roles:
    """Returns the columns' roles.

    Args:
      names: Of all columns.
      path: The file, for messages.
      wanted: What flags name.

    Raises:
      UsageError: If a column is not there, or has two uses; or if rewards are fewer than two.
    """
    if len(names) == 1:
        raise UsageError(
            f"{path} has one column alone, {names[0]!r}: columns must be separated by commas, semicolons or tabs."
        )
    client = None if wanted.num_made_clients else wanted.client_column
    label = wanted.label_column
    features, ignored = listed(wanted.feature_columns), listed(wanted.ignore_columns)
    categories = listed(wanted.category_columns)
    takes_all = wanted.reward_columns == "all"
    used = {client, label, *features, *ignored, *categories}
    rewards = [name for name in names if name not in used] if takes_all else listed(wanted.reward_columns)
    uses = assign(
        names,
        path,
        {
            "--client_column": [client] if client else [],
            "--label_column": [label] if label else [],
            "--reward_columns": rewards,
            "--feature_columns": features,
            "--ignore_columns": ignored,
        },
    )
    if wanted.reward_columns and len(rewards) < 2:
        raise UsageError(
            f"--reward_columns={wanted.reward_columns}: a bandit needs at least two actions, a column each."
        )
    left = [name for name in names if name not in uses]
    check_categories(categories, features or left, names, path)
    return Roles(
        client=client,
        label=label,
        rewards=rewards,
        features=features or left,
        ignored=ignored,
        categories=categories,
        named=[*features, *categories],
        guessed=[
            *([label] if label and not features else []),
            *(rewards if takes_all else []),
            *([] if features else left),
        ],
    )


def assign(names: Sequence[str], path: str, chosen: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the flag that names each column.

    Args:
      names: Of all columns.
      path: The file, for messages.
      chosen: What each flag names.

    Raises:
      UsageError: If a column is not there, or is named twice.
    """
    uses: dict[str, str] = {}
    for flag, named in chosen.items():
        for name in named:
            _check_known(flag, name, names, path)
            if name in uses:
                other = "twice" if uses[name] == flag else f"that {uses[name]} names already"
                raise UsageError(f"{flag} names column {name!r} {other}: a column has one use.")
            uses[name] = flag
    return uses


def check_categories(categories: Sequence[str], features: Sequence[str], names: Sequence[str], path: str) -> None:
    """Refuses `--category_columns` that name no feature of these.

    Raises:
      UsageError: If one is none, or no column at all.
    """
    for name in categories:
        _check_known("--category_columns", name, names, path)
        if name not in features:
            raise UsageError(f"--category_columns names column {name!r}, which is no feature.")


def _check_known(flag: str, name: str, names: Sequence[str], path: str) -> None:
    if name not in names:
        told, which = names, "its columns are"
        if len(names) > _LISTED:
            told = difflib.get_close_matches(name, names, _NEAREST) or names[:_NEAREST]
            which = f"of its {len(names)} columns the nearest are"
        raise UsageError(f"{flag}: there is no column {name!r} in {path}; {which} {', '.join(told)}.")
