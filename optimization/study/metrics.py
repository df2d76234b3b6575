"""How a study declares its metrics: once, for `metrics.csv`, TensorBoard, reports, plots and grids."""

from collections.abc import Mapping
from typing import Any, Literal

Better = Literal["up", "down"]


class Metric(str):
    """A column of `metrics.csv`: its name, and what is known of it.

    Attributes:
      about: What it says, in a few words; the title of its panel.
      better: Whether more (`up`) or less (`down`) of it is better; None where neither is.
      evaluated: Whether only evaluations measure it, not every round.
      drawn: Whether it is drawn before the others, and even where it never changes.
      marks: Whether it is 1 in rounds that plots mark, and 0 in others.
      told: Whether its last value stands in tables of runs.
    """

    about: str
    better: Better | None
    evaluated: bool
    drawn: bool
    marks: bool
    told: bool

    def __new__(
        cls,
        name: str,
        about: str,
        *,
        better: Better | None = None,
        evaluated: bool = False,
        drawn: bool = False,
        marks: bool = False,
        told: bool = False,
    ) -> "Metric":
        """Declares it."""
        metric = super().__new__(cls, name)
        metric.about, metric.better, metric.evaluated = about, better, evaluated
        metric.drawn, metric.marks, metric.told = drawn, marks, told
        return metric


SECONDS = Metric("seconds", "Seconds a round", better="down", drawn=True)  # Written by the runner, whatever the study.


def declared(module: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Returns all metrics among a module's names, each once, in their order: the columns of `metrics.csv`.

    Args:
      module: What `vars()` returns there.
    """
    return tuple(dict.fromkeys(value for value in module.values() if isinstance(value, Metric)))


def mean(total: Any, count: Any) -> float:
    """Returns a quotient of numbers; NaN over nothing."""
    return float(total) / int(count) if count else float("nan")
