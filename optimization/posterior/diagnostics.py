"""How normal a cohort's models are, and pictures of them (Johansson and Gullbrandson 2022, section 3.1, Appendix A)."""

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.figure
import numpy as np
import scipy.stats

from optimization.posterior import bandwidths, cohort, kernels, mean_shift
from optimization.study import files

_CHUNK = 1 << 12  # Parameters worked on at once.
_LILLIEFORS_CLIENTS = 4  # With which its table begins.


class Normality(NamedTuple):
    """Statistics of each parameter over the clients, float64 [parameters]; NaN where all clients agree.

    Attributes:
      p_values: Of the Kolmogorov-Smirnov test against the normal distribution with the sample's mean and standard
        deviation. As these are estimated, the values of normal samples lie nearer to 1 than uniform ones.
      lilliefors_p_values: Of the same distance, corrected for that (Lilliefors 1967), by a table from 0.001 to 0.99,
        which stand for all beyond. NaN for fewer than four clients.
      skewness: Third standardised moment.
      kurtosis: Fourth standardised moment minus 3.
    """

    p_values: np.ndarray
    lilliefors_p_values: np.ndarray
    skewness: np.ndarray
    kurtosis: np.ndarray


def normality(models: np.ndarray) -> Normality:
    """Tests the clients' models, float32 [clients, parameters]; those that are not finite are left out.

    Raises:
      ValueError: with fewer than two finite models.
    """
    clients = np.flatnonzero(cohort.finite_clients(models))
    count = clients.size
    if count < 2:
        raise ValueError(f"Normality needs two or more finite models; {count} of {len(models)} are.")
    from optimization.runtime import private  # Imports TensorFlow.

    result = Normality(*np.full((4, models.shape[1]), np.nan))
    # The p-value depends on the distance alone: looked up, as its function takes long.
    distances = np.linspace(0, 1, 4097)
    p_values = scipy.stats.kstwo.sf(distances, count)
    steps = np.arange(count + 1) / count

    def work(chunk: slice) -> None:
        samples = np.sort(models[clients, chunk].T.astype(np.float64), axis=1)
        samples -= samples.mean(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            samples /= samples.std(axis=1, ddof=1, keepdims=True)
        expected = scipy.special.ndtr(samples)
        distance = np.maximum(steps[1:] - expected, expected - steps[:-1]).max(axis=1)
        result.p_values[chunk] = np.interp(distance, distances, p_values)
        if count >= _LILLIEFORS_CLIENTS:
            varies = np.isfinite(distance)
            found = np.full(distance.shape, np.nan)
            found[varies] = private.lilliefors_p_values(distance[varies], count)
            result.lilliefors_p_values[chunk] = found
        # SciPy's own moments go row by row where one of them is NaN.
        squares = np.square(samples)
        variance = squares.mean(axis=1)
        result.skewness[chunk] = (squares * samples).mean(axis=1) / variance**1.5
        result.kurtosis[chunk] = np.square(squares).mean(axis=1) / variance**2 - 3

    cohort.each_chunk(work, models.shape[1], _CHUNK)
    return result


def draw_normality(cohorts: Mapping[str, Normality], output: str | os.PathLike) -> None:
    """Draws the distributions of p-values, skewness and kurtosis of some cohorts (figs 3.1b-d, A.1-A.3) as a PNG."""
    figure = matplotlib.figure.Figure(figsize=(14, 3.4), layout="constrained")
    titles = {
        "p_values": "p-value of the Kolmogorov-Smirnov test",
        "lilliefors_p_values": "p-value of Lilliefors' test",
        "skewness": "skewness",
        "kurtosis": "excess kurtosis",
    }
    for axes, (field, title) in zip(figure.subplots(1, 4), titles.items(), strict=True):
        values = {label: getattr(result, field) for label, result in cohorts.items()}
        values = {label: found[np.isfinite(found)] for label, found in values.items()}
        edges = np.histogram_bin_edges(np.concatenate(list(values.values())), bins=60)
        for label, found in values.items():
            axes.hist(found, edges, density=True, histtype="step", label=label)
        axes.set(xlabel=title, ylabel="density of parameters")
        axes.grid(alpha=0.3)
    axes.legend()
    files.save_picture(figure, output, dpi=120)


def draw_label_allocation(counts: np.ndarray, output: str | os.PathLike, title: str = "") -> None:
    """Draws clients against labels, a dot's area showing the number of examples (fig. 3.1a).

    Args:
      counts: Int [clients, labels].
      output: PNG to write.
      title: Title.
    """
    figure = matplotlib.figure.Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    clients, labels = np.nonzero(counts)
    axes.scatter(clients, labels, s=120 * counts[clients, labels] / counts.max(), alpha=0.7)
    axes.set(title=title, xlabel="client", ylabel="label")
    files.save_picture(figure, output, dpi=120)


def draw_densities(
    models: np.ndarray,
    parameters: Sequence[int],
    shift: mean_shift.MeanShift,
    output: str | os.PathLike,
) -> None:
    """Draws kernel densities of some parameters with the clients, their mean, their modes and FedKP's (figs 3.3, 3.4).

    Args:
      models: float32 [clients, parameters].
      parameters: Columns to draw; a column in which all clients agree shows no density.
      shift: Kernel and bandwidth; `bandwidths.NEAREST` has no one density and is refused.
      output: PNG to write.

    Raises:
      ValueError: for `bandwidths.NEAREST`, or if no model is finite.
    """
    if shift.bandwidth == bandwidths.NEAREST:
        raise ValueError(f"bandwidth={shift.bandwidth!r} changes along the density; choose another to draw one.")
    chosen = models[:, list(parameters)][cohort.finite_clients(models)]
    nearest_mode, cluster_mean = (aggregate(chosen).model for aggregate in (shift.fedkp, shift.fedkp_cluster_mean))
    own_modes = shift.modes(chosen)
    widths = shift.widths(chosen.T.astype(np.float64))
    figure = matplotlib.figure.Figure(figsize=(4 * len(parameters), 3.4), layout="constrained")
    for index, axes in enumerate(figure.subplots(1, len(parameters), squeeze=False)[0]):
        samples, width = chosen[:, index].astype(np.float64), widths[index]
        if width > 0:
            points = np.linspace(samples.min() - 2 * width, samples.max() + 2 * width, 500)
            density = kernels.density(shift.kernel, samples[np.newaxis], widths[index : index + 1], points[np.newaxis])
            axes.plot(points, density[0])
        axes.plot(samples, np.zeros_like(samples), "k|", markersize=10, label="clients")
        heights = np.zeros(len(samples))
        if width > 0:
            points = own_modes[:, index].astype(np.float64)[np.newaxis]
            heights = kernels.density(shift.kernel, samples[np.newaxis], widths[index : index + 1], points)[0]
        axes.plot(own_modes[:, index], heights, ".", color="C8", label="where clients end")
        axes.axvline(samples.mean(), color="C7", linestyle="--", label="mean")
        axes.plot(nearest_mode[index], 0, "o", color="C3", label="FedKP")
        axes.plot(cluster_mean[index], 0, "D", color="C1", label="FedKP, cluster mean")
        axes.set(xlabel=f"parameter {parameters[index]}", ylabel="density")
        axes.locator_params(axis="x", nbins=4)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=5 if len(parameters) > 1 else 2)
    files.save_picture(figure, output, dpi=120)
