"""Configurations compared with the uniform policy, the best fixed action and the full-feedback baseline."""

import dataclasses
import math
from collections.abc import Collection, Mapping

from bandits.results import comparison
from bandits.results.comparison import Comparison, Landmark, Sampled, Values
from bandits.results.significance import Better
from optimization.study import intervals
from optimization.study.intervals import Interval

CHANCE, CONSTANT, CEILING = "the uniform policy", "the best fixed action", "the full-feedback baseline"
ONE_SEED, NOT_JUDGED = "one seed: not judged", "not judged"


@dataclasses.dataclass(frozen=True)
class Stand:
    """Where an arm stands.

    Attributes:
      arm: Its name.
      chance: The arm against chance; None where chance is not known.
      constant: Against the best constant action; likewise.
      ceiling: Against the ceiling; likewise.
      share: How far it is from chance, at 0, to the ceiling, at 1; not a number where those meet or one is unknown.
      word: All this in words; empty where nothing is known.
    """

    arm: str
    chance: Comparison | None
    constant: Comparison | None
    ceiling: Comparison | None
    share: float
    word: str

    @property
    def is_told_from_chance(self) -> bool | None:
        """Whether the seeds tell it from chance, on whichever side; None where chance is not known."""
        return self.chance.is_told_apart if self.chance else None

    def regret(self, better: Better = "up") -> Interval | None:
        """Returns what it earns less than the ceiling, and the interval; None where the ceiling is not known.

        Agarwal et al. 2023, equation 4, with the sign of regret and of a mean instead of a sum. Against a ceiling that
        was trained it can be negative.
        """
        return regret(self.ceiling, better) if self.ceiling else None

    @property
    def beats_chance(self) -> bool | None:
        """Whether the seeds say that it is better than chance; None where chance is not known."""
        return self.chance.wins if self.chance else None


def stand(
    values: Values,
    *,
    chance: Landmark | None = None,
    constant: Landmark | None = None,
    ceiling: Landmark | None = None,
    unpaired: Collection[str] = (),
    better: Better = "up",
) -> dict[str, Stand]:
    """Returns where each arm stands: told apart by Holm's p over all of them, one landmark at a time.

    Args:
      values: A number an arm and seed, as in `comparison.compare`, of all arms that are judged: no landmark among them.
      chance: What uniformly random actions earn; None if that is not known, here and below.
      constant: What the best action earns, where it is always chosen.
      ceiling: What the model that is shown all rewards earns.
      unpaired: Arms of which a seed does not determine the run; a landmark that is played pairs with the others alone.
      better: Whether more or less is better.
    """
    compared = {
        name: _against(values, name, landmark, unpaired, better)
        for name, landmark in ((CHANCE, chance), (CONSTANT, constant), (CEILING, ceiling))
    }
    scale = None if chance is None or ceiling is None else _scale(chance, ceiling, better)
    found = {}
    for arm in values:
        above, beside, below = (compared[name].get(arm) for name in (CHANCE, CONSTANT, CEILING))
        share = (above.mean - scale[0]) / (scale[1] - scale[0]) if above and scale else math.nan
        found[arm] = Stand(arm, above, beside, below, share, _word(above, beside, below, share))
    return found


def regret(against: Comparison, better: Better = "up") -> Interval | None:
    """Returns what an arm earns less than what it is compared with; None where seeds have no number in common."""
    if math.isnan(against.difference):
        return None
    sign = 1 if better == "down" else -1
    low, high = sorted(sign * end for end in (against.low, against.high))
    return Interval(sign * against.difference + 0.0, low, high, against.pairs)  # No -0.


def interval(landmark: Landmark) -> Interval:
    """Returns a landmark's mean and interval, over its seeds or by its sample's error; of what is exact, a point."""
    if isinstance(landmark, Sampled):
        half = intervals.half_width(landmark.error * landmark.clients**0.5, landmark.clients)
        return Interval(landmark.mean, landmark.mean - float(half), landmark.mean + float(half), 1)
    if isinstance(landmark, Mapping):
        return intervals.of_mean([value for value in landmark.values() if math.isfinite(value)])
    return Interval(landmark, landmark, landmark, 1)


def normalised(
    values: Values, chance: Landmark, ceiling: Landmark, better: Better = "up"
) -> dict[str, dict[int, float]]:
    """Returns scores of which 0 is chance and 1 the ceiling.

    Raises:
      ValueError: If the intervals of chance and ceiling meet, or the ceiling is the worse one: there is no scale then.
    """
    scale = _scale(chance, ceiling, better)
    if scale is None:
        raise ValueError(
            f"{_told(chance)} for {CHANCE} and {_told(ceiling)} for {CEILING} leave no scale between them."
        )
    low, high = scale
    return {arm: {seed: (value - low) / (high - low) for seed, value in seeds.items()} for arm, seeds in values.items()}


def _scale(chance: Landmark, ceiling: Landmark, better: Better) -> tuple[float, float] | None:
    """Returns what becomes 0 and 1; None if there is no such scale."""
    low, high = interval(chance), interval(ceiling)
    is_above = high.mean > low.mean if better == "up" else high.mean < low.mean
    return None if low.meets(high) or not is_above else (low.mean, high.mean)


def _told(landmark: Landmark) -> str:
    found = interval(landmark)
    return f"{found.mean:.4g}" + (f" ({found.low:.4g} to {found.high:.4g})" if found.low <= found.high else "")


def _against(
    values: Values, name: str, landmark: Landmark | None, unpaired: Collection[str], better: Better
) -> dict[str, Comparison]:
    if landmark is None:
        return {}
    return comparison.against(values, name, landmark, unpaired=unpaired, better=better)


def _word(chance: Comparison | None, constant: Comparison | None, ceiling: Comparison | None, share: float) -> str:
    known = [one for one in (chance, constant, ceiling) if one]
    if not known:
        return ""
    chance, constant, ceiling = (one if one and one.is_judged else None for one in (chance, constant, ceiling))
    if not (chance or constant or ceiling):
        return ONE_SEED if max(one.pairs for one in known) == 1 else NOT_JUDGED
    same = comparison.NOT_TOLD_APART
    if chance and not chance.is_told_apart:
        return f"{same} from {CHANCE}"
    if chance and not chance.wins:
        return f"below {CHANCE}"
    words = []
    if ceiling and not ceiling.is_told_apart:
        words.append(f"{same} from {CEILING}")
    elif ceiling and ceiling.wins:
        words.append(f"above {CEILING}")
    elif math.isfinite(share) and chance:
        words.append(f"at a normalized score of {share:.2f}")
    elif chance:
        words.append(f"above {CHANCE}")
    if constant and not constant.wins:
        words.append(f"{'below' if constant.loses else f'{same} from'} {CONSTANT}")
    elif constant and not chance:
        words.append(f"above {CONSTANT}")
    return ", ".join(words)
