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
      deployed: Whether it is measured on what is deployed: it jumps at deployments, and is drawn in steps.
      diverged: Whether it counts the clients of a round whose training diverged.
      share: Whether it lies between 0 and 1.
      marks: Whether it is 1 in rounds that plots mark, and 0 in others.
      told: Whether its last value stands in tables of runs.
      recent: Whether the mean over the last tenth of the rounds stands there, because single rounds vary.
      bounds: Of a reward, the key in `bounds.json` of the clients whose it is; empty if nothing there is about it.
    """

    about: str
    better: Better | None = None
    evaluated: bool = False
    drawn: bool = False
    deployed: bool = False
    diverged: bool = False
    share: bool = False
    marks: bool = False
    told: bool = False
    recent: bool = False
    bounds: str = ""

    def __new__(cls, name: str, about: str, **known: Any) -> "Metric":
        """Declares it; `known` are its other attributes.

        Raises:
          TypeError: If it has no such attribute.
        """
        metric = super().__new__(cls, name)
        if unknown := known.keys() - cls.__annotations__.keys():
            raise TypeError(f"A metric has no attribute {', '.join(sorted(unknown))}.")
        vars(metric).update(known, about=about)
        return metric

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Arguments of `__new__` in a copy; `pickle` and `copy` set all else."""
        return str(self), self.about


SECONDS = Metric("seconds", "Seconds a round", better="down", drawn=True)  # Written by the runner, whatever the study.
# Of a round, in several studies.
LOSS = Metric("train/loss", "Training loss per example, before each step", better="down")
UPDATE_NORM = Metric("train/update_norm", "L2 norm of the aggregated update")
EXAMPLES = Metric("train/examples", "Examples of the cohort")
EMPTY_CLIENTS = Metric("train/empty_clients", "Clients without an example")
NONFINITE_CLIENTS = Metric("train/nonfinite_clients", "Clients whose training diverged", diverged=True)


def declared(module: Mapping[str, Any]) -> tuple[Metric, ...]:
    """All metrics of a module, each once, in their order: the columns of `metrics.csv`.

    Args:
      module: What `vars()` returns there.
    """
    return tuple(dict.fromkeys(value for value in module.values() if isinstance(value, Metric)))


def mean(total: Any, count: Any) -> float:
    """Quotient of numbers; NaN for a denominator of 0."""
    return float(total) / int(count) if count else float("nan")
