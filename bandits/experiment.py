"""One phase of a bandit study as rounds that the runner can play: cohort -> inputs -> TFF round -> metrics.

The way of a client's data: `ClientData.load` -> `Task.normalise` -> `process.ClientInput` -> inference, training and
aggregation in `process` -> the metrics here.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bandits import flags, inference, losses, metrics, posterior_process, process, registry, shared_process
from data import clients, keys, tasks
from optimization import aggregators, client_work, cohorts, models, options, server, task_model
from optimization.posterior import options as posterior_options
from optimization.privacy import mechanisms
from optimization.runtime import rounds
from optimization.selection import selected
from optimization.study import compiled, frame, runner
from optimization.study.metrics import mean


@dataclasses.dataclass(frozen=True)
class Phase:
    """What one sequence of rounds does.

    Attributes:
      bandit: Policy and loss.
      population: Indices of the clients that take part.
      rewards: Key of `Task.rewards`.
      total_rounds: Rounds.
      cohorts: How clients are drawn, if no selector chooses them.
      deploy_every: Rounds between deployments.
      server_optimizer: The server's.
      client_learning_rate: The clients'.
      aggregation: How their updates become one.
      selection: How cohorts are chosen; uniform ones follow `cohorts`.
      posterior: How a cohort's models become one, where it is no `aggregation`.
      spent_rounds: Where the bandit never trains, the rounds of the earlier training, which alone are accounted.
    """

    bandit: registry.BanditEntry
    population: range
    rewards: str
    total_rounds: int
    cohorts: options.Cohorts
    deploy_every: int
    server_optimizer: options.ServerOptimizer
    client_learning_rate: float
    aggregation: options.Aggregation
    selection: selected.Selection = selected.UNIFORM
    posterior: posterior_options.Posterior | None = None
    spent_rounds: int = 0

    def accounted(self, round_num: int) -> int:
        """Returns the rounds whose privacy is spent after some rounds of this phase."""
        return round_num if self.bandit.trains else self.spent_rounds


class Progress(NamedTuple):
    """State between rounds: the server's, and what the running average needs.

    Attributes:
      server: State of the TFF process.
      reward_total: float64, round rewards summed over rounds.
      reward_rounds: int64, rounds with at least one example.
      selection: The client selector's state; empty without one.
      cohort_seed: uint32 [4], where privacy rests on secret cohorts: their seed; else empty, and `--seed` draws them.
    """

    server: process.BanditState
    reward_total: np.float64
    reward_rounds: np.int64
    selection: Any = ()
    cohort_seed: Any = ()


def build_loss(settings: Mapping[str, Any], bandit: registry.BanditEntry, num_actions: int):
    """Returns the loss of a bandit, under `--importance_weighting` and `--variant`."""
    if bandit.supervised:
        return losses.SupervisedLoss(bandit.cross_entropy)
    published = settings["variant"] == "reference_code" and bandit.policy == "epsilon_greedy"
    if settings["importance_weighting"] and published and settings["bandits_epsilon"]:
        # The published program's weight: (epsilon / K) / propensity, at most 1.
        scale = settings["bandits_epsilon"] / num_actions
        return losses.BanditLoss(True, bandit.cross_entropy, weight_scale=scale, weight_cap=1.0)
    return losses.BanditLoss(settings["importance_weighting"], bandit.cross_entropy)


def build_process(
    settings: Mapping[str, Any], task: tasks.Task, phase: Phase, mechanism: mechanisms.Mechanism
) -> process.BanditProcess:
    """Returns the process of one phase."""
    bandit, model = phase.bandit, task_model.build(task)
    local_sgd = client_work.LocalSgd(
        phase.client_learning_rate,
        settings["client_batch_size"],
        settings["client_epochs_per_round"],
    )
    return process.BanditProcess(
        model=model,
        policy=registry.POLICIES[bandit.policy].build(flags.policy_values(settings, bandit)),
        loss=build_loss(settings, bandit, task.num_actions),
        reward_matrix=task.rewards[phase.rewards],
        local_sgd=local_sgd if bandit.trains else None,
        aggregator=aggregators.build(phase.aggregation, mechanism, tuple(model.shapes.values()))
        if bandit.trains
        else None,
        server_optimizer=server.build(phase.server_optimizer),
        deploy_every=phase.deploy_every,
        feature_spec=task_model.feature_spec(task),
        label_spec=task_model.label_spec(task),
        max_delay=settings["bandits_deploy_delay"],
        cohort_size=0 if phase.selection.is_uniform else phase.cohorts.size,
    )


def _capped(settings: Mapping[str, Any], task: tasks.Task) -> clients.ClientData:
    return clients.CappedClients(task.clients, settings["max_examples_per_client"], settings["seed"])


def cohort_inputs(
    settings: Mapping[str, Any],
    task: tasks.Task,
    phase: Phase,
    round_num: int,
    drawn: np.ndarray | None = None,
    cohort_seed: int | None = None,
) -> list[process.ClientInput]:
    """Reads the clients of a round's cohort.

    Args:
      settings: Flags.
      task: The task.
      phase: The phase.
      round_num: The round.
      drawn: int [clients], the cohort's positions in the phase's population; None draws it as `phase.cohorts` says.
      cohort_seed: Seed of that draw; None for `--seed`. Whatever else is drawn is a client's own, and the same whether
        or not the others take part: it needs no secret.
    """
    seed = settings["seed"]
    population = _capped(settings, task)
    period = (round_num - 1) // phase.deploy_every
    acts_at = period if settings["cache"] == "persistent" else round_num
    inputs = []
    if drawn is None:
        own_seed = seed if cohort_seed is None else cohort_seed
        drawn = cohorts.draw(phase.cohorts, len(phase.population), own_seed, round_num)
    for place, position in enumerate(drawn):
        client = phase.population[position]
        examples = population.load(client)
        client_keys = process.ClientKeys(
            cache=keys.tensorflow_key(seed, keys.Purpose.CACHE, acts_at, client),
            training=keys.tensorflow_key(seed, keys.Purpose.TRAINING, round_num, client),
        )
        lag = 0
        if most := settings["bandits_deploy_delay"]:
            lag = keys.generator(seed, keys.Purpose.DELAY, period, client).integers(most + 1)
        features = task.normalise(examples.features)
        inputs.append(process.ClientInput(features, examples.labels, client_keys, np.int32(lag), np.int32(place)))
    # The worker takes them in this order: with the small ones last, its cores end together.
    return sorted(inputs, key=lambda client: len(client.labels), reverse=True)


def build_selected(settings: Mapping[str, Any], task: tasks.Task, phase: Phase) -> selected.SelectedCohorts | None:
    """Returns the selected cohorts of a phase, which counts every client's examples; None for uniform ones."""
    if phase.selection.is_uniform:
        return None
    sizes = clients.sizes(_capped(settings, task), phase.population)
    return selected.SelectedCohorts(phase.selection.build(sizes, phase.cohorts.size), settings["seed"])


