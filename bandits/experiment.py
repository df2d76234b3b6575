"""The rounds of one phase of a bandit run: clients -> their inputs -> TFF's round -> metrics.

A client's data takes this path: `ClientData.load` -> `Task.normalize` -> `process.ClientInput` -> inference, training
and aggregation in `process` -> the metrics in this module. `round_parts` has the optional parts of a round.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits import held_out, metrics, policies, process, process_factory, round_parts
from bandits.options import Phase
from bandits.round_parts import Cohort, Participation, Prepare, Read, period
from data import clients, keys, tasks
from data.errors import counted
from data.settings import make_options
from optimization import aggregators, cohorts, fed_avg, models, options
from optimization.posterior import flags as posterior_flags
from optimization.privacy import mechanisms
from optimization.selection import availability
from optimization.study import compiled, frame, payloads, run_folder, runner
from optimization.study.metrics import mean

_UNUSABLE = " at random, because predicted rewards were not finite: the model has diverged."


class RoundState(NamedTuple):
    """State between rounds.

    Attributes:
      server: State of the TFF process.
      reward_total: float64, sum of the mean rewards of all rounds so far.
      reward_rounds: int64, number of rounds with at least one example.
      clients: State of `SampledClients` or `SelectedClients`.
      parts: State of each optional part of the round.
    """

    server: fed_avg.State
    reward_total: np.float64
    reward_rounds: np.int64
    clients: Any
    parts: tuple


class BanditRounds(runner.Rounds):
    """The rounds of a phase (Agarwal et al. 2023, Algorithms 1 and 4).

    Attributes:
      columns, secrets: See `runner.Rounds`.
      loggers: Callbacks that write files of the rounds.
      evaluation: Evaluates the phase's models.
      participations: Reads the clients of a cohort: (positions in the population, round) -> participations.
    """

    def __init__(
        self,
        task: tasks.Task,
        phase: Phase,
        mechanism: mechanisms.Mechanism,
        initial_weights: models.Weights | None,
        folder: run_folder.RunFolder | None = None,
    ):
        """Builds the computations. Also reads each client once for a client selector, or for time zones by label.

        Args:
          task: The task.
          phase: The phase.
          mechanism: The mechanism that adds noise and is accounted for.
          initial_weights: Model to start from; None for a random one.
          folder: The run's open folder, in which clients' states are stored; None if there are no such states.

        Raises:
          UsageError: If memory is too small for the model.
        """
        self._phase, self._unusable_rows = phase, 0
        capped = clients.CappedClients(task.clients, phase.max_examples_per_client, phase.seed)
        self._definition = process_factory.define(task, phase, mechanism)
        model = self._definition.model
        if phase.bandit.trains or phase.bandit.sums:
            is_posterior = phase.posterior is not None and phase.posterior.name in posterior_flags.KEEP_MODELS
            keeps_models = is_posterior or phase.has_variates or phase.aggregation.kind in options.ROBUST
            sums = [spec.shape for spec in self._definition.sums_spec.values()]
            size = payloads.of_model([*model.shapes.values(), *sums])
            payloads.check_memory(size, phase.cohorts.size, keeps_models=keeps_models)
        if initial_weights is None:
            initial_weights = model.initial_weights(phase.seed)
        self._poll_key = process_factory.key(task, phase, self._definition)
        self._rounds = process_factory.rounds(task, phase, self._definition, initial_weights, folder)
        self._parts = process_factory.parts(task, phase, mechanism, self._definition, self._rounds.initialize)
        self.columns = [column for part in self._parts for column in part.columns]
        self.loggers = self._rounds.loggers
        self.evaluation = held_out.Evaluation(task, phase, capped, self._definition, mechanism.kind != "none")
        changes = [part.inputs for part in self._parts]
        self.participations = functools.partial(read_clients, task, phase, capped, changes)
        read = self.participations, self._rounds.prepared
        self._clients: SampledClients | round_parts.SelectedClients
        if phase.selection.is_uniform:
            is_secret = phase.releases and mechanism.rests_on_cohorts
            self._clients = SampledClients(task, phase, *read, is_secret)
        else:
            self._clients = round_parts.SelectedClients(phase, capped, *read, self._losses)
        held = aggregators.secrets_in_state(phase.aggregation, mechanism) if phase.releases else []
        self.secrets = (*held, *self._clients.secrets)

    def initial_state(self) -> RoundState:
        """State before round 1."""
        return RoundState(
            server=self._rounds.initialize(),
            reward_total=np.float64(0),
            reward_rounds=np.int64(0),
            clients=self._clients.initial_state(),
            parts=tuple(part.initial_state() for part in self._parts),
        )

    def run_round(self, state: RoundState, round_num: int) -> tuple[RoundState, dict[str, Any]]:
        """Runs a round."""
        server, own = state.server, list(state.parts)
        for place, part in enumerate(self._parts):
            own[place], server = part.before(own[place], server, round_num)
        cohort, chosen = self._clients.next(state.clients, server, round_num)
        for place, part in enumerate(self._parts):
            if started := part.started(own[place], cohort.participations, round_num):
                cohort = cohort._replace(participations=started, inputs=self._rounds.prepared(started, round_num))
        with policies.shows_invalid_rows():
            after, counts = self._rounds.next(server, cohort.inputs, round_num)
        chosen = self._clients.observe(chosen, counts)
        unusable = int(counts.unusable_rows or 0)
        if unusable and not self._unusable_rows:
            print(f"Warning: round {round_num} chose {counted(unusable, 'action')}{_UNUSABLE}", file=sys.stderr)
        self._unusable_rows += unusable
        total, rounds = float(state.reward_total), int(state.reward_rounds)
        if counts.examples:
            total, rounds = total + float(counts.reward_sum) / int(counts.examples), rounds + 1
        row = _report(counts, total, rounds)
        for place, part in enumerate(self._parts):
            own[place], more = part.after(own[place], round_parts.Round(round_num, server, cohort, counts, row))
            row |= more
        return RoundState(after, np.float64(total), np.int64(rounds), chosen, tuple(own)), row

    @property
    def length(self) -> frame.Length:
        """Number of rounds of the phase."""
        return make_options(options.Length, vars(self._phase))

    def _losses(self, server: fed_avg.State, inputs: list) -> Any:
        """Losses that the polled clients report, for a client selector."""
        key = ("poll", len(inputs), self._poll_key)
        losses_of = compiled.cached(key, lambda: self._definition.build_loss_poll(len(inputs)))
        return losses_of(server.deployed, server.weights, inputs)

    def evaluate(self, state: RoundState) -> dict[str, float]:
        """Metrics of the trained model on held-out examples; see `held_out.Evaluation`."""
        return self.evaluation.evaluate(self._served(state))

    def model(self, state: RoundState) -> dict[str, np.ndarray]:
        """The trained model; empty if clients train alone."""
        if self._phase.is_alone:
            return {}
        return dict(zip(self._definition.model.shapes, self._served(state).weights, strict=True))

    def _served(self, state: RoundState) -> fed_avg.State:
        """The server's state with the model that is evaluated and saved."""
        server = state.server
        for part, own in zip(self._parts, state.parts, strict=True):
            server = part.served(own, server)
        return server

    def finish(self, state: RoundState, folder: run_folder.RunFolder) -> list[str]:
        """Writes the files of the optional parts at the end of a run, and returns lines to print."""
        lines = list(self._rounds.finish(state.server, folder))
        if self._unusable_rows:
            lines.append(f"Since its last start, the run chose {counted(self._unusable_rows, 'action')}{_UNUSABLE}")
        for part, own in zip(self._parts, state.parts, strict=True):
            lines += part.finish(own, state.server, folder)
        if self.secrets:
            lines.append(f"Keep {folder.path}/checkpoints secret: they hold {' and '.join(self.secrets)}.")
        if self._clients.secrets:
            lines.append("The cohorts are not sampled with --seed, so runs with the same seed have different cohorts.")
        return lines


