"""Configurations compared with one reference over seeds: where every p value comes from.

Runs of equal seeds share cohorts, initial weights and draws, so their differences are paired: Student's t interval and
test of the mean difference, beside an exact test that flips signs. What no seed determines, as secret cohorts and the
system's noise, is unpaired: Welch's. Holm's step-down makes one family of all configurations against the reference.
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
EXACT = 1e-12  # Relative rounding error of numbers that count as equal.


@dataclasses.dataclass(frozen=True)
class Sampled:
    """A mean over a sample of clients.

    Attributes:
      mean: The estimate.
      error: Its standard error.
      clients: Clients in the sample.
    """

    mean: float
    error: float
    clients: int


Values = Mapping[str, Mapping[int, float]]  # By configuration and seed; NaN where a run diverged.
Landmark = float | Sampled | Mapping[int, float]  # Exact, of a sample of clients, or by seed.
LEVEL = round(1 - intervals.CONFIDENCE, 12)
PAIRED, UNPAIRED = "paired", "unpaired"
SIGNIFICANT, NOT_SIGNIFICANT = "significantly different", "not significantly different"


class Pair(NamedTuple):
    """A configuration and its reference.

    Attributes:
      arm: The configuration's name.
      values: Its values by seed.
      reference: Name of the reference.
      landmark: The reference's values by seed, or one number, exact or of a sample.
      is_paired: Whether seeds pair them.
    """

    arm: str
    values: Mapping[int, float]
    reference: str
    landmark: Landmark
    is_paired: bool = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """A configuration compared with a reference. What is unknown is NaN.

    Attributes:
      arm: The configuration's name.
      reference: That of the reference.
      kind: `PAIRED` or `UNPAIRED`.
      pairs: Seeds that both have and that both finished; of unpaired configurations, the fewer seeds of the two.
      mean: Mean of the configuration over the seeds that are compared.
      reference_mean: That of the reference.
      difference: The configuration's mean minus the reference's.
      low: Lower end of the difference's 95% interval, not adjusted for other configurations.
      high: Upper end.
      p: Of the two-sided t test: paired, or Welch's.
      adjusted_p: Holm-adjusted, over all configurations that are tested against the reference; NaN for others.
      sign_flip_p: Of the exact two-sided sign-flip test: paired, for `SIGN_FLIP_SEEDS` only.
      sign_flip_adjusted_p: Holm-adjusted likewise.
      sign_flip_least_p: The smallest adjusted p that so many seeds and configurations allow.
      superiority: Probability that the configuration is better than the reference, ties one half: the share of paired
        seeds, or of all pairs of a seed of each.
      seeds: Seeds of the configuration, and of the reference, that count.
      deviation: Standard deviation of the paired differences; of an unpaired configuration, and against a sample of
        clients, the configuration's own.
      reference_deviation: That of an unpaired reference.
      sample: The sample of clients; None for other references.
      level: Level of Holm's first step, at which power is computed: 5% by the number of tests.
      is_better: Whether it is better by its mean; None where the means are equal or unknown.
      is_judged: Whether there is a test; not of single seeds, and not where a run diverged.
      notes: Limits of the comparison, in words.
    """

    arm: str
    reference: str
    kind: str
    pairs: int
    mean: float
    reference_mean: float
    difference: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    adjusted_p: float = math.nan
    sign_flip_p: float = math.nan
    sign_flip_adjusted_p: float = math.nan
    sign_flip_least_p: float = math.nan
    superiority: float
    seeds: tuple[int, int]
    deviation: float = math.nan
    reference_deviation: float = math.nan
    sample: Sampled | None
    level: float = LEVEL
    is_better: bool | None
    is_judged: bool
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
    def is_significant(self) -> bool:
        """Whether the adjusted p of the t test is below 5%."""
        return self.is_judged and self.adjusted_p < LEVEL

    @property
    def word(self) -> str:
        """`SIGNIFICANT` or `NOT_SIGNIFICANT`."""
        return SIGNIFICANT if self.is_significant else NOT_SIGNIFICANT

    @property
    def wins(self) -> bool:
        """Whether the configuration is significantly better."""
        return self.is_significant and bool(self.is_better)

    @property
    def loses(self) -> bool:
        """Whether the reference is significantly better."""
        return self.is_significant and self.is_better is False


def compare(
    values: Values, reference: str, *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, Comparison]:
    """Returns the comparison of every other configuration with the reference, in their order.

    Args:
      values: A number for each configuration and seed. A seed whose number is not finite has diverged: it is left out,
        and the configuration is not judged.
      reference: The configuration that the others are compared with.
      unpaired: Configurations whose runs no seed determines. If it is the reference, nothing is paired.
      better: Whether more or less is better.

    Raises:
      ValueError: If a configuration that is named is missing.
    """
    if missing := [arm for arm in (reference, *unpaired) if arm not in values]:
        raise ValueError(f"There is no configuration {missing[0]}: there are {', '.join(values)}.")
    others = {arm: seeds for arm, seeds in values.items() if arm != reference}
    alone = others if reference in unpaired else [arm for arm in unpaired if arm != reference]
    return against(others, reference, values[reference], unpaired=alone, better=better)


def against(
    values: Values, name: str, landmark: Landmark, *, unpaired: Collection[str] = (), better: Better = "up"
) -> dict[str, Comparison]:
    """Returns the comparison of every configuration with a landmark.

    Args:
      values: As in `compare`.
      name: What the landmark is called.
      landmark: By seed, as a configuration's values; or a number, which pairs with every seed: a one-sample test.
        One that is `Sampled` is a mean with an error of its own: the test is Welch's.
      unpaired: Configurations that are not paired with the landmark's seeds.
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
            notes += (f"the sign-flip test cannot reach 5% with {_number(one.pairs)} and {flipped} configurations",)
        found.append(
            dataclasses.replace(
                one,
                adjusted_p=p,
                sign_flip_adjusted_p=flip,
                sign_flip_least_p=least_p,
                level=LEVEL / tested,
                notes=notes,
            )
        )
    return found


