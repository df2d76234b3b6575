"""What a client selector is: one interface for every experiment.

`select` gives a cohort, `observe` learns the losses that it reported; both are pure. States are named tuples of NumPy
arrays whose shapes and dtypes never change, so that they can be checkpointed. Selectors are in `selectors`, a run's
cohorts in `selected`.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt


class LocalLosses(NamedTuple):
    """What clients report of their local steps.

    Attributes:
      mean: float [clients], mean of each one's mini-batch losses.
      deviation: float [clients], their standard deviation.
    """

    mean: np.ndarray
    deviation: np.ndarray


class Selector(abc.ABC):
    """Chooses cohorts.

    Attributes:
      uses_losses: Whether choices depend on reported losses, and so on the clients' data.
      repeats: Whether a client may take several places of a cohort.
    """

    uses_losses: ClassVar[bool] = True
    repeats: ClassVar[bool] = False

    def __init__(self, sizes: npt.ArrayLike, cohort_size: int):
        """Takes the population.

        Args:
          sizes: int [clients], examples of each client. But for `Uniform`, one without any is chosen last.
          cohort_size: Clients of a round, m.

        Raises:
          ValueError: If the cohort does not fit the population, or nobody has an example.
        """
        self._sizes = np.asarray(sizes, np.float64)
        if self._sizes.ndim != 1 or not np.isfinite(self._sizes).all() or (self._sizes < 0).any():
            raise ValueError("The sizes of clients must be a vector of numbers of at least 0.")
        if not self._sizes.any():
            raise ValueError("No client has an example.")
        self.population = len(self._sizes)
        if not 1 <= cohort_size <= self.population:
            raise ValueError(f"A cohort of {cohort_size} cannot be chosen from {self.population} clients.")
        self.cohort_size = cohort_size
        self.shares = self._sizes / self._sizes.sum()
        self._empty = np.flatnonzero(self._sizes == 0)
        self._with_data = np.flatnonzero(self._sizes)

    def initial_state(self) -> Any:
        """Returns the state before the first round."""
        return ()

    def candidates(self, state: Any, draw: np.random.Generator) -> np.ndarray:
        """Returns int64 [clients], whose current loss has to be polled before `select`; for most selectors nobody's."""
        del state, draw
        return np.zeros(0, np.int64)

    def observe_poll(self, state: Any, ids: np.ndarray, losses: np.ndarray) -> Any:
        """Returns the state that knows the polled losses.

        Args:
          state: State.
          ids: int [clients], the candidates that answered.
          losses: float [clients], the current model's mean loss on all examples of each.

        Raises:
          ValueError: If a loss is not finite.
        """
        raise NotImplementedError(f"{type(self).__name__} polls nobody.")

    @abc.abstractmethod
    def select(self, state: Any, draw: np.random.Generator) -> np.ndarray:
        """Returns int64 [cohort_size], the clients of the next round; ties are broken uniformly at random.

        Args:
          state: State.
          draw: The round's keyed generator, after `candidates` took its draws from it.
        """

    def observe(self, state: Any, ids: np.ndarray, losses: LocalLosses, silent: Sequence[int] | np.ndarray = ()) -> Any:
        """Returns the state after a round.

        Args:
          state: State.
          ids: int [clients], distinct, the clients that reported: some of a cohort may have vanished.
          losses: What they reported.
          silent: int [clients], distinct, clients of the cohort that were tried and reported nothing. They count as
            tried, with a loss of 0: one that always diverges would else be tried for ever, as one never seen.

        Raises:
          ValueError: If a loss is not finite.
        """
        del ids, silent
        check_losses(losses.mean)
        return state


def check_losses(losses: np.ndarray) -> None:
    """Raises ValueError if a loss is not finite."""
    if not np.isfinite(losses).all():
        raise ValueError(f"Reported losses must be finite; got {np.asarray(losses)}.")
