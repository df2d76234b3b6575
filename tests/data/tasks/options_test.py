"""Tests of data.tasks.options."""

import pytest

from data.settings import make_options
from data.tasks.options import TaskOptions


@pytest.mark.parametrize(("variant", "expected"), [("paper", False), ("reference_code", True)])
def test_the_published_code_counts_in_its_variant_only(variant, expected):
    assert TaskOptions("digits", variant=variant).is_published is expected


def test_equal_options_have_one_hash_and_settings_without_a_value_their_unset_one():
    values = {"task_type": "tabular", "num_tags": 7, "max_words": None, "partition_clients": None}
    options = make_options(TaskOptions, values)
    assert options == TaskOptions("tabular", num_tags=7, max_words=200, partition_clients=100)
    assert len({options, make_options(TaskOptions, values), make_options(TaskOptions, values, num_tags=8)}) == 2
