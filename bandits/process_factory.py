"""Builds the process of a phase: its definition, its rounds, and their optional parts.

Runs that differ only in their state (seed, initial model, server learning rate) share one TFF process. A program that
executes many runs builds a round once for all of them, or loads the round that an earlier program stored. Sharing does
not change the results.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from bandits import alone, event_triggered, logged_rounds, losses, personalization, process, resets, round_parts
from bandits.options import Phase
from data import clients, download, objects, tasks
from data.settings import make_options
from optimization import aggregators, client_states, client_work, fed_avg, models, options, scaffold
from optimization.posterior import algorithms
from optimization.privacy import mechanisms
from optimization.runtime import cached_rounds
from optimization.study import compiled, payloads, run_folder

_RATE = "learning_rate"  # Name of the learning rate in the states of TFF's optimizers.


# `BanditProcess.feedback` for values of `TaskOptions.learn_from`; with all others, clients act, also with `dr`, because
# doubly robust rewards have one value for each action.
_FEEDBACK = {"replay": "replay", "regression": "logged", "ips": "logged"}


def build_loss(phase: Phase, num_actions: int) -> losses.Loss:
    """Returns the loss that a phase trains with."""
    shape: dict[str, Any] = {
        "cross_entropy": phase.bandit.cross_entropy,
        "sigmoid": phase.bandit.cross_entropy and phase.cross_entropy == "sigmoid",
        "half_sum": phase.loss == "half_sum",
    }
    one: losses.BanditLoss | losses.SupervisedLoss
    if phase.bandit.supervised:
        one = losses.SupervisedLoss(**shape)
    else:
        if phase.published_epsilon is not None:  # (epsilon / K) / propensity, at most 1.
            shape |= {"weight_scale": phase.published_epsilon / num_actions, "weight_cap": 1.0}
        one = losses.BanditLoss(importance_weighted=phase.importance_weighting, **shape)
    return losses.Bootstrapped(one) if phase.heads > 1 else one


def define(task: tasks.Task, phase: Phase, mechanism: mechanisms.Mechanism) -> process.BanditProcess:
    """Returns the process definition of one phase."""
    bandit, model = phase.bandit, models.of_task(task, phase.heads)
    batch_size = phase.client_batch_size * (phase.cohorts.size if phase.pooled_steps == "client" else 1)
    local_sgd = client_work.LocalSgd(
        phase.client_learning_rate,
        batch_size,
        phase.client_epochs,
        momentum=dict(phase.client_hyperparameters).get("momentum", 0.0),
        corrections=phase.corrections,
        optimizer=phase.client_optimizer,
        hyperparameters=phase.client_hyperparameters,
    )
    aggregator = noise = statistics = joint_clip_norm = None
    policy, shapes = phase.policy.build(), tuple(model.shapes.values()) * bandit.trains
    if phase.has_noisy_sums:  # The update and the sums together have at most the clip norm.
        joint_clip_norm = mechanism.clip_norm / (math.sqrt(2) if bandit.trains else 1)
        low, high = (0.0, 1.0) if phase.task.reward_bounds else task.reward_range(phase.rewards)
        policy = dataclasses.replace(policy, clip_norm=joint_clip_norm, low=low, high=high)
        *_, (units, groups), _ = model.shapes.values()
        shapes += (groups, units + 1, units + 1), (groups, units + 1)
    if shapes:
        aggregated = phase.aggregation, mechanism, shapes
        aggregator, noise = aggregators.build(*aggregated), aggregators.noise(*aggregated)
    if policy.sums and not phase.has_noisy_sums:  # A secure sum rounds to a grid of 2^32 steps from -bound to bound.
        is_secure = phase.aggregation.kind == "secure_sum"
        sums = tff.aggregators
        statistics = sums.SecureSumFactory(float(policy.bound)) if is_secure else sums.SumFactory()
    kind: type[process.BanditProcess] = process.BanditProcess
    halves, personal = int(phase.has_halves), {}
    local_work: client_work.ClientWork = client_work.of_user(phase.client_work) if phase.client_work else local_sgd
    if phase.is_pooled:
        kind = logged_rounds.PooledProcess
    elif chosen := phase.personalization:
        kind = personalization.PersonalizedProcess
        adaptation = client_work.LocalSgd(chosen.learning_rate, phase.client_batch_size, chosen.epochs)
        personal = {"adaptation": adaptation, "only_head": chosen.layers == "last"}
        if phase.has_local_head:
            kind = personalization.LocalHeadProcess
            local_work = personalization.ReconstructedHead(adaptation, local_work)
    if phase.reports_clients:
        halves = phase.cohorts.size if phase.cohorts.sampling in ("fixed", "cyclic") else len(phase.population)
    return kind(
        model=model,
        policy=policy,
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
        noise=noise,
        statistics=statistics,
        joint_clip_norm=joint_clip_norm,
        halves=halves,
        reward_bounds=task.reward_bounds,
        clips_rewards=phase.task.learn_from != "dr",
        own_metrics=phase.own_metrics,
        **personal,
    )


def check(task: tasks.Task, phase: Phase, mechanism: mechanisms.Mechanism) -> None:
    """Builds a phase's training with the user's parts, and trains once on a few contexts with random rewards.

    Raises:
      UsageError: If a part has the wrong type, fails, or does not fit the model.
    """
    definition, count = define(task, phase, mechanism), 8
    features = models.dense(task.normalize(clients.pool(task.clients, count, phase.seed).features))
    shapes = {"reward": [], "propensity": [], losses.FULL_FEEDBACK: [task.num_actions], losses.BOOTSTRAP: [phase.heads]}
    log = {name: tf.random.stateless_uniform([count, *shape], [0, 1], 0.1) for name, shape in shapes.items()}
    log |= {"features": features, "action": tf.range(count) % task.num_actions, "half": tf.range(count) % 2 > 0}
    with objects.blamed("--client_work" if phase.client_work else "--client_optimizer"):
        client_work.check(definition.local_work, definition.model, definition.loss, log)  # type: ignore[arg-type]


def rounds(
    task: tasks.Task,
    phase: Phase,
    definition: process.BanditProcess,
    initial_weights: models.Weights,
    folder: run_folder.RunFolder | None = None,
) -> round_parts.FederatedRounds:
    """Returns the rounds of a phase, which start from `initial_weights`.

    `folder` is the run's open folder. It stores the states of clients that train alone, keep control variates or decide
    when to exchange sums, and is not needed otherwise.
    """
    if phase.logs_interactions and phase.logs:
        process_of = build(task, phase, logged_rounds.trained(definition), initial_weights)
        return logged_rounds.LoggedRounds(task, definition, process_of)
    process_of = build(task, phase, definition, initial_weights)
    if phase.is_pooled:
        return logged_rounds.PooledRounds(process_of, definition, phase.seed, len(task.clients))
    if not (phase.is_alone or phase.has_variates or phase.is_event_triggered):
        return round_parts.FederatedRounds(process_of, definition)
    if folder is None:
        raise ValueError("A folder is needed to store the clients' states.")
    open_states = functools.partial(client_states.ClientStates, checkpoint_rounds=folder.checkpoint_rounds)
    if phase.is_alone:
        states = open_states(folder.path / run_folder.CLIENT_MODELS)
        return alone.AloneRounds(process_of, definition, states, phase.population.stop)
    if phase.has_variates:
        states = open_states(folder.path / run_folder.CLIENT_VARIATES)
        return ScaffoldRounds(process_of(1), definition, states, phase.population)
    policy: Any = definition.policy
    limits = policy.ridge, phase.communication_threshold
    triggered = event_triggered.Rounds(
        event_triggered.of_process(definition),
        lambda downloaded, local: event_triggered.triggers(downloaded["gram"], local["gram"], *limits),  # type: ignore[arg-type]
        {name: np.zeros(spec.shape) for name, spec in definition.sums_spec.items()},
        (((definition.weights_type,), definition.weights_type), definition.client_type),
        open_states(folder.path / run_folder.CLIENT_SUMS),
        phase.population.stop,
    )
    return EventTriggeredRounds(process_of, definition, triggered)


def parts(
    task: tasks.Task,
    phase: Phase,
    mechanism: mechanisms.Mechanism,
    definition: process.BanditProcess,
    initialize: Callable[[], fed_avg.State],
) -> list[round_parts.Part]:
    """Returns the optional parts of a phase's rounds, in order.

    `mechanism` is the privacy mechanism that is accounted for, and `initialize` returns the server's initial state.
    """
    trains, length = phase.bandit.trains, make_options(options.Length, vars(phase))
    shapes = list(definition.model.shapes.values())[: -2 if phase.has_local_head else None]
    # A client receives its deployed model and, if it trains, the one in training. Variates are as large as models.
    more = payloads.of_model([spec.shape for spec in definition.sums_spec.values()])
    more += payloads.of_model(shapes) * phase.has_variates
    down = payloads.of_model(shapes) * (1 + (trains and not phase.is_pooled)) + more
    up = None if phase.is_pooled and trains else payloads.of_update(shapes, phase.aggregation) * trains + more
    sent = (0, 0) if phase.is_alone else (down, up)
    every: list[tuple[Any, round_parts.Part]] = [
        (phase.task.learn_from == "replay", round_parts.Replay(phase)),
        (phase.max_delay, round_parts.StaleModels(phase)),
        (phase.policy.schedule, round_parts.ScheduledExploration(phase, task.num_actions)),
        (phase.drift.kind != "none", round_parts.DriftingRewards(phase)),
        (phase.delay.kind != "none", round_parts.DelayedRewards(phase)),
        (phase.has_halves, round_parts.Halves(phase)),
        (phase.own_metrics, round_parts.OwnMetrics(phase)),
        (phase.reset != resets.NONE, round_parts.Resets(phase.reset, task.reward_bounds, initialize)),
        (definition.policy.has_state, round_parts.OwnPolicy(phase, definition, len(task.clients), mechanism)),
        (phase.reports_clients, round_parts.ClientReports(task.clients.client_ids[: phase.population.stop])),
        (True, round_parts.EventTriggered(more) if phase.is_event_triggered else round_parts.Payloads(*sent)),
        (definition.aggregator, round_parts.Clipping(phase)),
        (trains and phase.aggregation.kind in options.ROBUST, round_parts.RobustAggregation()),
        (True, round_parts.PrivacySpent(phase, mechanism, length)),
    ]
    return [part for is_used, part in every if is_used]


class SharedProcess(NamedTuple):
    """A run's view of a shared process.

    Attributes:
      shared: The process.
      definition: Definition of the run's rounds.
      initial_weights: The run's theta_0.
      server_learning_rate: The run's server learning rate.
    """

    shared: tff.templates.IterativeProcess
    definition: process.BanditProcess
    initial_weights: models.Weights
    server_learning_rate: float

    def initialize(self) -> fed_avg.State:
        """Returns the run's initial state."""
        state = self.shared.initialize()
        weights = tuple(np.asarray(weight) for weight in self.initial_weights)
        optimizer = self.definition.server_optimizer.set_hparams(
            state.optimizer, {_RATE: np.asarray(state.optimizer[_RATE]).dtype.type(self.server_learning_rate)}
        )
        return state._replace(weights=weights, deployed=(weights,) * len(state.deployed), optimizer=optimizer)

    @property
    def next(self) -> tff.Computation:
        """Runs a round: (state, clients) -> (state, metrics)."""
        return self.shared.next


