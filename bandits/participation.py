"""The clients of a round: who takes part, and what each of them brings."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits import process
from bandits.options import Phase
from data import clients, keys, tasks
from optimization import cohorts, fed_avg
from optimization.selection import availability, selectors


class Participation(NamedTuple):
    """A client's participation in a round.

    Attributes:
      inputs: The client's input.
      client: Its position among the task's clients.
      rows: int64 [examples], indices of the examples in its data.
    """

    inputs: process.ClientInput
    client: int
    rows: np.ndarray

    def with_inputs(self, **changes: Any) -> "Participation":
        """A copy with other values of some fields of `inputs`."""
        return self._replace(inputs=self.inputs._replace(**changes))


class Cohort(NamedTuple):
    """The clients of a round, and how many messages they exchange with the server.

    Attributes:
      participations: The clients that come.
      inputs: Their input to the round, as `round_parts.FederatedRounds.prepared` returns it.
      downloads: Number of clients that receive models, including those that drop out or are only polled.
      uploads: Number of clients that send an update.
      reports: Number of losses that polled clients report.
    """

    participations: Sequence[Participation]
    inputs: Any
    downloads: int
    uploads: int
    reports: int = 0


Read = Callable[[np.ndarray, int], list[Participation]]  # (positions in the population, round) -> participations.
Prepare = Callable[[list[Participation], int], Any]  # (participations, round) -> their input to the round.


def read(
    task: tasks.Task,
    phase: Phase,
    population: clients.CappedClients,
    changes: Sequence[Callable[[Participation, int], Participation]],
    positions: np.ndarray,
    round_num: int,
) -> list[Participation]:
    """Reads the clients of a cohort.

    Args:
      task: The task.
      phase: The phase.
      population: The task's clients, with capped examples.
      changes: What optional parts of the round change: (participation, round) -> participation.
      positions: int [clients], in the phase's population.
      round_num: The round.
    """
    acts_at = period(phase, round_num) if phase.keeps_cache else round_num
    participations = []
    for place, position in enumerate(positions):
        client = phase.population[position]
        examples, rows = population.load_with_rows(client, acts_at if phase.redraws_examples else None)
        client_keys = process.ClientKeys(
            cache=keys.tensorflow_key(phase.seed, keys.Purpose.CACHE, acts_at, client),
            training=keys.tensorflow_key(phase.seed, keys.Purpose.TRAINING, round_num, client),
        )
        features = task.normalize(examples.features)
        inputs = process.ClientInput(features, examples.labels, client_keys, position=np.int32(place))
        participation = Participation(inputs, client, rows)
        for change in changes:
            participation = change(participation, round_num)
        participations.append(participation)
    # The worker takes them in this order: with the small ones last, its cores end together.
    return sorted(participations, key=lambda participation: len(participation.rows), reverse=True)


def period(phase: Phase, round_num: int) -> int:
    """Deployment period of a round, from 0."""
    return (round_num - 1) // phase.deploy_every


class SampledClients:
    """Cohorts that are sampled by `--seed`, or by a secret seed where privacy rests on them.

    Their state is that secret seed, uint32 [4], or empty.
    """

    def __init__(self, task: tasks.Task, phase: Phase, read: Read, prepare: Prepare, is_secret: bool):
        """Stores what sampling needs; reads each client once if time zones follow labels."""
        self._names, self._phase, self._read, self._prepare_inputs = task.clients.client_ids, phase, read, prepare
        self.secrets = ["the seed of the cohorts"] * is_secret
        present = phase.cohorts.availability
        self._attendance = None
        if present.may_be_absent:
            zones = present.zones(task.clients, len(task.rewards["exact"]), phase.population)
            self._attendance = availability.Attendance(present, zones, phase.seed)
        self._ahead = cohorts.PreparedAhead(self._prepare, phase.total_rounds)

    def initial_state(self) -> Any:
        """State before round 1."""
        return cohorts.secret_seed() if self.secrets else ()

    def next(self, secret_seed: Any, server: fed_avg.State, round_num: int) -> tuple[Cohort, Any]:
        """Cohort of a round, which is read while the worker computes the round before; and the state."""
        del server
        seed = cohorts.as_integer(secret_seed) if len(secret_seed) else self._phase.seed
        return self._ahead(round_num, seed), secret_seed

    def observe(self, secret_seed: Any, counts: fed_avg.RoundMetrics) -> Any:
        """State after a round."""
        del counts
        return secret_seed

    def _prepare(self, round_num: int, seed: int) -> Cohort:
        participations = self._read(self.positions(round_num, seed), round_num)
        uploads = downloads = len(participations)
        if self._phase.cohorts.availability.drop_out:
            downloads = len(self.positions(round_num, seed, with_drop_outs=True))
        return Cohort(participations, self._prepare_inputs(participations, round_num), downloads, uploads)

    def positions(self, round_num: int, seed: int, *, with_drop_outs: bool = False) -> np.ndarray:
        """Positions in the phase's population of a round's clients, int [clients].

        Args:
          round_num: The round.
          seed: Seed of the cohorts. All other draws depend on the client alone and need no secret.
          with_drop_outs: Whether to include clients that start the round and drop out.
        """
        phase = self._phase
        sampled_in = 1 if phase.alone_budget == "equal" else round_num
        groups = self._groups(seed) if phase.cohorts.sampling == "cyclic_poisson" else None
        sampled = cohorts.draw(phase.cohorts, len(phase.population), seed, sampled_in, groups)
        if self._attendance is None:
            return sampled
        attending = self._attendance.start if with_drop_outs else self._attendance.come
        # A client that is skipped waits for its next turn. It is not replaced.
        return attending(sampled, round_num, fill=phase.cohorts.sampling == "fixed")

    @functools.cached_property
    def _groups(self) -> Callable[[int], np.ndarray]:
        """Function from the seed of the cohorts to the groups of the phase's clients."""
        names = [self._names[client] for client in self._phase.population]
        return functools.cache(lambda seed: cohorts.groups(names, self._phase.cohorts.groups, seed))


