"""Configurations compared with one reference over seeds: where every p value comes from.

Runs of equal seeds share cohorts, initial weights and draws, so their differences are paired: Student's t interval and
test of the mean difference, beside an exact test that flips signs. What no seed determines, as secret cohorts and the
system's noise, is unpaired: Welch's. Holm's step-down makes one family of all arms against the reference.
"""

import dataclasses
import functools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from bandits.results import power
from optimization.study import intervals

if TYPE_CHECKING:
    import numpy as np

Better = Literal["up", "down"]
SIGN_FLIP_SEEDS = range(6, 25)  # Fewer cannot reach 5%; more would be more than 8,388,608 sums.
EXACT = 1e-12  # Relative: what floating point makes of equal numbers.


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
      sign_flip_p: Of the exact two-sided sign-flip test; paired, for `SIGN_FLIP_SEEDS` alone.
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
    """Returns the comparisons of pairs, which Holm's step-down takes for one family."""
    singles = [_compared(pair, better) for pair in pairs]
    # What is not judged is no test, and makes the others' no stricter.
    p_values, flips, least = (
        holm([getattr(one, name) if one.is_judged else math.nan for one in singles])
        for name in ("p", "sign_flip_p", "sign_flip_least_p")
    )
    tested, flipped = (max(1, sum(map(math.isfinite, some))) for some in (p_values, least))
    found = []
    for one, p, flip, least_p in zip(singles, p_values, flips, least, strict=True):
        notes = one.notes
        if least_p >= LEVEL:
            notes += (f"the sign-flip test cannot reach 5% with {_number(one.pairs)} and {flipped} arms",)
        found.append(
            dataclasses.replace(
                one,
                adjusted_p=p,
                sign_flip_adjusted_p=flip,
                sign_flip_least_p=least_p,
                level=LEVEL / tested,
                word=TOLD_APART if one.is_judged and p < LEVEL else NOT_TOLD_APART,
                notes=notes,
            )
        )
    return found


def _compared(pair: Pair, better: Better) -> Comparison:
    """Returns a comparison before the others of its family are known: it is adjusted for none."""
    import numpy as np

    sample = pair.landmark if isinstance(pair.landmark, Sampled) else None
    number = pair.landmark.mean if isinstance(pair.landmark, Sampled) else pair.landmark
    others = number if isinstance(number, Mapping) else dict.fromkeys(pair.values, number)
    is_paired = pair.is_paired or not isinstance(pair.landmark, Mapping)
    own, others, notes, is_sound = _of_common_seeds(pair, others, is_paired)
    first, second = np.array(list(own.values()), float), np.array(list(others.values()), float)
    pairs = min(len(first), len(second))
    mean, reference_mean = (float(one.mean()) if len(one) else math.nan for one in (first, second))
    difference = mean - reference_mean
    if pairs and abs(difference) <= tolerance(first, second):
        difference = 0.0
    test = _Test(difference)
    if pairs < 2:
        notes.append("one seed tells nothing" if pairs else "no seed in common")
    elif sample:
        test = _test_sample(first, difference, sample)
        notes.append(f"{pair.reference} is of {sample.clients:,} clients, a sample")
    else:
        test = _test_paired(first, second, difference) if is_paired else _test_unpaired(first, second, difference)
        notes += test.notes
    is_better = (test.difference > 0) == (better == "up")
    return Comparison(
        arm=pair.arm,
        reference=pair.reference,
        kind=PAIRED if is_paired else UNPAIRED,
        pairs=pairs,
        mean=mean,
        reference_mean=reference_mean,
        difference=test.difference,
        low=test.low,
        high=test.high,
        p=test.p,
        adjusted_p=math.nan,
        sign_flip_p=test.sign_flip_p,
        sign_flip_adjusted_p=math.nan,
        sign_flip_least_p=2.0 ** (1 - pairs) if math.isfinite(test.sign_flip_p) else math.nan,
        superiority=superiority(first, second, is_paired=is_paired, better=better),
        seeds=(len(first), len(second)),
        deviation=test.deviation,
        reference_deviation=test.reference_deviation,
        sample=sample,
        level=LEVEL,
        is_better=None if not test.difference or math.isnan(test.difference) else is_better,
        is_judged=is_sound and math.isfinite(test.p),
        word=NOT_TOLD_APART,
        notes=tuple(notes),
    )