def build(
    settings: Mapping[str, Any],
    task: tasks.Task,
    phase: Phase,
    mechanism: mechanisms.Mechanism,
    initial_weights: models.Weights | None,
) -> runner.Experiment:
    """Returns the rounds of one phase.

    Args:
      settings: Flags.
      task: The task.
      phase: The phase.
      mechanism: What is accounted as the privacy that its rounds spend.
      initial_weights: Model to start from; None draws one.
    """
    definition = build_process(settings, task, phase, mechanism)
    if initial_weights is None:
        initial_weights = definition.model.initial_weights(settings["seed"])
    if phase.posterior is None:
        tff_process = shared_process.build(settings["cache_dir"], task, phase, definition, initial_weights)
        process_of = lambda round_num: tff_process  # noqa: E731
    else:
        process_of = posterior_process.build(phase.posterior, definition, initial_weights)
    evaluate = _evaluator(settings, task, definition)
    selection = build_selected(settings, task, phase)
    client_type = definition.client_type()

    def written_inputs(round_num: int, cohort_seed: int | None) -> list[process.ClientInput]:
        inputs = cohort_inputs(settings, task, phase, round_num, cohort_seed=cohort_seed)
        return rounds.written_ahead(inputs, client_type)

    prepare = cohorts.PreparedAhead(written_inputs, phase.total_rounds, rounds.at_hand().computing)
    poll_key = shared_process.key(task, phase, definition)

    def play_round(progress: Progress, round_num: int) -> tuple[Progress, Mapping[str, Any]]:
        def poll(ids: np.ndarray) -> np.ndarray:
            inputs = cohort_inputs(settings, task, phase, round_num, ids)
            losses_of = compiled.kept(("poll", len(ids), poll_key), lambda: definition.build_loss_poll(len(ids)))
            return losses_of(progress.server.deployed, progress.server.weights, inputs)

        if selection:
            drawn, _, learned = selection.choose(progress.selection, round_num, poll)
            inputs = cohort_inputs(settings, task, phase, round_num, drawn)
        else:
            own_seed, learned = progress.cohort_seed, ()
            inputs = prepare(round_num, cohorts.as_integer(own_seed) if len(own_seed) else None)
        state, counts = process_of(round_num).next(progress.server, inputs)
        if selection:
            learned = selection.observe(learned, drawn, counts.client_losses, counts.client_deviations)
        total, rounds = progress.reward_total, progress.reward_rounds
        if counts.examples:
            total, rounds = total + float(counts.reward_sum) / int(counts.examples), rounds + 1
        row = _report(counts, total, rounds, settings["client_epochs_per_round"])
        if phase.bandit.trains:
            row[metrics.CLIP_NORM] = aggregators.clip_norm(
                phase.aggregation, progress.server.aggregator, counts.aggregator
            )
            row[metrics.CLIPPED_CLIENTS] = aggregators.clipped_clients(counts.aggregator)
        # By PLD it takes as long as a short round.
        if mechanism.accountant == "rdp" or frame.Length(
            phase.total_rounds, settings["rounds_per_eval"], 0
        ).ends_in_evaluation(round_num):
            row[metrics.EPSILON] = mechanism.epsilon(phase.accounted(round_num))
        return Progress(state, np.float64(total), np.int64(rounds), learned, progress.cohort_seed), row

    has_secret_cohorts = phase.bandit.trains and mechanism.rests_on_cohorts and not selection
    secrets = aggregators.secrets_in_state(phase.aggregation, mechanism) if phase.bandit.trains else []
    return runner.Experiment(
        initial_state=lambda: Progress(
            server=process_of(1).initialize(),
            reward_total=np.float64(0),
            reward_rounds=np.int64(0),
            selection=selection.selector.initial_state() if selection else (),
            cohort_seed=cohorts.secret_seed() if has_secret_cohorts else (),
        ),
        play_round=play_round,
        evaluate=lambda progress: evaluate(progress.server.weights),
        columns=metrics.COLUMNS,
        headline=metrics.AVERAGE_REWARD,
        secrets=(*secrets, *["the seed of the cohorts"] * has_secret_cohorts),
    )


