"""Arms against one reference, over seeds.

Runs of equal seeds share cohorts, initial weights and draws, so their differences are paired: Student's t interval and
test of the mean difference, beside an exact test that flips signs. What no seed determines, as secret cohorts and the
system's noise, is unpaired: Welch's. Holm's step-down makes one family of all arms against the reference.
"""

import dataclasses
import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from bandits.results import power, significance
from bandits.results.significance import Better
from optimization.study import intervals


@dataclasses.dataclass(frozen=True)
class Sampled:
    """What was computed of a sample of clients.

    Attributes:
      mean: The estimate.
      error: Its standard error.
      clients: How many clients there are in the sample.
    """

    mean: float
    error: float
    clients: int


Values = Mapping[str, Mapping[int, float]]  # By arm and seed; not a number where a run diverged.
# Computed exactly, so that no seed changes it; of a sample; or by seed, as what was played is.
Landmark = float | Sampled | Mapping[int, float]
LEVEL = round(1 - intervals.CONFIDENCE, 12)
PAIRED, UNPAIRED = "paired", "unpaired"
TOLD_APART, NOT_TOLD_APART = "significantly different", "not significantly different"


class Pair(NamedTuple):
    """An arm and what it is compared with.

    Attributes:
      arm: Its name.
      values: Its numbers, by seed.
      reference: Name of what it is compared with.
      landmark: The numbers of that, by seed; or one number, exact or of a sample.
      is_paired: Whether seeds pair them.
    """

    arm: str
    values: Mapping[int, float]
    reference: str
    landmark: Landmark
    is_paired: bool = True


@dataclasses.dataclass(frozen=True)
class Comparison:
    """An arm against the reference. What cannot be said is not a number.

    Attributes:
      arm: Its name.
      reference: That of the reference.
      kind: `PAIRED` or `UNPAIRED`.
      pairs: Seeds that both have and that both finished; of unpaired arms, the fewer seeds of the two.
      mean: Mean of the arm over the seeds that are compared.
      reference_mean: That of the reference.
      difference: The arm's mean minus the reference's.
      low: Lower end of the difference's 95% interval, which knows of no other arm.
      high: Upper end.
      p: Of the two-sided t test: paired, or Welch's.
      adjusted_p: By Holm, over all arms that are judged against the reference; not a number for others.
      sign_flip_p: Of the exact two-sided sign-flip test; paired, for `significance.SIGN_FLIP_SEEDS` alone.
      sign_flip_adjusted_p: By Holm, likewise.
      sign_flip_least_p: The least that this could have been with so many seeds and arms.
      superiority: Probability that the arm is better than the reference, ties one half: the share of paired seeds, or
        of all pairs of a seed of each.
      seeds: How many the arm has, and the reference, after those that are left out.
      deviation: Standard deviation of the paired differences; of an unpaired arm, and against what is of a sample of
        clients, the arm's own.
      reference_deviation: That of the reference, where it is unpaired; else not a number.
      sample: That sample; None for other references.
      level: That of Holm's first step, at which power is told: 5% by the number of arms that are tested.
      is_better: Whether it is better by its mean; None where they are equal or unknown.
      is_judged: Whether there is a test; not of single seeds, and not where one diverged.
      word: `TOLD_APART`, if the adjusted p of the t test is below 5%; else `NOT_TOLD_APART`.
      notes: Why there is less to say than usual, in words.
    """

    arm: str
    reference: str
    kind: str
    pairs: int
    mean: float
    reference_mean: float
    difference: float
    low: float
    high: float
    p: float
    adjusted_p: float
    sign_flip_p: float
    sign_flip_adjusted_p: float
    sign_flip_least_p: float
    superiority: float
    seeds: tuple[int, int]
    deviation: float
    reference_deviation: float
    sample: Sampled | None
    level: float
    is_better: bool | None
    is_judged: bool
    word: str
    notes: tuple[str, ...]

    @functools.cached_property
    def detectable(self) -> float:
        """The minimum detectable difference at this number of seeds; see `power.detectable`."""
        own, others = self.seeds
        deviation = self.deviation if self.is_judged else math.nan
        unpaired = None if self.kind == PAIRED else (self.reference_deviation / math.sqrt(others or 1), others)
        return power.detectable(deviation, own, self.level, other=self._sample or unpaired)

    @functools.cached_property
    def seeds_needed(self) -> float:
        """The seeds required of each to find the observed difference, if it is true; see `power.seeds_needed`."""
        deviation = self.deviation if self.is_judged else math.nan
        others = None if self.kind == PAIRED else self.reference_deviation
        return power.seeds_needed(self.difference, deviation, self.level, others=others, sample=self._sample)

    @property
    def _sample(self) -> tuple[float, int] | None:
        return (self.sample.error, self.sample.clients) if self.sample else None

    @property
    def is_told_apart(self) -> bool:
        """Whether the seeds tell them apart."""
        return self.word == TOLD_APART

    @property
    def wins(self) -> bool:
        """Whether the seeds say that the arm is the better one."""
        return self.is_told_apart and bool(self.is_better)

    @property
    def loses(self) -> bool:
        """Whether the seeds say that the reference is the better one."""
        return self.is_told_apart and self.is_better is False


