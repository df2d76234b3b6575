"""One phase of a bandit run as rounds: clients -> their inputs -> TFF's round -> metrics.

The path of a client's data: `ClientData.load` -> `Task.normalize` -> `process.ClientInput` -> inference, training and
aggregation in `process` -> the metrics here. What options add to a round is in `round_parts`.
"""

import functools
from typing import Any, NamedTuple

import numpy as np

from bandits import held_out, metrics, participation, process_factory, round_parts
from bandits.options import Phase
from data import clients, tasks
from data.settings import make_options
from optimization import aggregators, fed_avg, models, options
from optimization.posterior import flags as posterior_flags
from optimization.privacy import mechanisms
from optimization.study import compiled, frame, payloads, run_folder, runner
from optimization.study.metrics import mean


class RoundState(NamedTuple):
    """State between rounds.

    Attributes:
      server: State of the TFF process.
      reward_total: float64, sum over rounds of the rounds' mean rewards.
      reward_rounds: int64, number of rounds with at least one example.
      clients: State of `participation.SampledClients` or `SelectedClients`.
      parts: State of each optional part of the round.
    """

    server: fed_avg.State
    reward_total: np.float64
    reward_rounds: np.int64
    clients: Any
    parts: tuple


class BanditRounds(runner.Rounds):
    """The rounds of a phase (Agarwal et al. 2023, Algorithms 1 and 4)."""

    def __init__(
        self,
        task: tasks.Task,
        phase: Phase,
        mechanism: mechanisms.Mechanism,
        initial_weights: models.Weights | None,
        folder: run_folder.RunFolder | None = None,
    ):
        """Builds the computations; with a client selector, reads every client once, to count its examples.

        Args:
          task: The task.
          phase: The phase.
          mechanism: The mechanism that is accounted as the privacy loss of the rounds.
          initial_weights: Model to start from; None draws one.
          folder: The run's opened folder, where clients that train alone have their states; None without such clients.

        Raises:
          UsageError: If memory is too small for the model.
        """
        self._phase = phase
        capped = clients.CappedClients(task.clients, phase.max_examples_per_client, phase.seed)
        self._definition = process_factory.define(task, phase, mechanism)
        model = self._definition.model
        if phase.bandit.trains:
            keeps_models = phase.posterior is not None and phase.posterior.name in posterior_flags.KEEP_MODELS
            size = payloads.of_model(list(model.shapes.values()))
            payloads.check_memory(size, phase.cohorts.size, keeps_models=keeps_models)
        if initial_weights is None:
            initial_weights = model.initial_weights(phase.seed)
        self._poll_key = process_factory.key(task, phase, self._definition)
        self._rounds = process_factory.rounds(task, phase, self._definition, initial_weights, folder)
        self._parts = process_factory.parts(task, phase, mechanism, model, self._rounds.initialize)
        self.loggers, self.evaluation = (
            self._rounds.loggers,
            held_out.Evaluation(task, phase, capped, self._definition, mechanism.kind != "none"),
        )
        changes = [part.inputs for part in self._parts]
        self.participations = functools.partial(participation.read, task, phase, capped, changes)
        read = self.participations, self._rounds.prepared
        self._clients: participation.SampledClients | participation.SelectedClients
        if phase.selection.is_uniform:
            is_secret = phase.bandit.trains and mechanism.rests_on_cohorts
            self._clients = participation.SampledClients(task, phase, *read, is_secret)
        else:
            self._clients = participation.SelectedClients(phase, capped, *read, self._losses)
        held = aggregators.secrets_in_state(phase.aggregation, mechanism) if phase.bandit.trains else []
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
        after, counts = self._rounds.next(server, cohort.inputs, round_num)
        chosen = self._clients.observe(chosen, counts)
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
        """How many rounds the phase has."""
        return make_options(options.Length, vars(self._phase))

    def _losses(self, server: fed_avg.State, inputs: list) -> Any:
        """Losses of the server's model that some clients report."""
        key = ("poll", len(inputs), self._poll_key)
        losses_of = compiled.kept(key, lambda: self._definition.build_loss_poll(len(inputs)))
        return losses_of(server.deployed, server.weights, inputs)

    def evaluate(self, state: RoundState) -> dict[str, float]:
        """Metrics of the trained model on held-out examples; see `held_out.Evaluation`."""
        return self.evaluation.evaluate(state.server)

    def model(self, state: RoundState) -> dict[str, np.ndarray]:
        """The trained model; none where clients train alone."""
        if self._phase.is_alone:
            return {}
        return dict(zip(self._definition.model.shapes, state.server.weights, strict=True))

    def finish(self, state: RoundState, folder: run_folder.RunFolder) -> list[str]:
        """Writes the files of the optional parts after a run, and returns lines to print."""
        lines = list(self._rounds.finish(state.server, folder))
        for part, own in zip(self._parts, state.parts, strict=True):
            lines += part.finish(own, folder)
        if self.secrets:
            lines.append(f"Keep {folder.path}/checkpoints secret: they hold {' and '.join(self.secrets)}.")
        if self._clients.secrets:
            lines.append("The cohorts are not sampled from --seed: runs of the same seed have different cohorts.")
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
