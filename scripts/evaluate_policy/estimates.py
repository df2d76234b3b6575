"""What all estimators say of a policy, from the sums of a log; nothing here imports TensorFlow."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits.evaluation import bootstrap, estimators, slope, totals
from data.errors import UsageError
from optimization.study.intervals import Interval

LABELS: Mapping[str, str] = {
    "logged": "mean reward of the log",
    "ips": "IPS",
    "snips": "SNIPS",
    "clipped_ips": "clipped IPS",
    "dm": "direct method",
    "dr": "doubly robust",
    "switch_dr": "SWITCH-DR",
    "dros": "DRos",
}
_PARAMETERS = {"clipped_ips": "clip", "switch_dr": "tau", "dros": "shrinkage"}
FIXED: Mapping[str, str] = {flag: name for name, flag in _PARAMETERS.items()}  # By flag, whose parameter it is.


class Estimate(NamedTuple):
    """What one estimator says.

    Attributes:
      name: The estimator's.
      parameter: Its parameter, such as `clip=20, by SLOPE`; empty without one.
      value: The policy's value with its interval over clients.
      difference: Of the log's mean reward from it.
      bootstrap: The value with the interval of the bootstrap; None without draws.
    """

    name: str
    parameter: str
    value: Interval
    difference: Interval | None
    bootstrap: Interval | None

    def row(self) -> dict[str, Any]:
        """Returns the estimate as a row of a table."""
        found: dict[str, Any] = {"estimator": self.name, "parameter": self.parameter, "value": self.value.mean}
        for name, interval in (
            ("", self.value),
            ("difference", self.difference),
            ("bootstrap", self.bootstrap),
        ):
            prefix = f"{name}_" if name else ""
            if name == "difference":
                found[name] = interval.mean if interval else math.nan
            found |= {
                f"{prefix}low": interval.low if interval else math.nan,
                f"{prefix}high": interval.high if interval else math.nan,
            }
        return found


def names(text: str | None) -> tuple[str, ...] | None:
    """Returns the names that `--estimators` lists, each once; None of None.

    Raises:
      UsageError: If one is not known.
    """
    if text is None:
        return None
    found = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if unknown := [name for name in found if name not in LABELS]:
        raise UsageError(f"--estimators: {unknown[0]!r} is none of {', '.join(LABELS)}.")
    return found


def paths(has_model: bool, fixed: Mapping[str, float | None]) -> dict[str, tuple[estimators.Estimator, ...]]:
    """Returns the candidates of each estimator, one alone where it has no parameter or a fixed one.

    Args:
      has_model: Whether there are predictions.
      fixed: By estimator, its parameter; None has SLOPE choose.
    """
    found: dict[str, tuple[estimators.Estimator, ...]] = {
        one.name: (one,)
        for one in (estimators.Ips(), estimators.Snips(), estimators.DirectMethod(), estimators.DoublyRobust())
        if has_model or not one.needs_model
    }
    for name, path in slope.PATHS.items():
        value = fixed.get(name)
        if has_model or not path[0].needs_model:
            found[name] = path if value is None else (dataclasses.replace(path[0], **{_PARAMETERS[name]: value}),)
    order = list(LABELS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))


def layout(candidates: Mapping[str, Sequence[estimators.Estimator]]) -> totals.Layout:
    """Returns the columns that all candidates and the log's own mean need."""
    return totals.Layout((estimators.Logged(), *(one for path in candidates.values() for one in path)))


def estimates(
    sums: totals.Sums,
    columns: totals.Layout,
    candidates: Mapping[str, Sequence[estimators.Estimator]],
    drawn: np.ndarray | None,
) -> list[Estimate]:
    """Returns what each estimator says, the log's own mean first.

    Args:
      sums: Of the log's clients.
      columns: Of the sums.
      candidates: Of `paths`.
      drawn: float64 [draws, k], totals of the bootstrap's draws; None for none.
    """
    logged = columns.ratio(estimators.Logged())
    resampled: Callable[..., Interval | None] = lambda ratio: (  # noqa: E731
        None if drawn is None else bootstrap.interval(sums, drawn, ratio)
    )
    found = [Estimate("logged", "", totals.interval(sums, logged), None, resampled(logged))]
    for name, path in candidates.items():
        chosen, value = slope.choose(sums, columns, path)
        ratio = columns.ratio(chosen)
        parameter = ""
        if name in _PARAMETERS:
            how = ", by SLOPE" if len(path) > 1 else ""
            parameter = f"{_PARAMETERS[name]}={getattr(chosen, _PARAMETERS[name]):g}{how}"
        found.append(Estimate(name, parameter, value, totals.interval(sums, ratio, logged), resampled(ratio)))
    return found
