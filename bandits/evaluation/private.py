"""Values of policies from one noised sum over clients: the release, what it costs, and intervals that know the noise.

All candidates and all numbers that intervals need are one vector a client (`private_sums`), clipped jointly, summed and
released once with Gaussian noise. What is fitted on the same clients, such as the model of a doubly robust estimator,
is a release too and is composed; parameters of estimators and all bounds are fixed beforehand. Nothing else of the log
may be shown: neither its overlap, nor its checks, nor a bootstrap.

The estimate is then the one of weights clipped to W and of clients with at most m rows, and clients whose vector is
longer than the norm weigh less in it. Intervals are extended by what clipped weights may leave out. Nothing here
imports TensorFlow.
"""

import dataclasses
import math
import pathlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from bandits.evaluation import private_sums, totals
from bandits.evaluation.estimators import Estimator
from bandits.evaluation.private_sums import Query
from data.errors import UsageError
from data.reward_bounds import UNIT, RewardBounds
from optimization.privacy import calibration, ledger, mechanisms
from optimization.study import intervals

# Of the probability that an interval misses, the part left to noised products that make a variance too small.
_VARIANCE_SHARE = 0.2
_RELEASE = "client sums of a log"
_COVERS = (
    "the values and intervals of these queries; not the log, which is as private as the data and outside every "
    "guarantee (--log_interactions), and nothing else that is computed from it"
)
_ASSUMED = (
    "neighbouring logs differ in one client's rows alone: what a client's data changed in others' rows, through the "
    "models that acted, is for the guarantee of the run that wrote the log",
    "the number of clients, and the names and number of the actions, are public",
    "target policies, estimators with their parameters, and all bounds were fixed without a query on these clients, "
    "unless they are counted above",
    "the generator's numbers are taken for random, and floating-point numbers for real ones",
)
_CLIPPED = ("ips", "snips", "dr")  # What clipped weights leave out has known bounds.
_SECRET = "nobody learns which clients a query has sampled"


class Value(NamedTuple):
    """A candidate's value, as noise leaves it.

    Attributes:
      candidate: The policy.
      estimator: The estimator.
      interval: The estimate with clipped weights, which may lie outside [0, 1], and a 95% interval within [0, 1] for
        the value without clipping, over clients and noise.
      noise: Standard deviation of the estimate's noise.
      lost: Estimated share of the target's probability that clipped weights leave out: 1 less the mean weight.
      bounds: Bounds of the rewards, in the unit of all numbers but `lost`.
    """

    candidate: str
    estimator: Estimator
    interval: intervals.Interval
    noise: float
    lost: float
    bounds: RewardBounds = UNIT

    @property
    def is_vacuous(self) -> bool:
        """Whether the interval is all that is possible."""
        return self.interval.low <= self.bounds.low and self.interval.high >= self.bounds.high

    @property
    def is_biased(self) -> bool:
        """Whether its bias is unknown: then its interval is not one of the policy's value."""
        return self.estimator.name not in ("logged", *_CLIPPED)

    @property
    def bias(self) -> tuple[float, float]:
        """By how much the value without clipping can exceed the estimated one: from, to; of exact propensities.

        With s = `lost` and rewards in [0, 1]: IPS falls short by 0 to s, DR errs by s either way, and SNIPS of value v,
        which is IPS over 1 - s, by -s v to s (1 - v). Of others, whose own parameters bias them, it is not known: not a
        number.
        """
        value = float(self.bounds.to_unit(np.array(self.interval.mean)))
        low, high = _bias(self.estimator.name, min(max(self.lost, 0.0), 1.0), value)
        return low * self.bounds.span, high * self.bounds.span

    def in_unit_of(self, bounds: RewardBounds) -> "Value":
        """The value of rewards that were mapped to [0, 1], in the user's unit."""
        interval = self.interval.scaled(bounds.span, bounds.low)
        return self._replace(interval=interval, noise=self.noise * bounds.span, bounds=bounds)


