"""Detects runs whose training diverged."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optimization.study import metrics
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd

# A run with a larger loss, such as the square of a billion, has diverged, even if clipping keeps its updates finite.
_MOST_LOSS = 1e18


def warning(table: "pd.DataFrame", columns: Sequence[Metric]) -> str:
    """Returns a warning if updates of a run were not finite or its last training loss exceeds 1e18; empty otherwise.

    Args:
      table: The run's `metrics.csv`.
      columns: The run's metrics.
    """
    counts = _counts(table, columns)
    loss = _last_loss(table)
    if counts is None or not (counts > 0).any():
        sentence = f"Training diverged: the last training loss is {loss:.1g}. Try smaller learning rates."
        return sentence if loss > _MOST_LOSS else ""
    is_nan = metrics.LOSS in table and math.isnan(loss)
    return (
        f"Training diverged: in {(counts > 0).sum():,} of {len(table):,} rounds, {int(counts.sum()):,} updates in "
        f"total were not finite and were ignored{'; the last training loss is not a number' if is_nan else ''}. Try "
        "smaller learning rates."
    )


def is_lost(table: "pd.DataFrame", columns: Sequence[Metric], flags: Mapping[str, Any]) -> bool:
    """Whether a run diverged, so that its results are meaningless.

    This is the case if, in the last round, at least half of the clients diverged (or one, if the cohort size is
    unknown), or the training loss exceeded 1e18. For `table` and `columns`, see `warning`; `flags` are the run's flags.
    """
    counts = _counts(table, columns)
    if _last_loss(table) > _MOST_LOSS:
        return True
    return counts is not None and bool(counts.iloc[-1] >= max(1.0, (flags.get("clients_per_round") or 0) / 2))


def _last_loss(table: "pd.DataFrame") -> float:
    """Training loss of the last round; NaN if it is unknown or there are no rounds."""
    return float(table[metrics.LOSS].iloc[-1]) if metrics.LOSS in table and len(table) else math.nan


def _counts(table: "pd.DataFrame", columns: Sequence[Metric]) -> "pd.Series | None":
    """Number of clients that diverged in each round; None if the run does not count them."""
    return next((table[column] for column in columns if column.diverged and column in table), None)