def compare(
    values: Values, reference: str, *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, Comparison]:
    """Returns the comparison of every other arm with the reference, in their order.

    Args:
      values: A number an arm and seed. A seed whose number is not finite has diverged: it is left out of the numbers,
        and neither arm is judged.
      reference: The arm that the others are compared with.
      unpaired: Arms of which a seed does not determine the run. If it is the reference, no arm is paired.
      better: Whether more or less is better.

    Raises:
      ValueError: If an arm that is named is not there.
    """
    if missing := [arm for arm in (reference, *unpaired) if arm not in values]:
        raise ValueError(f"There is no arm {missing[0]}: there are {', '.join(values)}.")
    others = {arm: seeds for arm, seeds in values.items() if arm != reference}
    alone = others if reference in unpaired else [arm for arm in unpaired if arm != reference]
    return against(others, reference, values[reference], unpaired=alone, better=better)


def against(
    values: Values, name: str, landmark: Landmark, *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, Comparison]:
    """Returns the comparison of every arm with what is none of them.

    Args:
      values: As in `compare`.
      name: What the landmark is called.
      landmark: By seed, as an arm's values; or a number, which pairs with every seed: the test is that of one sample.
        One that is `Sampled` is a mean with an error of its own: the test is Welch's.
      unpaired: Arms that are not paired with the landmark's seeds.
      better: Whether more or less is better.
    """
    pairs = [Pair(arm, own, name, landmark, arm not in unpaired) for arm, own in values.items()]
    return {one.arm: one for one in family(pairs, better)}


def family(pairs: Iterable[Pair], better: Better = "up") -> list[Comparison]:
    """Returns the comparisons of pairs of arms, which Holm's step-down takes for one family."""
    singles = []
    for arm, own, name, landmark, is_paired in pairs:
        is_played = isinstance(landmark, Mapping)
        sample = landmark if isinstance(landmark, Sampled) else None
        number = landmark.mean if isinstance(landmark, Sampled) else landmark
        others = number if isinstance(number, Mapping) else dict.fromkeys(own, number)
        singles.append(_Single(arm, name, own, others, is_paired or not is_played, better, sample))
    # An arm that is not judged is no test, and makes the others' no stricter.
    judged = [one if one.is_sound else None for one in singles]
    adjusted = significance.holm([one.p if one else math.nan for one in judged])
    flips = significance.holm([one.sign_flip_p if one else math.nan for one in judged])
    least = significance.holm([one.least_p if one else math.nan for one in judged])
    tested, flipped = (max(1, sum(map(math.isfinite, some))) for some in (adjusted, least))
    found = zip(singles, adjusted, flips, least, strict=True)
    return [one.compared(tested, flipped, *of_family) for one, *of_family in found]


