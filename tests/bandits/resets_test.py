"""Tests of bandits.resets: when there is a reset, beside `river` itself and by hand."""

import dataclasses
import math

import numpy as np
import pytest
from river import drift

from bandits import resets

PAGE_HINKLEY = resets.Reset("model", resets.PAGE_HINKLEY, warmup=5, threshold=0.5)
ADWIN = resets.Reset("optimizer", resets.ADWIN, warmup=10)
WINDOW = resets.Reset("model", resets.WINDOW, window=3)
OF_REWARDS = dataclasses.replace(PAGE_HINKLEY, watched=resets.REWARD)
BOTH = pytest.mark.parametrize("reset", [PAGE_HINKLEY, ADWIN], ids=["page_hinkley", "adwin"])
NOISE = np.random.default_rng(0).normal(0.0, 0.01, 120)
LEVELS = {
    "step up": np.repeat([0.1, 0.5], 60),
    "steps up and down": np.repeat([0.1, 0.5, 0.1, 0.6], 30),
    "ramp": np.concatenate([np.full(40, 0.1), np.linspace(0.1, 0.9, 80)]),
    "fall": np.repeat([0.5, 0.1], 60),
    "learning": 0.05 + 0.5 * np.exp(-np.arange(120) / 10),
    "still": np.full(120, 0.2),
}


def follow(reset: resets.Reset, stream, watch: resets.Watch | None = None) -> list[int]:
    """Rounds that begin with a reset, for a stream of losses."""
    watch = watch or resets.Watch(reset)
    losses, found = reset.no_losses(), []
    for round_num, loss in enumerate([*stream, math.nan], start=1):
        if watch.is_due(round_num, losses):
            found.append(round_num)
            losses = reset.no_losses()
        losses = watch.noted(losses, loss)
    return found


def fed_directly(reset: resets.Reset, stream) -> list[int]:
    """Rounds after those at which a fresh `river` detector reports a rise."""
    found, detector = [], None
    for round_num, loss in enumerate(stream, start=1):
        if reset.when == "adwin":
            detector = detector or drift.ADWIN(delta=0.2, clock=1, grace_period=10)
            before = detector.estimation
            detector.update(100.0 * loss)
            rises = detector.drift_detected and detector.estimation > before
        else:
            detector = detector or drift.PageHinkley(min_instances=5, delta=0.005, threshold=0.5, mode="up")
            detector.update(loss)
            rises = detector.drift_detected
        if rises:
            found.append(round_num + 1)
            detector = None
    return found


@BOTH
@pytest.mark.parametrize("kind", LEVELS)
def test_resets_are_where_river_finds_a_rise(reset, kind):
    stream = LEVELS[kind] + NOISE
    found = follow(reset, stream)
    assert found == fed_directly(reset, stream)
    rises = {"step up": 1, "steps up and down": 2, "ramp": 1}
    assert len(found) >= rises.get(kind, 0)
    assert not found or kind in rises


def test_page_hinkleys_sum_by_hand():
    """Of 0.1, 0.1, 0.5, 0.5: deviations from the running mean 0, 0, 0.2667, 0.2, each less 0.005.

    Their sum, whose least is -0.01, is above that by 0.2617 after three rounds, and by 0.4567 after four (old sums
    shrink by 1e-4 a round).
    """
    for threshold, expected in ((0.25, [4]), (0.4, [5]), (0.46, [])):
        reset = resets.Reset("model", resets.PAGE_HINKLEY, warmup=1, threshold=threshold)
        assert follow(reset, [0.1, 0.1, 0.5, 0.5])[:1] == expected


@BOTH
def test_rounds_without_a_loss_are_passed_over(reset):
    stream = list(LEVELS["step up"] + NOISE)
    first = follow(reset, stream)[0]
    gaps = [*stream[:20], math.nan, math.inf, *stream[20:]]
    assert follow(reset, gaps)[0] == first + 2


def test_a_fall_of_the_reward_is_a_rise():
    assert PAGE_HINKLEY.loss_of(0.25, 0.75) == 0.25
    assert OF_REWARDS.loss_of(0.25, 0.75) == -0.75
    stream = LEVELS["fall"] + NOISE
    assert not follow(PAGE_HINKLEY, stream)
    assert follow(OF_REWARDS, [OF_REWARDS.loss_of(0.0, reward) for reward in stream])[0] in (62, 63)


@pytest.mark.parametrize(
    ("reset", "voids"),
    [
        (PAGE_HINKLEY, "losses (--reset_when=page_hinkley)"),
        (OF_REWARDS, "rewards (--reset_when=page_hinkley)"),
        (WINDOW, ""),
    ],
)
def test_only_what_reads_losses_or_rewards_voids_a_guarantee(reset, voids):
    assert voids in reset.voids
    assert bool(reset.voids) == bool(voids)


@pytest.mark.parametrize(
    ("reset", "rounds", "is_weighted", "flag"),
    [
        (PAGE_HINKLEY, 5, False, "--reset_warmup=5"),
        (PAGE_HINKLEY, 6, False, ""),
        (PAGE_HINKLEY, 100, True, "--reset_watch=loss"),
        (OF_REWARDS, 100, True, ""),
    ],
)
def test_resets_that_cannot_come_or_come_by_importance_weights_are_warned_of(reset, rounds, is_weighted, flag):
    warning = reset.warning(rounds, is_weighted)
    assert flag in warning
    assert bool(warning) == bool(flag)
