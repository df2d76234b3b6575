"""How a study declares its metrics: once, for `metrics.csv`, TensorBoard, reports, plots and grids."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

Better = Literal["up", "down"]


class Metric(str):
    """A column of `metrics.csv`: its name, and what is known of it.

    Attributes:
      about: What it says, in a few words; the title of its panel.
      better: Whether more (`up`) or less (`down`) of it is better; None where neither is.
      evaluated: Whether only evaluations measure it, not every round.
      drawn: Whether it is drawn before the others, and even where it never changes.
      deployed: Whether it is measured on what is deployed: it jumps at deployments, and is drawn in steps.
      diverged: Whether it counts the clients of a round whose training diverged.
      share: Whether it lies between 0 and 1.
      marks: Whether it is 1 in rounds that plots mark, and 0 in others.
      told: Whether its last value stands in tables of runs.
      recent: Whether the mean over the last tenth of the rounds stands there, because single rounds vary.
      formerly: Its name in the tables of earlier programs, if that was another.
      bounds: Of a reward, the key in `bounds.json` of the clients whose it is; empty if nothing there is about it.
    """

    about: str
    better: Better | None
    evaluated: bool
    drawn: bool
    deployed: bool
    diverged: bool
    share: bool
    marks: bool
    told: bool
    recent: bool
    formerly: str
    bounds: str

    def __new__(
        cls,
        name: str,
        about: str,
        *,
        better: Better | None = None,
        evaluated: bool = False,
        drawn: bool = False,
        deployed: bool = False,
        diverged: bool = False,
        share: bool = False,
        marks: bool = False,
        told: bool = False,
        recent: bool = False,
        formerly: str = "",
        bounds: str = "",
    ) -> "Metric":
        """Declares it."""
        metric = super().__new__(cls, name)
        metric.about, metric.better, metric.evaluated = about, better, evaluated
        metric.drawn, metric.marks, metric.told, metric.recent = drawn, marks, told, recent
        metric.deployed, metric.diverged, metric.share, metric.formerly = deployed, diverged, share, formerly
        metric.bounds = bounds
        return metric

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Returns what `__new__` needs to copy it; `pickle` and `copy` set all else."""
        return str(self), self.about


SECONDS = Metric("seconds", "Seconds a round", better="down", drawn=True)  # Written by the runner, whatever the study.


def declared(module: Mapping[str, Any]) -> tuple[Metric, ...]:
    """Returns all metrics among a module's names, each once, in their order: the columns of `metrics.csv`.

    Args:
      module: What `vars()` returns there.
    """
    return tuple(dict.fromkeys(value for value in module.values() if isinstance(value, Metric)))


def formers(columns: Iterable[Any]) -> dict[str, str]:
    """Returns the metrics among columns that had another name, by that name."""
    return {column.formerly: column for column in columns if isinstance(column, Metric) and column.formerly}


def by_todays_names(header: Iterable[str], columns: Iterable[Any]) -> list[str]:
    """Returns the header of a `metrics.csv` by the names of today's columns, where an earlier program wrote it."""
    header, names = list(header), formers(columns)
    return [names.get(name, name) for name in header] if names.keys() <= set(header) else header


def mean(total: Any, count: Any) -> float:
    """Returns a quotient of numbers; NaN over nothing."""
    return float(total) / int(count) if count else float("nan")
