"""Comparisons of configurations with their references over seeds. All tests between configurations are defined here.

Runs with the same seed share cohorts, initial weights and samples, so they are paired: the mean difference gets
Student's t interval and test. Runs with secret cohorts or secret noise are unpaired and use Welch's test. All
comparisons that are made together are one family for Holm's step-down correction.
"""

import bisect
import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from bandits.results.configuration import Configuration, ReferenceValue
from optimization.study import intervals

Better = Literal["up", "down"]
EXACT = 1e-12  # Relative rounding error up to which two numbers count as equal.


Reference = Configuration | ReferenceValue
SampledMean = tuple[float, int]  # Standard error of a mean, and its number of observations.
LEVEL = round(1 - intervals.CONFIDENCE, 12)
POWER = 0.8
MOST_SEEDS = 10_000
PAIRED, UNPAIRED = "paired", "unpaired"
SIGNIFICANT, NOT_SIGNIFICANT = "significantly different", "not significantly different"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """A configuration compared with a reference. Unknown values are NaN.

    Attributes:
      configuration: Name of the configuration.
      reference: Name of the reference.
      kind: `PAIRED` or `UNPAIRED`.
      pairs: Number of seeds that both finished. For unpaired configurations, the smaller of the two numbers of seeds.
      mean: Mean of the configuration over the compared seeds.
      reference_mean: Mean of the reference.
      difference: The configuration's mean minus the reference's.
      low: Lower end of the difference's 95% interval, not adjusted for other configurations.
      high: Upper end of the same interval.
      p: P value of a two-sided t test: paired, one-sample or Welch's. If all paired differences are equal, that of the
        sign test.
      adjusted_p: P value after Holm's correction for all tests that are made together; NaN without a test.
      superiority: Probability that the configuration is better than the reference, where a tie counts one half. It is
        estimated over paired seeds, or for unpaired configurations over all combinations of their seeds.
      seeds: Number of included seeds of the configuration, and of the reference.
      deviation: Standard deviation of the paired differences. If the configuration is unpaired, or the reference is a
        sample of clients, the standard deviation of the configuration itself.
      reference_deviation: Standard deviation of an unpaired reference.
      sample: The reference, if it was estimated from a sample of clients; otherwise None.
      level: Level of Holm's first step, which is used to compute power: 5% divided by the number of tests.
      is_better: Whether the configuration has the better mean; None if the means are equal or unknown.
      is_judged: Whether there is a test. There is none for fewer than two seeds, if a run diverged or has no value, or
        if unpaired configurations differ but do not vary over seeds.
      notes: Limits of the comparison, in words.
    """

    configuration: str
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
    superiority: float
    seeds: tuple[int, int]
    deviation: float = math.nan
    reference_deviation: float = math.nan
    sample: ReferenceValue | None
    level: float = LEVEL
    is_better: bool | None
    is_judged: bool
    notes: tuple[str, ...]

    @functools.cached_property
    def detectable(self) -> float:
        """Minimum detectable difference with this number of seeds; see `minimum_detectable`."""
        seeds, others = self.seeds
        other = None if self.kind == PAIRED else (self.reference_deviation / math.sqrt(others or 1), others)
        return minimum_detectable(self._tested_deviation, seeds, self.level, other=self._sample or other)

    @functools.cached_property
    def seeds_needed(self) -> float:
        """Seeds required per configuration to detect the observed difference; see `seeds_required`."""
        others = None if self.kind == PAIRED else self.reference_deviation
        return seeds_required(self.difference, self._tested_deviation, self.level, others=others, sample=self._sample)

    @property
    def _tested_deviation(self) -> float:
        return self.deviation if self.is_judged else math.nan

    @property
    def _sample(self) -> SampledMean | None:
        return (self.sample.error, self.sample.clients) if self.sample else None

    @property
    def interval(self) -> intervals.Interval:
        """The difference with its interval."""
        return intervals.Interval(self.difference, self.low, self.high, self.pairs)

    def within(self, width: float) -> "Comparison":
        """Limits the interval to the largest possible difference; see `Interval.within`."""
        ends = self.interval.within(-width, width)
        return dataclasses.replace(self, low=ends.low, high=ends.high)

    @property
    def is_significant(self) -> bool:
        """Whether the adjusted p value is below 5%."""
        return self.is_judged and self.adjusted_p < LEVEL

    @property
    def significance(self) -> str:
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
    pairs: Iterable[tuple[Configuration, Reference]], metric: str, better: Better | None = None
) -> list[Comparison]:
    """Compares each configuration with its reference. All comparisons are one family for Holm's correction.

    Example:
      >>> compare([(softmax, greedy), (falcon, greedy)], metrics.AVERAGE_REWARD)

    Args:
      pairs: Configurations and their references. If the reference is a configuration, the two are paired by seed; if
        one of them is `unpaired`, Welch's test is used. If the reference is a number, the test is a one-sample test, or
        Welch's test if the number has a standard error. If a run diverged or has no value, its seed is left out and
        there is no verdict.
      metric: The metric.
      better: Whether larger or smaller values are better (default: see `direction`).

    Returns:
      The comparisons, in the order of the pairs.
    """
    better = direction(metric, better)
    singles = [_compared(configuration, reference, metric, better) for configuration, reference in pairs]
    # Holm's correction only includes comparisons that have a test.
    p_values = holm([comparison.p if comparison.is_judged else math.nan for comparison in singles])
    level = LEVEL / max(1, sum(map(math.isfinite, p_values)))
    return [
        dataclasses.replace(comparison, adjusted_p=p, level=level)
        for comparison, p in zip(singles, p_values, strict=True)
    ]


