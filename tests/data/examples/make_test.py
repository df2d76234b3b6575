"""Tests of data.examples.make and of the table that it made."""

from data import log_checks, log_table, schema
from data.examples import make


def test_the_table_is_what_the_script_makes():
    assert make.table() == make.PATH.read_bytes()


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