class SelectedClients:
    """Cohorts that a client selector chooses by losses; their state is the selector's."""

    secrets: Sequence[str] = ()

    def __init__(
        self, phase: Phase, population: clients.ClientData, read: Read, prepare: Prepare, losses_of: Callable[..., Any]
    ):
        """Reads each client once, to count its examples.

        Args:
          phase: The phase.
          population: The task's clients, with capped examples.
          read: Reads clients.
          prepare: Prepares their input.
          losses_of: Takes the server's state and inputs of clients, and returns their losses.
        """
        selector = phase.selection.build(clients.sizes(population, phase.population), phase.cohorts.size)
        self._cohorts = selectors.SelectedCohorts(selector, phase.seed)
        self._read, self._prepare, self._losses_of = read, prepare, losses_of
        self._sampled = np.zeros(0, np.int64)

    def initial_state(self) -> Any:
        """State before round 1."""
        return self._cohorts.selector.initial_state()

    def next(self, selection: Any, server: fed_avg.State, round_num: int) -> tuple[Cohort, Any]:
        """Cohort of a round, and the state after the poll that it may need."""

        def poll(positions: np.ndarray) -> np.ndarray:
            return self._losses_of(server, [each.inputs for each in self._read(positions, round_num)])

        self._sampled, polled, selection = self._cohorts.choose(selection, round_num, poll)
        members = np.unique(self._sampled)
        participations = self._read(self._sampled, round_num)
        inputs = self._prepare(participations, round_num)
        return Cohort(participations, inputs, len(np.union1d(polled, members)), len(members), len(polled)), selection

    def observe(self, selection: Any, counts: fed_avg.RoundMetrics) -> Any:
        """State after a round, from the losses that its clients report."""
        return self._cohorts.observe(selection, self._sampled, counts.client_losses, counts.client_deviations)
