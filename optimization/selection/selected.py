"""Cohorts of a run with client selection: its selector, and each round's poll and report."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from data import keys
from data.errors import UsageError
from optimization.selection import selectors
from optimization.selection.selectors import LocalLosses, Selector


@dataclasses.dataclass(frozen=True)
class Selection:
    """A client selector and its parameters, for any population.

    Attributes:
      name: Its name in `--client_selection`.
      selector: Its class.
      parameters: (name, value) of the class's arguments.
    """

    name: str = "uniform"
    selector: type[Selector] = selectors.Uniform
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def is_uniform(self) -> bool:
        """Whether every client is as likely as any other, so that no selector is needed."""
        return self.selector is selectors.Uniform

    def weighting(self, client_weighting: str) -> str:
        """Weighting of clients in a mean: uniform if they are sampled in proportion to their examples.

        Args:
          client_weighting: The requested weighting, `uniform` or `num_examples`.
        """
        return "uniform" if self.selector.repeats else client_weighting

    def build(self, sizes: npt.ArrayLike, cohort_size: int) -> Selector:
        """Selector of the options.

        Args:
          sizes: int [clients], examples of each client.
          cohort_size: Clients of a round.

        Raises:
          UsageError: If cohort, parameters and population do not go together.
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
      polled: int64 [clients], the polled clients.
      state: The selector's state with their losses.
    """

    cohort: np.ndarray
    polled: np.ndarray
    state: Any


@dataclasses.dataclass(frozen=True)
class SelectedCohorts:
    """A selector in a run; the caller holds its state.

    Attributes:
      selector: The selector.
      seed: Seed of the run.
    """

    selector: Selector
    seed: int

    def choose(self, state: Any, round_num: int, poll: Callable[[np.ndarray], np.ndarray]) -> Choice:
        """Selects a round's cohort, after a poll if the selector needs one.

        Args:
          state: The selector's state.
          round_num: The round.
          poll: Takes int [clients] and returns each one's loss, float [clients]; not finite without an answer.
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
          state: The selector's state before.
          cohort: int [places], the clients.
          means: float [places], mean of each one's mini-batch losses; not finite where it has none to report, as it has
            no example or diverged.
          deviations: float [places], their standard deviations.
        """
        clients, places = np.unique(cohort, return_index=True)
        losses = LocalLosses(np.asarray(means)[places], np.asarray(deviations)[places])
        reports = np.isfinite(losses.mean) & np.isfinite(losses.deviation)
        reported = LocalLosses(*(part[reports] for part in losses))
        return self.selector.observe(state, clients[reports], reported, clients[~reports])
