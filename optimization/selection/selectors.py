"""Client selectors, which choose the clients of the next round from the local losses of earlier rounds.

All selectors have the same interface: `select` returns a cohort, and `observe` takes the losses that the cohort
reports. Both are pure functions. A state is a NumPy array or a tuple of arrays. Its shapes and dtypes never change, so
checkpoints can hold it. Names, parameters and flags are in `optimization.study.selector_flags`. `SelectedCohorts`
polls, selects and observes in each round of a run.

Unless another source is given, numbers of equations and algorithms refer to Cho, Gupta, Joshi and Yagan, "Bandit-based
Communication-Efficient Client Selection Strategies for Federated Learning", 2020. In the docstrings, m is the size of
the cohort, D_k is the number of examples of client k, and p_k = D_k / sum D is its share of the data.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from data import keys
from data.errors import UsageError


class LocalLosses(NamedTuple):
    """Reports of clients on their local steps.

    Attributes:
      mean: float [clients], mean of the mini-batch losses of each client.
      deviation: float [clients], standard deviation of the mini-batch losses of each client.
    """

    mean: np.ndarray
    deviation: np.ndarray


class Selector(abc.ABC):
    """Selects cohorts.

    Attributes:
      uses_losses: Whether choices depend on reported losses, and therefore on the clients' data.
      repeats: Whether a client may be in a cohort several times.
      population: Number of clients.
      cohort_size: Number of clients per round, m.
      shares: float64 [clients], share of each client in all examples, p_k.
    """

    uses_losses: ClassVar[bool] = True
    repeats: ClassVar[bool] = False

    def __init__(self, sizes: npt.ArrayLike, cohort_size: int):
        """Stores the population.

        Args:
          sizes: int [clients], number of examples of each client. All selectors except `Uniform` select clients without
            examples last.
          cohort_size: Number of clients per round, m.

        Raises:
          ValueError: If the cohort is too large for the population, or no client has an example.
        """
        self._sizes = np.asarray(sizes, np.float64)
        if not self._sizes.any():
            raise ValueError("No client has an example.")
        self.population = len(self._sizes)
        if not 1 <= cohort_size <= self.population:
            raise ValueError(
                f"--clients_per_round={cohort_size} must be from 1 to {self.population}, the number of clients."
            )
        self.cohort_size = cohort_size
        self.shares = self._sizes / self._sizes.sum()
        self._empty = np.flatnonzero(self._sizes == 0)
        self._with_data = np.flatnonzero(self._sizes)

    def initial_state(self) -> Any:
        """State before the first round."""
        return ()

    def candidates(self, state: Any, draw: np.random.Generator) -> np.ndarray:
        """Clients who must be polled for their current loss before `select`, int64 [clients]; usually empty."""
        return np.zeros(0, np.int64)

    def observe_poll(self, state: Any, ids: np.ndarray, losses: np.ndarray) -> Any:
        """Returns the state with the polled losses.

        Args:
          state: The selector's state.
          ids: int [clients], the candidates who answered.
          losses: float [clients], finite, mean loss of the current model on all examples of each of these clients.

        Raises:
          NotImplementedError: If the selector polls no clients.
        """
        raise NotImplementedError(f"{type(self).__name__} polls no client.")

    @abc.abstractmethod
    def select(self, state: Any, draw: np.random.Generator) -> np.ndarray:
        """Selects the clients of the next round, int64 [cohort_size]. Ties are broken uniformly at random.

        Args:
          state: The selector's state, after `observe_poll` if clients were polled.
          draw: Keyed random generator of the round, after `candidates` has used it.
        """

    def observe(self, state: Any, ids: np.ndarray, losses: LocalLosses, silent: Sequence[int] | np.ndarray = ()) -> Any:
        """State after a round.

        Args:
          state: The selector's state before the round.
          ids: int [clients], distinct, the clients who reported. Other members of the cohort may have dropped out.
          losses: Reports of these clients.
          silent: int [clients], distinct, clients of the cohort who had nothing to report. They count as tried, with a
            loss of 0; otherwise a client who always diverges would be selected in every round.
        """
        return state


class Uniform(Selector):
    """Samples uniformly without replacement from all clients, even those without examples."""

    uses_losses = False

    def select(self, state, draw):
        return draw.choice(self.population, self.cohort_size, replace=False)


class Rand(Selector):
    """Fills each place of the cohort independently, by client k with probability p_k: the paper's unbiased pi_rand.

    Sampling is with replacement, because only then is the plain mean over the cohort an unbiased estimate of the mean
    weighted by data (Li et al., "On the Convergence of FedAvg on Non-IID Data", 2020, scheme I).
    """

    uses_losses = False
    repeats = True

    def __init__(self, sizes: npt.ArrayLike, cohort_size: int):
        super().__init__(sizes, cohort_size)
        self._bounds = np.cumsum(self._sizes)

    def select(self, state, draw):
        return np.searchsorted(self._bounds, draw.random(self.cohort_size) * self._bounds[-1], side="right")


class _FromCandidates(Selector):
    """Selects the largest losses among d candidates (`num_candidates`), which are sampled in proportion to p_k."""

    def __init__(self, sizes: npt.ArrayLike, cohort_size: int, num_candidates: int | None = None):
        """Stores the number of candidates d, by default twice the cohort size, but at most the population."""
        super().__init__(sizes, cohort_size)
        if num_candidates is None:
            num_candidates = min(2 * cohort_size, self.population)
        if not cohort_size <= num_candidates <= self.population:
            raise ValueError(
                f"--selection_candidates={num_candidates} must be from {cohort_size}, the size of the cohort, to "
                f"{self.population}, the number of clients."
            )
        self.num_candidates = num_candidates

    def _draw_candidates(self, draw: np.random.Generator) -> np.ndarray:
        count = min(self.num_candidates, len(self._with_data))
        candidates = draw.choice(self.population, count, replace=False, p=self.shares)
        return np.concatenate([candidates, draw.choice(self._empty, self.num_candidates - count, replace=False)])


class PolledLosses(NamedTuple):
    """State of `PowD`.

    Attributes:
      ids: int64 [candidates], the clients who answered the last poll, padded with other clients.
      losses: float64 [candidates], losses of the clients who answered; -inf for the others.
    """

    ids: np.ndarray
    losses: np.ndarray


class PowD(_FromCandidates):
    """Power of choice: the candidates are polled for their exact loss F_k(w) (Cho, Wang and Joshi 2020, pi_pow-d)."""

    def initial_state(self) -> PolledLosses:
        return PolledLosses(np.arange(self.num_candidates), np.full(self.num_candidates, -np.inf))

    def candidates(self, state, draw):
        return self._draw_candidates(draw)

    def observe_poll(self, state, ids, losses):
        # Arbitrary other clients, with the lowest losses, pad the arrays to their fixed shape.
        padding = np.setdiff1d(np.arange(self.num_candidates + len(ids)) % self.population, ids)
        missing = self.num_candidates - len(ids)
        return PolledLosses(
            np.concatenate([ids, padding[:missing]]).astype(np.int64),
            np.concatenate([np.asarray(losses, np.float64), np.full(missing, -np.inf)]),
        )

    def select(self, state, draw):
        return state.ids[_largest(state.losses, self.cohort_size, draw)]


class _FromLastLosses(Selector):
    """Selects by the losses that clients reported last.

    The state is float64 [clients]: each client's last loss, 0 if it had nothing to report, and NaN if it was never
    tried.
    """

    def initial_state(self) -> np.ndarray:
        return np.full(self.population, np.nan)

    def observe(self, state, ids, losses, silent=()):
        after = state.copy()
        after[ids] = losses.mean
        after[np.asarray(silent, np.int64)] = 0
        return after


class RpowD(_FromCandidates, _FromLastLosses):
    """Power of choice by the last reported loss, infinite for candidates who were never tried (pi_rpow-d)."""

    def select(self, state, draw):
        ids = self._draw_candidates(draw)
        losses = np.nan_to_num(state[ids], nan=np.inf)
        losses[self._sizes[ids] == 0] = -np.inf
        return ids[_largest(losses, self.cohort_size, draw)]


class UcbState(NamedTuple):
    """State of `UcbCs` after round t.

    Attributes:
      loss_sums: float64 [clients], L_t, equation (5).
      counts: float64 [clients], N_t, equation (6).
      total: float64, T_t, equation (7).
      deviation: float64, sigma_t.
      listed: float64 [clients], the list of Algorithm 1 before line 7; infinite for clients who were never tried. Empty
        unless the selector follows the listing.
    """

    loss_sums: np.ndarray
    counts: np.ndarray
    total: np.float64
    deviation: np.float64
    listed: np.ndarray


class UcbCs(Selector):
    """UCB-CS: selects the clients whose local loss has the largest discounted upper confidence bound, times p_k.

    The index is A_t(k) = p_k (L_t(k) / N_t(k) + sqrt(2 sigma_t^2 log T_t / N_t(k))), equations (4) to (7). Losses are
    discounted by gamma per communication round, as in Algorithm 1. (With T = {tau, 2 tau, ...}, the exponents in the
    equations count local steps. That would discount by gamma^tau per round, so only the latest round would count.)
    sigma_t is the largest standard deviation over local steps that a client of the latest round reported; it is
    unchanged if no client reported. Clients who were never tried are selected first. So are clients whose count was
    discounted to zero, because the bound grows without limit as the count vanishes. With gamma = 0, these are all
    clients except those of the latest round.

    With `algorithm_listing`, which follows the listing of Algorithm 1, only the clients who were tried get a new index,
    and the whole list is multiplied by gamma after each selection. A client who is not selected then becomes less
    attractive, not more.

    Attributes:
      gamma: Discount factor per round, from 0 to 1.
      algorithm_listing: Whether to follow the listing of Algorithm 1 instead of the equations.
    """

    def __init__(self, sizes: npt.ArrayLike, cohort_size: int, gamma: float, algorithm_listing: bool = False):
        super().__init__(sizes, cohort_size)
        self.gamma = gamma
        self.algorithm_listing = algorithm_listing

    def initial_state(self) -> UcbState:
        zeros = np.zeros(self.population)
        before = UcbState(zeros, zeros, np.float64(0), np.float64(0), np.zeros(0))
        return before._replace(listed=self.indices(before)) if self.algorithm_listing else before

    def indices(self, state: UcbState, ids: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Index A_t of equation (4), float64 [ids]; inf if the count is zero, -inf for clients without examples."""
        # The logarithm is negative only before the first round, when all counts are zero.
        width = state.deviation * np.sqrt(2 * np.log(np.maximum(state.total, 1)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            counts = state.counts[ids]
            index = self.shares[ids] * (state.loss_sums[ids] / counts + width / np.sqrt(counts))
        index[counts == 0] = np.inf
        index[self.shares[ids] == 0] = -np.inf
        return index

    def select(self, state, draw):
        indices = state.listed if self.algorithm_listing else self.indices(state)
        return _largest(indices, self.cohort_size, draw)

    def observe(self, state, ids, losses, silent=()):
        loss_sums, counts = self.gamma * state.loss_sums, self.gamma * state.counts
        loss_sums[ids] += losses.mean
        tried = np.concatenate([ids, silent]).astype(np.int64)
        counts[tried] += 1
        deviation = np.float64(np.max(losses.deviation)) if len(ids) else state.deviation
        after = UcbState(loss_sums, counts, np.float64(self.gamma * state.total + 1), deviation, state.listed)
        if self.algorithm_listing:
            listed = state.listed.copy()
            listed[np.isfinite(listed)] *= self.gamma  # Line 8 of the previous round; untried clients stay first.
            listed[tried] = self.indices(after, tried)
            after = after._replace(listed=listed)
        return after


class ActiveFl(_FromLastLosses):
    """Active federated learning (Goetz et al. 2019, Algorithm 1): samples favour clients with high valuations.

    The valuation of a client is sqrt(D_k) times the mean loss that it reported last. The fraction alpha_1 of clients
    with the lowest valuations is left out. Then (1 - alpha_3) m places are sampled without replacement, with
    probabilities proportional to exp(alpha_2 valuation). The other places (rounded up) are sampled uniformly from all
    remaining clients. A client who was never tried has the highest valuation; the paper does not specify this case.
    """

    def __init__(
        self, sizes: npt.ArrayLike, cohort_size: int, alpha_1: float = 0.75, alpha_2: float = 0.01, alpha_3: float = 0.1
    ):
        super().__init__(sizes, cohort_size)
        self.alpha_1, self.alpha_2, self.alpha_3 = alpha_1, alpha_2, alpha_3
        self._root_sizes = np.sqrt(self._sizes[self._with_data])

    def select(self, state, draw):
        values = self._root_sizes * state[self._with_data]
        values[np.isnan(values)] = np.fmax.reduce(values, initial=0.0)
        kept = _largest(values, len(values) - int(self.alpha_1 * len(values)), draw)
        places = min(self.cohort_size - int(np.ceil(self.alpha_3 * self.cohort_size)), len(kept))
        # The largest values after adding Gumbel noise are a sample without replacement from the softmax.
        noisy = self.alpha_2 * values[kept] - np.log(draw.standard_exponential(len(kept)))
        chosen = kept[_largest(noisy, places, draw)]
        uniform = draw.choice(len(values), min(self.cohort_size, len(values)), replace=False)
        chosen = np.concatenate([chosen, uniform[~np.isin(uniform, chosen)]])[: self.cohort_size]
        missing = self.cohort_size - len(chosen)
        return np.concatenate([self._with_data[chosen], draw.choice(self._empty, missing, replace=False)])


def _largest(values: np.ndarray, count: int, draw: np.random.Generator) -> np.ndarray:
    """Positions of the largest values. Ties are broken uniformly at random."""
    if not count:
        return np.zeros(0, np.int64)
    threshold = np.partition(values, len(values) - count)[len(values) - count]
    above, ties = np.flatnonzero(values > threshold), np.flatnonzero(values == threshold)
    return np.concatenate([above, draw.choice(ties, count - len(above), replace=False, shuffle=False)])


@dataclasses.dataclass(frozen=True)
class Selection:
    """A client selector and its parameters, before the population is known.

    Attributes:
      name: Value of `--client_selection`.
      selector: Class of the selector.
      parameters: (name, value) of each further argument of the class.
    """

    name: str = "uniform"
    selector: type[Selector] = Uniform
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def is_uniform(self) -> bool:
        """Whether all clients are equally likely, so that no selector is needed."""
        return self.selector is Uniform

    def weighting(self, client_weighting: str) -> str:
        """Weighting of clients in a mean: uniform if the selector samples them in proportion to their examples.

        Args:
          client_weighting: The requested weighting, `uniform` or `num_examples`.
        """
        return "uniform" if self.selector.repeats else client_weighting

    def build(self, sizes: npt.ArrayLike, cohort_size: int) -> Selector:
        """Builds the selector for a population. For the arguments, see `Selector`.

        Raises:
          UsageError: If the cohort, the parameters and the population are incompatible.
        """
        try:
            return self.selector(sizes, cohort_size, **dict(self.parameters))
        except ValueError as error:
            raise UsageError(f"--client_selection={self.name}: {error}") from error


UNIFORM = Selection()


class Choice(NamedTuple):
    """A round's cohort.

    Attributes:
      cohort: int64 [cohort_size], the clients.
      polled: int64 [clients], the polled clients; empty without a poll.
      state: The selector's state, with the polled losses.
    """

    cohort: np.ndarray
    polled: np.ndarray
    state: Any


@dataclasses.dataclass(frozen=True)
class SelectedCohorts:
    """A selector in a run. The caller holds its state.

    Attributes:
      selector: Selector for the population of the run.
      seed: Seed of the run.
    """

    selector: Selector
    seed: int

    def choose(self, state: Any, round_num: int, poll: Callable[[np.ndarray], np.ndarray]) -> Choice:
        """Selects a round's cohort, after a poll if the selector needs one.

        Args:
          state: State of the selector before the round.
          round_num: Number of the round, from 1.
          poll: Maps clients, int [clients], to their losses, float [clients], which are not finite for clients who do
            not answer.
        """
        draw = keys.generator(self.seed, keys.Purpose.COHORT, round_num)
        polled = self.selector.candidates(state, draw)
        if len(polled):
            losses = np.asarray(poll(polled))
            answers = np.isfinite(losses)
            state = self.selector.observe_poll(state, polled[answers], losses[answers])
        return Choice(self.selector.select(state, draw), polled, state)

    def observe(self, state: Any, cohort: np.ndarray, means: np.ndarray, deviations: np.ndarray) -> Any:
        """State after a round.

        Args:
          state: State of the selector before the round.
          cohort: int [places], the clients, who may repeat.
          means: float [places], mean of the mini-batch losses of each client; not finite if the client has nothing to
            report, because it has no examples or diverged.
          deviations: float [places], standard deviation of the mini-batch losses of each client.
        """
        clients, places = np.unique(cohort, return_index=True)
        losses = LocalLosses(np.asarray(means)[places], np.asarray(deviations)[places])
        reports = np.isfinite(losses.mean) & np.isfinite(losses.deviation)
        reported = LocalLosses(*(part[reports] for part in losses))
        return self.selector.observe(state, clients[reports], reported, clients[~reports])