def _of_common_seeds(
    pair: Pair, others: Mapping[int, float], is_paired: bool
) -> tuple[dict[int, float], dict[int, float], list[str], bool]:
    """Returns the finite numbers of both, of common seeds if paired; what was left out, and whether none diverged."""
    notes, is_sound = [], True
    both = {pair.arm: pair.values, pair.reference: others}
    finite = {name: {seed: one for seed, one in some.items() if math.isfinite(one)} for name, some in both.items()}
    for name, some in both.items():
        if lost := sorted(set(some) - set(finite[name])):
            notes.append(f"{name} diverged with {_seeds(lost)}: not judged")
            is_sound = False
    own, others = finite.values()
    if is_paired:
        in_both = set.intersection(*map(set, both.values()))
        for name, some in both.items():
            if alone := sorted(set(some) - in_both):
                notes.append(f"{_seeds(alone)} of {name} alone: left out")
        common = sorted(set(own) & set(others))
        own, others = ({seed: some[seed] for seed in common} for some in (own, others))
    return own, others, notes, is_sound


class _Test(NamedTuple):
    """The results of one t test; what there is not is not a number. The fields are those of `Comparison`."""

    difference: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    sign_flip_p: float = math.nan
    deviation: float = math.nan
    reference_deviation: float = math.nan
    notes: Sequence[str] = ()


def _test_sample(first: "np.ndarray", difference: float, sample: Sampled) -> _Test:
    """Returns Welch's test, of which the second mean's variance is that of the sample."""
    from scipy import stats

    deviation = float(first.std(ddof=1))
    error, freedom = power.welch(deviation, len(first), (sample.error, sample.clients))
    p = float(2 * stats.t.sf(abs(difference) / error, freedom))
    low, high = map(float, stats.t.interval(1 - LEVEL, freedom, difference, error))
    return _Test(difference, low, high, p, deviation=deviation)


def _test_paired(first: "np.ndarray", second: "np.ndarray", difference: float) -> _Test:
    from statsmodels.stats import weightstats

    found, count, notes = differences(first, second), len(first), []
    test = _Test(float(found.mean()) if difference else 0.0)
    if count in SIGN_FLIP_SEEDS:
        test = test._replace(sign_flip_p=sign_flip(found))
    elif count > (most := SIGN_FLIP_SEEDS[-1]):
        notes.append(f"no sign-flip test: it counts all signs of at most {most} seeds")
    deviation = float(found.std(ddof=1))
    if deviation > tolerance(first, second):
        one = weightstats.DescrStatsW(found)
        low, high = map(float, one.tconfint_mean(LEVEL))
        return test._replace(low=low, high=high, p=float(one.ttest_mean(0)[1]), deviation=deviation, notes=notes)
    if not test.difference:
        return test._replace(p=1.0, deviation=0.0, notes=[*notes, "equal in every seed"])
    # A t test takes a spread of 0 for certainty; flipped signs do not.
    notes.append("the same difference in every seed: no interval, and p is that of the sign-flip test")
    return test._replace(p=2.0 ** (1 - count), deviation=0.0, notes=notes)


def _test_unpaired(first: "np.ndarray", second: "np.ndarray", difference: float) -> _Test:
    from statsmodels.stats import weightstats

    own, other = (float(one.std(ddof=1)) for one in (first, second))
    if max(own, other) > tolerance(first, second):
        both = weightstats.CompareMeans(weightstats.DescrStatsW(first), weightstats.DescrStatsW(second))
        low, high = map(float, both.tconfint_diff(LEVEL, usevar="unequal"))
        p = float(both.ttest_ind(usevar="unequal")[1])
        return _Test(difference, low, high, p, deviation=own, reference_deviation=other)
    if not difference:
        return _Test(difference, math.nan, math.nan, 1.0, math.nan, 0.0, 0.0, ["equal in every seed"])
    notes = ["no seed changes anything: no interval, and no test"]
    return _Test(difference, deviation=0.0, reference_deviation=0.0, notes=notes)


def _number(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


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


def expected_best(values: Sequence[float], budget: int, *, better: Better = "up") -> float:
    """Returns the expected best value of `budget` of n points drawn without replacement.

    With v_(1) <= ... <= v_(n): sum over i of v_(i) C(i - 1, b - 1) / C(n, b), the unbiased estimator in Tang et al.,
    "Showing Your Work Doesn't Always Work", 2020. Strategies with more parameters have more points; at one budget all
    of them get as many draws.

    Args:
      values: A value a point; one that is not finite has diverged, and counts as the worst that is.
      budget: How many are drawn, b, of 1 to n.
      better: Whether more or less is better.

    Returns:
      The expectation; not a number, if no value is finite.

    Raises:
      ValueError: If the budget is not from 1 to n.
    """
    count, sign = len(values), 1 if better == "up" else -1
    if not 1 <= budget <= count:
        raise ValueError(f"A budget of {budget} must be 1 to the {count} points that there are.")
    finite = [sign * value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan
    ordered = sorted([*finite, *[min(finite)] * (count - len(finite))])
    draws = math.comb(count, budget)
    return sign * sum(value * (math.comb(below, budget - 1) / draws) for below, value in enumerate(ordered))