class _ChainState(NamedTuple):
    """State of a chain's rounds, which takes the place of the server optimizer's state.

    Attributes:
      weights: The chain's newest state.
      optimizer: The server optimizer's state.
    """

    weights: tuple
    optimizer: object


class ChainRounds:
    """Rounds that each end with a step of the server's chain.

    Clients train the chain's newest state and act with its average.
    """

    def __init__(self, rounds: Any, chain: algorithms.ServerChain, seed: int):
        """Wraps the rounds that average updates; `seed` is the run's seed."""
        self._rounds, self._chain, self._seed = rounds, chain, seed

    def initialize(self) -> fed_avg.State:
        """Returns the state before round 1."""
        state = self._rounds.initialize()
        return state._replace(optimizer=_ChainState(tuple(state.weights), state.optimizer))

    def next(self, state: fed_avg.State, cohort: Any) -> tuple[fed_avg.State, fed_avg.RoundMetrics]:
        """Runs a round. The new state's `weights` are the chain's average, or its newest state during burn-in."""
        chain: Any = state.optimizer
        after, metrics = self._rounds.next(state._replace(weights=chain.weights, optimizer=chain.optimizer), cohort)
        round_num = int(after.round_num)
        newest = self._chain.state(after.weights, self._seed, round_num)
        served = self._chain.served(state.weights, newest, round_num)
        deployed = (served, *after.deployed[1:]) if metrics.deployed else after.deployed
        kept = _ChainState(newest, after.optimizer)
        return after._replace(weights=served, deployed=deployed, optimizer=kept), metrics


