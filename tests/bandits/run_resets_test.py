"""Whole runs whose training is reset: what starts again, what stays, and what is promised to clients."""

import math

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from bandits import experiment, metrics, resets
from tests.bandits import whole_runs
from tests.bandits.whole_runs import assert_same, spent, table

pytestmark = pytest.mark.slow

SMALL = ("--total_rounds=6", "--clients_per_round=4", "--bandits_deploy_freq=2", "--rounds_per_eval=1")
WINDOW = ("--reset_when=window", "--reset_window=2")
# The first model is the best for none of the clients, and the deployed one acts otherwise: the loss rises soon.
EAGER = ("--page_hinkley_threshold=0.0001", "--reset_warmup=2")
NOISE = ("--clip_norm=0.5", "--noise_multiplier=2")


play = whole_runs.player(*SMALL)


def rounds_of(*arguments: str) -> experiment.BanditRounds:
    return whole_runs.rounds_of(*SMALL, *arguments)


@pytest.mark.parametrize("aggregation", [(), ("--aggregator_type=dpftrl", *NOISE, "--insecure_seeded_noise")])
@pytest.mark.parametrize("what", ["model", "optimizer"])
def test_the_round_of_a_reset_starts_from_the_first_state_and_keeps_the_rest(tff_worker, what, aggregation):
    rounds = rounds_of(f"--reset={what}", *WINDOW, *aggregation)
    first = state = rounds.initial_state()
    for round_num in (1, 2):
        state, row = rounds.run_round(state, round_num)
        assert row[metrics.RESET] == 0
    by_hand = state.server._replace(optimizer=first.server.optimizer)
    if what == "model":
        by_hand = by_hand._replace(weights=first.server.weights)
    leaves = tf.nest.map_structure(np.array_equal, by_hand, state.server)
    assert not all(tf.nest.flatten(leaves))
    after, row = rounds.run_round(state, 3)
    assert row[metrics.RESET] == 1
    unreset = rounds_of(*aggregation)
    before = state._replace(server=by_hand, parts=unreset.initial_state().parts)
    plain, expected = unreset.run_round(before, 3)
    tf.nest.map_structure(np.testing.assert_array_equal, after._replace(parts=()), plain._replace(parts=()))
    del row[metrics.RESET]
    np.testing.assert_equal(row, expected)


@pytest.mark.parametrize(
    ("watched", "column", "sign", "more"),
    [("loss", metrics.LOSS, 1, ()), ("reward", metrics.ROUND_REWARD, -1, ("--bandits_type=uniform",))],
)
def test_rounds_are_reset_where_their_losses_or_rewards_say(tmp_path, capsys, watched, column, sign, more):
    rows = table(play(tmp_path, "--reset=model", f"--reset_watch={watched}", *EAGER, "--total_rounds=12", *more))
    reset = resets.Reset("model", resets.PAGE_HINKLEY, warmup=2, threshold=0.0001)
    watch, losses, expected = resets.Watch(reset), reset.no_losses(), []
    for loss in sign * rows[column]:
        expected.append(int(watch.is_due(len(expected) + 1, losses)))
        losses = watch.noted(reset.no_losses() if expected[-1] else losses, loss)
    assert rows[metrics.RESET].tolist() == expected
    assert 2 <= sum(expected) <= 6
    first = rows["round_num"][rows[metrics.RESET] == 1].iloc[0]
    assert f"Resets: {sum(expected)} (rounds {first}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [("--reset=model", *EAGER), ("--reset=optimizer", *WINDOW)])
def test_a_continued_run_is_reset_in_the_same_rounds(arguments, tmp_path):
    whole, _ = whole_runs.stopped(play, tmp_path, *arguments, after=3)
    assert table(whole)[metrics.RESET].sum() > 0


def test_without_resets_and_with_none_that_comes_a_run_is_the_same(tmp_path):
    plain = play(tmp_path / "plain")
    assert table(plain)[metrics.RESET].isna().all()
    assert_same(play(tmp_path / "none", "--reset=none"), plain)
    rows = table(play(tmp_path / "patient", "--reset=model", "--page_hinkley_threshold=1000"))
    assert rows[metrics.RESET].tolist() == [0] * 6
    pd.testing.assert_frame_equal(
        rows.drop(columns=metrics.RESET), table(plain).drop(columns=metrics.RESET), check_exact=True
    )


def test_a_detector_voids_the_guarantee_and_a_window_does_not(tmp_path, capsys):
    noise = ("--aggregator_type=dpsgd", *NOISE, "--cohort_sampling=poisson", "--total_rounds=3")
    plain = spent(play(tmp_path / "plain", *noise))
    capsys.readouterr()
    window = spent(play(tmp_path / "window", *noise, "--reset=model", *WINDOW))
    assert "guarantees nothing" not in capsys.readouterr().err
    assert window == plain
    assert math.isfinite(window["epsilon"])
    run = play(tmp_path / "adwin", *noise, "--reset=optimizer", "--reset_when=adwin")
    why = "because the training is reset by the clients' losses (--reset_when=adwin), which have no noise."
    printed = capsys.readouterr()
    assert f"Warning: the noise guarantees nothing, {why}" in printed.err
    assert f"Privacy: no guarantee, {why}" in printed.out
    assert (spent(run)["epsilon"], spent(run)["guarantees"]) == (None, [])
    assert np.isinf(table(run)[metrics.EPSILON]).all()
