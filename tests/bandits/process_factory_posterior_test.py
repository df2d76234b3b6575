"""Tests of the posterior's rounds of bandits.process_factory, on a linear model and small clients."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from bandits import losses, process, process_factory
from optimization import models
from optimization.posterior import mean_shift_aggregation
from optimization.posterior.flags import MeanShift
from tests.bandits import process_test, whole_runs
from tests.bandits.process_test import MODEL

INITIAL = MODEL.initial_weights(0)
SIZES = (10, 5, 7)
SEED = 5


def make_client(size: int, number: int) -> process.ClientInput:
    return process_test.make_client(size, number)._replace(position=np.int32(number))


def definition(**changes) -> process.BanditProcess:
    made = process_test.make(losses.BanditLoss(importance_weighted=True), epochs=2, deploy_every=2, max_delay=1)
    aggregator = tff.aggregators.as_weighted_aggregator(tff.aggregators.UnweightedMeanFactory())
    changes = {"reward_matrix": np.eye(3, dtype=np.float32), "aggregator": aggregator, "cohort_size": 3} | changes
    return dataclasses.replace(made, **changes)


def rounds(*arguments: str, **values):
    phase = dataclasses.replace(whole_runs.options_of(*arguments), seed=SEED)
    return process_factory.build(None, phase, definition(**values), INITIAL)


def play(process_of, cohorts):
    state, reported = process_of(1).initialize(), []
    for number, cohort in enumerate(cohorts, 1):
        state, metrics = process_of(number).next(state, cohort)
        reported.append(metrics)
    return state, reported


def cohort() -> list[process.ClientInput]:
    return [make_client(size, number) for number, size in enumerate(SIZES)]


def assert_same(found, expected, tolerance=1e-5):
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("name", ["fedkp", "fedkp_cluster_mean"])
def test_with_a_wide_bandwidth_rounds_are_those_of_the_mean(tff_worker, name):
    mean = definition().build(INITIAL)
    expected, reported = play(lambda _: mean, [cohort()] * 3)
    found, again = play(rounds(f"--model_aggregation={name}", "--bandwidth_scale=1e9"), [cohort()] * 3)
    for part in ("weights", "deployed", "optimizer", "round_num"):
        assert_same(getattr(found, part), getattr(expected, part))
    assert_same(*([one._replace(aggregator=()) for one in metrics] for metrics in (again, reported)))


def test_the_step_is_the_mode_of_the_clients_deltas(tff_worker):
    with tf.init_scope():
        run = definition().client_round()
    deltas = [models.flatten(run((INITIAL, INITIAL), INITIAL, client).delta) for client in cohort()]
    shift, rows = MeanShift("gaussian", bandwidth_scale=0.3), np.array(deltas)
    expected = mean_shift_aggregation.aggregate(shift, [rows], rows.shape[1], np.nan, shifts_clients=True)[:, 0]
    sgd = tff.learning.optimizers.build_sgdm(1.0)
    modes = rounds(
        "--model_aggregation=fedkp_cluster_mean", "--kernel=gaussian", "--bandwidth_scale=0.3", server_optimizer=sgd
    )
    state, _ = play(modes, [cohort()[::-1]])
    assert_same(models.flatten(state.weights) - models.flatten(INITIAL), expected)


@pytest.mark.parametrize("name", ["fedpa", "fedkppa"])
def test_chains_begin_after_the_burn_in(tff_worker, name):
    more = ["--bandwidth_scale=1e9"] if name == "fedkppa" else []
    burn_in = rounds(f"--model_aggregation={name}", "--burn_in_rounds=1", "--total_rounds=2", *more)
    mean = definition().build(INITIAL)
    first, _ = play(burn_in, [cohort()])
    assert_same(first.weights, play(lambda _: mean, [cohort()])[0].weights)
    second, (_, metrics) = play(burn_in, [cohort()] * 2)
    plain, _ = play(lambda _: mean, [cohort()] * 2)
    assert np.isfinite(metrics.update_norm)
    assert np.abs(second.weights[0] - plain.weights[0]).max() > 1e-4


def test_clients_of_sgld_train_the_chain_and_act_with_its_average(tff_worker):
    chain = rounds("--model_aggregation=sgld", "--burn_in_rounds=1", "--total_rounds=4", max_delay=0)
    mean = definition(max_delay=0).build(INITIAL)
    state, states = chain(1).initialize(), []
    for round_num in (1, 2, 3, 4):
        before = state._replace(weights=state.optimizer.weights, optimizer=state.optimizer.optimizer)
        plain, _ = mean.next(before, cohort())
        state, metrics = chain(round_num).next(state, cohort())
        noise = models.flatten(state.optimizer.weights) - models.flatten(plain.weights)
        assert 0.4 < np.std(noise) / np.sqrt(2 * 0.1) < 1.6
        states.append(models.flatten(state.optimizer.weights))
        served = models.flatten(state.weights)
        np.testing.assert_allclose(served, np.mean(states[min(1, round_num - 1) :], axis=0), atol=1e-6)
        if metrics.deployed:
            np.testing.assert_array_equal(models.flatten(state.deployed[0]), served)


def test_a_diverged_client_is_a_zero_update_and_an_empty_one_none(tff_worker):
    wide = rounds("--model_aggregation=fedkp", "--bandwidth_scale=1e9")
    _, (alone,) = play(wide, [cohort()])
    diverged = make_client(3, 4)
    diverged = diverged._replace(features=np.full_like(diverged.features, np.inf))
    _, (metrics,) = play(wide, [[*cohort(), make_client(0, 3), diverged]])
    np.testing.assert_allclose(metrics.update_norm, 0.75 * alone.update_norm, rtol=1e-5)
    assert (metrics.empty_clients, metrics.nonfinite_clients) == (1, 1)
