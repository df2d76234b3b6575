import dataclasses

import pytest

from optimization.privacy import calibration
from optimization.privacy.mechanisms import Mechanism


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "rounds", "target"),
    [
        (Mechanism("dpsgd", 0.0, 200, 60, "poisson"), 1900, 0.4),
        (Mechanism("dpsgd", 0.0, 3400, 64, "fixed"), 300, 3.0),
        (Mechanism("dpftrl", 0.0, 20_000, 2500, "cyclic", restart_frequency=16), 150, 1.0),
        (Mechanism("mf_dpftrl", 0.0, 1000, 3, "cyclic", bands=4), 1200, 8.0),
    ],
)
def test_calibrated_noise_spends_just_less_than_the_target(mechanism, rounds, target):
    noise_multiplier = calibration.calibrate(mechanism, rounds, target)
    epsilon = dataclasses.replace(mechanism, noise_multiplier=noise_multiplier).epsilon(rounds)
    assert 0.999 * target <= epsilon <= target


def test_unreachable_targets_are_explained():
    mechanism = Mechanism("dpsgd", 0.0, population=100, cohort=100, delta=1e-9)
    with pytest.raises(ValueError, match=r"needs no search: a noise multiplier of 0\.01 spends only 5\.52e\+04"):
        calibration.calibrate(mechanism, 10, 1e9)
    with pytest.raises(ValueError, match=r"is out of reach: even a noise multiplier of 1e\+06 spends"):
        calibration.calibrate(mechanism, 10, 1e-9)


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
