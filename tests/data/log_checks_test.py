"""Tests of data.log_checks: what may be wrong with a log, in words."""

import numpy as np
import pytest

from data import interaction_log, log_checks


def _log(propensities, actions=None, clients=None, num_actions=2, **others) -> interaction_log.InteractionLog:
    count = len(propensities)
    clients = np.arange(count) if clients is None else np.asarray(clients)
    return interaction_log.ordered(
        [f"c{number}" for number in range(int(clients.max()) + 1)],
        clients,
        None,
        [f"a{number}" for number in range(num_actions)],
        {
            "actions": np.zeros(count, int) if actions is None else actions,
            "rewards": np.zeros(count),
            "propensities": np.asarray(propensities),
        },
        **others,
    )


def test_the_mean_of_inverse_propensities_is_the_number_of_actions_under_full_support():
    draw = np.random.default_rng(0)
    probabilities = np.array([0.7, 0.2, 0.1])
    actions = draw.choice(3, 3000, p=probabilities)
    log = _log(probabilities[actions], actions, np.arange(3000) // 10, 3)
    finding = log_checks.mean_inverse_propensity(log)
    assert not finding.is_warning
    assert "the number of actions, 3." in finding.text
    fewer = log_checks.mean_inverse_propensity(_log(probabilities[actions], actions, np.arange(3000) // 10, 5))
    assert fewer.is_warning
    assert "an action that was impossible" in fewer.text
    halved = log_checks.mean_inverse_propensity(_log(probabilities[actions] / 2, actions, np.arange(3000) // 10, 3))
    assert halved.is_warning
    assert "propensities that are too small" in halved.text


def test_its_standard_error_is_over_clients():
    """Two clients of two equal rows: 1 / p is 2, 2, 4, 4; the mean 3, residuals of clients -2 and 2, over 4 rows."""
    finding = log_checks.mean_inverse_propensity(_log([0.5, 0.5, 0.25, 0.25], clients=[0, 0, 1, 1], num_actions=3))
    assert "is 3 (standard error over clients 1)" in finding.text  # sqrt((4 + 4) * 2 / 1) / 4


def test_overlap_is_reported_in_numbers_of_weights():
    """Weights 3, 1, 0, 0: (3 + 1)^2 / (9 + 1) = 1.6 rows."""
    log = _log([0.5] * 4, clients=[0, 1, 2, 2])
    size, mean, largest, clients = log_checks.overlap(log, np.array([3.0, 1.0, 0.0, 0.0]))
    assert "is 1.6 of 4 rows: few rows determine" in size.text
    assert size.is_warning
    assert "mean weight is 1." in mean.text
    assert "largest weight is 3, 75.0% of all" in largest.text
    assert largest.is_warning
    assert "The largest share of all weight on one client is 75.0%" in clients.text
    [nothing] = log_checks.overlap(log, np.zeros(4))
    assert nothing.is_warning
    assert log_checks.effective_sample_size(np.full(7, 0.3)) == pytest.approx(7)


def test_actions_that_only_the_policy_chooses_are_named():
    log = _log([0.5, 0.5], [0, 2], num_actions=4)
    finding = log_checks.support(log, np.array([[0.5, 0.1, 0.3, 0.1], [0.7, 0.3, 0.0, 0.0]]))
    assert finding.is_warning
    assert "lacks 'a1', 'a3', which the policy chooses in 25.00% of interactions" in finding.text
    assert not log_checks.support(log, np.array([[0.5, 0.0, 0.5, 0.0]] * 2)).is_warning
