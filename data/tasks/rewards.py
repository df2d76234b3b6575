"""Reward functions and their shifts, as matrices: the reward of each action given the true label.

Classes of the character tasks are in EMNIST's order: 0-9, A-Z (10-35), a-z (36-61).
"""

from collections.abc import Sequence

import numpy as np

from data.errors import UsageError

_UPPER = np.arange(10, 36)
_LOWER = np.arange(36, 62)


def exact(num_labels: int) -> np.ndarray:
    """Rewards of 1 for the true label and 0 for the others, float32 [labels, labels] (section 4.2, scratch)."""
    return np.eye(num_labels, dtype=np.float32)


def character_rewards(*, reference_code: bool = False) -> dict[str, np.ndarray]:
    """Rewards of the 62-class tasks by phase (Agarwal et al. 2023, section 4.2, init-shift).

    The paper: the initial training also rewards 0.5 for the lower-case version of an upper-case letter; the bandits
    have a reward for the exact label only.

    Args:
      reference_code: Follow the published code instead: the initial training takes lower-case letters for their
        upper-case versions; the bandits also have the reward 0.5 for the upper-case version of a lower-case letter.

    Returns:
      float32 [62, 62] for each of `exact`, `init` and `bandits`.
    """
    init, bandits = exact(62), exact(62)
    if reference_code:
        init[_LOWER, _LOWER] = 0.0
        init[_LOWER, _UPPER] = 1.0
        bandits[_LOWER, _UPPER] = 0.5
    else:
        init[_UPPER, _LOWER] = 0.5
    return {"exact": exact(62), "init": init, "bandits": bandits}


def tag_rewards(
    counts: np.ndarray, *, reference_code: bool = False, initial_tags: int | None = None
) -> dict[str, np.ndarray]:
    """Rewards of tag prediction by phase (Agarwal et al. 2023, section 4.2, init-shift).

    Without a shift, a tag of the post has the reward 1. The initial training rewards only the most frequent tags. The
    bandits' reward is inverse to the tag's frequency in the corpus, scaled to 1 for the most frequent tag.

    Args:
      counts: int [tags], posts that have the tag, from the most to the least frequent.
      reference_code: Follow the published program instead of the paper.
      initial_tags: Tags that the initial training rewards; None for the paper's 10, or for three fifths of them (30 of
        50), as the published program has it.

    Returns:
      float32 [tags, tags], zero off the diagonal, for each of `exact`, `init` and `bandits`.

    Raises:
      UsageError: If there are fewer tags.
      ValueError: If a count is below 1, or the counts increase.
    """
    counts = np.asarray(counts)
    if counts.min() < 1 or (np.diff(counts) > 0).any():
        raise ValueError(f"Counts of tags must be at least 1, the highest first: {counts}.")
    if initial_tags is not None and initial_tags > len(counts):
        raise UsageError(f"--init_labels={initial_tags} must be at most {len(counts)}, the number of tags.")
    paid = initial_tags or (len(counts) * 3 // 5 if reference_code else 10)
    in_initial_training = np.arange(len(counts)) < paid
    return {
        "exact": exact(len(counts)),
        "init": np.diag(in_initial_training).astype(np.float32),
        "bandits": np.diag(counts[0] / counts).astype(np.float32),
    }


def label_rewards(label_counts: Sequence[int], init_labels: int | None) -> dict[str, np.ndarray]:
    """Rewards of tables and digits before and after the shift.

    The initial training has rewards only for the most frequent labels, of equally frequent ones the first; the bandits
    for all.

    Args:
      label_counts: Training rows of each label.
      init_labels: How many labels those are; None for half of them, rounded up.

    Returns:
      float32 [labels, labels] for each of `init` and `bandits`.

    Raises:
      UsageError: If there are not as many labels.
    """
    num_labels = len(label_counts)
    count = (num_labels + 1) // 2 if init_labels is None else init_labels
    if not 1 <= count <= num_labels:
        raise UsageError(f"--init_labels={count} must be between 1 and {num_labels}, the number of labels.")
    frequent = np.argsort(-np.asarray(label_counts), kind="stable")[:count]
    init = np.zeros((num_labels, num_labels), np.float32)
    init[frequent, frequent] = 1.0
    return {"init": init, "bandits": exact(num_labels)}