def _report(counts: fed_avg.RoundMetrics, reward_total: float, reward_rounds: int) -> dict[str, Any]:
    """A row of `metrics.csv`; a mean over nothing is NaN."""
    examples = int(counts.examples)
    return {
        metrics.ROUND_REWARD: mean(counts.reward_sum, examples),
        metrics.AVERAGE_REWARD: mean(reward_total, reward_rounds),
        metrics.ROUND_PROBABILITY: mean(counts.propensity_sum, examples),
        metrics.DEPLOYED: int(counts.deployed),
        metrics.LOSS: mean(counts.loss_sum, int(counts.batch_examples)),
        metrics.UPDATE_NORM: float(counts.update_norm),
        metrics.EXAMPLES: examples,
        metrics.EMPTY_CLIENTS: int(counts.empty_clients),
        metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
    }


def read_clients(
    task: tasks.Task,
    phase: Phase,
    population: clients.CappedClients,
    changes: Sequence[Callable[[Participation, int], Participation]],
    positions: np.ndarray,
    round_num: int,
) -> list[Participation]:
    """Reads the clients of a cohort, given their `positions` in the phase's population, int [clients].

    `population` holds the task's clients with capped examples, and `changes` are the functions with which optional
    parts of the round change a participation. Participations are sorted by the number of examples, largest first.
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
    # The worker processes clients in this order. With the smallest last, its cores finish at about the same time.
    return sorted(participations, key=lambda participation: len(participation.rows), reverse=True)


class SampledClients:
    """Cohorts that are sampled with `--seed`, or with a secret seed if the privacy guarantee depends on the sampling.

    The state is the secret seed, uint32 [4], or empty.

    Attributes:
      secrets: Descriptions of the parts of the state that must stay secret.
    """

    def __init__(self, task: tasks.Task, phase: Phase, read: Read, prepare: Prepare, is_secret: bool):
        """Stores the settings of the sampling; reads each client once if time zones depend on labels."""
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
        """The cohort of a round (read while the worker computes the previous round), and the new state."""
        seed = cohorts.as_integer(secret_seed) if len(secret_seed) else self._phase.seed
        return self._ahead(round_num, seed), secret_seed

    def observe(self, secret_seed: Any, counts: fed_avg.RoundMetrics) -> Any:
        """State after a round."""
        return secret_seed

    def _prepare(self, round_num: int, seed: int) -> Cohort:
        participations = self._read(self.positions(round_num, seed), round_num)
        uploads = downloads = len(participations)
        if self._phase.cohorts.availability.drop_out:
            downloads = len(self.positions(round_num, seed, with_drop_outs=True))
        return Cohort(participations, self._prepare_inputs(participations, round_num), downloads, uploads)

    def positions(self, round_num: int, seed: int, *, with_drop_outs: bool = False) -> np.ndarray:
        """Positions of a round's clients in the phase's population, int [clients].

        Args:
          round_num: The round.
          seed: Seed of the cohorts. Other random numbers, such as clients' absences, do not depend on this seed.
          with_drop_outs: Whether to include clients that start the round but drop out.
        """
        phase = self._phase
        sampled_in = 1 if phase.alone_budget == "equal" else round_num
        groups = self._groups(seed) if phase.cohorts.sampling == "cyclic_poisson" else None
        sampled = cohorts.draw(phase.cohorts, len(phase.population), seed, sampled_in, groups)
        if self._attendance is None:
            return sampled
        attending = self._attendance.start if with_drop_outs else self._attendance.come
        # Only cohorts of a fixed size replace absent clients.
        return attending(sampled, round_num, fill=phase.cohorts.sampling == "fixed")

    @functools.cached_property
    def _groups(self) -> Callable[[int], np.ndarray]:
        """Returns a function from the seed of the cohorts to the groups of the phase's clients."""
        names = [self._names[client] for client in self._phase.population]
        return functools.cache(lambda seed: cohorts.groups(names, self._phase.cohorts.groups, seed))