def _report(counts: process.RoundMetrics, reward_total: float, reward_rounds: int, epochs: int) -> dict[str, Any]:
    """Returns one row of `metrics.csv`; a mean over nothing is not a number."""
    examples = int(counts.examples)
    return {
        metrics.ROUND_REWARD: mean(counts.reward_sum, examples),
        metrics.AVERAGE_REWARD: mean(reward_total, int(reward_rounds)),
        metrics.ROUND_PROBABILITY: mean(counts.propensity_sum, examples),
        metrics.DEPLOYED: int(counts.deployed),
        metrics.LOSS: mean(counts.loss_sum, int(counts.trained_examples) * epochs),
        metrics.UPDATE_NORM: float(counts.update_norm),
        metrics.EXAMPLES: examples,
        metrics.EMPTY_CLIENTS: int(counts.empty_clients),
        metrics.NONFINITE_CLIENTS: int(counts.nonfinite_clients),
    }


def _evaluator(settings: Mapping[str, Any], task: tasks.Task, definition: process.BanditProcess):
    """Returns weights -> accuracy and reward of their greedy policy on the held-out examples."""
    held_out = clients.pool(task.held_out, settings["max_validation_samples"], settings["seed"])
    specs = [definition.model.specs, definition.feature_spec, definition.label_spec]

    @tf.function(input_signature=specs, autograph=False)  # Autograph would take half a second to change nothing.
    def sums(weights, features, labels):
        outputs = definition.model.forward(weights, models.dense(features))
        action = tf.argmax(outputs, axis=1, output_type=tf.int32)
        rewards = inference.reward_vectors(labels, definition.reward_matrix)
        is_right = tf.gather(labels, action, axis=1, batch_dims=1) > 0 if task.multi_label else tf.equal(labels, action)
        return (
            tf.reduce_sum(tf.cast(is_right, tf.int32)),
            tf.reduce_sum(tf.gather(rewards, action, axis=1, batch_dims=1)),
        )

    def evaluate(weights) -> dict[str, float]:
        right = reward = 0.0
        for batch in task.batches(held_out, settings["eval_batch_size"]):
            counts = sums(tuple(weights), *batch)
            right += int(counts[0])
            reward += float(counts[1])
        count = len(held_out.labels)
        return {metrics.ACCURACY: right / count, metrics.HELD_OUT_REWARD: reward / count}

    return evaluate