def direction(metric: str, better: Better | None = None) -> Better:
    """Returns `better` if it is set, otherwise the direction that the metric declares, otherwise `up`."""
    return better or getattr(metric, "better", None) or "up"


def _compared(configuration: Configuration, reference: Reference, metric: str, better: Better) -> Comparison:
    """Compares one pair without Holm's correction."""
    sample = reference if isinstance(reference, ReferenceValue) and reference.clients else None
    is_paired = isinstance(reference, ReferenceValue) or not (configuration.unpaired or reference.unpaired)
    values, others, notes, is_sound = _of_common_seeds(configuration, reference, metric, is_paired=is_paired)
    first, second = np.array(list(values.values()), float), np.array(list(others.values()), float)
    pairs = min(len(first), len(second))
    mean, reference_mean = (float(numbers.mean()) if len(numbers) else math.nan for numbers in (first, second))
    difference = mean - reference_mean
    if pairs and abs(difference) <= tolerance(first, second):
        difference = 0.0
    if pairs < 2:
        test: dict[str, float] = {}
        notes.append("only one seed to compare" if pairs else "no seed to compare")
    elif sample:
        test = _t_test(first, difference, (sample.error, sample.clients))
        notes.append(f"{sample.name} was estimated on a sample of {sample.clients:,} clients")
    else:
        test = (_test_paired if is_paired else _test_unpaired)(first, second, difference, notes)
    test = {"difference": difference} | test
    is_better = (test["difference"] > 0) == (better == "up")
    comparison = Comparison(
        configuration=configuration.name,
        reference=reference.name,
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
    bounds = [one.bounds(metric) for one in (configuration, reference) if isinstance(one, Configuration)]
    return comparison.within(max(high for _, high in bounds) - min(low for low, _ in bounds))


def _of_common_seeds(
    configuration: Configuration, reference: Reference, metric: str, *, is_paired: bool
) -> tuple[dict[int, float], dict[int, float], list[str], bool]:
    """Selects the values to compare.

    Returns:
      The finite values of both by seed, limited to common seeds if paired; notes on what was left out; and whether all
      runs have a value.
    """
    notes = []
    both = [(one, one.by_seed(metric)) for one in (configuration, reference) if isinstance(one, Configuration)]
    finite = [{seed: value for seed, value in numbers.items() if math.isfinite(value)} for _, numbers in both]
    for (owner, numbers), known in zip(both, finite, strict=True):
        lost = numbers.keys() - known.keys()
        for seeds, what in ((lost & owner.diverged, "diverged with"), (lost - owner.diverged, "has no value for")):
            if seeds:
                notes.append(f"{owner.name} {what} {_seeds(sorted(seeds))}: not tested")
    is_sound = not notes
    if isinstance(reference, ReferenceValue):
        return finite[0], dict.fromkeys(finite[0], reference.mean), notes, is_sound
    if is_paired:
        in_both = set.intersection(*(set(numbers) for _, numbers in both))
        for owner, numbers in both:
            if unmatched := sorted(set(numbers) - in_both):
                notes.append(f"{_seeds(unmatched)} left out: only {owner.name} has a run")
        common = sorted(set.intersection(*map(set, finite)))
        finite = [{seed: numbers[seed] for seed in common} for numbers in finite]
    return finite[0], finite[1], notes, is_sound


def _t_test(first: np.ndarray, difference: float, other: SampledMean = (0.0, 2)) -> dict[str, float]:
    """Returns the interval and p value of Student's or Welch's t test.

    Args:
      first: float [seeds], values of the configuration, or paired differences.
      difference: Mean of the values minus the mean of the reference, or the mean of the paired differences.
      other: For Welch's test, the standard error of the reference's mean and its number of observations. If the error
        is 0, Welch's test is the same as Student's.
    """
    from scipy import stats

    deviation = float(first.std(ddof=1))
    error, freedom = _welch(deviation, len(first), other)
    low, high = map(float, stats.t.interval(1 - LEVEL, freedom, difference, error))
    p = float(2 * stats.t.sf(abs(difference) / error, freedom))
    return {"difference": difference, "low": low, "high": high, "p": p, "deviation": deviation}


def _test_paired(first: np.ndarray, second: np.ndarray, difference: float, notes: list[str]) -> dict[str, float]:
    """Returns the test results of a paired `Comparison`, and adds to the notes."""
    paired_differences, count = differences(first, second), len(first)
    test = {"difference": float(paired_differences.mean()) if difference else 0.0, "deviation": 0.0}
    if paired_differences.std(ddof=1) > tolerance(first, second):
        return test | _t_test(paired_differences, test["difference"])
    if not test["difference"]:
        notes.append("equal in every seed")
        return test | {"p": 1.0}
    # With a standard deviation of 0, a t test has p = 0 for any number of seeds.
    notes.append("the same difference in every seed: no interval, and p is that of the sign test")
    return test | {"p": 2.0 ** (1 - count)}


def _test_unpaired(first: np.ndarray, second: np.ndarray, difference: float, notes: list[str]) -> dict[str, float]:
    """Returns the test results of an unpaired `Comparison`, and adds to the notes."""
    own, other = (float(one.std(ddof=1)) for one in (first, second))
    if max(own, other) > tolerance(first, second):
        test = _t_test(first, difference, (other / math.sqrt(len(second)), len(second)))
        return test | {"reference_deviation": other}
    notes.append("every seed gives the same value: no interval, no test" if difference else "equal in every seed")
    return {"deviation": 0.0, "reference_deviation": 0.0} | ({} if difference else {"p": 1.0})


def _seeds(seeds: Sequence[int]) -> str:
    return f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p values by Holm's step-down. NaN means that there is no test, and stays NaN."""
    # The function multipletests of statsmodels runs the garbage collector, which takes seconds if TensorFlow is loaded.
    adjusted = np.array(p_values, float)
    order = np.argsort(adjusted)[: int(np.isfinite(adjusted).sum())]
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(adjusted[order] * np.arange(len(order), 0, -1)))
    return adjusted.tolist()


