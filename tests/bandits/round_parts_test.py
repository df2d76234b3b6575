"""Tests of the optional parts of a round, of bandits.round_parts, without TFF."""

import types

import numpy as np
import pytest
import tensorflow as tf

from bandits import environments, metrics, policies, process, resets, round_parts
from data.errors import Failure
from optimization import fed_avg

KEYS = process.ClientKeys(np.array([1, 2], np.int32), np.array([3, 4], np.int32))


def _participation(count: int, client: int = 0) -> round_parts.Participation:
    inputs = process.ClientInput(np.arange(count)[:, np.newaxis], np.arange(count), KEYS)
    return round_parts.Participation(inputs, client, np.arange(count) + 100)


def _ended(participations=(), row=None, **counts) -> round_parts.Round:
    counts = dict.fromkeys(fed_avg.RoundMetrics._fields, 0) | counts
    cohort = round_parts.Cohort(participations, participations, len(participations), len(participations))
    return round_parts.Round(1, None, cohort, fed_avg.RoundMetrics(**counts), row or {})


def test_replay_offers_each_row_in_one_round_in_order():
    part = round_parts.Replay(types.SimpleNamespace())
    offered = [part.inputs(_participation(25), round_num) for round_num in (1, 2, 3, 4)]
    assert [each.rows.tolist() for each in offered] == [[*range(100, 110)], [*range(110, 120)], [*range(120, 125)], []]
    for each in offered:
        np.testing.assert_array_equal(each.inputs.labels, each.rows - 100)
        np.testing.assert_array_equal(each.inputs.features[:, 0], each.rows - 100)


def test_a_client_report_has_the_means_of_all_participations():
    part = round_parts.ClientReports(["a", "b", "c"])
    before, halves = part.initial_state(), {"half_examples": [[2, 0], [1, 3]], "half_rewards": [[1.0, 0], [0.5, 3]]}
    cohort = [_participation(3, 2), _participation(3, 0).with_inputs(position=np.int32(1))]
    own, _ = part.after(before, _ended(cohort, **halves))
    own, _ = part.after(own, _ended(cohort[:1], **halves))
    assert not before.any()
    assert part.content(own) == {
        "clients": ["a", "c"],
        "participations": [1, 2],
        "examples": [3.0, 3.0],
        "half_a": [None, 0.5],
        "half_b": [1.0, 0.5],
    }


def test_a_reset_restores_the_first_state_but_not_the_deployed_model():
    first, later = (fed_avg.State(at, (at,), (at,), at, at) for at in (0, 5))
    part = round_parts.Resets(resets.Reset("model", resets.WINDOW, window=2), None, lambda: first)
    for round_num, expected in ((2, later), (3, later._replace(weights=first.weights, optimizer=first.optimizer))):
        _, server = part.before((), later, round_num)
        assert server == expected
        _, row = part.after((), _ended(row={metrics.ROUND_REWARD: 0.5, metrics.LOSS: 1.0}))
        assert row == {metrics.RESET: int(round_num == 3)}


def test_pooled_clients_upload_their_logs_and_download_one_model():
    _, row = round_parts.Payloads(100, None).after((), _ended([_participation(3), _participation(5)]))
    # A context of 8 bytes; action, reward and propensity of 4 bytes each.
    assert row == {metrics.BYTES_DOWN: 2 * 100, metrics.BYTES_UP: 8 * (8 + 3 * 4)}


def test_a_robust_aggregation_warns_if_most_coordinates_never_change():
    part = round_parts.RobustAggregation()
    own = part.initial_state()
    for participations, share in (([_participation(3)], 0.9), ([], np.nan), ([_participation(3)], 0.4)):
        own, row = part.after(own, _ended(participations, aggregator={"zero_share": share}))
        np.testing.assert_equal(row, {metrics.ZERO_SHARE: share})
    (line,) = part.finish(own, None, None)
    assert line.startswith("Warning: The aggregate was 0 in 65.0% of the coordinates")
    assert part.finish(np.array([0.4, 1]), None, None)[0].startswith("The aggregate was 0 in 40.0%")


