"""Whole runs of linear bandits: their sums, their model, and what is refused."""

import numpy as np
import pytest

from bandits import interactions, options, phase_privacy, round_parts
from data.action_sets import ActionSets
from data.errors import UsageError
from tests.bandits import whole_runs
from tests.bandits.evaluation import logs_of_sets

SMALL = ("--total_rounds=7", "--clients_per_round=10", "--bandits_deploy_freq=3", "--rounds_per_eval=5")
SETS = ("--task_type=linear_synthetic", "--partition_examples=30", "--context_features=2", "--action_features=3")
KEPT = ("--cache=persistent",)
LATE = (*KEPT, "--reward_delay=uniform", "--delay_rounds=2")
WITH_NOISE = ("--aggregator_type=dpftrl", "--clip_norm=1", "--noise_multiplier=1", "--insecure_seeded_noise")
WITH_NOISE += ("--reward_bounds=-3,3",)
play = whole_runs.player(*SMALL)


def _central(run, *, keeps: bool) -> tuple[np.ndarray, np.ndarray]:
    """Sums of x x' and x r over a run's log, each interaction once; float64 [groups, ...]."""
    read = interactions.read_run(run)
    log, task = read.log, whole_runs.run_federated.STUDY.open(read.options)
    place_of = {name: place for place, name in enumerate(task.clients.client_ids)}
    acted = log.periods if keeps else log.rounds
    _, once = np.unique(np.stack([log.clients, acted, log.rows]), axis=1, return_index=True)
    gram = moment = 0.0
    for place in once:
        client = place_of[log.client_ids[log.clients[place]]]
        examples = task.clients.load(client).take(np.array([log.rows[place]]))
        contexts, action = task.normalize(examples.features), int(log.actions[place])
        if isinstance(contexts, ActionSets):
            context, arm = contexts.contexts[0].astype(float), contexts.actions[0, action].astype(float)
            features, group = np.concatenate([context, arm, np.outer(context, arm).ravel(), [1.0]]), np.ones(1)
        else:
            features, group = np.append(contexts[0].ravel().astype(float), 1.0), np.eye(task.num_actions)[action]
        gram = gram + np.einsum("g,i,j->gij", group, features, features)
        moment = moment + np.einsum("g,i->gi", group, features) * float(log.rewards[place])
    return gram, moment


def _check(*arguments: str) -> None:
    chosen, task = whole_runs.opened(*arguments)
    whole_runs.run_federated.STUDY.check(chosen, task)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [SETS, LATE, ("--aggregator_type=secure_sum",)])
def test_federated_sums_and_estimates_are_the_central_ones(tmp_path, arguments):
    shared = "--model=linear", "--bandits_type=linucb", "--bandits_ridge=2", "--log_interactions"
    run = play(tmp_path, *shared, *arguments)
    gram, moment = _central(run, keeps=KEPT[0] in arguments)
    found = whole_runs.policy_sums(run)["gram"]
    tolerance = {"rtol": 1e-6, "atol": 1e-6 * np.abs(gram).max()}
    np.testing.assert_allclose(found, gram, **tolerance)
    estimate = np.linalg.solve(gram + 2 * np.eye(gram.shape[1]), moment[..., np.newaxis])[..., 0]
    kernel, bias = list(whole_runs.weights(run).values())
    np.testing.assert_allclose(np.concatenate([kernel, bias[np.newaxis]]).T, estimate, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("linucb",), ("neural_lints", *WITH_NOISE, "--hidden=4")])
def test_a_continued_run_equals_an_uninterrupted_one(tmp_path, arguments):
    bandit, *more = arguments
    model = "two_tower" if bandit.startswith("neural") else "linear"
    given = (*SETS, f"--bandits_type={bandit}", f"--model={model}", *more)
    runs = whole_runs.stopped(play, tmp_path, *given, after=5)
    whole, continued = map(whole_runs.policy_sums, runs)
    for name, total in whole.items():
        np.testing.assert_array_equal(continued[name], total)


@pytest.mark.slow
def test_sums_of_a_model_that_trains_start_at_0_at_each_deployment(tff_worker):
    rounds = whole_runs.rounds_of(*SMALL, "--bandits_type=neural_lints", "--hidden=4", "--rounds_per_eval=0")
    state, counts, sent = rounds.initial_state(), [], []
    (place,) = (place for place, own in enumerate(state.parts) if isinstance(own, round_parts.OwnPolicyState))
    for round_num in range(1, 6):
        participations = rounds._clients.next(state.clients, state.server, round_num)[0].participations
        (first, *_) = rounds._parts[place].started(state.parts[place], participations, round_num)
        sent.append(first.inputs.policy_state["gram"][:, -1, -1].sum())
        before = state.server
        state, row = rounds.run_round(state, round_num)
        counts.append(row["train/examples"])
        assert any((one != other).any() for one, other in zip(before.weights, state.server.weights, strict=True))
    assert sent == [0, counts[0], counts[0] + counts[1], 0, counts[3]]
    assert rounds._served(state).weights == tuple(state.server.weights)


