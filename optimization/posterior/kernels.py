"""Kernels, kernel density estimates in one dimension, and their bandwidths.

Johansson and Gullbrandson 2022, section 2.6 and Appendix C. Every bandwidth rule maps samples, float [parameters,
clients], to bandwidths, float [parameters]. Samples without spread, and a single one, have the bandwidth zero. All
rules scale with the samples, and all but `nearest` ignore where they lie.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import scipy.fft


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A symmetric density around zero.

    Attributes:
      density: K(u) of an array of scaled distances u = distance / bandwidth.
      weight: K(u) up to a factor that is common to u's last axis. Changes u.
      pull: -K'(u) / u up to such a factor: mean-shift steps with these weights climb the density of `density` (Cheng
        1995: `density` is the shadow of `pull`). Changes u.
      roughness: R(K), the integral of K squared.
      variance: m2(K), the integral of u squared times K.
    """

    density: Callable[[np.ndarray], np.ndarray]
    weight: Callable[[np.ndarray], np.ndarray]
    pull: Callable[[np.ndarray], np.ndarray]
    roughness: float
    variance: float


def _epanechnikov_weight(scaled: np.ndarray) -> np.ndarray:
    np.square(scaled, out=scaled)
    np.subtract(1, scaled, out=scaled)
    return np.maximum(scaled, 0, out=scaled)


def _gaussian_weight(scaled: np.ndarray) -> np.ndarray:
    np.square(scaled, out=scaled)
    scaled *= -0.5
    scaled -= scaled.max(axis=-1, keepdims=True)  # Otherwise all weights underflow to 0 far from every sample.
    return np.exp(scaled, out=scaled)


EPANECHNIKOV = Kernel(
    density=lambda scaled: 0.75 * np.maximum(1 - np.square(scaled), 0),
    weight=_epanechnikov_weight,
    pull=lambda scaled: np.less_equal(np.abs(scaled, out=scaled), 1, out=scaled),
    roughness=3 / 5,
    variance=1 / 5,
)
GAUSSIAN = Kernel(
    density=lambda scaled: np.exp(-0.5 * np.square(scaled)) / math.sqrt(2 * math.pi),
    weight=_gaussian_weight,
    pull=_gaussian_weight,
    roughness=1 / (2 * math.sqrt(math.pi)),
    variance=1.0,
)
KERNELS = {"epanechnikov": EPANECHNIKOV, "gaussian": GAUSSIAN}


