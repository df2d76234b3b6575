"""Tests of data.tasks.options."""

from data.settings import make_options
from data.tasks.options import TaskOptions


def test_equal_options_have_one_hash_and_settings_without_a_value_their_unset_one():
    values = {"task_type": "tabular", "num_tags": 7, "max_words": None, "partition_clients": None}
    options = make_options(TaskOptions, values)
    assert options == TaskOptions("tabular", num_tags=7, max_words=200, partition_clients=100)
    assert len({options, make_options(TaskOptions, values), make_options(TaskOptions, values, num_tags=8)}) == 2
