"""Runs on rows that offer sets of actions."""

import dataclasses

import numpy as np
import pytest

from bandits import experiment, metrics, options, phase_privacy
from data import action_sets, clients, tasks
from data.tasks.options import TaskOptions
from tests.bandits import whole_runs
from tests.bandits.whole_runs import table

pytestmark = pytest.mark.slow

SMALL = ("--task_type=linear_synthetic", "--partition_clients=6", "--partition_examples=40", "--action_features=3")
SMALL += ("--smallest_set=2", "--largest_set=5", "--context_features=2", "--clients_per_round=3", "--total_rounds=4")
SMALL += ("--bandits_deploy_freq=2", "--client_learning_rate=0.1")
play = whole_runs.player(*SMALL)


class _Mapped(clients.ClientData):
    """Clients whose examples are changed when they are loaded."""

    def __init__(self, population: clients.ClientData, change):
        self.client_ids, self.checksum = population.client_ids, population.checksum
        self._population, self._change = population, change

    def load(self, index: int) -> clients.Examples:
        return self._change(self._population.load(index))


def with_one_hot_actions(task: tasks.Task) -> tasks.Task:
    """The same problem with a set of all actions in each row, whose features are one-hot."""
    count = task.num_actions

    def change(examples):
        entries = np.broadcast_to(np.arange(count, dtype=np.int32), (len(examples.labels), count))
        contexts = task.normalize(examples.features)
        return clients.Examples(
            action_sets.of_entries(contexts, entries), task.rewards["exact"][examples.labels].astype(np.float32)
        )

    return dataclasses.replace(
        task,
        clients=_Mapped(task.clients, change),
        held_out=_Mapped(task.held_out, change),
        normalize=lambda sets: action_sets.normalized(sets, np.eye(count, dtype=np.float32)),
        multi_label=True,
        **tasks.sets_model(TaskOptions("own", model="bilinear"), *task.feature_spec[:1], 64, count)
        | {"feature_spec": action_sets.Spec(task.feature_spec, count)},
    )


@pytest.mark.parametrize("bandit", ["softmax", "supervised_mse", "supervised_ce"])
def test_one_hot_actions_that_are_always_offered_equal_the_linear_model(tff_worker, bandit):
    chosen, task = whole_runs.opened(
        "--task_type=digits", "--model=linear", "--clients_per_round=4", f"--bandits_type={bandit}",
        "--bandits_deploy_freq=2", "--client_learning_rate=0.3", "--importance_weighting" * (bandit == "softmax") or
        "--seed=3",
    )  # fmt: skip
    phase = options.phases(chosen, task)[-1]
    states = []
    for each in (task, with_one_hot_actions(task)):
        weights = (np.zeros((64, 10), np.float32), np.zeros(10, np.float32))
        rounds = experiment.BanditRounds(each, phase, phase_privacy.mechanism(phase), weights)
        state, rows = rounds.initial_state(), []
        for round_num in range(1, 6):
            state, row = rounds.run_round(state, round_num)
            rows.append([row[metrics.ROUND_REWARD], row[metrics.LOSS], row[metrics.ROUND_PROBABILITY]])
        states.append((state.server.weights, rows, list(rounds.evaluate(state).values())))
    for one, other in zip(states[0], states[1], strict=True):
        for first, second in zip(one, other, strict=True):
            np.testing.assert_allclose(first, second, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bandits_type=softmax_ce", "--model=two_tower", "--reward_bounds=-2,2"),
        ("--bandits_type=squarecb", "--interaction_bits=3"),
        ("--bandits_type=epsilon_greedy", "--federation=pooled"),
        ("--personalization=fine_tune",),
        ("--cache=persistent", "--reward_delay=uniform", "--delay_rounds=1"),
        ("--aggregator_type=dpsgd", "--noise_multiplier=1", "--clip_norm=1"),
        ("--scenario=init", "--init_clients=2"),
    ],
    ids=" ".join,
)
def test_what_runs_offer_works_on_sets_of_actions(tff_worker, tmp_path, arguments):
    rows = table(play(tmp_path, *arguments))
    assert len(rows) == 4
    assert rows[metrics.UPDATE_NORM].gt(0).all()
