"""Slopes of measured curves, with intervals over seeds."""

import numpy as np

from optimization.study import intervals


def loglog(places: np.ndarray, values: np.ndarray) -> intervals.Interval:
    """Returns the slope of log value against log place: of value ~ place^slope.

    A straight line is fitted to each seed's curve; the interval is Student's t over the seeds.

    Args:
      places: float [places], above 0, such as numbers of samples.
      values: float [seeds, places], above 0.

    Raises:
      ValueError: If a value is not above 0: more runs a seed are needed.
    """
    return semilog(np.log(places), values)


def semilog(places: np.ndarray, values: np.ndarray) -> intervals.Interval:
    """Returns the slope of log value against place, of value ~ exp(slope place); see `loglog`."""
    if not (values > 0).all():
        raise ValueError("values must be above 0 at all places: give each seed more runs")
    centred = places - places.mean()
    return intervals.of_mean((np.log(values) @ centred / (centred @ centred)).tolist())


def by_seed(values: np.ndarray, seeds: int) -> np.ndarray:
    """Returns the means of equal groups of runs, float64 [..., seeds], of [..., seeds x runs a seed]."""
    return values.reshape(*values.shape[:-1], seeds, -1).mean(axis=-1)
