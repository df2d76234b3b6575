"""How well estimated rewards choose among candidates, and what estimators say of them; nothing imports TensorFlow."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from bandits.evaluation import bounds, estimates, estimators, private, private_sums, totals
from bandits.evaluation.terms import Terms
from data import keys
from scripts.select_before_deploying.plan import Study

_PRIVATE = (estimators.Ips(), estimators.Snips())  # Others need a model, which would be a release of its own.
_LOOKS = 1  # Each release is the only one.


class Score(NamedTuple):
    """How well estimates choose.

    Attributes:
      rho: Spearman's rank correlation with the true rewards; 0 where estimates are all the same.
      regret: True reward of the best candidate less that of the one whose estimate is the highest.
      error: Root of the mean square of what estimates are off by; not a number if one is missing.
    """

    rho: float
    regret: float
    error: float


def score(estimated: np.ndarray, true: np.ndarray) -> Score:
    """Returns how well estimates choose among candidates.

    Args:
      estimated: float64 [candidates]; what has none, not a number, ranks last. Of several highest, any is picked.
      true: float64 [candidates], the true rewards.
    """
    ranked = np.where(np.isnan(estimated), -np.inf, estimated)
    is_picked = ranked == ranked.max()
    rho = 0.0 if is_picked.all() else float(stats.spearmanr(ranked, true).correlation)
    error = math.sqrt(np.square(estimated - true).mean())
    return Score(rho, float(true.max() - true[is_picked].mean()), error)


def open_estimates(candidates: Sequence[Terms]) -> dict[str, np.ndarray]:
    """Returns what each estimator says without privacy, float64 [candidates]; SLOPE chooses for each candidate anew.

    Args:
      candidates: Terms of each, with a model's predictions.
    """
    paths = estimates.paths(True, {})
    layout = estimates.layout(paths)
    found = [
        {one.name: one.value.mean for one in estimates.estimates(totals.sums(terms, layout), layout, paths, None)}
        for terms in candidates
    ]
    return {name: np.array([one[name] for one in found]) for name in paths}


class Release(NamedTuple):
    """How private values are released.

    Attributes:
      epsilon: What it costs; infinite for bounds without noise.
      times: How many clients each one of the log stands for.
      clients: How many it is accounted for.
      noise_multiplier: Standard deviation of its noise, in clip norms.
    """

    epsilon: float
    times: int
    clients: int
    noise_multiplier: float


def private_estimates(
    candidates: Mapping[str, Terms], client_ids: Sequence[str], study: Study, seed: int, draws: int
) -> Iterator[tuple[Release, dict[str, np.ndarray]]]:
    """Yields each release, and what it says of the candidates by estimator, float64 [draws, candidates].

    All candidates are one jointly clipped vector a client. The noise is drawn by the seed: it protects nobody.

    Args:
      candidates: Terms of each.
      client_ids: The client's name for each number in `Terms.clients`.
      study: Has the bounds and epsilons.
      seed: Of the rows that count, and of the noise.
      draws: How often noise is drawn; once where there is none.
    """
    query = private_sums.Query(tuple(candidates), _PRIVATE, study.bounds)
    bounded = [bounds.apply(terms, study.bounds, client_ids, seed)[0] for terms in candidates.values()]
    total = private_sums.clipped(private_sums.of_clients(bounded, query), query.norm).sum(axis=0)
    settings = [(math.inf, 1), *((epsilon, times) for times in study.populations for epsilon in study.epsilons)]
    for place, (epsilon, times) in enumerate(settings):
        clients = times * len(client_ids)
        own = private.mechanism(clients, 0.0)
        if not math.isinf(epsilon):
            own = private.calibrated(own, _LOOKS, epsilon)
        generator = keys.generator(seed, keys.Purpose.NOISE, 0, place)
        values = [
            private.values(private.add_noise(times * total, query, own, generator.normal), query, own)
            for _ in range(1 if math.isinf(epsilon) else draws)
        ]
        yield (
            Release(epsilon, times, clients, own.noise_multiplier),
            {
                one.name: np.array(
                    [[value.interval.mean for value in draw if value.estimator == one] for draw in values]
                )
                for one in _PRIVATE
            },
        )