class ScaffoldRounds(scaffold.Rounds, round_parts.FederatedRounds):
    """Rounds of clients that keep control variates."""

    numbers_clients = True


class EventTriggeredRounds(round_parts.FederatedRounds):
    """Rounds of a linear bandit whose clients decide when to exchange sums; its model does not change.

    The state of `event_triggered.Rounds` takes the place of the aggregator's state, and the number of messages takes
    the place of the aggregator's measurements.
    """

    numbers_clients = True

    def __init__(self, process_of: Callable[[int], Any], definition: Any, rounds: event_triggered.Rounds):
        super().__init__(process_of, definition)
        self._rounds = rounds

    def initialize(self) -> fed_avg.State:
        return super().initialize()._replace(aggregator=self._rounds.initialize())

    def next(self, server: Any, inputs: Any, round_num: int) -> tuple[Any, fed_avg.RoundMetrics]:
        # Without clients, the process only counts the round.
        after, counts = super().next(server._replace(aggregator=()), [], round_num)
        before, shared = server.aggregator, (server.deployed, server.weights)
        state, reports, messages = self._rounds.next(before, shared, inputs, round_num)
        sums = {name: sum(report[name] for _, report in reports) for name in reports[0][1]} if reports else {}
        statistics = {name: total - before.totals[name] for name, total in state.totals.items()}
        counts = counts._replace(**sums, statistics=statistics, aggregator=messages)
        return after._replace(aggregator=state), counts


