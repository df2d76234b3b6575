"""One phase of a bandit run as rounds: cohort -> inputs -> TFF round -> metrics.

The way of a client's data: `ClientData.load` -> `Task.normalize` -> `process.ClientInput` -> inference, training and
aggregation in `process` -> the metrics here.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bandits import (
    alone,
    client_rewards,
    logged_rounds,
    losses,
    metrics,
    personalization,
    process,
    process_factory,
    references,
    resets,
)
from bandits.options import REPLAY_ROWS, Phase
from data import clients, keys, tasks
from optimization import aggregators, client_work, cohorts, fed_avg, models, options
from optimization.posterior import flags as posterior_flags
from optimization.privacy import mechanisms
from optimization.runtime import rounds as runtime_rounds
from optimization.selection import availability, selectors
from optimization.study import compiled, frame, payloads, run_folder, runner
from optimization.study.metrics import mean

_FEW_CLIENTS = 10  # A tenth of them is one client.
_MOST_COMPARED = 2000  # Examples of participating clients that an evaluation reads to compare these.

# Depends on `TaskOptions.learn_from`. Doubly robust rewards have one value for each action.
_FEEDBACK = {"replay": "replay", "regression": "logged", "ips": "logged"}


class _Evaluated(NamedTuple):
    """Examples of some clients, for evaluation.

    Attributes:
      examples: Of all.
      names: Of the clients that have any.
      sizes: How many each has, in this order.
    """

    examples: clients.Examples
    names: list[str]
    sizes: list[int]

    @classmethod
    def of(cls, population: clients.ClientData, indices: Sequence[int], most: int, seed: int) -> "_Evaluated":
        """Examples of randomly chosen clients: at most `most` examples in all, or every example if it is 0."""
        parts = clients.chosen(population, indices, most, seed)
        names = [population.client_ids[index] for index, part in parts if len(part.labels)]
        sizes = [len(part.labels) for _, part in parts if len(part.labels)]
        return cls(clients.joined([part for _, part in parts]), names, sizes)

    def sums(self, rewards: np.ndarray) -> np.ndarray:
        """Sum of each client's rewards, float64 [clients], of float [examples]."""
        return np.add.reduceat(rewards.astype(float), np.cumsum([0, *self.sizes[:-1]]))

    def means(self, rewards: np.ndarray) -> dict[str, list]:
        """Mean reward of each client, of float [examples]."""
        return {"clients": self.names, "examples": self.sizes, "rewards": (self.sums(rewards) / self.sizes).tolist()}


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


def build_loss(phase: Phase, num_actions: int) -> losses.Loss:
    """Loss that a phase trains."""
    shape: dict[str, Any] = {
        "cross_entropy": phase.bandit.cross_entropy,
        "sigmoid": phase.bandit.cross_entropy and phase.sigmoid,
        "half_sum": phase.half_sum,
    }
    one: losses.BanditLoss | losses.SupervisedLoss
    if phase.bandit.supervised:
        one = losses.SupervisedLoss(**shape)
    else:
        if phase.published_epsilon is not None:  # (epsilon / K) / propensity, at most 1.
            shape |= {"weight_scale": phase.published_epsilon / num_actions, "weight_cap": 1.0}
        one = losses.BanditLoss(phase.importance_weighting, **shape)
    return losses.Bootstrapped(one) if phase.heads > 1 else one


