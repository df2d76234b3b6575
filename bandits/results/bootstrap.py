"""Bootstrap intervals: over the seeds of several tasks, and over evaluated clients."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from optimization.study.intervals import CONFIDENCE, Interval

if TYPE_CHECKING:
    import numpy as np

DRAWS = 2000
LEAST_CLIENTS = 20  # Coverage of the percentile interval: 93% with 20 clients, 83% with 5, 50% with 2.


def interquartile_mean(scores: "np.ndarray") -> float:
    """Mean of the middle half of all numbers; a quarter, rounded down, is left out at each end."""
    from scipy import stats

    return float(stats.trim_mean(scores, proportiontocut=0.25, axis=None))


def over_tasks(scores: Mapping[str, Mapping[str, Mapping[int, float]]]) -> dict[str, Interval]:
    """Each configuration's interquartile mean over tasks, with a 95% interval by the stratified bootstrap.

    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021, section 4: seeds are
    resampled with replacement within each task; the ends are percentiles. It is about other seeds, not other tasks.

    Args:
      scores: By task, configuration and seed: normalized scores (`baselines.normalized`).

    Returns:
      By configuration that all tasks have; `size` is the number of its scores.

    Raises:
      ValueError: If tasks have different numbers of seeds of a configuration, or a score is not finite.
    """
    import numpy as np

    intervals = {}
    for configuration in [
        configuration
        for configuration in next(iter(scores.values()), {})
        if all(configuration in by_configuration for by_configuration in scores.values())
    ]:
        columns = [list(by_configuration[configuration].values()) for by_configuration in scores.values()]
        if len({len(column) for column in columns}) != 1:
            counts = ", ".join(str(len(column)) for column in columns)
            raise ValueError(f"{configuration} has {counts} seeds: all tasks must have the same number.")
        matrix = np.array(columns, float).T
        if not np.isfinite(matrix).all():
            raise ValueError(f"{configuration} has scores that are not finite.")
        intervals[configuration] = stratified(
            matrix, np.random.default_rng(0).integers(len(matrix), size=(DRAWS, *matrix.shape))
        )
    return intervals


def stratified(scores: "np.ndarray", indices: "np.ndarray") -> Interval:
    """Interquartile mean, and its percentiles over bootstrap samples.

    Args:
      scores: float [seeds, tasks].
      indices: int [samples, seeds, tasks], the seeds of each bootstrap sample, by task.
    """
    import numpy as np

    means = [interquartile_mean(np.take_along_axis(scores, sample, axis=0)) for sample in indices]
    return _percentiles(interquartile_mean(scores), means, scores.size)


def over_clients(rewards: "Sequence[float] | np.ndarray", *, draws: int = DRAWS, seed: int = 0) -> Interval:
    """Mean over clients, with a 95% bootstrap interval over clients from `LEAST_CLIENTS` on.

    Args:
      rewards: Mean reward by client, or the difference of two configurations' mean rewards.
      draws: Number of bootstrap samples.
      seed: Seed of the samples.

    Returns:
      `size` is the number of clients; the ends are NaN if there are too few clients.

    Raises:
      ValueError: If there are no clients.
    """
    import numpy as np

    if not len(rewards):
        raise ValueError("There are no clients.")
    values, count = np.asarray(rewards, float), len(rewards)
    if count < LEAST_CLIENTS:
        return Interval(float(values.mean()), math.nan, math.nan, count)
    generator = np.random.default_rng(seed)
    # One by one, so that memory never holds all samples together.
    means = [values[generator.integers(count, size=count)].mean() for _ in range(draws)]
    return _percentiles(float(values.mean()), means, count)


def _percentiles(value: float, drawn: "Sequence[float]", count: int) -> Interval:
    import numpy as np

    low, high = np.percentile(drawn, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return Interval(value, float(low), float(high), count)