def build(
    task: tasks.Task, phase: Phase, definition: process.BanditProcess, initial_weights: models.Weights
) -> Callable[[int], Any]:
    """Returns a function that maps a round number (from 1) to the process of that round.

    With posterior aggregation, `definition.local_work` is the clients' training in burn-in rounds.
    """
    if phase.posterior is not None:
        return _combined(task, phase, definition, initial_weights)
    shared = _shared(task, phase, definition, initial_weights)
    return lambda round_num: shared


def _shared(
    task: tasks.Task, phase: Phase, definition: process.BanditProcess, initial_weights: models.Weights
) -> tff.templates.IterativeProcess | SharedProcess:
    """Returns the process of a phase, from the cache if it was built before."""
    # Two runs must never share noise, and user-defined parts may add noise.
    if phase.aggregation.kind not in ("mean", *options.ROBUST) or phase.has_user_training:
        return definition.build(initial_weights)
    own_key = ("rounds", key(task, phase, definition))
    folder = download.cache_folder(phase.task.cache_dir) / "rounds"

    def find() -> tff.templates.IterativeProcess:
        is_users = definition.own_metrics or definition.policy.is_checked
        if is_users or not cached_rounds.is_versioned(*_parts(definition)):
            return definition.build()
        return cached_rounds.process(folder, repr(own_key), definition.build)

    shared = compiled.cached(own_key, find)
    return SharedProcess(shared, definition, initial_weights, phase.server_optimizer.learning_rate)


def _parts(definition: process.BanditProcess) -> tuple:
    work = definition.local_work
    return definition.policy, definition.loss, work, *getattr(work, "corrections", ())


def key(task: tasks.Task, phase: Phase, definition: process.BanditProcess) -> Hashable:
    """Returns the key that rounds share if they differ only in their state. The arguments are those of `build`."""
    parts = {field.name: getattr(definition, field.name) for field in dataclasses.fields(definition)}
    parts |= {
        # The user can change an object in memory between runs; its text then changes, too.
        "policy": phase.policy.target if phase.policy.label else definition.policy,
        "types": tuple(map(type, (definition, *_parts(definition)))),  # Classes of two modules may have the same name.
        "model": (task.model, repr(task.model_arguments), definition.model.heads),
        "reward_matrix": (definition.reward_matrix.shape, definition.reward_matrix.tobytes()),
        "aggregator": definition.aggregator if phase.aggregation.kind in options.ROBUST else phase.aggregation,
        "noise": None,
        "statistics": None,
        "server_optimizer": dataclasses.replace(phase.server_optimizer, learning_rate=0.0),
        "feature_spec": repr(definition.feature_spec),
        "label_spec": repr(definition.label_spec),
    }
    return tuple(parts.items())


def _combined(
    task: tasks.Task, phase: Phase, definition: process.BanditProcess, initial_weights: models.Weights
) -> Callable[[int], Any]:
    most_clients = phase.cohorts.size if phase.cohorts.sampling == "fixed" else len(task.clients)
    algorithm = algorithms.build(phase.posterior, definition.local_work, definition.model, most_clients)  # type: ignore[arg-type]
    if algorithm.factory:
        definition = dataclasses.replace(definition, aggregator=algorithm.factory)

    @functools.cache
    def rounds_of(work):
        averaged = dataclasses.replace(definition, local_work=work)
        if algorithm.chain:
            return ChainRounds(averaged.build(initial_weights), algorithm.chain, phase.seed)
        return averaged.build(initial_weights)

    return lambda round_num: rounds_of(algorithm.work_of(round_num))
