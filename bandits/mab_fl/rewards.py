"""Rewards for changes in the target's AUC, and a test of whether its learning curve is falling.

Lundahl 2021, sections 8.2.2, 8.4, 9 and 10, and Figure 19.
"""

import dataclasses

import numpy as np

KINDS = {
    "increment": "the increase in AUC over the target's own model, trained in the same round",
    "binary": "1 for an increase above --threshold, else 0",
}
_QUANTILE = "quantile:"
MIN_POINTS = 5  # A cubic fits 4 points exactly.
_LEAST_VARIANCE = 1e-10  # With a variance of 0, the fit might not terminate.


@dataclasses.dataclass(frozen=True)
class Reward:
    """Maps an increase to a reward.

    Attributes:
      kind: A key of KINDS.
      threshold: Threshold of binary rewards: a number, or `quantile:Q` of the increases so far; None for other kinds.
    """

    kind: str
    threshold: float | str | None = None

    @property
    def needs_increases(self) -> bool:
        """Whether the threshold comes from earlier increases."""
        return isinstance(self.threshold, str)

    def threshold_after(self, increases: np.ndarray) -> float:
        """Threshold of a round's binary rewards: the fixed one, or a quantile of earlier increases.

        Args:
          increases: float [...], the increases of combinations that earlier rounds tried (section 9); NaN is ignored.
            If there are none, the threshold is 0, so that any improvement earns a reward.
        """
        if isinstance(self.threshold, str):
            seen = increases[~np.isnan(increases)]
            return float(np.quantile(seen, float(self.threshold.removeprefix(_QUANTILE)))) if len(seen) else 0.0
        return self.threshold or 0.0

    def __call__(self, before: float, after: np.ndarray, threshold: float = 0.0) -> np.ndarray:
        """Rewards, float64.

        Args:
          before: AUC to compare with.
          after: float [...], AUC of the averaged models.
          threshold: Threshold of binary rewards, see `threshold_after`.
        """
        increase = np.asarray(after, np.float64) - before
        return np.where(increase > threshold, 1.0, 0.0) if self.kind == "binary" else increase


def is_falling(values: np.ndarray) -> bool:
    """Whether the spline of a learning curve falls at its end; False with fewer than `MIN_POINTS` points.

    This is the smoothest cubic spline over 0, 1, 2, ... whose residuals equal the curve's noise. The noise is estimated
    from second differences, which a straight line does not have (Gasser, Sroka and Jennen-Steinmetz 1986).

    Args:
      values: float [points].
    """
    if len(values) < MIN_POINTS:
        return False
    from scipy import interpolate

    values = np.asarray(values, float)
    variance = max(np.mean(np.diff(values, 2) ** 2) / 6, _LEAST_VARIANCE)
    spline = interpolate.UnivariateSpline(np.arange(len(values)), values, k=3, s=len(values) * variance)
    return bool(spline.derivative()(len(values) - 1) < 0)
