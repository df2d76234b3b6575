"""FedKP in NumPy and SciPy, one parameter at a time."""

import numpy as np
import scipy.special
import scipy.stats
from KDEpy import bw_selection
from sklearn import neighbors

from optimization.posterior import flags

ROUGHNESS = {"epanechnikov": 3 / 5, "gaussian": 1 / (2 * np.sqrt(np.pi))}
VARIANCE = {"epanechnikov": 1 / 5, "gaussian": 1.0}
LINE = np.linspace(-20, 20, 10_001)


def bandwidth(rule: str, samples: np.ndarray, kernel: str) -> float:
    """Bandwidth of samples float64 [clients] that are not all equal."""
    count, deviation = len(samples), samples.std(ddof=1)
    constant = (ROUGHNESS[kernel] / VARIANCE[kernel] ** 2) ** 0.2
    if rule == "scott":
        return (4 / 3) ** 0.2 * deviation * count**-0.2
    if rule == "silverman":
        quartiles = scipy.stats.iqr(samples) / 1.34
        return 0.9 * (min(deviation, quartiles) if quartiles > 0 else deviation) * count**-0.2
    if rule == "plug_in":
        phi, scaled = 1 / np.sqrt(2 * np.pi), samples / deviation
        pilot = (30 * phi / (count * 105 / (32 * np.sqrt(np.pi)))) ** (1 / 9)
        pilot = (6 * phi / (count * _roughness(scaled, 3, pilot))) ** (1 / 7)
        return constant * deviation * (count * _roughness(scaled, 2, pilot)) ** -0.2
    if rule == "improved_sheather_jones":
        # KDEpy's is in units of the grid's extent, twice the samples' range, and multiplied by that range alone. Below
        # a range of 12 its grid hardly resolves them.
        unit = np.ptp(samples) / 100
        try:
            found = 2 * bw_selection.improved_sheather_jones((samples / unit)[:, np.newaxis])
        except ValueError:  # There is no fixed point.
            return np.inf
        return constant / ROUGHNESS["gaussian"] ** 0.2 * unit * found
    ordered, silverman = np.sort(samples), bandwidth("silverman", samples, kernel)
    folds = np.arange(count) % min(5, count)
    likelihoods = {factor * silverman: 0.0 for factor in (10.0, 1.0, 0.1, 0.01)}
    for width in likelihoods:
        for fold in np.unique(folds):
            density = neighbors.KernelDensity(kernel=kernel, bandwidth=width)
            density.fit(ordered[folds != fold, np.newaxis])
            scores = density.score_samples(ordered[folds == fold, np.newaxis])
            likelihoods[width] += np.maximum(scores, np.log(np.finfo(np.float32).tiny)).sum()
    return max(likelihoods, key=likelihoods.get)


def _roughness(samples: np.ndarray, derivative: int, width: float) -> float:
    """R of a derivative of the density estimate with a kernel that, convolved with itself, has this bandwidth."""
    width /= np.sqrt(2)
    scaled = (LINE[:, np.newaxis] - samples) / width
    hermite = {2: scaled**2 - 1, 3: scaled**3 - 3 * scaled}[derivative]
    estimate = (hermite * scipy.stats.norm.pdf(scaled)).mean(axis=1) / width ** (derivative + 1)
    return np.trapz(estimate**2, LINE)


def mode(shift: flags.MeanShift, samples: np.ndarray, point: float, width: float) -> float:
    """Algorithm 8 from a point, with a step tolerance of 1e-7."""
    for _ in range(shift.mean_shift_steps):
        if shift.bandwidth == "nearest":
            width = bandwidth("scott", samples[np.argsort(np.abs(samples - point))[:5]], shift.kernel)
        scaled = (samples - point) / (shift.bandwidth_scale * width + 1e-9 * np.ptp(samples))
        if shift.kernel == "gaussian":
            weights = scipy.special.softmax(-0.5 * scaled**2)
        else:
            weights = np.maximum(1 - scaled**2, 0)
        before, point = point, weights @ samples / weights.sum() if weights.sum() else point
        if abs(point - before) <= 1e-7:
            break
    return point


def fedkp(shift: flags.MeanShift, models: np.ndarray, *, shifts_clients: bool) -> np.ndarray:
    """Algorithm 9, or 10, of models float32 [clients, parameters]."""
    results = []
    for column in models.T.astype(np.float64):
        starts, width = column if shifts_clients else [column.mean()], np.nan
        if shift.bandwidth != "nearest" and np.ptp(column):
            width = bandwidth(shift.bandwidth, column, shift.kernel)
        results.append(
            np.mean([mode(shift, column, start, width) for start in starts]) if np.ptp(column) else column[0]
        )
    return np.array(results)
