"""Kernels and kernel density estimates in one dimension (Johansson and Gullbrandson 2022, section 2.6)."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np


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
