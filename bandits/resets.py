"""Resets of the training, triggered by a detected change or at regular intervals.

Detectors are Page-Hinkley's test (Page 1954) and ADWIN (Bifet and Gavalda 2007), as implemented by `river`. They are
rebuilt from the losses since the last reset and never checkpointed.
"""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from data.settings import Count, Positive, none_of, setting

WHAT: Mapping[str, str] = {
    "model": "the model in training and the server optimizer's state; the deployed model stays in use",
    "optimizer": "only the server optimizer's state",
}
PAGE_HINKLEY, ADWIN, WINDOW = "page_hinkley", "adwin", "window"
DETECTORS = (PAGE_HINKLEY, ADWIN)
WHEN: Mapping[str, str] = {
    PAGE_HINKLEY: "losses have risen above their mean by more than --page_hinkley_threshold in total",
    ADWIN: "recent losses are significantly above earlier ones (adaptive windowing)",
    WINDOW: "after every --reset_window rounds",
}
LOSS, REWARD = "loss", "reward"
WATCHED: Mapping[str, str] = {
    LOSS: "increases in train/loss",
    REWARD: "drops in bandits/round_rewards; better for rare rewards, as predictions that are too low add little loss",
}
MOST_LOSSES = 10_000  # Fixed size of the record in the state.
TOLERATED_RISE = 0.005  # Tolerated rise of the series per round in Page-Hinkley's test.
FALSE_DETECTION = 0.2  # ADWIN's probability of a false detection; a smaller probability delays true detections.
ADWIN_SCALE = 100.0  # ADWIN assumes values in [0, 1], but the series varies only by about 0.01 from round to round.


@dataclasses.dataclass(frozen=True)
class Reset:
    """What resets restart, and when."""

    what: str = setting(
        None,
        "What a reset of the training restarts; for non-stationary environments",
        {"none": "nothing", **WHAT},
        name="reset",
        unset="none",
        convert=none_of("none"),
    )
    when: str = setting(
        None,
        "What triggers a reset",
        WHEN,
        name="reset_when",
        unset=WINDOW,
        only={"reset": tuple(WHAT)},
        applied_default=PAGE_HINKLEY,
    )
    watched: str = setting(
        None,
        "Series that the detectors monitor",
        WATCHED,
        name="reset_watch",
        unset=LOSS,
        only={"reset_when": DETECTORS},
        applied_default=LOSS,
    )
    window: Count = setting(
        None, "Number of rounds between resets", name="reset_window", unset=0, only={"reset_when": (WINDOW,)}
    )
    warmup: Count = setting(
        None,
        "Number of rounds, after the start and after each reset, in which no detector can trigger",
        name="reset_warmup",
        unset=0,
        only={"reset_when": DETECTORS},
        applied_default=10,
    )
    threshold: Positive = setting(
        None,
        "Rise in the series, summed over rounds, that triggers a reset; see docs/environments.md",
        name="page_hinkley_threshold",
        unset=0.0,
        only={"reset_when": (PAGE_HINKLEY,)},
        applied_default=0.5,
    )

    @property
    def reads_losses(self) -> bool:
        """Whether resets depend on the rounds' losses or rewards."""
        return self.what != "none" and self.when in DETECTORS

    @property
    def voids(self) -> str:
        """Why resets void the privacy guarantee of noise, worded to follow "because"; empty if they do not."""
        if not self.reads_losses:
            return ""
        read = {LOSS: "losses", REWARD: "rewards"}[self.watched]
        return f"the training is reset by the clients' {read} (--reset_when={self.when}), which have no noise"

    def loss_of(self, loss: float, reward: float) -> float:
        """The value that a detector reads: a round's mean loss, or minus its mean reward."""
        return loss if self.watched == LOSS else -reward

    def warning(self, total_rounds: int, is_weighted: bool = False) -> str:
        """Warning if a detector cannot trigger within the run, or is likely to do so without a change; otherwise empty.

        Args:
          total_rounds: Number of rounds.
          is_weighted: Whether losses are weighted by 1 / propensity.
        """
        if not self.reads_losses:
            return ""
        if self.warmup >= total_rounds:
            return (
                f"--reset_when={self.when} never resets in {total_rounds} rounds: lower --reset_warmup={self.warmup}."
            )
        if is_weighted and self.watched == LOSS:
            return (
                f"--reset_watch={LOSS}: importance weights make losses jump even without a change: use "
                f"--reset_watch={REWARD}."
            )
        return ""

    def no_losses(self) -> np.ndarray | tuple:
        """Empty record of losses: float64 [MOST_LOSSES] of NaN; an empty tuple if no detector reads it."""
        return np.full(MOST_LOSSES, np.nan) if self.reads_losses else ()


NONE = Reset()


class Watch:
    """Decides when to reset."""

    def __init__(self, reset: Reset):
        """Starts with a new detector."""
        self._reset = reset
        self._detector = self._new_detector()
        self._seen: list[float] = []  # Values that the detector has read.
        self._has_risen = False

    def is_due(self, round_num: int, losses: np.ndarray | tuple) -> bool:
        """Whether a round begins with a reset.

        Args:
          round_num: The round, from 1.
          losses: float64 [MOST_LOSSES], losses of the rounds since the last reset, then NaN.
        """
        if self._reset.what == "none":
            return False
        if not self._reset.reads_losses:
            return round_num > 1 and (round_num - 1) % self._reset.window == 0
        return self._rises(np.asarray(losses)[~np.isnan(losses)].tolist())

    def noted(self, losses: np.ndarray | tuple, loss: float) -> np.ndarray | tuple:
        """`losses` with `loss` appended; unchanged if `loss` is not finite or no detector reads losses."""
        if not self._reset.reads_losses or not math.isfinite(loss):
            return losses
        after = np.array(losses)
        after[np.count_nonzero(~np.isnan(after))] = loss
        return after

    def _rises(self, losses: list[float]) -> bool:
        """Whether a detector reports a rise at the last of these losses."""
        known = len(self._seen)
        if self._seen != losses[:known]:  # After a reset or a resumption, a new detector reads all losses.
            self._detector, self._seen, self._has_risen, known = self._new_detector(), [], False, 0
        for loss in losses[known:]:
            if self._reset.when == PAGE_HINKLEY:
                self._detector.update(loss)
                self._has_risen = self._detector.drift_detected
                continue
            before = self._detector.estimation
            self._detector.update(ADWIN_SCALE * loss)
            # ADWIN also detects falling losses, which are only a sign of learning.
            self._has_risen = self._detector.drift_detected and self._detector.estimation > before
        self._seen = losses
        return self._has_risen

    def _new_detector(self):
        if not self._reset.reads_losses:
            return None
        from river import drift  # Imported here because it takes seconds, and flags are checked first.

        warmup, threshold = self._reset.warmup, self._reset.threshold
        if self._reset.when == PAGE_HINKLEY:
            return drift.PageHinkley(min_instances=warmup, delta=TOLERATED_RISE, threshold=threshold, mode="up")
        return drift.ADWIN(delta=FALSE_DETECTION, clock=1, grace_period=warmup)
