"""Tests of data.log_time: order and selection of rows by time, late and missing rewards, splits at a time."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from data import frames, interaction_log, log_table, log_time, schema
from data.errors import UsageError
from data.tasks import logged, tabular
from data.tasks.options import TaskOptions

# Days 1 to 6; rewards after 1, 3, no, 2, 0 and 1 days.
DAYS = ["2023-01-03", "2023-01-01", "2023-01-02", "2023-01-04", "2023-01-05", "2023-01-06"]
OBSERVED = ["2023-01-04", "2023-01-04", None, "2023-01-06", "2023-01-05", "2023-01-07"]
LOG = {
    "user": ["a", "b", "a", "b", "a", "b"],
    "action": ["x", "y", "x", "y", "x", "y"],
    "reward": [1.0, 2.0, 0.0, 4.0, 5.0, 6.0],
    "p": [0.5] * 6,
    "age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "day": DAYS,
    "paid": OBSERVED,
}
ROLES = {"action_column": "action", "reward_column": "reward", "propensity_column": "p"}


def _log(frame=None, **roles) -> interaction_log.InteractionLog:
    frame = pd.DataFrame(LOG) if frame is None else frame
    ignored = ",".join({"day", "paid"}.intersection(frame) - set(roles.values()))
    wanted = schema.Schema(client_column="user", **ROLES, ignore_columns=ignored or None, **roles, file_flag="--log")
    with frames.lent(frame) as name:
        return log_table.read(name, wanted)


def _rewards(log):
    return {name: log.rewards[log.clients == client].tolist() for client, name in enumerate(log.client_ids)}


def test_rows_are_in_the_order_of_time_and_time_is_a_feature_only_if_it_is_named():
    log = _log(time_column="day")
    assert _rewards(log) == {"a": [0, 1, 5], "b": [2, 4, 6]}
    assert log.feature_names == ("age",)
    assert _log(time_column="day", feature_columns="day,age").feature_names[:2] == ("age", "day")
    days = (np.array(["2023-01-02", "2023-01-03", "2023-01-05"], "datetime64[us]").astype(float)).tolist()
    assert log.times[log.clients == 0].tolist() == days


_NUMBERED = [int(day[-1]) for day in DAYS]


@pytest.mark.parametrize(
    ("column", "start", "end"),
    [
        (DAYS, "2023-01-02", "2023-01-05"),
        (pd.to_datetime(DAYS), "2023-01-02", "2023-01-05T00:00"),
        ([f"2023010{day}235959" for day in _NUMBERED], "2023-01-02", "2023-01-05"),
        ([f"2023010{day}T100000+0200" for day in _NUMBERED], "2023-01-02T08:00Z", "2023-01-05T10:00+02:00"),
        (pd.to_datetime([f"{day}T10:00:00Z" for day in DAYS]), "2023-01-02T10:00Z", "2023-01-05T11:00+02:00"),
        (_NUMBERED, "2", "4.5"),
        ([day * 1e9 for day in _NUMBERED], "2e9", "5000000000"),
    ],
)
def test_from_and_until_keep_a_half_open_interval_of_any_kind_of_time(column, start, end):
    log = _log(pd.DataFrame(LOG).assign(day=column), time_column="day", from_time=start, until_time=end)
    assert _rewards(log) == {"a": [0, 1], "b": [4]}
    assert "left out: 3 rows outside of --from and --until" in log.report["notes"][0]


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (DAYS, "2023-01-04"),
        ([f"{day}T10:00:00+02:00" for day in DAYS], "2023-01-04T08:00:00Z"),
        ([f"{day} 10:00:00.250" for day in DAYS], "2023-01-04T10:00:00.250000"),
        ([1.7e9 + day for day in _NUMBERED], "1700000004"),
    ],
)
def test_shown_times_are_times_that_flags_take(column, shown):
    frame = pd.DataFrame(LOG).assign(day=column)
    times = log_time.of_log(_log(frame, time_column="day"))
    assert times.shown(np.sort(times.values)[3]) == shown
    assert _rewards(_log(frame, time_column="day", from_time=shown)) == {"a": [5], "b": [4, 6]}


def test_late_rewards_are_0_and_recent_rows_are_left_out():
    roles = {"time_column": "day", "reward_time_column": "paid", "reward_window": "2d"}
    log = _log(**roles)  # Until the 7th: rows up to the 5th.
    assert _rewards(log) == {"a": [0, 1, 5], "b": [0, 4]}
    assert log.report["notes"][1:] == [
        "Left out: 1 row after 2023-01-05, because the log ends at 2023-01-07 (--log_until), before their reward "
        "window does.",
        "Counted as 0: 1 row without a reward within 2d.",
    ]
    assert _rewards(_log(**roles, log_until="2023-01-05")) == {"a": [0, 1], "b": [0]}
    numbers = pd.DataFrame(LOG).assign(day=[3, 1, 2, 4, 5, 6], paid=[4, 4, None, 6, 5, 7])
    assert _rewards(_log(numbers, **roles | {"reward_window": "2"})) == _rewards(log)
    datetimes = pd.DataFrame(LOG).assign(day=pd.to_datetime(DAYS), paid=pd.to_datetime(OBSERVED))
    assert _rewards(_log(datetimes, **roles | {"reward_window": "48h"})) == _rewards(log)
    unobserved = _log(pd.DataFrame(LOG).assign(reward=[1.0, 2.0, None, 4.0, 5.0, 6.0]), **roles)
    assert _rewards(unobserved) == _rewards(log)
    assert unobserved.report["notes"][2].startswith("Counted as 0: 2 rows without")
    without_times = _log(time_column="day", reward_window="2d")  # Until the 6th.
    assert _rewards(without_times) == {"a": [0, 1], "b": [2, 4]}
    assert len(without_times.report["notes"]) == 2


@pytest.mark.parametrize(("meaning", "first"), [("drop", []), ("zero", [0])])
@pytest.mark.parametrize("empty", [None, "", "NA"])
def test_an_empty_reward_is_dropped_or_0_if_the_user_says_so(meaning, first, empty):
    frame = pd.DataFrame(LOG).assign(reward=[empty, 2, 0, 4, 5, 6])
    log = _log(frame, unobserved_rewards=meaning)
    assert {name: sorted(values) for name, values in _rewards(log).items()} == {"a": [*first, 0, 5], "b": [2, 4, 6]}
    assert log.report["notes"] == [f"1 row without a reward: {schema.UNOBSERVED[meaning]}."]
    with pytest.raises(UsageError, match=r"--unobserved_rewards=drop .*distributed like observed ones"):
        _log(frame)


LATE = {"reward_time_column": "paid", "reward_window": "2d"}
BAD_TIMES = [
    ({"day": [*DAYS[:5], "soon"]}, {}, r"--time_column: 'soon' \(line 7\)"),
    ({"day": ["1.5", "x"] * 3}, {}, r"--time_column: 'x' \(line 3\)"),
    ({"day": [*DAYS[:5], "2023-01-06T00:00Z"]}, {}, "with a time zone, such as '2023-01-06T00:00Z', and without"),
    ({"day": [f"0{day}/02/2023" for day in range(1, 7)]}, {}, "--time_column: .*can be read with"),
    ({}, {"from_time": "2023-01-05T00:00Z"}, "--from=.*Z must be a date such as .* without a time zone, like"),
    ({"day": range(6)}, {"from_time": "2023-01-05"}, "--from=2023-01-05 must be a number, like the times"),
    ({}, {"from_time": "2023-01-99"}, "--from=2023-01-99 must be a date such as 2023-01-31"),
    ({}, {"from_time": "2023-01-05", "until_time": "2023-01-05"}, "--from=2023-01-05 must be before"),
    ({}, {"from_time": "2024-01-05"}, "No row .* is left after --from"),
    ({}, {"reward_window": "7"}, "--reward_window=7 must be a duration"),
    ({"day": range(6), "paid": range(6)}, {"reward_window": "7d"}, "--reward_window=7d must be a number"),
    ({"paid": range(6)}, {"reward_time_column": "paid"}, r"--reward_time_column: '?0'? \(line 2\)"),
    ({"paid": DAYS[::-1]}, {"reward_time_column": "paid"}, r"--reward_time_column: '2023-01-02' \(line 5\)"),
    ({"paid": [None, *OBSERVED[1:]]}, LATE, r"--reward_time_column: .*\(line 2\)"),
    ({}, LATE | {"unobserved_rewards": "drop"}, "--unobserved_rewards=drop conflicts with"),
]


@pytest.mark.parametrize(("changed", "roles", "message"), BAD_TIMES)
def test_times_that_cannot_be_used_are_refused(tmp_path, changed, roles, message):
    pd.DataFrame(LOG).assign(**changed).to_csv(tmp_path / "log.csv", index=False)
    ignored = None if "paid" in roles.values() else "paid"
    wanted = schema.Schema(client_column="user", **ROLES, time_column="day", ignore_columns=ignored, **roles)
    with pytest.raises(UsageError, match=message):
        log_table.read(str(tmp_path / "log.csv"), wanted)


def test_the_latest_fifth_is_held_out_and_rows_within_the_window_before_are_in_neither_part():
    times = log_time.Times(np.array([5.0, 1, 2, 3, 4, 6, 7, 8, 9, 10]), None, 2.5)
    split = log_time.hold_out("time", times, np.array([0, 1] * 5), 2)
    assert np.sort(times.values[split.is_held_out]).tolist() == [9, 10]
    assert np.sort(times.values[split.is_train]).tolist() == [1, 2, 3, 4, 5, 6]
    assert (split.train, split.held_out) == ([0, 1], [0, 1])
    described = "the rows from 9 on, the latest fifth, of 2 clients, 2 of them seen in training; left out: 2 rows "
    assert split.how == described + "whose --reward_window ends later"


def test_too_few_clients_before_the_cut_are_refused():
    with pytest.raises(UsageError, match="--hold_out=time: 1 client"):
        log_time.hold_out("time", log_time.Times(np.arange(5.0), None), np.array([0, 0, 0, 0, 1]), 2)
    with pytest.raises(UsageError, match="--hold_out=time needs --time_column"):
        log_time.hold_out("time", None, np.array([0, 1]), 2)


@pytest.fixture
def timed_table(tmp_path):
    """A table of 8 clients, 10 days each; the last two days have other values and a new color."""
    days = np.tile(np.arange(1, 11), 8)
    is_last = days > 8
    columns = {
        "user": np.repeat([f"u{number}" for number in range(8)], 10),
        "day": [f"2023-01-{day:02d}" for day in days],
        "age": np.where(is_last, 1000.0, days),
        "color": np.where(is_last, "new", "old"),
        "note": np.where(is_last, "later words", "earlier text"),
        "action": np.where(days % 2, "x", "y"),
        "reward": np.where(is_last, 50.0, days % 2),
        "p": 0.5,
        "label": days % 2,
    }
    pd.DataFrame(columns).sample(frac=1, random_state=0).to_csv(tmp_path / "table.csv", index=False)
    return {"data_file": str(tmp_path / "table.csv"), "client_column": "user", "time_column": "day", "hold_out": "time"}


def test_a_tables_statistics_are_those_of_the_past(timed_table):
    columns = {"label_column": "label", "ignore_columns": "action,reward,p", "text_columns": "note"}
    options = TaskOptions("tabular", **timed_table, **columns)
    task = tabular.load(options)
    learned = task.statistics
    assert learned["columns"]["age"]["mean"] == 4.5
    assert learned["columns"]["color"]["categories"] == ("old",)
    assert sorted(learned["vocabulary"]) == ["earlier", "text"]
    assert (task.report["training_rows"], task.report["held_out_rows"]) == (64, 16)
    assert task.report["held_out"].startswith("the rows from 2023-01-09 on, the latest fifth, of 8 clients, 8 of them")
    assert task.clients.client_ids == task.held_out.client_ids
    assert task.private_statistics[-1] == "the time that separates training from evaluation"
    with_gap = tabular.load(dataclasses.replace(options, reward_window="36h"))
    assert with_gap.report["training_rows"] == 56
    assert with_gap.statistics["columns"]["age"]["mean"] == 4


@pytest.mark.parametrize("learn_from", ["simulator", "dr", "ips"])
def test_a_logs_statistics_and_regressions_are_those_of_the_past(timed_table, learn_from):
    options = {"ignore_columns": "label,note", "learn_from": learn_from}
    task = logged.load(TaskOptions("logged", **timed_table, **ROLES, **options))
    assert task.clients.rewards.high == 1
    ages = task.clients.load(0).features[:, 0]
    np.testing.assert_allclose(sorted(ages), (np.arange(1, 9) - 4.5) / np.arange(1, 9).std(), rtol=1e-5)
    assert (len(task.clients.load(0).labels), len(task.held_out.load(0).labels)) == (8, 2)
    assert task.clients.client_ids == task.held_out.client_ids
    assert not set(task.clients.numbers) & set(task.held_out.numbers)
    assert "8 of them seen in training" in task.report["held_out"]
