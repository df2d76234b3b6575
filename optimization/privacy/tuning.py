"""What a search over runs on the same private clients costs. Nothing here imports TensorFlow."""

import math
from collections.abc import Sequence

import numpy as np
from dp_accounting import rdp
from dp_accounting.rdp import rdp_privacy_accountant

from optimization.privacy import mechanisms, releases


def composed_divergences(divergences: np.ndarray) -> np.ndarray:
    """Returns the Renyi divergences where the results of all runs are looked at, float64 [ORDERS].

    Args:
      divergences: Of each run, float64 [runs, ORDERS].
    """
    return divergences.sum(axis=0)


def poisson_divergences(divergences: np.ndarray) -> np.ndarray:
    """Returns the Renyi divergences of the best of a Poisson-distributed number of runs, float64 [ORDERS].

    Papernot and Steinke 2022, Theorem 6: at order a, epsilon(a) + mean delta' + log(mean) / (a - 1), where one run is
    also (log(1 + 1 / (a - 1)), delta')-private. A run at a point drawn uniformly costs at most what the least private
    point does. Only the best run is looked at.

    Args:
      divergences: Of each of the points, float64 [runs, ORDERS]; the mean is their number.
    """
    mean, one = len(divergences), divergences.max(axis=0)
    others = releases.ORDERS - 1
    failing = [
        rdp_privacy_accountant.compute_delta(releases.ORDERS, one, epsilon)[0] for epsilon in np.log1p(1 / others)
    ]
    return one + mean * np.array(failing) + math.log(mean) / others


def describe(spent: Sequence[tuple[mechanisms.Mechanism, int]]) -> str:
    """Returns what a grid of runs says about privacy; nothing if no run has noise.

    Args:
      spent: The runs' mechanisms and rounds; their smallest delta is that of all.
    """
    if not any(mechanism.noise_multiplier for mechanism, _ in spent):
        return ""
    told = f"Privacy: choosing among runs on private data costs privacy. The {len(spent)} runs together"
    reasons = [mechanism.reason for mechanism, _ in spent if mechanism.reason]
    if reasons:
        return f"{told} guarantee nothing, because in {len(reasons)} of them {reasons[0]}."
    headlines = [mechanism.analyses[0] for mechanism, _ in spent]
    delta = min(mechanism.delta for mechanism, _ in spent)
    divergences = np.array([one.divergences(rounds) for one, (_, rounds) in zip(headlines, spent, strict=True)])
    whole, best = (
        rdp.compute_epsilon(releases.ORDERS, curve(divergences), delta)[0]
        for curve in (composed_divergences, poisson_divergences)
    )
    neighbours = "; ".join(dict.fromkeys(one.neighbours for one in headlines))
    assumed = ", if Poisson" if any(one.assumed for one in headlines) else ""
    return (
        f"{told} spend epsilon {whole:.3g} by RDP, at delta {delta:.3g} ({neighbours}){assumed}. A Poisson-distributed "
        f"number of runs of mean {len(spent)}, each at a point drawn uniformly, would spend {best:.3g} if nothing but "
        "the best were looked at (Papernot and Steinke 2022, with the least private point's divergences)."
    )
