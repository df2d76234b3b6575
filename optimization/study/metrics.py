"""Declares the metrics of a study for `metrics.csv`, TensorBoard, reports, plots and grids."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from optimization.study.intervals import UNBOUNDED

Better = Literal["up", "down"]


class Metric(str):
    """A column of `metrics.csv`: its name and its properties.

    Attributes:
      about: Description in a few words, for reports and plots.
      better: Whether higher (`up`) or lower (`down`) values are better; None if neither is.
      evaluated: Whether it is measured only in evaluations, not in every round.
      drawn: Whether reports and `Run.plot` draw it by default.
      deployed: Whether it measures the deployed model. It then jumps at deployments, and plots draw it in steps.
      diverged: Whether it counts the clients of a round whose training diverged.
      share: Whether it is between 0 and 1.
      reward: Whether it is a mean of rewards, and therefore between the smallest and the largest reward.
      in_summary: Whether tables of runs show its final value.
      recent: Whether tables show its mean over the last tenth of the rounds, because single rounds vary.
      bounds: For a reward, the key in `bounds.json` of the clients who get it; empty if there is none.
    """

    about: str
    better: Better | None = None
    evaluated: bool = False
    drawn: bool = False
    deployed: bool = False
    diverged: bool = False
    share: bool = False
    reward: bool = False
    in_summary: bool = False
    recent: bool = False
    bounds: str = ""

    def __new__(cls, name: str, about: str, **known: Any) -> "Metric":
        """Declares a metric. `known` holds the attributes that differ from their defaults.

        Raises:
          TypeError: If an attribute does not exist.
        """
        metric = super().__new__(cls, name)
        if unknown := known.keys() - cls.__annotations__.keys():
            raise TypeError(f"A metric has no attribute {', '.join(sorted(unknown))}.")
        vars(metric).update(known, about=about)
        return metric

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Arguments of `__new__` with which `pickle` and `copy` begin a copy. They then set the other attributes."""
        return str(self), self.about


SECONDS = Metric("seconds", "Seconds per round", better="down", drawn=True)  # Written by the runner.
# Metrics per round that several studies share.
LOSS = Metric("train/loss", "Training loss per example, before each step", better="down")
UPDATE_NORM = Metric("train/update_norm", "L2 norm of the aggregated update")
EXAMPLES = Metric("train/examples", "Examples in the cohort")
EMPTY_CLIENTS = Metric("train/empty_clients", "Clients without an example")
BYTES_DOWN = Metric("communication/bytes_down", "Payload from the server to the clients, bytes", better="down")
BYTES_UP = Metric("communication/bytes_up", "Payload from the clients to the server, bytes", better="down")
NONFINITE_CLIENTS = Metric("train/nonfinite_clients", "Clients whose training diverged", diverged=True)


def declared(module: Mapping[str, Any]) -> tuple[Metric, ...]:
    """All metrics of a module, without duplicates and in order of definition: the columns of `metrics.csv`.

    Args:
      module: `vars()` of the module.
    """
    return tuple(dict.fromkeys(value for value in module.values() if isinstance(value, Metric)))


def range_of(bounds: Sequence[Mapping[str, Any]], metric: str) -> tuple[float, float]:
    """Smallest and largest possible value of a metric; infinite if a run did not record its range of rewards.

    Args:
      bounds: Contents of the runs' `bounds.json`; empty for a run without this file.
      metric: A `Metric`, or the name of a column without a declaration.
    """
    if getattr(metric, "share", False):
        return 0.0, 1.0
    if not getattr(metric, "reward", False) or not bounds:
        return UNBOUNDED
    ranges = [one.get("rewards", {}) for one in bounds]
    least = min(rewards.get("least", -math.inf) for rewards in ranges)
    return least, max(rewards.get("largest", math.inf) for rewards in ranges)


def mean(total: Any, count: Any) -> float:
    """Quotient of two numbers; NaN if the denominator is 0."""
    return float(total) / int(count) if count else float("nan")
