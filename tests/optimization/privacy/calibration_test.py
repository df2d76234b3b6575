"""Calibration against the accountant that it inverts."""

import dataclasses

import numpy as np
import pytest

from optimization.privacy import calibration
from optimization.privacy.mechanisms import Mechanism


def _random_setting(seed):
    draw = np.random.default_rng(seed)
    population = int(10 ** draw.uniform(2, 6))
    kind = ["dpsgd", "dpsgd", "dpsgd", "dpftrl", "mf_dpftrl"][seed % 5]
    mechanism = Mechanism(
        kind,
        0.0,
        population=population,
        cohort=max(1, int(population * 10 ** draw.uniform(-3, -0.5))),
        sampling="cyclic" if kind != "dpsgd" else ("poisson", "fixed")[seed % 2],
        restart_frequency=16 if kind == "dpftrl" else 0,
        bands=4 if kind == "mf_dpftrl" else 1,
    )
    return mechanism, int(draw.integers(10, 2000)), float(10 ** draw.uniform(-0.5, 1.3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_calibrated_noise_spends_just_less_than_the_target(seed):
    mechanism, rounds, target = _random_setting(seed)
    noise_multiplier = calibration.calibrate(mechanism, rounds, target)
    epsilon = dataclasses.replace(mechanism, noise_multiplier=noise_multiplier).epsilon(rounds)
    assert 0.999 * target <= epsilon <= target


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (1e9, "needs no search: a noise multiplier of 0.01 spends only 5.52e\\+04"),
        (1e-9, "is out of reach: even a noise multiplier of 1e\\+06 spends"),
    ],
)
def test_unreachable_targets_are_explained(target, message):
    with pytest.raises(ValueError, match=message):
        calibration.calibrate(Mechanism("dpsgd", 0.0, population=100, cohort=100, delta=1e-9), 10, target)


@pytest.mark.slow
def test_a_target_by_pld_needs_less_noise_than_by_rdp():
    by_rdp, by_pld = (
        Mechanism("dpsgd", 0.0, population=340_000, cohort=64, delta=1e-6, accountant=accountant)
        for accountant in ("rdp", "pld")
    )
    bought, needed = (calibration.calibrate(one, 800, 4.14) for one in (by_rdp, by_pld))
    assert dataclasses.replace(by_pld, noise_multiplier=bought).epsilon(800) == pytest.approx(2.56, abs=0.01)
    assert needed < bought
    assert 0.999 * 4.14 <= dataclasses.replace(by_pld, noise_multiplier=needed).epsilon(800) <= 4.14


@pytest.mark.slow
def test_scaled_cohorts_equal_the_papers():
    # Noise 0.01 with a cohort of 64 becomes 1 with 6,400, at epsilon 4.13.
    tolerated = Mechanism("dpsgd", 0.01, population=340_000, cohort=64, delta=1e-6)
    grown = calibration.scale_cohort(tolerated, 800, 4.1331)
    assert (grown.cohort, grown.noise_multiplier) == (6400, pytest.approx(1.0))
    smaller = dataclasses.replace(grown, cohort=6399, noise_multiplier=0.01 * 6399 / 64)
    assert smaller.epsilon(800) > 4.1331