def tolerance(first: np.ndarray, second: np.ndarray) -> float:
    """Largest difference between the values of two configurations that rounding can explain."""
    return EXACT * float(max(np.abs(first).max(), np.abs(second).max()))


def differences(first: np.ndarray, second: np.ndarray, *, is_paired: bool = True) -> np.ndarray:
    """Returns first minus second, with rounding errors set to 0: [n] if paired, or [n, m] for all combinations."""
    result = np.subtract(first, second) if is_paired else np.subtract.outer(first, second)
    return np.where(np.abs(result) <= tolerance(first, second), 0.0, result)


def superiority(first: np.ndarray, second: np.ndarray, *, is_paired: bool, better: Better = "up") -> float:
    """Returns the win rate: the fraction of pairs in which the first is better. A tie counts one half.

    Args:
      first: float [n], values of one configuration.
      second: float [m], values of the other; in the same order if they are paired.
      is_paired: Whether the values are paired. Otherwise, all combinations count, as in Mann and Whitney's U / (n m).
      better: Whether larger or smaller values are better.
    """
    if not len(first) or not len(second):
        return math.nan
    signs = np.sign(differences(first, second, is_paired=is_paired)) * (1 if better == "up" else -1)
    return float((1 + signs).mean() / 2)


def minimum_detectable(deviation: float, seeds: int, alpha: float, *, other: SampledMean | None = None) -> float:
    """Returns the smallest true difference that a two-sided test detects with power `POWER`.

    Args:
      deviation: Standard deviation of the paired differences, or of the first of two unpaired configurations.
      seeds: Number of pairs, or for unpaired configurations the first one's number of seeds.
      alpha: Level of the test.
      other: For Welch's test, the standard error of the reference's mean and its number of observations.

    Returns:
      The difference, in the units of the deviation; NaN without a test.
    """
    from scipy import optimize, stats

    if not _is_tested(deviation, seeds, other):
        return math.nan
    error, freedom = _welch(deviation, seeds, other or (0.0, 2))
    most = 10 + 2 * stats.t.isf(alpha / 2, freedom)
    return error * float(optimize.brentq(lambda shift: _power(shift, freedom, alpha) - POWER, 0, most, rtol=1e-10))


