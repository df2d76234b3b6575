"""Learning curves as cubic smoothing splines (Lundahl 2021, section 10 and Figure 19)."""

import numpy as np
import scipy.interpolate

MIN_POINTS = 5
_LEAST_VARIANCE = 1e-10  # The fit cannot end without any.


def smooth(values: np.ndarray) -> scipy.interpolate.UnivariateSpline:
    """Returns the smoothest cubic spline over 0, 1, 2, ... that leaves the curve's own noise as residuals.

    The noise is estimated from second differences, which a straight line does not have (Gasser, Sroka and
    Jennen-Steinmetz 1986).

    Args:
      values: float [points], at least `MIN_POINTS`.
    """
    values = np.asarray(values, float)
    variance = max(np.mean(np.diff(values, 2) ** 2) / 6, _LEAST_VARIANCE)
    return scipy.interpolate.UnivariateSpline(np.arange(len(values)), values, k=3, s=len(values) * variance)


def is_falling(values: np.ndarray) -> bool:
    """Returns whether the spline of a learning curve falls at its end; never with fewer than `MIN_POINTS` points."""
    if len(values) < MIN_POINTS:
        return False
    return bool(smooth(values).derivative()(len(values) - 1) < 0)
