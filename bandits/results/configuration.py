"""Results of a configuration: a table of values by seed and metric."""

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from bandits.results import runs
from bandits.results.runs import Run
from optimization.study import divergence, intervals
from optimization.study.intervals import Interval
from optimization.study.metrics import range_of


class Baseline(enum.Enum):
    """A baseline that results are compared with. The value is its name on pages; `str` is its name in a sentence."""

    uniform_policy = "uniform policy"
    best_fixed_action = "best fixed action"
    full_feedback = "full-feedback baseline"

    def __str__(self) -> str:
        return f"the {self.value}"


@dataclasses.dataclass(frozen=True)
class ReferenceValue:
    """One number that configurations are compared with: an exact reward, or a mean over a sample of clients.

    Attributes:
      name: Name of the reference.
      mean: The number.
      error: Standard error of the mean; 0 if it is exact.
      clients: Clients in the sample; 0 if it is exact.
    """

    name: str
    mean: float
    error: float = 0.0
    clients: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Configuration:
    """Finished runs that differ only in their seed, as one table of values.

    Reports, grids, recommendations, figures and comparisons are functions of lists of configurations. Two
    configurations are equal only if they are the same object.

    Attributes:
      name: Name among the configurations that it is compared with.
      values: Measured values, float64 [seeds, metrics]. The index has the seeds, and the columns are the metrics.
        A missing value is NaN; a value that is never reached is infinite. A diverged run may keep the last value that
        it measured: `estimate` includes it, but `by_seed`, and therefore every test, has NaN.
      flags: Flags that all runs share and that are set.
      role: Which baseline the runs are, the uniform policy or full feedback; None for other runs.
      diverged: Seeds whose training diverged. A configuration with such a seed is not judged.
      unpaired: Whether noise or cohorts are secret, so that the seed does not determine a run. Runs with equal seeds
        are then not paired.
      runs: The runs, in the order of the seeds; empty if the values come from a record.
    """

    name: str
    values: pd.DataFrame
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    role: Baseline | None = None
    diverged: frozenset[int] = frozenset()
    unpaired: bool = False
    runs: tuple[Run, ...] = ()

    def estimate(self, metric: str) -> Interval:
        """Mean over seeds and its 95% interval by Student's t, cut at the bounds of the metric.

        The mean is NaN if there are no values. It is infinite, without an interval, if a seed never reaches the value.
        """
        measured = self.values[metric].dropna().to_numpy() if metric in self.values else np.array([])
        if np.isinf(measured).any():
            return Interval(float(measured.mean()), math.nan, math.nan, len(measured))
        return intervals.of_mean(measured).within(*self.bounds(metric))

    def by_seed(self, metric: str) -> dict[int, float]:
        """Values of a metric by seed; NaN where the training diverged or there is no value."""
        column = self.values[metric] if metric in self.values else dict.fromkeys(self.values.index, math.nan)
        return {int(seed): math.nan if seed in self.diverged else float(value) for seed, value in column.items()}

    @property
    def finished_rounds(self) -> int:
        """Number of rounds that all runs have finished."""
        return min(int(run.metrics["round_num"].iloc[-1]) for run in self.runs)

    def bounds(self, metric: str) -> tuple[float, float]:
        """Smallest and largest possible value of a metric; infinite if they are unknown."""
        return range_of([run.bounds for run in self.runs], metric)


def of_runs(
    name: str, seed_runs: Sequence[Run], metrics: Sequence[str], flags: Mapping[str, Any], role: Baseline | None = None
) -> Configuration:
    """Configuration of finished runs that differ only in their seed.

    Args:
      name: Name of the configuration.
      seed_runs: The runs.
      metrics: Metrics of the table; a run's value is `runs.final_value`.
      flags: Flags that the runs share.
      role: Which baseline the runs are, if any.
    """
    by_seed = runs.seeds(seed_runs)
    rows = [[runs.final_value(run, metric) for metric in metrics] for run in by_seed.values()]
    return Configuration(
        name,
        pd.DataFrame(rows, index=list(by_seed), columns=list(map(str, metrics)), dtype=float),
        flags,
        role,
        frozenset(seed for seed, run in by_seed.items() if divergence.is_lost(run.metrics, run.columns, run.flags)),
        runs.is_unpaired(seed_runs),
        tuple(by_seed.values()),
    )


def of_values(name: str, metric: str, values: Mapping[int, float]) -> Configuration:
    """Configuration with the values of one metric, by seed."""
    return Configuration(name, pd.DataFrame({str(metric): pd.Series(values, dtype=float)}))
