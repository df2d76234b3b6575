"""Runs whose training diverged: what is said of them, and of which the results say nothing."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from optimization.study import training_metrics
from optimization.study.metrics import Metric

if TYPE_CHECKING:
    import pandas as pd


def told(table: "pd.DataFrame", columns: Sequence[Metric]) -> str:
    """Returns a sentence about the updates of a run that were not finite; empty if there were none.

    Args:
      table: Its `metrics.csv`.
      columns: What is known of its metrics.
    """
    counts = _counts(table, columns)
    if counts is None or not (counts > 0).any():
        return ""
    loss = training_metrics.LOSS
    is_nan = loss in table and table[loss].isna().iloc[-1]
    return (
        f"Training diverged: in {(counts > 0).sum():,} of {len(table):,} rounds, {int(counts.sum()):,} updates in all "
        f"were not finite and changed nothing{'; the last training loss is not a number' if is_nan else ''}. Try "
        "smaller learning rates."
    )


def is_lost(table: "pd.DataFrame", columns: Sequence[Metric], flags: Mapping[str, Any]) -> bool:
    """Returns whether half of the clients of a run's last round diverged, or one if the cohort's size is unknown."""
    counts = _counts(table, columns)
    return counts is not None and bool(counts.iloc[-1] >= max(1.0, (flags.get("clients_per_round") or 0) / 2))


def _counts(table: "pd.DataFrame", columns: Sequence[Metric]) -> "pd.Series | None":
    """Returns the clients that diverged, by round; None if the run does not count them."""
    return next((table[column] for column in columns if column.diverged and column in table), None)