def _compared(pair: Pair, better: Better) -> Comparison:
    """Returns a comparison that is adjusted for no other."""
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
    if pairs < 2:
        test: dict[str, float] = {}
        notes.append("one seed has no test" if pairs else "no seed in common")
    elif sample:
        test = _t_test(first, difference, (sample.error, sample.clients))
        notes.append(f"{pair.reference} is of {sample.clients:,} clients, a sample")
    else:
        test = (_test_paired if is_paired else _test_unpaired)(first, second, difference, notes)
    test = {"difference": difference} | test
    is_better = (test["difference"] > 0) == (better == "up")
    return Comparison(
        arm=pair.arm,
        reference=pair.reference,
        kind=PAIRED if is_paired else UNPAIRED,
        pairs=pairs,
        mean=mean,
        reference_mean=reference_mean,
        superiority=superiority(first, second, is_paired=is_paired, better=better),
        seeds=(len(first), len(second)),
        sample=sample,
        is_better=None if not test["difference"] or math.isnan(test["difference"]) else is_better,
        is_judged=is_sound and math.isfinite(test.get("p", math.nan)),
        notes=tuple(notes),
        **test,
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


def _t_test(first: "np.ndarray", difference: float, other: tuple[float, int] = (0.0, 2)) -> dict[str, float]:
    """Returns interval and p of Student's test, or of Welch's.

    Args:
      first: Numbers, or paired differences.
      difference: Their mean minus what it is compared with.
      other: Of Welch's test, the second mean's standard error and its observations.
    """
    from scipy import stats

    deviation = float(first.std(ddof=1))
    error, freedom = power.welch(deviation, len(first), other)
    low, high = map(float, stats.t.interval(1 - LEVEL, freedom, difference, error))
    p = float(2 * stats.t.sf(abs(difference) / error, freedom))
    return {"difference": difference, "low": low, "high": high, "p": p, "deviation": deviation}


def _test_paired(first: "np.ndarray", second: "np.ndarray", difference: float, notes: list[str]) -> dict[str, float]:
    """Returns the fields of a paired `Comparison` that its tests give, and adds to the notes."""
    found, count = differences(first, second), len(first)
    test = {"difference": float(found.mean()) if difference else 0.0, "deviation": 0.0}
    if count in SIGN_FLIP_SEEDS:
        test |= {"sign_flip_p": sign_flip(found), "sign_flip_least_p": 2.0 ** (1 - count)}
    elif count > (most := SIGN_FLIP_SEEDS[-1]):
        notes.append(f"no sign-flip test: it counts all signs of at most {most} seeds")
    if found.std(ddof=1) > tolerance(first, second):
        return test | _t_test(found, test["difference"])
    if not test["difference"]:
        notes.append("equal in every seed")
        return test | {"p": 1.0}
    # A t test takes a spread of 0 for certainty; flipped signs do not.
    notes.append("the same difference in every seed: no interval, and p is that of the sign-flip test")
    return test | {"p": 2.0 ** (1 - count)}


def _test_unpaired(first: "np.ndarray", second: "np.ndarray", difference: float, notes: list[str]) -> dict[str, float]:
    """Returns likewise for a comparison that is not paired."""
    own, other = (float(one.std(ddof=1)) for one in (first, second))
    if max(own, other) > tolerance(first, second):
        test = _t_test(first, difference, (other / math.sqrt(len(second)), len(second)))
        return test | {"reference_deviation": other}
    notes.append("no seed changes anything: no interval, and no test" if difference else "equal in every seed")
    return {"deviation": 0.0, "reference_deviation": 0.0} | ({} if difference else {"p": 1.0})


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
    """Returns the largest difference of two configurations' numbers that rounding can explain."""
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
    symmetric about 0 where the configurations are equal. Its least value is 2^(1-n).

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
      first: Numbers of one configuration.
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
