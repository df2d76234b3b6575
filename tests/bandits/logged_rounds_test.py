"""Tests of a server that trains on the cohort's logs, of bandits.logged_rounds."""

import dataclasses

import numpy as np
import pytest
import tensorflow_federated as tff

from bandits import logged_rounds, losses
from optimization import client_work, models
from tests.bandits import process_test, whole_runs

SIZES = (10, 1, 5)
KEY = np.array([3, 4], np.int32)
STEPS = "--pooled_steps=cohort"


def _both(loss, *, heads=1, **work):
    """The federated process and the pooled one."""
    model = models.with_heads(models.mlp(process_test.NUM_FEATURES, (), heads * 3), heads) if heads > 1 else None
    federated = dataclasses.replace(
        process_test.make(loss, deploy_every=1, client_weighting="num_examples"),
        server_optimizer=tff.learning.optimizers.build_sgdm(0.5),
        local_work=client_work.LocalSgd(0.1, **({"batch_size": 100, "epochs": 1} | work)),
        **({"model": model} if model else {}),
    )
    return federated, logged_rounds.PooledProcess(**process_test.fields(federated))


@pytest.mark.parametrize(
    ("loss", "heads"),
    [*((loss, 1) for loss in process_test.LOSSES.values()), (losses.Bootstrapped(losses.BanditLoss()), 2)],
)
def test_a_full_batch_step_is_that_of_clients_weighted_by_examples(tff_worker, loss, heads):
    cohort = [process_test.make_client(size, number) for number, size in enumerate(SIZES)]
    federated, together = _both(loss, heads=heads)
    initial = federated.model.initial_weights(1)
    states = []
    for definition, inputs in ((federated, cohort), (together, logged_rounds.pooled_inputs(cohort, KEY))):
        rounds = definition.build(initial)
        state, metrics = rounds.next(rounds.initialize(), inputs)
        state, _ = rounds.next(state, inputs)  # Clients act with the trained model.
        states.append((state, metrics))
    (state, metrics), (other, pooled_metrics) = states
    for one, weight, first in zip(state.weights, other.weights, initial, strict=True):
        np.testing.assert_allclose(one, weight, atol=1e-6)
        assert np.abs(one - first).max() > 1e-3
    for name in ("examples", "trained_examples", "reward_sum", "propensity_sum", "loss_sum"):
        np.testing.assert_allclose(getattr(metrics, name), getattr(pooled_metrics, name), rtol=1e-5)


def test_a_cohort_of_nobody_changes_nothing(tff_worker):
    _, together = _both(process_test.LOSSES["regression"])
    rounds = together.build(process_test.INITIAL)
    state, metrics = rounds.next(rounds.initialize(), logged_rounds.pooled_inputs([], KEY))
    for weight, first in zip(state.weights, process_test.INITIAL, strict=True):
        np.testing.assert_array_equal(weight, first)
    assert metrics.examples == 0


def test_the_server_takes_the_steps_of_one_client_or_of_all():
    small = ("--federation=pooled", "--clients_per_round=5", "--client_batch_size=4")
    batch_sizes = [whole_runs.definitions(*small, *more)[0].local_work.batch_size for more in ((), (STEPS,))]
    assert batch_sizes == [20, 4]


@pytest.mark.slow
def test_the_run_says_that_nothing_is_private(tmp_path):
    play = whole_runs.player("--total_rounds=2", "--clients_per_round=3", "--bandits_deploy_freq=1")
    spent = whole_runs.spent(play(tmp_path, "--federation=pooled", STEPS))
    assert spent["epsilon"] is None
    assert "logs" in spent["summary"]