def build_process(task: tasks.Task, phase: Phase, mechanism: mechanisms.Mechanism) -> process.BanditProcess:
    """Process of one phase."""
    bandit, model = phase.bandit, models.of_task(task, phase.heads)
    batch_size = phase.client_batch_size * (phase.cohorts.size if phase.pooled_steps == "client" else 1)
    local_sgd = client_work.LocalSgd(
        phase.client_learning_rate, batch_size, phase.client_epochs, corrections=phase.corrections
    )
    aggregator = noise = None
    if bandit.trains:
        aggregated = phase.aggregation, mechanism, tuple(model.shapes.values())
        aggregator, noise = aggregators.build(*aggregated), aggregators.noise(*aggregated)
    kind: type[process.BanditProcess] = process.BanditProcess
    halves, personal = int(phase.has_halves), {}
    local_work: client_work.ClientWork = local_sgd
    if phase.is_pooled:
        kind = logged_rounds.PooledProcess
    elif chosen := phase.personalization:
        kind = personalization.PersonalizedProcess
        adaptation = client_work.LocalSgd(chosen.learning_rate, phase.client_batch_size, chosen.epochs)
        personal = {"adaptation": adaptation, "only_head": chosen.layers == "last"}
        if phase.has_local_head:
            kind = personalization.LocalHeadProcess
            local_work = personalization.ReconstructedHead(adaptation, local_sgd)
    if phase.reports_clients:
        halves = phase.cohorts.size if phase.cohorts.sampling in ("fixed", "cyclic") else len(phase.population)
    return kind(
        model=model,
        policy=phase.policy.build(),
        scheduled=phase.policy.scheduled,
        loss=build_loss(phase, task.num_actions),
        reward_matrix=phase.drift.matrices(task.rewards[phase.rewards]),
        local_work=local_work if bandit.trains else None,
        aggregator=aggregator,
        server_optimizer=fed_avg.server_optimizer(phase.server_optimizer),
        deploy_every=phase.deploy_every,
        feature_spec=models.feature_spec(task),
        label_spec=models.label_spec(task),
        max_delay=phase.max_delay,
        cohort_size=0 if phase.selection.is_uniform else phase.cohorts.size,
        feedback=_FEEDBACK.get(phase.task.learn_from, "acting"),
        is_delayed=phase.delay.kind != "none",
        compression=phase.aggregation.compression,
        noise=noise,
        halves=halves,
        reward_bounds=task.reward_bounds,
        clips_rewards=phase.task.learn_from != "dr",
        **personal,
    )


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
        self._definition = build_process(task, phase, mechanism)
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
        self.adapted_rewards: dict[str, Any] = {}
        self._adapted = None
        if isinstance(self._definition, personalization.PersonalizedProcess):
            self._adapted = client_rewards.AdaptedRewards(self._definition, phase.seed)
        self.client_rewards: dict[str, Any] = {}  # Each client's mean reward in the last evaluation.
        self.is_evaluated = False
        self._earned = np.zeros(0)  # Rewards of the held-out examples in the last evaluation.
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
        computing = runtime_rounds.at_hand().computing
        self._prepare = cohorts.PreparedAhead(self._written_inputs, phase.total_rounds, computing)
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
            earned = client_rewards.after(earned, participations, counts)
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
        return options.named(options.Length, vars(self._phase))

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

    def _written_inputs(
        self, round_num: int, cohort_seed: int | None
    ) -> tuple[list[logged_rounds.Participation], list]:
        participations = self.participations(self.cohort(round_num, cohort_seed), round_num)
        inputs: list = [each.inputs for each in participations]
        if self.acting or self.alone:
            return participations, inputs
        if self._phase.is_pooled:
            key = keys.tensorflow_key(self._phase.seed, keys.Purpose.TRAINING, round_num, len(self._clients))
            inputs = logged_rounds.pooled_inputs(inputs, key)
        return participations, runtime_rounds.written_ahead(inputs, self._definition.client_type)

    def _poll(self, state: fed_avg.State, ids: np.ndarray, round_num: int) -> np.ndarray:
        """Losses of the server's model that some clients report."""
        key = ("poll", len(ids), self._poll_key)
        losses_of = compiled.kept(key, lambda: self._definition.build_loss_poll(len(ids)))
        return losses_of(state.deployed, state.weights, self.inputs(ids, round_num))

    def evaluate(self, state: Progress) -> dict[str, float]:
        """Metrics of the trained model's greedy policy on held-out examples, and its fairness over clients.

        Empty if clients train alone, as no held-out client has a model; with a local head, of adapted models only.
        """
        self.is_evaluated = True
        if self.alone:
            return {}
        if self._phase.has_local_head:  # The server's last layer is untrained.
            return self._evaluate_adapted(state)
        held_out, compared = self._held_out, self._compared
        right, reward, each = self._greedy(state, held_out.examples)
        self._earned = each
        count = len(held_out.examples.labels)
        if compared is not held_out:
            _, _, each = self._greedy(state, compared.examples)
        is_apart = compared is held_out and self._take_no_part(compared.names)
        self.client_rewards = {"held_out": is_apart, **compared.means(each)}
        rewards = np.array(self.client_rewards["rewards"])
        # The worst tenth of few clients is one client, whose reward a private run must not show.
        is_hidden = not is_apart and self._mechanism.kind != "none" and len(rewards) <= _FEW_CLIENTS
        # Only labels say which action is right: a reward above 0, in a table or a log, does not.
        has_right = not self._phase.task.reward_columns and self._phase.task.task_type != "logged"
        return {
            metrics.ACCURACY: right / count if has_right else np.nan,
            metrics.HELD_OUT_REWARD: reward / count,
            metrics.WORST_TENTH: np.nan if is_hidden else metrics.worst_tenth(rewards),
            metrics.JAIN_INDEX: metrics.jain_index(rewards),
        } | self._evaluate_adapted(state)

    def _evaluate_adapted(self, state: Progress) -> dict[str, float]:
        """Metrics of the policy with adapted models; none without personalization."""
        if self._adapted is None:
            return {}
        held_out, seed = self._task.held_out, self._phase.seed
        indices, population = range(len(held_out)), held_out
        if is_nobodys := len(held_out) < 2:
            indices, population = self._phase.population, self._clients
        compared = clients.chosen(population, indices, _MOST_COMPARED, seed)
        names = [population.client_ids[index] for index, _ in compared]
        examples = [part._replace(features=self._task.normalize(part.features)) for _, part in compared]
        period = int(state.server.round_num) // self._phase.deploy_every
        scheduled = self._phase.scheduled_value(self._task.num_actions, period) or 0.0
        environment = float(self._environment(state))
        after, rewards = self._adapted.evaluate(state.server.weights, names, examples, scheduled, environment)
        self.adapted_rewards = {"held_out": not is_nobodys and self._take_no_part(names), **rewards}
        return {metrics.PERSONALIZED_REWARD: after}

    def _take_no_part(self, names: Sequence[str]) -> bool:
        """Whether none of these clients can train; in some tasks the clients who train have held-out examples, too."""
        return set(names).isdisjoint(self._task.clients.client_ids)

    def best_fixed_reward(self, state: Progress) -> float:
        """Mean reward of the best fixed action in hindsight, on the held-out examples of `evaluate`."""
        matrix = process.mixture(self._definition.reward_matrix, self._environment(state))
        rewards = process.reward_vectors(self._held_out.examples.labels, matrix)
        return float(np.asarray(rewards).mean(axis=0, dtype=float).max())

    def compared_with_references(self, state: Progress, action: int, name: str, further: str) -> str:
        """The greedy policy's reward on held-out clients beside those of `references`, in words.

        Args:
          state: The last state.
          action: The best fixed action.
          name: Its name.
          further: Line on a further reference.
        """
        held_out = self._held_out
        matrix = process.mixture(self._definition.reward_matrix, self._environment(state))
        rewards = np.asarray(process.reward_vectors(held_out.examples.labels, matrix))
        sums = [held_out.sums(each) for each in (self._earned, rewards.mean(axis=1, dtype=float), rewards[:, action])]
        of_references = dict(zip((references.UNIFORM, references.FIXED), sums[1:], strict=True))
        return references.in_words(sums[0], of_references, np.array(held_out.sizes), name, further)

    def _environment(self, state: Progress) -> tf.Tensor:
        return tf.constant(self._phase.drift.at(max(1, int(state.server.round_num)), None), tf.float32)

    def _greedy(self, state: Progress, examples: clients.Examples) -> tuple[int, float, np.ndarray]:
        """Number of correct actions, sum of rewards and rewards, [examples], of the trained model's greedy policy."""
        right, reward, each = 0, 0.0, []
        environment = self._environment(state)
        for batch in self._task.batches(examples, self._phase.eval_batch_size):
            counts = self._greedy_sums(tuple(state.server.weights), environment, *batch)
            right += int(counts[0])
            reward += float(counts[1])
            each.append(counts[2].numpy())
        return right, reward, np.concatenate(each)

    @functools.cached_property
    def _held_out(self) -> "_Evaluated":
        population = self._task.held_out
        most = self._phase.max_validation_samples
        return _Evaluated.of(population, range(len(population)), most, self._phase.seed)

    @functools.cached_property
    def _compared(self) -> "_Evaluated":
        """The clients whose rewards are compared: those that take part, where the held-out examples are nobody's."""
        if len(self._task.held_out) > 1:
            return self._held_out
        return _Evaluated.of(self._clients, self._phase.population, _MOST_COMPARED, self._phase.seed)

    @functools.cached_property
    def _greedy_sums(self):
        """Of (weights, environment, features, labels): right answers, rewards, and each reward of the greedy policy."""
        definition, multi_label = self._definition, self._task.multi_label
        specs = [definition.model.specs, tf.TensorSpec(()), definition.feature_spec, definition.label_spec]

        @tf.function(input_signature=specs, autograph=False)  # Autograph would take half a second to change nothing.
        def sums(weights, environment, features, labels):
            outputs = definition.model.forward(weights, models.dense(features))
            if definition.model.heads > 1:
                outputs = process.predicted_rewards(definition.model, definition.loss, outputs)
            action = tf.argmax(outputs, axis=1, output_type=tf.int32)
            rewards = process.reward_vectors(labels, process.mixture(definition.reward_matrix, environment))
            is_right = tf.gather(labels, action, axis=1, batch_dims=1) > 0 if multi_label else tf.equal(labels, action)
            earned = tf.gather(rewards, action, axis=1, batch_dims=1)
            return tf.reduce_sum(tf.cast(is_right, tf.int32)), tf.reduce_sum(earned), earned

        return sums

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
        **client_rewards.of_halves(counts),
        metrics.ROUND_PROBABILITY: mean(counts.propensity_sum, examples),
        metrics.DEPLOYED: int(counts.deployed),
        metrics.LOSS: mean(counts.loss_sum, int(counts.batch_examples)),
        metrics.UPDATE_NORM: float(counts.update_norm),
        metrics.EXAMPLES: examples,
        metrics.EMPTY_CLIENTS: int(counts.empty_clients),
        metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
    }