@pytest.mark.slow
def test_a_frozen_body_never_changes_and_its_last_layer_gets_the_estimate(tmp_path):
    freeze = ("--bandits_type=neural_linucb", "--statistics=freeze", "--hidden=4", "--scenario=init")
    run = play(tmp_path, *freeze, "--init_rounds=3", "--log_interactions")
    before, after = whole_runs.weights(run / "init"), whole_runs.weights(run)
    *body, kernel, bias = before
    for name in body:
        assert before[body[0]].any()
        np.testing.assert_array_equal(after[name], before[name])
    read = interactions.read_run(run).with_contexts()
    hidden = np.maximum(read.log.contexts.reshape(len(read.log), -1) @ before[body[0]] + before[body[1]], 0)
    features, chosen = np.append(hidden, np.ones((len(hidden), 1)), axis=1).astype(float), np.eye(10)[read.log.actions]
    last = np.vstack([before[kernel], before[bias]])
    residuals = read.log.rewards - (features @ last)[chosen.astype(bool)]
    gram = np.einsum("nk,ni,nj->kij", chosen, features, features) + np.eye(5)
    moment = np.einsum("nk,ni,n->ki", chosen, features, residuals)
    estimate = last + np.linalg.solve(gram, moment[..., np.newaxis])[..., 0].T
    np.testing.assert_allclose(np.vstack([after[kernel], after[bias]]), estimate, rtol=1e-4, atol=1e-5)


NOISE = ("--clip_norm=2", "--model=linear", "--bandits_type=linucb", "--bandits_deploy_freq=100")
NOISE += ("--insecure_seeded_noise",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [("dpsgd",), ("dpftrl", "--dpftrl_restart_rounds=4"), ("mf_dpftrl", "--mf_bands=3")]
)
def test_noise_on_the_released_totals_is_the_one_that_is_accounted(tff_worker, mechanism):
    kind, *more = mechanism
    totals, rounds = [], None
    for noise in (0, 0.8):
        rounds = whole_runs.rounds_of(*SMALL, *NOISE, f"--aggregator_type={kind}", *more, f"--noise_multiplier={noise}")
        state = rounds.initial_state()
        for round_num in range(1, 7):
            state, _ = rounds.run_round(state, round_num)
        (own,) = (own for own in state.parts if isinstance(own, round_parts.OwnPolicyState))
        assert set(own.pending) == {"gram", "moment"}
        totals.append(own.pending)
    (part,) = (part for part in rounds._parts if isinstance(part, round_parts.OwnPolicy))
    accounted = 2 * part.mechanism.sum_noise(0, 6)
    for name, count in (("gram", 10 * 65 * 65), ("moment", 10 * 65)):
        noise = (totals[1][name] - totals[0][name]) / accounted
        assert np.mean(noise**2) == pytest.approx(1, abs=5 * np.sqrt(2 / count))
    assert part.served(own, state.server).weights[0].any()


@pytest.mark.slow
def test_an_update_and_the_sums_are_one_contribution_within_the_clip_norm():
    flags = ("--bandits_type=neural_linucb", "--aggregator_type=dpsgd", "--clip_norm=0.2", "--noise_multiplier=1")
    rounds = whole_runs.rounds_of(*SMALL, *flags, "--hidden=4")
    (part,) = (part for part in rounds._parts if isinstance(part, round_parts.OwnPolicy))
    weights = tuple(rounds._definition.model.initial_weights(0))
    inputs = part.started(part.initial_state(), rounds.participations(np.arange(3), 1), 1)
    for each in inputs:
        *update, gram, moment = rounds._definition.client_round()((weights,), weights, each.inputs).delta
        norms = [np.sqrt(sum(float(np.sum(np.square(one))) for one in some)) for some in (update, (gram, moment))]
        assert min(norms) > 0
        assert max(norms) <= 0.2 / np.sqrt(2) * (1 + 1e-6)


def test_epsilon_of_sums_is_that_of_updates_with_the_same_noise():
    flags = ("--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=2", "--model=linear")
    found = [options.phases(*whole_runs.opened(f"--bandits_type={name}", *flags))[-1] for name in ("greedy", "linucb")]
    first, other = (phase_privacy.mechanism(phase).epsilon(phase.accounted(5)) for phase in found)
    assert first == other
    assert np.isfinite(first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*SETS, "--clients_per_round=5", "--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=1"),
            "needs --reward_bounds=LOW,HIGH",
        ),
        (("--bandits_type=linucb", "--model=mlp"), "the model has hidden layers: give neural_linucb, neural_lints or"),
        (("--bandits_type=neural_lints", "--model=linear"), "the model has no hidden layer: give linucb, lints"),
        ((*SETS, "--model=bilinear", "--clients_per_round=5"), "needs the inputs of a last layer"),
    ],
)
def test_tasks_that_do_not_fit_sums_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        _check("--bandits_type=linucb", *arguments)


def test_the_rewards_of_labels_need_no_bounds_for_noise(tmp_path):
    logs_of_sets.write(tmp_path)
    columns = ("--client_column=who", "--label_column=item", "--offered_column=items", "--ignore_columns=paid,p")
    table = (f"--data_file={tmp_path}/log.csv", f"--action_table={tmp_path}/actions.csv", *columns)
    noise = ("--clients_per_round=5", "--aggregator_type=dpsgd", "--clip_norm=1", "--noise_multiplier=1")
    _check("--task_type=tabular", *table, "--bandits_type=lints", *noise)
