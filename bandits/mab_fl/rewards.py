"""What a change of the target's AUC is worth (Lundahl 2021, sections 8.2.2 and 8.4)."""

import dataclasses

import numpy as np

KINDS = {
    "increment": "the increase of the target's AUC",
    "binary": "1 for an increase above --threshold, else 0",
    "percentage": "the increase, divided by the AUC it is measured against",
}
BASELINES = {
    "target": "the target's own model of the same round, before averaging",
    "previous": "the global model of the round before",
}
_LOWEST_AUC = 0.01  # Keeps percentages finite.


@dataclasses.dataclass(frozen=True)
class Reward:
    """Maps an increase to a reward.

    Attributes:
      kind: A key of KINDS.
      threshold: Of binary rewards; None for the others.
    """

    kind: str
    threshold: float | None = None

    def __call__(self, before: float, after: np.ndarray) -> np.ndarray:
        """Returns float64 rewards.

        Args:
          before: AUC to compare with.
          after: float [...], AUC of the averaged models.
        """
        increase = np.asarray(after, np.float64) - before
        if self.kind == "binary":
            return np.where(increase > (self.threshold or 0.0), 1.0, 0.0)
        if self.kind == "percentage":
            return increase / max(before, _LOWEST_AUC)
        return increase