class Paid(NamedTuple):
    """What is spent on some clients.

    Attributes:
      whole: All of it as one mechanism, at the delta of the last release.
      rounds: The mechanism's rounds.
      looks: Releases of sums.
      models: What else was released, in words.
    """

    whole: mechanisms.Mechanism
    rounds: int
    looks: int
    models: tuple[str, ...]

    def report(self) -> dict[str, Any]:
        """The guarantee in JSON's types, with its sentences."""
        report = self.whole.report(self.rounds)
        assumes = [*_ASSUMED, *[_SECRET] * (self.whole.sampling == "poisson")]
        epsilons = [
            f"epsilon {mechanisms.digits(each['epsilon_rdp'])} by RDP"
            + (f", {mechanisms.digits(each['epsilon_pld'])} by PLD," if each["epsilon_pld"] is not None else "")
            + f" ({each['neighbours']})"
            for each in report["guarantees"]
        ]
        of = " and ".join([f"{self.looks:,} {'queries' if self.looks > 1 else 'query'}", *self.models])
        if epsilons:
            apart = f", apart from {'; '.join(self.whole.left_out)}" if self.whole.left_out else ""
            at = f"at delta {report['delta']:.3g}{apart}"
            summary = f"Privacy: {'; '.join(epsilons)}, {at}, for {of} on these clients together."
        else:
            summary = report["summary"]
        return {
            **{name: report[name] for name in ("epsilon", "delta", "unit", "guarantees", "warnings", "mechanism")},
            "looks": self.looks,
            "models": list(self.models),
            "covers": _COVERS,
            "apart_from": list(self.whole.left_out),
            "assumes": assumes,
            "summary": summary,
        }


def mechanism(
    clients: int,
    noise_multiplier: float,
    *,
    delta: float | None = None,
    clients_per_look: int | None = None,
    accountant: str = "rdp",
) -> mechanisms.Mechanism:
    """Accounting of one release.

    Args:
      clients: Of the log; their number is public.
      noise_multiplier: Standard deviation of the noise on each number of the sum, in clip norms.
      delta: As for training: None for 1 / clients^1.1.
      clients_per_look: Expected size of a secret Poisson sample of clients, another at each look, which amplifies;
        None for all of them, without amplification.
      accountant: One of `mechanisms.ACCOUNTANTS`.

    Raises:
      ValueError: If a number is out of range.
    """
    # All clients at each look: nobody's turn is random, and a client's absence leaves the others as they are.
    return mechanisms.Mechanism(
        kind="dpsgd",
        noise_multiplier=noise_multiplier,
        population=clients,
        cohort=clients_per_look or clients,
        sampling="poisson" if clients_per_look else "cyclic",
        delta=delta,  # type: ignore[arg-type]
        accountant=accountant,
    )


def calibrated(
    mechanism: mechanisms.Mechanism, looks: int, target_epsilon: float, models: Sequence[ledger.Spent] = ()
) -> mechanisms.Mechanism:
    """Mechanism with the least noise for which several queries and the models cost at most an epsilon.

    Args:
      mechanism: The mechanism; its noise multiplier is not used.
      looks: Releases.
      target_epsilon: Epsilon of the whole.
      models: What is fitted on the same clients.

    Raises:
      UsageError: If no noise does that.
    """
    whole, rounds = ledger.composed(
        [*models, ledger.Spent(_RELEASE, dataclasses.replace(mechanism, noise_multiplier=1.0), looks)]
    )
    try:
        noise = calibration.calibrate(whole, rounds, target_epsilon)
    except ValueError as error:
        raise UsageError(f"--target_epsilon={target_epsilon:g} {error}.") from error
    return dataclasses.replace(mechanism, noise_multiplier=noise)


def fitted(trained: mechanisms.Mechanism, rounds: int) -> ledger.Spent:
    """Privacy spent by one private training, under a random name; call once per training and reuse.

    A digest of the model's predictions would tell of the contexts that they are for.

    Args:
      trained: Of `reward_models.mechanism`.
      rounds: Its rounds.
    """
    return ledger.Spent(f"the reward model {secrets.token_hex(6)}", trained, rounds)


