"""Tests of a cohort's models for normality, and their plots (Johansson and Gullbrandson 2022, section 3.1, App. A)."""

import functools
import os
from typing import NamedTuple

import numpy as np
import scipy.stats

from data import files
from optimization.study import panels as drawing

_LILLIEFORS_CLIENTS = 4  # Smallest sample size in the test's table.
_SIMULATED = (20, 1000)  # Batches, and normal samples in each. The standard error of the mean distance is 0.2%.
_STATISTICS = {
    "p_values": "p-value of the Kolmogorov-Smirnov test",
    "lilliefors_p_values": "p-value of Lilliefors' test",
    "excess_distances": "Kolmogorov-Smirnov distance\nminus its mean for normal samples",
    "skewness": "skewness",
    "kurtosis": "excess kurtosis",
}


class Normality(NamedTuple):
    """Statistics of each parameter over the clients, float64 [parameters]; NaN if all clients have the same value.

    Attributes:
      p_values: P-values of the Kolmogorov-Smirnov test against the normal distribution with the sample's mean and
        standard deviation. Since these are estimated, the p-values of normal samples are not uniform but closer to 1.
      lilliefors_p_values: P-values of the same distance from a table that corrects for the estimation (Lilliefors
        1967), clipped to the range from 0.001 to 0.99; NaN for fewer than four clients.
      excess_distances: The same distance minus its mean for normal samples of the same size (`normal_distance`). For
        normal models, it is 0 on average for any number of clients. For other models, it grows with the number of
        clients: for an exponential distribution, from 0.03 with 5 clients to 0.11 with 100.
      skewness: Third standardized moment.
      kurtosis: Fourth standardized moment minus 3. It is biased downwards: for normal models, it is -6 / (clients + 1)
        on average.
    """

    p_values: np.ndarray
    lilliefors_p_values: np.ndarray
    excess_distances: np.ndarray
    skewness: np.ndarray
    kurtosis: np.ndarray


def normality(models: np.ndarray) -> Normality:
    """Tests the models of at least two clients, float32 [clients, parameters]."""
    from optimization.posterior import ensembles  # This import and the next import TensorFlow.
    from optimization.runtime import private

    count = len(models)
    result = Normality(*np.full((5, models.shape[1]), np.nan))
    # The p-value depends only on the distance, and its function is slow, so it is tabulated.
    distances = np.linspace(0, 1, 4097)
    p_values = scipy.stats.kstwo.sf(distances, count)
    normal = normal_distance(count)

    for chunk in ensembles.chunks(models.shape[1]):
        samples, distance = _standardized(models[:, chunk].T.astype(np.float64))
        result.excess_distances[chunk] = distance - normal
        result.p_values[chunk] = np.interp(distance, distances, p_values)
        if count >= _LILLIEFORS_CLIENTS:
            varies = np.isfinite(distance)
            result.lilliefors_p_values[chunk][varies] = private.lilliefors_p_values(distance[varies], count)
        # SciPy's moments are computed row by row if any of them is NaN, which is slow.
        squares = np.square(samples)
        variance = squares.mean(axis=1)
        result.skewness[chunk] = (squares * samples).mean(axis=1) / variance**1.5
        result.kurtosis[chunk] = np.square(squares).mean(axis=1) / variance**2 - 3
    return result


@functools.cache
def normal_distance(count: int) -> float:
    """Mean Kolmogorov-Smirnov distance between normal samples and the normal distribution fitted to them.

    It is simulated with 20,000 samples, which are the same in each call.

    Args:
      count: Size of a sample, at least 2.
    """
    generator, (batches, size) = np.random.default_rng(0), _SIMULATED
    return float(np.mean([_standardized(generator.standard_normal((size, count)))[1] for _ in range(batches)]))


def _standardized(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorts and standardizes the rows; also returns their Kolmogorov-Smirnov distances to the normal distribution."""
    samples = np.sort(samples, axis=1)
    samples -= samples.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        samples /= samples.std(axis=1, ddof=1, keepdims=True)
    steps = np.arange(samples.shape[1] + 1) / samples.shape[1]
    expected = scipy.special.ndtr(samples)
    return samples, np.maximum(steps[1:] - expected, expected - steps[:-1]).max(axis=1)


def draw_normality(normality: Normality, output: str | os.PathLike) -> None:
    """Draws a histogram of each statistic over the parameters, as in figures 3.1b-d and A.1-A.3, in a PNG file."""
    figure, (row,) = drawing.grid(1, len(_STATISTICS), (17, 3.8))
    for axes, (field, label) in zip(row, _STATISTICS.items(), strict=True):
        values = getattr(normality, field)
        values = values[np.isfinite(values)]
        axes.hist(values, np.histogram_bin_edges(values, bins=60), density=True, histtype="step")
        drawing.label(axes, xlabel=label, ylabel="density of the parameters")
    files.save_picture(figure, output, dpi=120)