def density(kernel: Kernel, samples: np.ndarray, bandwidths: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Estimates the density of each row of samples (eq. 2.17).

    Args:
      kernel: The kernel.
      samples: Float [parameters, clients].
      bandwidths: Float [parameters], above zero.
      points: Float [parameters, points], where to estimate.

    Returns:
      Float [parameters, points].
    """
    bandwidths = bandwidths[:, np.newaxis]
    scaled = (points[:, :, np.newaxis] - samples[:, np.newaxis, :]) / bandwidths[:, :, np.newaxis]
    return kernel.density(scaled).mean(axis=2) / bandwidths


_NORMAL_REFERENCE = (4 / 3) ** 0.2  # Best for normal samples and the Gaussian kernel (eq. 2.20).
FOLDS = 5
FACTORS = (0.01, 0.1, 1.0, 10.0)
NEIGHBOURS = 5
GRID = 1024  # Points.
FIXED_POINT_STEPS = 100
NEGLIGIBLE = 60.0  # exp(-60) is nothing, also times the 14th power of a frequency.


def silverman(samples: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Returns 0.9 min(standard deviation, interquartile range / 1.34) n^(-1/5) (eq. 2.21), for either kernel.

    Where more than half of the samples are equal, and the interquartile range is zero, the standard deviation counts.
    """
    del kernel
    deviations, samples = _deviations(samples), np.sort(samples, axis=1)
    ranges = (_quantile(samples, 0.75) - _quantile(samples, 0.25)) / 1.34
    spreads = np.where(ranges > 0, np.minimum(deviations, ranges), deviations)
    return 0.9 * spreads * samples.shape[1] ** -0.2


def scott(samples: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Returns (4/3)^(1/5) standard deviation n^(-1/5) (Scott 1992), for either kernel."""
    del kernel
    return _NORMAL_REFERENCE * _deviations(samples) * samples.shape[1] ** -0.2


def plug_in(samples: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Returns the plug-in bandwidth of depth two (Sheather and Jones 1991; Wand and Jones 1995, section 3.6.1).

    Eq. 2.20 with R(f'') estimated by a Gaussian kernel, whose bandwidth needs R(f'''), estimated likewise, whose
    bandwidth needs R(f''''), taken from the normal density. Both pilot bandwidths cancel the leading bias against the
    terms in which a sample meets itself.
    """
    num_samples = samples.shape[1]
    deviations = _deviations(samples)
    scales = np.where(deviations > 0, deviations, 1.0)
    # In units of the standard deviation. 105 / (32 sqrt(pi)) is the normal density's eighth functional.
    distances = (samples[:, :, np.newaxis] - samples[:, np.newaxis, :]) / scales[:, np.newaxis, np.newaxis]
    pilot = (30 / math.sqrt(2 * math.pi) / (105 / (32 * math.sqrt(math.pi)) * num_samples)) ** (1 / 9)
    squares = np.square(distances / pilot)
    sixth = _mean_derivative((((squares - 15) * squares + 45) * squares) - 15, squares) / pilot**7
    pilots = (6 / math.sqrt(2 * math.pi) / (-sixth * num_samples)) ** (1 / 7)
    squares = np.square(distances / pilots[:, np.newaxis, np.newaxis])
    fourth = _mean_derivative((squares - 6) * squares + 3, squares) / pilots**5
    best = (kernel.roughness / (kernel.variance**2 * fourth * num_samples)) ** 0.2
    return best * deviations


def improved_sheather_jones(samples: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Returns the plug-in bandwidth without a normal reference (Botev, Grotowski and Kroese 2010, Algorithm 1).

    The fixed point of equation 29 with l = 5, from a grid of 1024 points over twice the samples' range, for the
    Gaussian kernel; another kernel has it times the ratio of their constants in eq. 2.20. Few samples may have no fixed
    point: their bandwidth is infinite, and their mode the mean.
    """
    lows, ranges = samples.min(axis=1, keepdims=True), np.ptp(samples, axis=1)
    places = (samples - lows) / np.where(ranges > 0, 2 * ranges, 1.0)[:, np.newaxis] + 0.25
    squares, coefficients = _cosine_series(places)
    count = 1 + (np.diff(np.sort(samples, axis=1), axis=1) > 0).sum(axis=1)

    def roughness(derivative: int, time: np.ndarray) -> np.ndarray:
        """Returns R of a derivative of the density estimate with this squared bandwidth."""
        rates = math.pi**2 * squares
        felt = np.searchsorted(rates * time.min(initial=np.inf), NEGLIGIBLE)  # Frequencies beyond add less than 1e-16.
        decay = np.exp(-rates[:felt] * time[:, np.newaxis])
        return 0.5 * (rates[:felt] ** derivative * coefficients[rows, :felt] * decay).sum(axis=1)

    times, rows = np.zeros(len(samples)), np.flatnonzero(ranges > 0)  # The rows whose times still change.
    for _ in range(FIXED_POINT_STEPS):
        found = roughness(7, times[rows])
        with np.errstate(divide="ignore"):  # Where there is no fixed point.
            for order in range(6, 1, -1):
                odd = math.prod(range(1, 2 * order, 2)) / math.sqrt(2 * math.pi)
                constant = 2 * (1 + 0.5 ** (order + 0.5)) / 3 * odd
                found = roughness(order, (constant / (count[rows] * found)) ** (2 / (3 + 2 * order)))
            after = (2 * math.sqrt(math.pi) * count[rows] * found) ** -0.4
        changes = ~np.isclose(after, times[rows], rtol=1e-10, atol=0)
        times[rows] = after
        rows = rows[changes]
        if not rows.size:
            break
    ratio = (kernel.roughness / kernel.variance**2 / GAUSSIAN.roughness) ** 0.2
    return np.where(ranges > 0, ratio * 2 * ranges * np.sqrt(times), 0.0)


def _cosine_series(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns squared frequencies [frequencies] and squared cosine coefficients [parameters, frequencies].

    Args:
      places: Float [parameters, clients], in [0, 1].
    """
    below = np.floor(scaled := places * (GRID - 1)).astype(np.intp)
    counts, rows = np.zeros((len(places), GRID)), np.arange(len(places))[:, np.newaxis]
    np.add.at(counts, (rows, below), 1 - (scaled - below))
    np.add.at(counts, (rows, below + 1), scaled - below)
    coefficients = scipy.fft.dct(counts / places.shape[1], axis=1)[:, 1:]
    return np.square(np.arange(1.0, GRID)), np.square(coefficients)


def cross_validation(samples: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Returns the best of 0.01, 0.1, 1 and 10 times Silverman's bandwidth by the likelihood of left-out samples.

    Five folds, or as many as there are samples; a fold is every fifth sample in the order of their values. A left-out
    sample that no kernel reaches counts with the smallest positive density. Equal likelihoods: the larger bandwidth.
    """
    samples = np.sort(samples, axis=1)
    silvermans = silverman(samples, kernel)
    num_folds = min(FOLDS, samples.shape[1])
    if num_folds < 2:
        return silvermans
    safe = np.where(silvermans > 0, silvermans, 1.0)
    best, best_likelihood = safe, np.full(len(samples), -np.inf)
    for factor in FACTORS:
        likelihood = np.zeros(len(samples))
        for fold in range(num_folds):
            left_out = np.arange(samples.shape[1]) % num_folds == fold
            estimate = density(kernel, samples[:, ~left_out], factor * safe, samples[:, left_out])
            likelihood += np.log(np.maximum(estimate, np.finfo(np.float32).tiny)).sum(axis=1)
        better = likelihood >= best_likelihood
        best = np.where(better, factor * safe, best)
        best_likelihood = np.where(better, likelihood, best_likelihood)
    return np.where(silvermans > 0, best, 0.0)


def nearest(samples: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Returns Scott's bandwidth of the five samples nearest to zero, the place where the density is looked at (C.4)."""
    count = min(NEIGHBOURS, samples.shape[1])
    indices = np.argpartition(np.abs(samples), count - 1, axis=1)[:, :count]
    return scott(np.take_along_axis(samples, indices, axis=1), kernel)


RULES = {
    "silverman": silverman,
    "scott": scott,
    "plug_in": plug_in,
    "improved_sheather_jones": improved_sheather_jones,
    "cross_validation": cross_validation,
}
PAIRWISE = {"plug_in", "improved_sheather_jones", "cross_validation"}  # Those whose arrays are much larger.
NEAREST = "nearest"  # The name of `nearest`, which alone depends on the place.


def _deviations(samples: np.ndarray) -> np.ndarray:
    return samples.std(axis=1, ddof=1) if samples.shape[1] > 1 else np.zeros(len(samples))


def _quantile(ordered: np.ndarray, share: float) -> np.ndarray:
    """Returns a quantile of ascending rows as `np.quantile` does, which would look for it again."""
    rank = share * (ordered.shape[1] - 1)
    below, above = math.floor(rank), math.ceil(rank)
    return ordered[:, below] + (rank - below) * (ordered[:, above] - ordered[:, below])


def _mean_derivative(polynomial: np.ndarray, squares: np.ndarray) -> np.ndarray:
    return (polynomial * np.exp(-0.5 * squares)).mean(axis=(1, 2)) / math.sqrt(2 * math.pi)