def check_models(estimators: Sequence[Estimator], models: Sequence[ledger.Spent]) -> None:
    """Refuses models without a guarantee, and estimators that would need one.

    Raises:
      UsageError: If it refuses.
    """
    needing = [estimator.name for estimator in estimators if estimator.needs_model]
    if needing and not models:
        raise UsageError(
            f"--private: the model of {', '.join(needing)} is fitted on the same clients, and so is a release of its "
            "own: train it with differential privacy (--model_noise_multiplier), or take --estimators=ips,snips."
        )
    for model in models:
        if reason := model.mechanism.reason:
            raise UsageError(
                f"--private: {model.what} was trained on clients and has no guarantee, because {reason}: train it with "
                "differential privacy, or say that no client of it needs protection (--policy_is_public)."
            )


def pay(
    path: pathlib.Path,
    mechanism: mechanisms.Mechanism,
    models: Sequence[ledger.Spent] = (),
    *,
    target_epsilon: float | None = None,
) -> "Paid":
    """Writes a release into the ledger, before it is made, and returns what is spent with it.

    Args:
      path: The ledger of these clients; made if there is none.
      mechanism: What the release is accounted as.
      models: What was fitted on the same clients. Each counts once, whatever looks use it, and so needs a name that no
        other training has; see `fitted`.
      target_epsilon: Epsilon that may be spent in all; None for any.

    Raises:
      UsageError: If that would spend more; nothing is written then.
    """
    with ledger.opened(path) as book:
        new = [*(model for model in models if model not in book.entries), ledger.Spent(_RELEASE, mechanism)]
        whole, rounds = ledger.composed([*book.entries, *new])
        if target_epsilon is not None and (spent := whole.epsilon(rounds)) > target_epsilon * (1 + 1e-9):
            raise UsageError(
                f"--target_epsilon={target_epsilon:g} does not allow this query: with the queries in {path.name} it "
                f"would spend {spent:.4g}. Nothing was released. Plan several queries beforehand with --looks."
            )
        book.add(new)
        looks = sum(entry.rounds for entry in book.entries if entry.what == _RELEASE)
        return Paid(whole, rounds, looks, tuple(entry.what for entry in book.entries if entry.what != _RELEASE))


def release(vectors: np.ndarray, query: Query, mechanism: mechanisms.Mechanism) -> np.ndarray:
    """Noisy sum over clients, float64 [size], by NumPy; every call spends privacy.

    Noise and sample are the system's entropy, number by number: nothing repeats them. As everywhere in this program,
    what floating-point numbers give away of a sum by their last bits (Mironov 2012) is not covered.

    Args:
      vectors: Of all clients, float64 [clients, size].
      query: What they are.
      mechanism: What it is accounted as.
    """
    if mechanism.sampling == "poisson":
        coin = secrets.SystemRandom().random
        vectors = vectors[[coin() < mechanism.cohort / mechanism.population for _ in vectors]]
    return add_noise(private_sums.clipped(vectors, query.norm).sum(axis=0), query, mechanism)


def add_noise(
    total: np.ndarray,
    query: Query,
    mechanism: mechanisms.Mechanism,
    gauss: Callable[[float, float], float] | None = None,
) -> np.ndarray:
    """Sum of clipped vectors with a mechanism's noise, float64 [size].

    Args:
      total: The sum.
      query: What was asked.
      mechanism: The mechanism.
      gauss: Draws a number of a mean and a standard deviation, in simulations that are to be repeated: it guarantees
        nothing. None for the system's entropy.
    """
    draw, deviation = gauss or secrets.SystemRandom().gauss, mechanism.noise_multiplier * query.norm
    return total + np.array([draw(0.0, deviation) for _ in total])


