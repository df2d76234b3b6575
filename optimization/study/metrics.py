"""Declaration of a study's metrics for `metrics.csv`, TensorBoard, reports, plots and grids."""

from collections.abc import Mapping
from typing import Any, Literal

Better = Literal["up", "down"]


class Metric(str):
    """A column of `metrics.csv`: its name and its properties.

    Attributes:
      about: Description in a few words; the title of its panel.
      better: Whether more (`up`) or less (`down`) of it is better; None where neither is.
      evaluated: Whether only evaluations measure it, not every round.
      drawn: Whether plots show it before the others, even if it is constant.
      deployed: Whether it measures the deployed model: it jumps at deployments, and plots draw it in steps.
      diverged: Whether it counts the clients of a round whose training diverged.
      share: Whether it is between 0 and 1.
      reward: Whether it is a mean of rewards, and so between the smallest and the largest reward.
      marks: Whether it is 1 in rounds that plots mark, and 0 in others.
      in_summary: Whether tables of runs show its final value.
      recent: Whether tables show its mean over the last tenth of the rounds, because single rounds vary.
      bounds: For a reward, the key in `bounds.json` of its clients; empty without one.
    """

    about: str
    better: Better | None = None
    evaluated: bool = False
    drawn: bool = False
    deployed: bool = False
    diverged: bool = False
    share: bool = False
    reward: bool = False
    marks: bool = False
    in_summary: bool = False
    recent: bool = False
    bounds: str = ""

    def __new__(cls, name: str, about: str, **known: Any) -> "Metric":
        """Declares a metric; `known` are its other attributes.

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


SECONDS = Metric("seconds", "Seconds per round", better="down", drawn=True)  # Written by the runner.
# Metrics of a round in several studies.
LOSS = Metric("train/loss", "Training loss per example, before each step", better="down")
UPDATE_NORM = Metric("train/update_norm", "L2 norm of the aggregated update")
EXAMPLES = Metric("train/examples", "Examples of the cohort")
EMPTY_CLIENTS = Metric("train/empty_clients", "Clients without an example")
BYTES_DOWN = Metric("communication/bytes_down", "Payload from the server to the clients, bytes", better="down")
BYTES_UP = Metric("communication/bytes_up", "Payload from the clients to the server, bytes", better="down")
NONFINITE_CLIENTS = Metric("train/nonfinite_clients", "Clients whose training diverged", diverged=True)


def declared(module: Mapping[str, Any]) -> tuple[Metric, ...]:
    """All metrics of a module, each once, in their order: the columns of `metrics.csv`.

    Args:
      module: `vars()` of the module.
    """
    return tuple(dict.fromkeys(value for value in module.values() if isinstance(value, Metric)))


def mean(total: Any, count: Any) -> float:
    """Quotient of numbers; NaN for a denominator of 0."""
    return float(total) / int(count) if count else float("nan")
