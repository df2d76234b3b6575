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

# Names in lower case, words joined by underscores. A certain name needs no values.
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
_LIKELY_REWARDS = {"clicked", "conversion", "converted"}  # Of an action that was chosen, or of an earlier one.
_PERHAPS_REWARDS = {"r", "cost", "clicks", "return", "outcome", "y"}
_FEWEST_ROWS = 1000  # Values alone say little of fewer.
_MOST_ACTIONS = 1000
_STANDARD_ERRORS = 4.0
_LARGEST_ERROR = 0.1
_ROUNDING = 0.005  # A propensity may be written with few digits.


def check(frame: "pd.DataFrame", guessed: Collection[str], path: str, label: str | None = None) -> None:
    """Refuses a log.

    It is one if a column is called a propensity, whatever it holds; or is called a probability and holds several,
    beside an action and a reward that is not the label; if an action and a reward are called so without doubt; or if,
    whatever the names, in at least 1000 rows, the rows of each of several values, each counted 1 / a column in (0, 1]
    times, are as many as all rows, which is so of actions and propensities, beside a column of 0 and 1.

    Args:
      frame: The columns that no flag says to be features, rewards and the label among them.
      guessed: Those of them whose values count too: all but the rewards that a flag names.
      path: The file, for the message.
      label: The column that a flag names as the label.

    Raises:
      UsageError: If it is; it names the columns.
    """
    called = {name: _words(name) for name in frame.columns}
    others = {name: words for name, words in called.items() if name != label}
    frame = frame.apply(_as_numbers)
    shares = [name for name in frame.columns if _is_share(frame[name])]
    action = _first(called, _ACTIONS, _PERHAPS_ACTIONS)
    reward = _first(others, _REWARDS, _LIKELY_REWARDS, _PERHAPS_REWARDS)
    propensity = next((name for name, words in called.items() if _CERTAIN.fullmatch(words)), None)
    if propensity:
        reward = reward or _first(called, _REWARDS, _LIKELY_REWARDS, _PERHAPS_REWARDS)
        reward = None if reward == action else reward
    elif action and reward:
        fitting = {name: called[name] for name in others if _is_probability(frame[name], called[name])}
        propensity = _first(fitting, _PROBABILITIES)
    pair = _by_names(called, others, label)
    if propensity is None and pair:
        action, reward = pair
    elif propensity is None:
        action, reward, propensity = _by_values(frame[list(guessed)], [name for name in shares if name in guessed])
        if propensity is None:
            return
    found = {"as the chosen action": action, "as its reward": reward, "as its propensity": propensity}
    told = ", ".join(f"{name!r} {what}" for what, name in found.items() if name)
    raise UsageError(
        f"{path} looks like a log of a bandit, with {told}. A log has the reward of the chosen action alone, and this "
        "task needs the right action of each row, or every action's reward. If it is no log, name the features with "
        "--feature_columns, or leave such columns out with --ignore_columns. What a log says of other policies: "
        "scripts.evaluate_policy; to learn and to simulate from one: --task_type=logged (docs/logs.md)."
    )


def _words(name: str) -> str:
    """Returns a name in lower case, with underscores between words, as those of `actionId`."""
    return "_".join(re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()))


def _first(called: dict[str, str], *known: set[str]) -> str | None:
    return next((name for words in known for name, own in called.items() if own in words), None)


def _by_names(called: dict[str, str], others: dict[str, str], label: str | None) -> tuple[str, str] | None:
    """Returns an action and its reward, if their names alone leave no doubt."""
    labels = {name: words for name, words in called.items() if name == label}
    for actions, rewards in (
        (_first(called, _ACTIONS), _first(called, _REWARDS)),
        (_first(others, _ACTIONS), _first(others, _LIKELY_REWARDS)),
        (_first(labels, _PERHAPS_ACTIONS), _first(others, _REWARDS)),
        (_first(others, {"item_id", "ad_id"}), _first(others, {"click", "is_click"})),
    ):
        if actions and rewards:
            return actions, rewards
    return None


def _is_probability(column: "pd.Series", words: str) -> bool:
    """Returns whether a column holds several probabilities, or what its name says to be made of them."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column.dtype) or column.nunique() < 2:
        return False
    if words in ("logprob", "log_prob"):
        return bool((column.dropna() <= 0).all())
    return bool((column.dropna() >= 1).all()) if words == "ipw" else _is_share(column)


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
            if codes.max() == 1 and frame[propensity].nunique() == 1:
                continue  # A column of 0.5 goes with any two values.
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
