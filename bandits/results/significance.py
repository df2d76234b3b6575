"""How sure differences are: Holm's step-down, the exact test that flips signs, the share of pairs that are better."""

import functools
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np

Better = Literal["up", "down"]
SIGN_FLIP_SEEDS = range(6, 25)  # Fewer cannot reach 5%; more would be more than 8,388,608 sums.
EXACT = 1e-12  # Relative: what floating point makes of equal numbers.


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p values adjusted by Holm's step-down; those that are not a number are no tests, and stay so."""
    tested = sorted((p, place) for place, p in enumerate(p_values) if math.isfinite(p))
    found, last = [math.nan] * len(p_values), 0.0
    for below, (p, place) in enumerate(tested):
        found[place] = last = max(last, min(1.0, (len(tested) - below) * p))
    return found


def tolerance(first: "Sequence[float] | np.ndarray", second: "Sequence[float] | np.ndarray") -> float:
    """Returns what numbers of two arms differ by at most where they are equal but for floating point."""
    import numpy as np

    return EXACT * float(max(np.abs(first).max(), np.abs(second).max()))


def differences(
    first: "Sequence[float] | np.ndarray", second: "Sequence[float] | np.ndarray", *, is_paired: bool = True
) -> "np.ndarray":
    """Returns the first minus the second, 0 where floating point alone differs: [n], or of all pairs [n, m]."""
    import numpy as np

    found = np.subtract(first, second) if is_paired else np.subtract.outer(first, second)
    return np.where(np.abs(found) <= tolerance(first, second), 0.0, found)


def sign_flip(differences: Iterable[float]) -> float:
    """Returns the exact two-sided p of the test that the mean is 0, which flips each sign: 2^n sums, all counted.

    Fisher, "The Design of Experiments", 1935, section 21. It asks of the differences no more than that they are
    symmetric about 0 where the arms are equal. Its least value is 2^(1-n).

    Raises:
      ValueError: If there is none, or more than the last of `SIGN_FLIP_SEEDS`: 2^n would be too many.
    """
    import numpy as np

    differences = np.asarray(list(differences), float)
    if not 0 < len(differences) <= SIGN_FLIP_SEEDS[-1]:
        raise ValueError(
            f"{len(differences)} differences must be 1 to {SIGN_FLIP_SEEDS[-1]}: all 2^n sums are counted."
        )
    # The sums of half of all signs; the other half are these times -1.
    sums = functools.reduce(
        lambda sums, one: np.concatenate([sums + one, sums - one]), differences[1:], differences[:1]
    )
    seen = abs(differences.sum()) - EXACT * np.abs(differences).sum()
    return float(np.mean(np.abs(sums) >= seen))


def superiority(
    first: "Sequence[float] | np.ndarray",
    second: "Sequence[float] | np.ndarray",
    *,
    is_paired: bool = True,
    better: Better = "up",
) -> float:
    """Returns the share of pairs in which the first is better, ties one half.

    Args:
      first: Numbers of one arm.
      second: Of the other; paired ones in the same order.
      is_paired: Whether each belongs to one of the other's; else all pairs count, as in Mann and Whitney's U / (n m).
      better: Whether more or less is better.
    """
    import numpy as np

    if not len(first) or not len(second):
        return math.nan
    signs = np.sign(differences(first, second, is_paired=is_paired)) * (1 if better == "up" else -1)
    return float((1 + signs).mean() / 2)
