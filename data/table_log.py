"""Tells a log of a bandit from a table that a bandit can be played on.

A log has the reward of the action that was chosen, and of no other; to play on, every action's reward must be known. A
log that is taken for such a table gives numbers that mean nothing: its propensity, or even its reward, becomes a
feature.
"""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from data.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

# Names in lower case, words joined by underscores. Those of the first set are seldom anything else.
_PROPENSITIES = {"propensity", "propensities", "propensity_score", "pscore", "p_score", "action_prob", "logging_prob"}
_PROPENSITIES |= {"action_probability", "logging_probability", "logged_propensity", "behavior_prob"}
_PERHAPS_PROPENSITIES = {"p", "prob", "probability"}
_ACTIONS = {"action", "action_id", "arm", "arm_id", "chosen", "chosen_action", "chosen_arm", "selected_arm"}
_PERHAPS_ACTIONS = {"a", "item", "item_id", "ad", "ad_id", "choice", "offer", "variant", "treatment"}
_REWARDS = {"reward", "click", "clicked", "is_click", "conversion", "converted"}
_PERHAPS_REWARDS = {"r", "cost", "clicks", "payoff", "return", "outcome", "y"}
_FEWEST_ROWS = 1000  # Values alone say little of fewer.
_MOST_ACTIONS = 1000
_STANDARD_ERRORS = 4.0
_LARGEST_ERROR = 0.1
_ROUNDING = 0.005  # A propensity may be written with few digits.


def check(frame: "pd.DataFrame", guessed: Collection[str], path: str) -> None:
    """Refuses a log.

    It is one if a column is called a propensity, whatever it holds; or is called a probability and lies in (0, 1],
    beside an action or a reward; if an action and a reward are called so without doubt; or if, whatever the names, in
    at least 1000 rows, the rows of each of several values, each counted 1 / a column in (0, 1] times, are as many as
    all rows, which is so of actions and propensities, beside a column of 0 and 1.

    Args:
      frame: The columns that no flag says to be features, rewards and the label among them.
      guessed: Those of them whose values count too: all but the rewards that a flag names.
      path: The file, for the message.

    Raises:
      UsageError: If it is; it names the columns.
    """
    called = {name: "_".join(re.findall(r"[a-z0-9]+", name.lower())) for name in frame.columns}
    frame = frame.apply(_as_numbers)
    shares = [name for name in frame.columns if _is_share(frame[name])]
    surely = _first(called, _ACTIONS), _first(called, _REWARDS)
    action = surely[0] or _first(called, _PERHAPS_ACTIONS)
    reward = surely[1] or _first(called, _PERHAPS_REWARDS)
    propensity = _first(called, _PROPENSITIES)
    if propensity is None and (action or reward):
        propensity = _first({name: called[name] for name in shares}, _PERHAPS_PROPENSITIES)
    if propensity is None and not all(surely):
        action, reward, propensity = _by_values(frame[list(guessed)], [name for name in shares if name in guessed])
        if propensity is None:
            return
    found = {"as the chosen action": action, "as its reward": reward, "as its propensity": propensity}
    told = ", ".join(f"{name!r} {what}" for what, name in found.items() if name)
    raise UsageError(
        f"{path} looks like a log of a bandit, with {told}. A log has the reward of the chosen action alone, and this "
        "task needs the right action of each row, or every action's reward. If it is no log, name the features with "
        "--feature_columns, or leave such columns out with --ignore_columns."
    )


def _first(called: dict[str, str], known: set[str]) -> str | None:
    return next((name for name, words in called.items() if words in known), None)


def _as_numbers(column: "pd.Series") -> "pd.Series":
    """Returns a column of numbers that are kept as text, or as decimals, as such; and any other as it is."""
    import pandas as pd

    if column.dtype != object:
        return column
    numbers = pd.to_numeric(column, errors="coerce")
    return column if numbers.isna().sum() > column.isna().sum() else numbers


def _is_share(column: "pd.Series") -> bool:
    """Returns whether all are numbers in (0, 1], and not all are 1."""
    import pandas as pd

    if not pd.api.types.is_float_dtype(column.dtype) or column.isna().all():
        return False
    there = column.dropna()
    return bool((there > 0).all() and (there <= 1).all() and (there < 1).any())


def _by_values(frame: "pd.DataFrame", shares: Sequence[str]) -> tuple[str | None, str | None, str | None]:
    """Returns the action, the reward and the propensity that their values give away."""
    if len(frame) < _FEWEST_ROWS:
        return None, None, None
    binary = [name for name in frame.columns if _is_binary(frame[name])]
    complete = [name for name in shares if not frame[name].isna().any()]
    if not binary or not complete:
        return None, None, None
    weights = {name: 1 / frame[name].to_numpy(np.float64) for name in complete}
    for action in frame.columns:
        if (codes := _actions(frame[action])) is None:
            continue
        rewards = [name for name in binary if name != action]
        for propensity in complete if rewards else ():
            if _goes_with(codes, weights[propensity]):
                return action, rewards[0], propensity
    return None, None, None


def _is_binary(column: "pd.Series") -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column.dtype) and set(column.unique()) == {0, 1}


def _actions(column: "pd.Series") -> np.ndarray | None:
    """Returns int [rows], which of several values a row has; None for a column of gaps, decimals or many values."""
    import pandas as pd

    if pd.api.types.is_float_dtype(column.dtype):
        return None
    try:
        codes, values = pd.factorize(column)
    except TypeError:  # Lists, which Parquet may hold.
        return None
    return codes if 2 <= len(values) <= min(_MOST_ACTIONS, len(column) // 10) and codes.min() >= 0 else None


def _goes_with(codes: np.ndarray, weights: np.ndarray) -> bool:
    """Returns whether the rows of each value, each counted 1 / propensity times, are as many as all rows."""
    mean, error = weights.mean(), weights.std() / np.sqrt(len(weights))
    # A few small propensities make a mean, and its error, uncertain: it must be near by both measures.
    if abs(mean - (codes.max() + 1)) > min(_STANDARD_ERRORS * error + _ROUNDING * mean, _LARGEST_ERROR * mean):
        return False
    means = np.bincount(codes, weights) / len(codes)
    squares = np.bincount(codes, weights**2) / len(codes)
    errors = np.sqrt((squares - means**2) / len(codes))
    return bool((np.abs(means - 1) <= _STANDARD_ERRORS * errors).mean() >= 0.9)
