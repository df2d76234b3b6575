"""Tests of data.table_numbers: what is no number is named with its place."""

import numpy as np
import pandas as pd
import pytest

from data import table_file, table_numbers
from data.errors import UsageError


def _finite(values, **others):
    table = table_file.of_frame(pd.DataFrame({"paid": values}), "t.parquet")
    return table_numbers.finite(table.frame["paid"], "--paid", "reward", table, **others)


def test_numbers_are_read_whatever_they_are_written_as():
    for values in ([1, 0], [True, False], ["1", " 0.0"], pd.array([1, 0], "Int64")):
        found = _finite(values)
        assert found.dtype == np.float64
        assert found.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("values", "others", "message"),
    [
        (["1", "x"], {}, r"--paid: 'x' in column 'paid' \(row 2 of t.parquet\) is no number; a reward must be one"),
        (
            [1, None, None],
            {},
            r"--paid: a missing value .*\(row 2 of .*\) is not finite \(and 1 more\); .* have a reward\.",
        ),
        ([1, np.inf], {"each": " for every action"}, r"--paid: inf .* every row must have a reward for every action\."),
        ([1, 1e39], {"dtype": np.float32}, r"--paid: 1e\+39 .* is not finite"),
    ],
)
def test_what_is_no_number_is_named(values, others, message):
    with pytest.raises(UsageError, match=message):
        _finite(values, **others)


def test_what_is_finite_as_it_is_kept_is_taken():
    assert _finite([1e39]).tolist() == [1e39]