class _Single:
    """An arm and the reference, before the other arms are known."""

    def __init__(
        self,
        arm: str,
        reference: str,
        own: Mapping[int, float],
        others: Mapping[int, float],
        is_paired: bool,
        better: Better,
        sample: Sampled | None = None,
    ):
        import numpy as np

        self._sample = sample
        self.arm, self.reference, self.is_paired, self._sign = arm, reference, is_paired, 1 if better == "up" else -1
        self.notes: list[str] = []
        self.is_sound = True
        seeds = {arm: _finite(own), reference: _finite(others)}
        for name, all_of_it in ((arm, own), (reference, others)):
            if lost := sorted(set(all_of_it) - set(seeds[name])):
                self.notes.append(f"{name} diverged with {_seeds(lost)}: not judged")
                self.is_sound = False
        if is_paired:
            common = sorted(set(own) & set(others))
            for name, all_of_it in ((arm, own), (reference, others)):
                if alone := sorted(set(all_of_it) - set(common)):
                    self.notes.append(f"{_seeds(alone)} of {name} alone: left out")
            common = [seed for seed in common if seed in seeds[arm] and seed in seeds[reference]]
            seeds = {name: {seed: found[seed] for seed in common} for name, found in seeds.items()}
        self._first = np.array(list(seeds[arm].values()), float)
        self._second = np.array(list(seeds[reference].values()), float)
        self.pairs = min(len(self._first), len(self._second))
        self.deviation = self.reference_deviation = self.p = self.low = self.high = self.sign_flip_p = self.least_p = (
            math.nan
        )
        self.mean = float(self._first.mean()) if len(self._first) else math.nan
        self.reference_mean = float(self._second.mean()) if len(self._second) else math.nan
        self.difference = self.mean - self.reference_mean
        if self.pairs and abs(self.difference) <= significance.tolerance(self._first, self._second):
            self.difference = 0.0
        if self.pairs < 2:
            self.notes.append("one seed tells nothing" if self.pairs else "no seed in common")
            return
        self._test()

    def _test(self) -> None:
        import numpy as np

        if self._sample:
            return self._test_sample(self._sample)
        if self.is_paired:
            differences = significance.differences(self._first, self._second)
            self.difference = float(differences.mean()) if self.difference else 0.0
            self.deviation = float(differences.std(ddof=1))
            if self.pairs in significance.SIGN_FLIP_SEEDS:
                self.sign_flip_p, self.least_p = significance.sign_flip(differences), 2.0 ** (1 - self.pairs)
            elif self.pairs > (most := significance.SIGN_FLIP_SEEDS[-1]):
                self.notes.append(f"no sign-flip test: it counts all signs of at most {most} seeds")
        else:
            self.deviation, self.reference_deviation = (float(one.std(ddof=1)) for one in (self._first, self._second))
        if np.fmax(self.deviation, self.reference_deviation) > significance.tolerance(self._first, self._second):
            self.p, self.low, self.high = self._t_test()
            return
        self.deviation = 0.0
        if not self.is_paired:
            self.reference_deviation = 0.0
        if not self.difference:
            self.p = 1.0
            self.notes.append("equal in every seed")
        elif self.is_paired:
            # A t test takes a spread of 0 for certainty; flipped signs do not.
            self.p = 2.0 ** (1 - self.pairs)
            self.notes.append("the same difference in every seed: no interval, and p is that of the sign-flip test")
        else:
            self.notes.append("no seed changes anything: no interval, and no test")

    def _test_sample(self, sample: Sampled) -> None:
        """Welch's test, of which the second mean's variance is that of the sample."""
        from scipy import stats

        self.deviation = float(self._first.std(ddof=1))
        error, freedom = power.welch(self.deviation, self.pairs, (sample.error, sample.clients))
        self.p = float(2 * stats.t.sf(abs(self.difference) / error, freedom))
        self.low, self.high = map(float, stats.t.interval(1 - LEVEL, freedom, self.difference, error))
        self.notes.append(f"{self.reference} is of {sample.clients:,} clients, a sample")

    def _t_test(self) -> tuple[float, float, float]:
        """Returns p, and the ends of the interval."""
        from statsmodels.stats import weightstats

        if self.is_paired:
            one = weightstats.DescrStatsW(significance.differences(self._first, self._second))
            low, high = one.tconfint_mean(LEVEL)
            return float(one.ttest_mean(0)[1]), float(low), float(high)
        two = weightstats.CompareMeans(weightstats.DescrStatsW(self._first), weightstats.DescrStatsW(self._second))
        low, high = two.tconfint_diff(LEVEL, usevar="unequal")
        return float(two.ttest_ind(usevar="unequal")[1]), float(low), float(high)

    def compared(self, tested: int, flipped: int, adjusted_p: float, flips_p: float, least_p: float) -> Comparison:
        """Returns the whole comparison, as one of so many that are tested, and so many of these by flipped signs."""
        is_judged = self.is_sound and math.isfinite(self.p)
        notes = list(self.notes)
        if least_p >= LEVEL:
            notes.append(f"the sign-flip test cannot reach 5% with {_number(self.pairs)} and {flipped} arms")
        return Comparison(
            arm=self.arm,
            reference=self.reference,
            kind=PAIRED if self.is_paired else UNPAIRED,
            pairs=self.pairs,
            mean=self.mean,
            reference_mean=self.reference_mean,
            difference=self.difference,
            low=self.low,
            high=self.high,
            p=self.p,
            adjusted_p=adjusted_p,
            sign_flip_p=self.sign_flip_p,
            sign_flip_adjusted_p=flips_p,
            sign_flip_least_p=least_p,
            superiority=significance.superiority(
                self._first, self._second, is_paired=self.is_paired, better=self._better
            ),
            seeds=(len(self._first), len(self._second)),
            deviation=self.deviation,
            reference_deviation=self.reference_deviation,
            sample=self._sample,
            level=LEVEL / tested,
            is_better=None if not self.difference or math.isnan(self.difference) else self._sign * self.difference > 0,
            is_judged=is_judged,
            word=TOLD_APART if is_judged and adjusted_p < LEVEL else NOT_TOLD_APART,
            notes=tuple(notes),
        )

    @property
    def _better(self) -> Better:
        return "up" if self._sign > 0 else "down"


def _finite(values: Mapping[int, float]) -> dict[int, float]:
    return {seed: value for seed, value in values.items() if math.isfinite(value)}


def _number(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
