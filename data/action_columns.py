"""Columns, or prices, of the actions: matched to actions by name, never by position alone."""

import re
from collections.abc import Callable, Mapping, Sequence

from data.errors import UsageError
from data.schema import action_entries, as_flag

_SHOWN = 20


def matched(text: str, names: Sequence[str], actions: Sequence[str], flag: str) -> dict[str, str]:
    """The column of each action, in the order of the actions.

    Without `ACTION=COLUMN` pairs, each column must be its action's name, but for a prefix and a suffix that all columns
    share, such as `pi_`. Letters may differ in case if that leaves one way to match them.

    Args:
      text: The flag's value.
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
    example = as_flag([f"{action}=COLUMN" for action in actions[:_SHOWN]] + ["..."] * (len(actions) > _SHOWN))
    raise UsageError(
        f"{flag} must name one column for each action, and it is not clear which: the {len(actions)} actions are "
        f"{_names(actions)}, and the {len(columns)} columns are {_names(columns)}. Write pairs: {flag}:{example}."
    )


def described(by_action: Mapping[str, object]) -> str:
    """Text of a mapping from actions, such as `low: pi_low, high: pi_high`."""
    shown = ", ".join(f"{action}: {value}" for action, value in list(by_action.items())[:_SHOWN])
    return shown + (f" and {len(by_action) - _SHOWN} more" if len(by_action) > _SHOWN else "")


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (" ..." if len(names) > _SHOWN else "")


def by_name(columns: Sequence[str], actions: Sequence[str], fold: Callable[[str], str] = str) -> dict[str, str] | None:
    """The only way to match columns to actions by a common prefix and suffix; None if there is none, or several."""
    written, first = {fold(column): column for column in columns}, fold(actions[0])
    ways = set()
    for column in written:
        for place in re.finditer(f"(?={re.escape(first)})", column):
            before, after = column[: place.start()], column[place.start() + len(first) :]
            ways.add(tuple(written.get(before + fold(action) + after, "") for action in actions))
    ways = {way for way in ways if len(set(way) - {""}) == len(actions)}
    return dict(zip(actions, ways.pop(), strict=True)) if len(ways) == 1 else None
