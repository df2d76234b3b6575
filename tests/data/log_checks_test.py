"""Tests of data.log_checks: what may be wrong with a log, in words."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from data import action_sets, interaction_log, log_checks, tables


def _log(propensities, actions=None, clients=None, num_actions=2) -> interaction_log.InteractionLog:
    count = len(propensities)
    clients = np.arange(count) if clients is None else np.asarray(clients)
    columns = {"actions": np.zeros(count, int) if actions is None else actions, "rewards": np.zeros(count)}
    columns["propensities"] = np.asarray(propensities)
    names = [f"c{number}" for number in range(int(clients.max()) + 1)]
    return interaction_log.ordered(names, clients, None, [f"a{number}" for number in range(num_actions)], columns)


def test_the_mean_of_inverse_propensities_is_the_number_of_actions_under_full_support():
    draw = np.random.default_rng(0)
    probabilities = np.array([0.7, 0.2, 0.1])
    actions = draw.choice(3, 3000, p=probabilities)

    def finding(factor=1.0, num_actions=3):
        log = _log(factor * probabilities[actions], actions, np.arange(3000) // 10, num_actions)
        return log_checks.mean_inverse_propensity(log)

    assert not finding().is_warning
    assert "the number of actions, 3." in finding().text
    impossible, small = finding(num_actions=5), finding(factor=0.5)
    assert impossible.is_warning
    assert "an action that was impossible" in impossible.text
    assert small.is_warning
    assert "propensities that are too small" in small.text


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
    assert "largest weight is 3, which is 75.0% of all weight" in largest.text
    assert largest.is_warning
    assert "The client with the most weight has 75.0% of it" in clients.text
    [nothing] = log_checks.overlap(log, np.zeros(4))
    assert nothing.is_warning
    assert log_checks.effective_sample_size(np.full(7, 0.3)) == pytest.approx(7)


def test_actions_that_only_the_policy_chooses_are_named():
    log = _log([0.5, 0.5], [0, 2], num_actions=4)
    finding = log_checks.support(log, np.array([[0.5, 0.1, 0.3, 0.1], [0.7, 0.3, 0.0, 0.0]]))
    assert finding.is_warning
    assert "does not contain 'a1', 'a3', which the policy chooses in 25.00% of interactions" in finding.text
    assert not log_checks.support(log, np.array([[0.5, 0.0, 0.5, 0.0]] * 2)).is_warning


_ACTIONS = ("a", "b", "c")
_LOGGING = np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]])  # One row per kind of client.
_RATES = np.array([0.3, 0.15, 0.05])


def _sampled_log(seed, clients=300, rows=8, logging=_LOGGING, after=False, **changed):
    """Log of clients of two kinds; `after` adds the column `converted_at is missing`, which follows the reward."""
    draw = np.random.default_rng(seed)
    kinds = np.repeat(draw.integers(2, size=clients), rows)
    probabilities = np.asarray(logging)[kinds]
    actions = (draw.random((len(kinds), 1)) > probabilities.cumsum(axis=1)[:, :-1]).sum(axis=1)
    rewards = (draw.random(len(kinds)) < _RATES[actions]).astype(float)
    features = [kinds, draw.normal(size=len(kinds)), draw.random(len(kinds)) < 0.01, draw.standard_t(2, len(kinds))]
    names = ["kind", "age", "color=red", "price"]
    if after:
        features, names = [*features, rewards == 0], [*names, "converted_at is missing"]
    columns = {"actions": actions, "rewards": rewards, "propensities": probabilities[np.arange(len(kinds)), actions]}
    used = [{"name": name, "use": "feature"} for name in ("kind", "age", "color", "price", "converted_at")]
    client_ids, owners = [f"c{number}" for number in range(clients)], np.repeat(np.arange(clients), rows)
    contexts, others = np.stack(features, axis=1).astype(np.float32), {"feature_names": tuple(names)}
    return interaction_log.ordered(
        client_ids, owners, contexts, _ACTIONS, columns | changed, report={"columns": used}, **others
    )


def _uniform(log):
    return 1 / (3 * log.propensities)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"logging": [[0.98, 0.01, 0.01]] * 2},
        {"logging": [[0.994, 0.003, 0.003]] * 2, "rows": 2},
        {"clients": 12},
        {"clients": 12, "rows": 40},
    ],
)
def test_correct_logs_fail_no_more_often_than_the_level(how):
    logs = [_sampled_log(seed, **how) for seed in range(60)]
    failures = sum(log_checks.check(log, _uniform(log)).is_warning for log in logs)
    assert failures <= stats.binom.ppf(0.99, len(logs), log_checks.LEVEL)


def test_a_column_from_after_the_action_is_named():
    finding = log_checks.check(_sampled_log(0, after=True))
    assert (finding.name, finding.is_warning) == (log_checks.COLUMNS, True)
    assert "The features of 'converted_at' depend on the chosen action" in finding.text
    assert not log_checks.check(_sampled_log(0)).is_warning


def test_a_feature_of_actions_from_after_the_action_is_named():
    log = _sampled_log(0)
    entries = np.arange(3 * len(log)).reshape(-1, 3)
    size, dwell = np.random.default_rng(0).normal(size=entries.size), np.zeros(entries.size)
    dwell[entries[np.arange(len(log)), log.actions]] = log.rewards
    sets = {"contexts": action_sets.of_entries(log.contexts, entries), "catalogue_actions": entries.ravel() % 3}
    for columns, is_warning in (({"size": size, "dwell": dwell}, True), ({"size": size}, False)):
        catalogue = np.stack(list(columns.values()), axis=1)
        report = log.report | {"action_features": list(columns)}
        finding = log_checks.check(dataclasses.replace(log, catalogue=catalogue, report=report, **sets))
        assert (finding.is_warning, "The features of 'dwell' depend" in finding.text) == (is_warning, is_warning)


def test_wrong_propensities_are_found_with_and_without_a_policy():
    log = _sampled_log(0)
    swapped = {"propensities": np.where(log.actions == 0, 0.3, np.where(log.actions == 1, 0.5, 0.2))}
    finding = log_checks.check(_sampled_log(0, **swapped))
    assert finding.name == log_checks.PROPENSITIES
    assert "the rows of an action weigh more than all rows" in finding.text
    doubled = _sampled_log(0, propensities=np.minimum(2 * log.propensities, 1))
    finding = log_checks.check(doubled, _uniform(doubled))
    assert finding.name == log_checks.PROPENSITIES
    assert "average 0.517" in finding.text


def test_only_policies_that_need_an_unavailable_action_are_refused():
    log = _sampled_log(0, logging=[[0.6, 0.4, 0], [0.5, 0.2, 0.3]])
    assert "average 0.8" in log_checks.check(log, _uniform(log)).text
    always_a = np.where(log.actions == 0, 1 / log.propensities, 0)
    assert not log_checks.check(log, always_a).is_warning


def test_rounded_propensities_and_few_rows_are_not_refused():
    thirds = _sampled_log(0, logging=[[1 / 3, 1 / 3, 1 / 3]] * 2)
    rounded = _sampled_log(0, logging=[[1 / 3, 1 / 3, 1 / 3]] * 2, propensities=thirds.propensities.round(2))
    assert not log_checks.check(rounded, _uniform(rounded)).is_warning
    assert "No action has enough rows" in log_checks.check(_sampled_log(0, clients=4, rows=3)).text


@pytest.mark.parametrize(
    ("cells", "is_set"),
    [
        (["x|y", "y|z", "z"], True),
        (['["x", "y"]', '["y"]', '["z", "y"]'], True),
        ([np.array(["x", "y"]), ["y", "x"], ("z", "y")], True),
        (["x y", "y z", "z x"], True),
        (["x|y", "z", "z|y"], False),  # Without the second row's action.
        (["x|y|z"] * 3, False),  # The same in all rows.
        (["x", "y", "z"], False),
        (["home|x", "y|home|a", "see, z"], False),  # Most elements are not actions.
        ([1.0, None, 2.0], False),
    ],
)
def test_a_column_of_available_actions_is_recognized(cells, is_set):
    frame = pd.DataFrame({"item": ["x", "y", "z"], "age": [1, 2, 3], "available": cells})
    assert tables.action_sets(frame, "item") == ("available" if is_set else None)
