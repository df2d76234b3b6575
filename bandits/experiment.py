"""One phase of a bandit run as rounds: cohort -> inputs -> TFF round -> metrics.

The way of a client's data: `ClientData.load` -> `Task.normalize` -> `process.ClientInput` -> inference, training and
aggregation in `process` -> the metrics here.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bandits import alone, held_out, logged_rounds, metrics, personalization, process, process_factory, resets
from bandits.options import REPLAY_ROWS, Phase
from data import clients, keys, tasks
from data.settings import make_options
from optimization import aggregators, cohorts, fed_avg, models, options
from optimization.posterior import flags as posterior_flags
from optimization.privacy import mechanisms
from optimization.selection import availability, selectors
from optimization.study import compiled, frame, payloads, run_folder, runner
from optimization.study.metrics import mean


class Progress(NamedTuple):
    """State between rounds: the server's, and what the running average needs.

    Attributes:
      server: State of the TFF process.
      reward_total: float64, round rewards summed over rounds.
      reward_rounds: int64, rounds with at least one example.
      selection: The client selector's state; empty without one.
      cohort_seed: uint32 [4], where privacy rests on secret cohorts: their seed; else empty, and `--seed` draws them.
      losses: What `resets.Watch` reads: float64, losses of the rounds since the last reset; empty if it reads none.
      taken_part: int64 [clients, 2], where clients train alone: each one's first and last round, 0 for none.
      earned: float64 [clients, 5], where clients are reported: each one's participations, and the number of examples
        and the sum of expected rewards in half A, and in half B.
    """

    server: fed_avg.State
    reward_total: np.float64
    reward_rounds: np.int64
    selection: Any = ()
    cohort_seed: Any = ()
    losses: Any = ()
    taken_part: Any = ()
    earned: Any = ()


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
          mechanism: What is accounted as the privacy that its rounds spend.
          initial_weights: Model to start from; None draws one.
          folder: The run's opened folder, where clients that train alone have their states; None without such.

        Raises:
          UsageError: If memory is too small for the model.
        """
        self._task, self._phase, self._mechanism = task, phase, mechanism
        self._clients = clients.CappedClients(task.clients, phase.max_examples_per_client, phase.seed)
        self._definition = process_factory.define(task, phase, mechanism)
        if phase.bandit.trains:
            keeps_models = phase.posterior is not None and phase.posterior.name in posterior_flags.KEEP_MODELS
            size = payloads.of_model(list(self._definition.model.shapes.values()))
            payloads.check_memory(size, phase.cohorts.size, keeps_models=keeps_models)
        if initial_weights is None:
            initial_weights = self._definition.model.initial_weights(phase.seed)
        self._poll_key = process_factory.key(task, phase, self._definition)
        self.acting, trained = None, self._definition
        if phase.logs_interactions and phase.logs:
            self.acting, trained = logged_rounds.ActingFirst(trained), logged_rounds.trained(trained)
        self._process_of = process_factory.build(task, phase, trained, initial_weights)
        shapes = list(self._definition.model.shapes.values())[: -2 if phase.has_local_head else None]
        trains, model = phase.bandit.trains, payloads.of_model(shapes)
        # A client receives its deployed model and, if it trains, the one in training.
        down = model * (1 + (trains and not phase.is_pooled))
        self._payloads = down, payloads.of_update(shapes, phase.aggregation) * trains
        self.alone = None
        if phase.is_alone:
            if folder is None:
                raise ValueError("Clients that train alone need a folder for their models.")
            states = alone.ClientStates(folder.path / run_folder.CLIENT_MODELS, folder.checkpoint_rounds)
            self.alone = alone.AloneRounds(self._process_of(1), phase.deploy_every, states)
        is_private = mechanism.kind != "none"
        self.evaluation = held_out.Evaluation(task, phase, self._clients, self._definition, is_private)
        self._watch = resets.Watch(phase.reset)
        self._attendance = None
        if phase.cohorts.availability.may_be_absent:
            present = phase.cohorts.availability
            zones = present.zones(task.clients, len(task.rewards["exact"]), phase.population)
            self._attendance = availability.Attendance(present, zones, phase.seed)
        self._selected = None
        if not phase.selection.is_uniform:
            selector = phase.selection.build(clients.sizes(self._clients, phase.population), phase.cohorts.size)
            self._selected = selectors.SelectedCohorts(selector, phase.seed)
        self._prepare = cohorts.PreparedAhead(self._prepared_inputs, phase.total_rounds)
        self._has_secret_cohorts = phase.bandit.trains and mechanism.rests_on_cohorts and not self._selected
        held = aggregators.secrets_in_state(phase.aggregation, mechanism) if phase.bandit.trains else []
        self.secrets = (*held, *["the seed of the cohorts"] * self._has_secret_cohorts)

    def initial_state(self) -> Progress:
        """State before round 1."""
        return Progress(
            server=self._process_of(1).initialize(),
            reward_total=np.float64(0),
            reward_rounds=np.int64(0),
            selection=self._selected.selector.initial_state() if self._selected else (),
            cohort_seed=cohorts.secret_seed() if self._has_secret_cohorts else (),
            losses=self._phase.reset.no_losses(),
            taken_part=np.zeros((self._phase.population.stop, 2), np.int64) if self.alone else (),
            earned=np.zeros((self._phase.population.stop, 5)) if self._phase.reports_clients else (),
        )

    def run_round(self, state: Progress, round_num: int) -> tuple[Progress, dict[str, Any]]:
        """Runs a round: a reset if it is due, the cohort, its inputs, the TFF round, the metrics."""
        if is_reset := self._watch.is_due(round_num, state.losses):
            state = self._reset(state, round_num)
        if self._selected:
            sampled, polled, learned = self._selected.choose(
                state.selection, round_num, lambda ids: self._poll(state.server, ids, round_num)
            )
            participations = self.participations(sampled, round_num)
            inputs: list = [each.inputs for each in participations]
        else:
            learned, secret = (), state.cohort_seed
            cohort_seed = cohorts.as_integer(secret) if len(secret) else None
            participations, inputs = self._prepare(round_num, cohort_seed)
        if self.acting:
            inputs = self.acting(state.server.deployed, participations, round_num)
        taken_part = state.taken_part
        if self.alone:
            server_state, counts, taken_part = self.alone.next(state.server, participations, taken_part, round_num)
        else:
            server_state, counts = self._process_of(round_num).next(state.server, inputs)
        if self._selected:
            learned = self._selected.observe(learned, sampled, counts.client_losses, counts.client_deviations)
        total, rounds = state.reward_total, state.reward_rounds
        if counts.examples:
            total, rounds = total + float(counts.reward_sum) / int(counts.examples), rounds + 1
        row = _report(counts, float(total), int(rounds))
        phase, earned = self._phase, state.earned
        if phase.reports_clients:
            earned = personalization.add_rewards(earned, participations, counts)
        if self._selected:
            row |= payloads.of_selected(*self._payloads, sampled, polled)
        elif self.alone:
            row |= payloads.row(0, 0, 0, 0)
        else:
            down, up = self._payloads
            sent, came = self._started(round_num, cohort_seed, participations), len(participations)
            if phase.is_pooled and phase.bandit.trains:
                up, came = sum(payloads.of_log(each.inputs.features) for each in participations), 1
            row |= payloads.row(down, up, sent, came)
        if phase.reset != resets.NONE:
            row[metrics.RESET] = int(is_reset)
        if phase.bandit.trains:
            before = state.server.aggregator
            row[metrics.CLIP_NORM] = aggregators.clip_norm(phase.aggregation, before, counts.aggregator)
            row[metrics.CLIPPED_CLIENTS] = aggregators.clipped_clients(counts.aggregator)
        # By PLD it takes as long as a short round.
        if self._mechanism.accountant == "rdp" or self.length.ends_in_evaluation(round_num):
            row[metrics.EPSILON] = self._mechanism.epsilon(phase.accounted(round_num))
        reward, bounds = row[metrics.ROUND_REWARD], self._task.reward_bounds
        loss = phase.reset.loss_of(row[metrics.LOSS], float(bounds.to_unit(reward)) if bounds else reward)
        noted = self._watch.noted(state.losses, loss)
        after = server_state, np.float64(total), np.int64(rounds), learned, state.cohort_seed, noted, taken_part, earned
        return Progress(*after), row

    def _reset(self, state: Progress, round_num: int) -> Progress:
        """State with training restarted; the deployed model and the aggregator's state are kept."""
        first, server_state = self._process_of(round_num).initialize(), state.server
        if self._phase.reset.what == "model":
            server_state = server_state._replace(weights=first.weights)
        server_state = server_state._replace(optimizer=first.optimizer)
        return state._replace(server=server_state, losses=self._phase.reset.no_losses())

    @property
    def length(self) -> frame.Length:
        """How many rounds the phase has."""
        return make_options(options.Length, vars(self._phase))

    def cohort(self, round_num: int, cohort_seed: int | None = None, *, with_drop_outs: bool = False) -> np.ndarray:
        """Positions in the phase's population of a round's clients, int [clients], without a selector.

        Args:
          round_num: The round.
          cohort_seed: Seed of the draw; None for the run's. All other draws depend on the client alone and
            need no secret.
          with_drop_outs: Whether clients count that start the round and drop out.
        """
        seed = self._phase.seed if cohort_seed is None else cohort_seed
        draw_of = 1 if self._phase.alone_budget == "equal" else round_num
        groups = self._groups(seed) if self._phase.cohorts.sampling == "cyclic_poisson" else None
        sampled = cohorts.draw(self._phase.cohorts, len(self._phase.population), seed, draw_of, groups)
        if self._attendance is None:
            return sampled
        attending = self._attendance.start if with_drop_outs else self._attendance.come
        # A client that is skipped waits for its next turn. It is not replaced.
        return attending(sampled, round_num, fill=self._phase.cohorts.sampling == "fixed")

    def _started(self, round_num: int, cohort_seed: int | None, inputs: Sequence) -> int:
        """Number of clients that were sent the models of a round in which these came."""
        if not self._phase.cohorts.availability.drop_out:
            return len(inputs)
        return len(self.cohort(round_num, cohort_seed, with_drop_outs=True))

    @functools.cached_property
    def _groups(self) -> Callable[[int], np.ndarray]:
        """Of the seed of the cohorts, the groups of the phase's clients."""
        names = [self._task.clients.client_ids[client] for client in self._phase.population]
        return functools.cache(lambda seed: cohorts.groups(names, self._phase.cohorts.groups, seed))

    def inputs(self, positions: np.ndarray, round_num: int) -> list[process.ClientInput]:
        """Reads the clients of a cohort.

        Args:
          positions: int [clients], in the phase's population.
          round_num: The round.
        """
        return [each.inputs for each in self.participations(positions, round_num)]

    def participations(self, positions: np.ndarray, round_num: int) -> list[logged_rounds.Participation]:
        """Reads the clients of a cohort, as `inputs` does, and says whose and which examples each input is."""
        phase = self._phase
        seed, most = phase.seed, phase.max_delay
        period = (round_num - 1) // phase.deploy_every
        acts_at = period if phase.keeps_cache else round_num
        acted_in = phase.acted_in(round_num)
        participations = []
        for place, position in enumerate(positions):
            client = phase.population[position]
            examples, rows = self._clients.load_with_rows(client, acts_at if phase.redraws_examples else None)
            client_keys = process.ClientKeys(
                cache=keys.tensorflow_key(seed, keys.Purpose.CACHE, acts_at, client),
                training=keys.tensorflow_key(seed, keys.Purpose.TRAINING, round_num, client),
            )
            lag = keys.generator(seed, keys.Purpose.DELAY, period, client).integers(most + 1) if most else 0
            if len(offered := self._offered(len(rows), round_num)) < len(rows):
                examples, rows = examples.take(np.array(offered, np.int64)), rows[np.array(offered, np.int64)]
            features = self._task.normalize(examples.features)
            # A client with a stale model also uses the policy that was deployed with that model.
            scheduled = phase.scheduled_value(self._task.num_actions, max(0, period - int(lag)))
            environment = phase.drift.at(acted_in, client)
            scalars = np.int32(lag), np.int32(place), np.float32(scheduled or 0), np.float32(environment)
            inputs = process.ClientInput(features, examples.labels, client_keys, *scalars)
            if phase.delay.kind != "none":
                observed = phase.delay.observed(seed, period, client, len(rows), round_num - acted_in)
                inputs = inputs._replace(observed=observed)
            if phase.has_halves:
                inputs = inputs._replace(half=clients.second_half(seed, client, rows))
            participations.append(logged_rounds.Participation(inputs, client, rows))
        # The worker takes them in this order: with the small ones last, its cores end together.
        return sorted(participations, key=lambda participation: len(participation.rows), reverse=True)

    def _offered(self, count: int, round_num: int) -> range:
        """Indices of the rows of a client that a round offers.

        In replay it is each round's own part, in the order of the log, so that no row is met twice: a policy would else
        be judged on what it has learned from.
        """
        if self._phase.task.learn_from != "replay":
            return range(count)
        return range(count)[(round_num - 1) * REPLAY_ROWS : round_num * REPLAY_ROWS]

    def _prepared_inputs(
        self, round_num: int, cohort_seed: int | None
    ) -> tuple[list[logged_rounds.Participation], list]:
        participations = self.participations(self.cohort(round_num, cohort_seed), round_num)
        inputs: list = [each.inputs for each in participations]
        if self.acting or self.alone:
            return participations, inputs
        if self._phase.is_pooled:
            key = keys.tensorflow_key(self._phase.seed, keys.Purpose.TRAINING, round_num, len(self._clients))
            inputs = logged_rounds.pooled_inputs(inputs, key)
        return participations, inputs

    def _poll(self, state: fed_avg.State, ids: np.ndarray, round_num: int) -> np.ndarray:
        """Losses of the server's model that some clients report."""
        key = ("poll", len(ids), self._poll_key)
        losses_of = compiled.kept(key, lambda: self._definition.build_loss_poll(len(ids)))
        return losses_of(state.deployed, state.weights, self.inputs(ids, round_num))

    def evaluate(self, state: Progress) -> dict[str, float]:
        """Metrics of the trained model on held-out examples; see `held_out.Evaluation`."""
        return self.evaluation.evaluate(state.server)

    def model(self, state: Progress) -> dict[str, np.ndarray]:
        """The trained model; none where clients train alone."""
        if self.alone:
            return {}
        return dict(zip(self._definition.model.shapes, state.server.weights, strict=True))


def _report(counts: fed_avg.RoundMetrics, reward_total: float, reward_rounds: int) -> dict[str, Any]:
    """A row of `metrics.csv`; a mean over nothing is NaN."""
    examples = int(counts.examples)
    return {
        metrics.ROUND_REWARD: mean(counts.reward_sum, examples),
        metrics.AVERAGE_REWARD: mean(reward_total, int(reward_rounds)),
        **personalization.of_halves(counts),
        metrics.ROUND_PROBABILITY: mean(counts.propensity_sum, examples),
        metrics.DEPLOYED: int(counts.deployed),
        metrics.LOSS: mean(counts.loss_sum, int(counts.batch_examples)),
        metrics.UPDATE_NORM: float(counts.update_norm),
        metrics.EXAMPLES: examples,
        metrics.EMPTY_CLIENTS: int(counts.empty_clients),
        metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
    }