def seeds_required(
    difference: float, deviation: float, alpha: float, *, others: float | None = None, sample: SampledMean | None = None
) -> float:
    """Returns the number of seeds per configuration that are required to detect a difference with power `POWER`.

    Args:
      difference: The true difference.
      deviation: As in `minimum_detectable`.
      alpha: Level of the test.
      others: For unpaired configurations, the standard deviation of the other one.
      sample: If the reference is a mean over a sample of clients, its standard error and number of clients. More seeds
        do not reduce that error.

    Returns:
      A whole number of at least 2; infinity above `MOST_SEEDS`; NaN if the difference or the deviation is unknown, or
      if neither mean has a sampling error.
    """
    if not math.isfinite(difference) or not _is_tested(deviation, 2, (others, 2) if others is not None else sample):
        return math.nan

    def detects(seeds: int) -> bool:
        other = sample if others is None else (others / math.sqrt(seeds), seeds)
        error, freedom = _welch(deviation, seeds, other or (0.0, 2))
        return _power(abs(difference) / error, freedom, alpha) >= POWER

    seeds = 2 + bisect.bisect_left(range(2, MOST_SEEDS + 1), True, key=detects)
    return seeds if seeds <= MOST_SEEDS else math.inf


def _welch(deviation: float, seeds: int, other: SampledMean) -> tuple[float, float]:
    """Returns Welch's standard error and degrees of freedom for a mean over seeds minus another mean.

    Args:
      deviation: Standard deviation over seeds.
      seeds: Number of seeds, at least 2.
      other: Standard error of the other mean and its number of observations.
    """
    of_seeds, (error, observations) = deviation**2 / seeds, other
    variance = of_seeds + error**2
    return math.sqrt(variance), variance**2 / (of_seeds**2 / (seeds - 1) + error**4 / (observations - 1))


def _power(shift: float, freedom: float, alpha: float) -> float:
    """Returns the power of a two-sided t test, from the noncentral t distribution.

    The result is an approximation for Welch's test.

    Args:
      shift: True difference in units of the standard error, at least 0.
      freedom: Degrees of freedom. For Welch's test, they are computed from the true variances.
      alpha: Level of the test.
    """
    from scipy import stats

    critical = stats.t.isf(alpha / 2, freedom)
    # Some versions of SciPy return NaN if the probability of the wrong tail is below 1e-16.
    wrong = stats.nct.cdf(-critical, freedom, shift)
    return float(stats.nct.sf(critical, freedom, shift) + (0.0 if math.isnan(wrong) else wrong))


def _is_tested(deviation: float, seeds: int, other: SampledMean | None) -> bool:
    """Whether there is a test: at least two seeds, and a deviation or an error that is not 0."""
    if seeds < 2 or not deviation >= 0:
        return False
    return deviation > 0 if other is None else other[1] > 1 and deviation + other[0] > 0
