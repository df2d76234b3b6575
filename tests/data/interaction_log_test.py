"""Tests of data.interaction_log: logs in memory, and their Parquet form."""

import dataclasses

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from data import clients, columns, interaction_log, text
from data.errors import UsageError


def _log(**changed) -> interaction_log.InteractionLog:
    columns = {
        "actions": np.array([2, 0, 1, 0, 2]),
        "rewards": np.array([1.0, 0.0, 0.1, 0.0, 1 / 3]),
        "propensities": np.array([0.5, 0.25, 1.0, 1e-7, 0.3]),
        "rounds": np.array([1, 1, 2, 2, 3]),
        "periods": np.array([0, 0, 1, 1, 2]),
        "models": np.array([0, 0, 0, 1, 1]),
        "rows": np.array([4, 0, 7, 1, 0]),
    }
    contexts = np.arange(10, dtype=np.float32).reshape(5, 2)
    return interaction_log.ordered(
        ["zoe", "al", "nobody", "12"],
        np.array([3, 0, 3, 1, 0]),
        changed.pop("contexts", contexts),
        ["left", "right", "wait", "never"],
        columns | changed,
        report={"rows": 5},
    )


def _assert_equal(one: interaction_log.InteractionLog, other: interaction_log.InteractionLog):
    for field in dataclasses.fields(one):
        ours, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
        elif isinstance(ours, text.Bags):
            for mine, its in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(mine, its)
        else:
            assert ours == theirs, field.name


def test_rows_are_ordered_by_client_and_keep_their_order_within_one():
    log = _log()
    assert log.client_ids == ("zoe", "al", "12")
    np.testing.assert_array_equal(log.clients, [0, 0, 1, 2, 2])
    np.testing.assert_array_equal(log.actions, [0, 2, 0, 2, 1])
    np.testing.assert_array_equal(log.rounds, [1, 3, 2, 1, 2])
    np.testing.assert_array_equal(log.contexts, [[2, 3], [8, 9], [6, 7], [0, 1], [4, 5]])
    assert log.rewards.dtype == log.propensities.dtype == np.float64
    assert log.actions.dtype == log.clients.dtype == np.int32


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"contexts": None, "rounds": None, "periods": None, "models": None, "rows": None},
        {"contexts": np.arange(20, dtype=np.float32).reshape(5, 2, 2)},
        {
            "contexts": text.Bags(
                np.array([3, 1, 4, 1, 5], np.int32),
                np.linspace(0, 1, 5, dtype=np.float32),
                np.array([0, 2, 2, 3, 3, 5]),
            )
        },
        {"probabilities": np.linspace(0, 1, 5)},
        {"probabilities": np.linspace([0, 0.5, 0.2, 0.3], [1, 0, 0, 0], 5)},
    ],
)
def test_what_is_written_is_read_back(tmp_path, changed):
    log = _log(**changed)
    interaction_log.write(log, tmp_path / "log.parquet")
    # Clients are read in the order of their names; no field is lost.
    names = columns.ordered(pd.Series(log.client_ids, dtype=object))
    place = np.array([names.index(name) for name in log.client_ids])
    order = np.argsort(place[log.clients], kind="stable")
    expected = dataclasses.replace(
        log,
        client_ids=tuple(names),
        clients=np.sort(place[log.clients]).astype(np.int32),
        contexts=None if log.contexts is None else clients.Examples(log.contexts, log.clients).take(order).features,
        **{
            name: None if getattr(log, name) is None else getattr(log, name)[order]
            for name in interaction_log.ROW_FIELDS
        },
    )
    _assert_equal(interaction_log.read(tmp_path / "log.parquet"), expected)
    again = tmp_path / "again.parquet"
    interaction_log.write(expected, again)
    _assert_equal(interaction_log.read(again), expected)


def test_others_read_names_not_codes(tmp_path):
    interaction_log.write(_log(), tmp_path / "log.parquet")
    frame = pd.read_parquet(tmp_path / "log.parquet")
    assert frame["client"].tolist() == ["zoe", "zoe", "al", "12", "12"]
    assert frame["action"].tolist() == ["left", "wait", "left", "wait", "right"]
    assert frame["reward"].tolist() == [0.0, 1 / 3, 0.0, 1.0, 0.1]


def test_parts_are_read_as_one_log(tmp_path):
    log = _log()
    paths = [tmp_path / f"{number}.parquet" for number in range(3)]
    for path, rows in zip(paths, ([3], [0, 1, 4], [2]), strict=True):
        interaction_log.write(log.take(np.array(rows)), path)
    whole = interaction_log.read(paths)
    assert whole.client_ids == ("12", "al", "zoe")
    assert whole.action_names == log.action_names
    np.testing.assert_array_equal(whole.rounds, [1, 2, 2, 1, 3])
    np.testing.assert_array_equal(whole.contexts, log.contexts[[3, 4, 2, 0, 1]])


def test_taken_rows_leave_out_clients_without_one():
    taken = _log().take(np.array([0, 4]))
    assert taken.client_ids == ("zoe", "12")
    np.testing.assert_array_equal(taken.clients, [0, 1])
    np.testing.assert_array_equal(taken.rewards, [0.0, 0.1])


def test_what_is_no_log_of_ours_is_refused(tmp_path):
    other = tmp_path / "other.parquet"
    pd.DataFrame({"action": [1]}).to_parquet(other)
    (tmp_path / "text.csv").write_text("action\n1\n")
    for path in (other, tmp_path / "text.csv", tmp_path / "nothing"):
        assert not interaction_log.is_log_file(path)
        with pytest.raises(UsageError, match="is not a log in this program's format"):
            interaction_log.read(path)
    interaction_log.write(_log(), other)
    assert interaction_log.is_log_file(other)
    assert len(pq.read_table(other)) == 5