def values(noised: np.ndarray, query: Query, mechanism: mechanisms.Mechanism) -> list[Value]:
    """Each candidate's values by each estimator, from the noisy sum alone; spends no more privacy.

    The variance of a ratio A / B at v is that of A - v B: over clients the sum of (A_c - v B_c)^2, of noised products,
    and that of the noise on the totals. As the products' noise may make it too small, it is raised to an upper limit
    that fails in a fifth of the cases that an interval may miss. The rest is left to the interval, which solves
    (A - v B)^2 <= t^2 variance for v (Fieller), so that a noised denominator counts too.

    The interval of a value with clipped weights misses half of the 5%. The other half is for the lower limit of the
    mean clipped weight, by which the interval is extended: see `Value.bias`.

    Args:
      noised: float64 [size].
      query: What was asked.
      mechanism: What the release was accounted as.
    """
    sums = noised * query.scales
    deviations = mechanism.noise_multiplier * query.norm * query.scales
    found, miss = [], 1 - intervals.CONFIDENCE
    for candidate, name in enumerate(query.candidates):
        weights = totals.Ratio(query.weights(candidate), 0)
        mean_weight, _ = _ratio(sums, deviations, query, weights, mechanism.cohort, miss)  # Misses below by half of it.
        least = max(0.0, mean_weight.low)
        for estimator in query.estimators:
            is_clipped = estimator.name in _CLIPPED
            share = miss / 2 if is_clipped else miss
            interval, noise = _ratio(
                sums, deviations, query, query.ratio(candidate, estimator), mechanism.cohort, share
            )
            if is_clipped:
                (down, _), (_, up) = (_bias(estimator.name, 1 - least, end) for end in (interval.low, interval.high))
                interval = interval._replace(low=interval.low + down, high=interval.high + up)
            interval = interval._replace(low=max(interval.low, 0.0), high=min(interval.high, 1.0))
            found.append(Value(name, estimator, interval, noise, 1 - mean_weight.mean))
    return found


def _bias(name: str, lost: float, value: float) -> tuple[float, float]:
    """By how much a value can exceed its estimate with clipped weights: from, to; see `Value.bias`."""
    value = min(max(value, 0.0), 1.0)
    known = {
        "logged": (0.0, 0.0),
        "ips": (0.0, lost),
        "dr": (-lost, lost),
        "snips": (-lost * value, lost * (1 - value)),
    }
    return known.get(name, (math.nan, math.nan))


def _ratio(
    sums: np.ndarray, deviations: np.ndarray, query: Query, ratio: totals.Ratio, clients: int, miss: float
) -> tuple[intervals.Interval, float]:
    """A ratio's interval, which misses with a given probability, and the deviation of its noise."""
    top, bottom = ratio
    squares = [query.product(top, top), query.product(top, bottom), query.product(bottom, bottom)]
    if not (sums[bottom] > 0 and sums[0] > 0):  # Noise has drowned the rows.
        return intervals.Interval(math.nan, 0.0, 1.0, clients), math.inf
    mean = sums[top] / sums[bottom]
    factors = np.array([1.0, -2 * mean, mean**2])
    share = _VARIANCE_SHARE if deviations.any() else 0.0
    above = stats.norm.ppf(1 - miss * share) * np.linalg.norm(factors * deviations[squares]) if share else 0.0
    variance = max(0.0, factors @ sums[squares] + above) * clients / max(1, clients - 1)
    quantile = stats.t.ppf(1 - miss * (1 - share) / 2, max(1, clients - 1)) ** 2
    low, high = _fieller(sums[top], sums[bottom], variance + deviations[top] ** 2, deviations[bottom] ** 2, quantile)
    noise = math.hypot(deviations[top], mean * deviations[bottom]) / sums[bottom]
    return intervals.Interval(float(mean), low, high, clients), float(noise)


def _fieller(top: float, bottom: float, of_top: float, of_bottom: float, quantile: float) -> tuple[float, float]:
    """Interval of v with (top - v bottom)^2 <= quantile (of_top + v^2 of_bottom); [0, 1] if unbounded."""
    leading = bottom**2 - quantile * of_bottom
    if leading <= 0:
        return 0.0, 1.0
    root = math.sqrt(max(0.0, (top * bottom) ** 2 - leading * (top**2 - quantile * of_top)))
    return (top * bottom - root) / leading, (top * bottom + root) / leading