def _own_policy(at_deployment, keeps_cache=False, delay=environments.NO_DELAY):
    policy = types.SimpleNamespace(name="Counts", at_deployment=at_deployment, bound=5.0)
    spec = {"interactions": tf.TensorSpec(()), "total": tf.TensorSpec((2,))}
    phase = types.SimpleNamespace(
        seed=3,
        delay=delay,
        deploy_every=4,
        acted_in=lambda round_num: (round_num - 1) // 4 * 4 + 1 if keeps_cache else round_num,
    )
    definition = types.SimpleNamespace(policy=policy, sums_spec=spec, joint_clip_norm=None)
    return round_parts.OwnPolicy(phase, definition, 3, None)


def _after(part, own, participations, *, sums, deployed, round_num=1, clipped=()):
    ended = _ended(participations, statistics=sums, deployed=deployed, statistics_clipped=clipped)
    return part.after(own, ended._replace(round_num=round_num))[0]


@pytest.mark.parametrize(
    ("at_deployment", "expected"),
    [(policies.ACCUMULATE, [[0, 0], [3, 6], [8, 16]]), (policies.RESTART, [[0, 0], [3, 6], [5, 10]])],
)
def test_sums_reach_clients_at_a_deployment(at_deployment, expected):
    part, seen = _own_policy(at_deployment), []
    own = part.initial_state()
    for value, deployed in ((1, False), (2, True), (5, True), (0, False)):
        (client,) = part.started(own, [_participation(2)], 7)
        seen.append(client.inputs.policy_state["total"].tolist())
        sums = {"interactions": np.float32(2), "total": np.float32([value, 2 * value])}
        own = _after(part, own, [client], sums=sums, deployed=deployed)
    assert [seen[0], *seen[2:]] == expected
    assert seen[1] == [0, 0]
    (client,) = part.started(own, [_participation(2)], 7)
    state = client.inputs.policy_state
    assert (state["round_num"], state["interactions"], state["total"].dtype) == (7, 6, np.float32)


@pytest.mark.parametrize(("keeps_cache", "expected"), [(False, [2, 2, 2]), (True, [2, 0, 2])])
def test_a_kept_log_is_counted_once(keeps_cache, expected):
    part = _own_policy(policies.ACCUMULATE, keeps_cache)
    own, counted = part.initial_state(), []
    for round_num in (2, 4, 5):
        (client,) = part.started(own, [_participation(2, client=1)], round_num)
        counted.append(client.inputs.counted.sum())
        sums = {"interactions": 0, "total": np.zeros(2)}
        own = _after(part, own, [client], sums=sums, deployed=False, round_num=round_num)
    assert counted == expected


def test_a_delayed_reward_is_counted_in_the_first_round_that_observes_it():
    delay = environments.Delay("uniform", 3.0)
    part = _own_policy(policies.ACCUMULATE, True, delay)
    own, counted = part.initial_state(), []
    for round_num in (1, 2, 4):
        observed = delay.observed(3, 0, 1, 50, round_num - 1)
        started = _participation(50, client=1).with_inputs(observed=observed)
        (client,) = part.started(own, [started], round_num)
        counted.append(client.inputs.counted)
        sums = {"interactions": 0, "total": np.zeros(2)}
        own = _after(part, own, [client], sums=sums, deployed=False, round_num=round_num)
    assert all(each.any() for each in counted)
    np.testing.assert_array_equal(np.sum(counted, axis=0), np.ones(50))


def test_sums_that_a_secure_sum_would_clip_are_a_failure():
    part = _own_policy(policies.ACCUMULATE)
    clipped = {"secure_upper_clipped_count": 2, "secure_lower_clipped_count": 0, "secure_upper_threshold": 5.0}
    sums = {"interactions": np.float32(0), "total": np.zeros(2, np.float32)}
    with pytest.raises(Failure, match="clip the statistics of 2 clients, which exceed bound=5"):
        _after(part, part.initial_state(), [], sums=sums, deployed=False, clipped=clipped)
