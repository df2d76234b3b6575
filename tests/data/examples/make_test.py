"""Tests of data.examples.make and of the table that it made."""

import numpy as np

from data import log_checks, log_table, schema
from data.examples import make
from data.tasks import tabular
from data.tasks.options import TaskOptions


def _table():
    options = TaskOptions("tabular", data_file=str(make.PATH), client_column=make.CLIENT, label_column=make.LABEL)
    return tabular.load(options)


def test_the_table_is_what_the_script_makes():
    assert make.table() == make.PATH.read_bytes()


def test_the_table_is_small():
    assert make.PATH.stat().st_size <= 50_000


def test_the_table_has_25_clients_3_labels_numbers_and_a_category():
    table = _table()
    assert (len(table.clients), len(table.held_out)) == (20, 5)
    assert table.action_names == ("class_0", "class_1", "class_2")
    assert table.feature_names[0] == "alcohol"
    assert [name for name in table.feature_names if "=" in name] == ["colour=deep", "colour=medium", "colour=pale"]
    assert len(table.feature_names) == 15


def test_clients_differ_in_their_labels_and_none_is_empty():
    train = _table().clients
    counts = np.array([np.bincount(train.load(client).labels, minlength=3) for client in range(len(train))])
    assert set(counts.sum(axis=1)) == {7, 8}
    assert (counts.max(axis=1) >= 6).sum() >= 3
    assert (counts.max(axis=1) <= 4).sum() >= 3


def test_the_log_is_what_the_script_makes():
    assert make.log() == make.LOG_PATH.read_bytes()
    assert make.LOG_PATH.stat().st_size <= 150_000


def test_the_log_has_120_clients_four_offers_and_honest_propensities():
    wanted = schema.Schema(
        client_column="customer",
        action_column="offer",
        reward_column="bought",
        propensity_column="propensity",
        probability_columns="rule",
    )
    log = log_table.read(str(make.LOG_PATH), wanted)
    assert (len(log), len(log.client_ids)) == (2269, 120)
    assert log.action_names == ("coupon", "free_shipping", "gift", "none")
    assert [name for name in log.feature_names if "=" in name] == ["device=laptop", "device=phone", "device=tablet"]
    assert set(log.rewards) == {0, 1}
    assert not log_checks.mean_inverse_propensity(log).is_warning
